/* cublaslt.c -- products of matrices by cuBLASLt
 *
 * The library's matrices have contiguous columns.  Ours are theirs turned
 * around, so that y = a @ b is asked for as y^T = b^T @ a^T: their A is our b.
 *
 * The heuristic names up to CANDIDATES algorithms; for all but small products
 * the fastest is taken (gemm/cublaslt_tune.c).  The workspace is that of the
 * hungriest candidate, so the bytes of a plan do not hang on a clock.  Partial
 * sums that are rounded to the dtype of y are not permitted.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/cublaslt_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 8 };
/* Flop: a smaller product takes about as long as its launch. */
static const double worth_timing = 1e7;

/* The library's own names are in cuBLAS, which is not linked. */
static const char *name_of(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "CUBLAS_STATUS_ARCH_MISMATCH";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_INTERNAL_ERROR:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  default:
    return "another CUBLAS_STATUS";
  }
}

cudaError_t mrt_lt_open(mrt_cuda *c) {
  c->lt_library = calloc(1, sizeof *c->lt_library);
  if (!c->lt_library) return cudaErrorMemoryAllocation;
  /* What the library's manual recommends. */
  c->lt_library->workspace = (size_t)(c->arch >= 90 ? 32 : 8) << 20;
  if (c->no_lt) return cudaSuccess;
  cublasStatus_t s = cublasLtCreate(&c->lt_library->lt);
  if (s == CUBLAS_STATUS_SUCCESS) return cudaSuccess;
  c->lt_library->lt = NULL;
  cudaGetLastError(); /* not to have it is no failure */
  fprintf(stderr, "mrt: cuda:%d: without cuBLASLt: %s\n", c->index, name_of(s));
  return cudaSuccess;
}

static void forget(mrt_lt *p) {
  if (p->desc) cublasLtMatmulDescDestroy(p->desc);
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->y) cublasLtMatrixLayoutDestroy(p->y);
  free(p);
}

void mrt_lt_close(mrt_cuda *c) {
  mrt_lt_library *all = c->lt_library;
  if (!all) return;
  for (int i = 0; i < MRT_LT_BUCKETS; i++)
    while (all->known[i]) {
      mrt_lt *p = all->known[i];
      all->known[i] = p->next;
      forget(p);
    }
  if (all->lt) cublasLtDestroy(all->lt);
  if (all->refused > 1)
    fprintf(stderr, "mrt: cuda:%d: cuBLASLt refused %d products\n", c->index,
            all->refused);
  free(all);
  c->lt_library = NULL;
}

size_t mrt_lt_version(void) { return cublasLtGetVersion(); }

/* ---- descriptors --------------------------------------------------------- */

static const cudaDataType_t types[MRT_DTYPE_COUNT] = {
  [MRT_f32] = CUDA_R_32F,         [MRT_f64] = CUDA_R_64F,
  [MRT_f16] = CUDA_R_16F,         [MRT_bf16] = CUDA_R_16BF,
  [MRT_f8_e4m3] = CUDA_R_8F_E4M3, [MRT_f8_e5m2] = CUDA_R_8F_E5M2,
};

#define LT_TRY(call)                                                           \
  do {                                                                         \
    cublasStatus_t status_ = (call);                                           \
    if (status_ != CUBLAS_STATUS_SUCCESS) return status_;                      \
  } while (0)
#define SET(kind, of, name, value)                                             \
  LT_TRY(cublasLt##kind##SetAttribute(of, name, &(value), sizeof(value)))

/* x [rows, cols] as the library sees it. */
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *l, const mrt_lt_shape *s,
                              const mrt_lt_matrix *x, int64_t rows,
                              int64_t cols) {
  int32_t count = (int32_t)s->count;
  uint64_t across = (uint64_t)(x->turned ? rows : cols);
  uint64_t along = (uint64_t)(x->turned ? cols : rows);
  LT_TRY(cublasLtMatrixLayoutCreate(l, types[x->dtype], across, along, x->ld));
  if (count == 1) return CUBLAS_STATUS_SUCCESS;
  SET(MatrixLayout, *l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
  SET(MatrixLayout, *l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x->step);
  return CUBLAS_STATUS_SUCCESS;
}

static cublasLtEpilogue_t epilogue_of(const mrt_lt_shape *s) {
  bool bias = s->bias >= 0;
  if (s->sums) return CUBLASLT_EPILOGUE_BGRADB; /* our a is their B */
  if (s->gelu == MRT_GELU_GRAD) return CUBLASLT_EPILOGUE_DGELU;
  if (s->gelu && s->aux)
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (s->gelu)
    return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* Addresses tell the heuristic how these are aligned. */
static cublasStatus_t describe_end(const mrt_lt *p) {
  const mrt_lt_shape *s = &p->shape;
  cublasLtEpilogue_t epilogue = epilogue_of(s);
  const void *like = (const void *)(uintptr_t)s->align;
  SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (s->bias >= 0) {
    int32_t type = types[s->bias];
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, like);
  }
  if (s->sums) {
    int32_t type = types[s->y.dtype];
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, like);
  }
  if (s->aux) {
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s->n);
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, like);
  }
  return CUBLAS_STATUS_SUCCESS;
}

/* FAST_ACCUM stays off: with it sums of 8-bit products are not moved to f32 now and
 * then, but stay all along k in what matrix units keep, some 13 bits on Hopper, so
 * that the error grows with k.  No option of a product says that its sums may be
 * narrower than f32 but `accumulate`, which rounds them after each term, and is the
 * CPU's alone. */
static cublasStatus_t describe(mrt_lt *p) {
  const mrt_lt_shape *s = &p->shape;
  bool f64 = s->y.dtype == MRT_f64;
  cublasOperation_t a = s->b.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t b = s->a.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  LT_TRY(cublasLtMatmulDescCreate(&p->desc,
                                  f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                  f64 ? CUDA_R_64F : CUDA_R_32F));
  SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, a);
  SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, b);
  LT_TRY(describe_end(p));
  LT_TRY(lay_out(&p->a, s, &s->b, s->k, s->n));
  LT_TRY(lay_out(&p->b, s, &s->a, s->m, s->k));
  return lay_out(&p->y, s, &s->y, s->m, s->n);
}

cublasStatus_t mrt_lt_multiply(const mrt_cuda *c, const mrt_lt *p,
                               const cublasLtMatmulAlgo_t *algo,
                               const mrt_lt_call *call) {
  static const float one = 1, zero = 0;
  static const double one64 = 1, zero64 = 0;
  bool f64 = p->shape.y.dtype == MRT_f64, adds = p->shape.adds;
  const void *alpha = f64 ? (const void *)&one64 : &one;
  const void *none = f64 ? (const void *)&zero64 : &zero;
  if (p->shape.bias >= 0)
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call->bias);
  if (p->shape.sums)
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call->sums);
  if (p->shape.aux)
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        call->aux);
  return cublasLtMatmul(c->lt_library->lt, p->desc, alpha, call->b, p->a,
                        call->a, p->b, adds ? alpha : none,
                        adds ? call->c : call->y, p->y, call->y, p->y, algo,
                        call->workspace, p->workspace, c->queue);
}

/* ---- which algorithm ----------------------------------------------------- */

static cublasStatus_t prefer(const mrt_cuda *c, const mrt_lt *p,
                             cublasLtMatmulPreference_t to) {
  static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
  };
  uint32_t align = (uint32_t)p->shape.align;
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  uint64_t most = c->lt_library->workspace;
  for (int i = 0; i < MRT_COUNT(aligned); i++)
    SET(MatmulPreference, to, aligned[i], align);
  SET(MatmulPreference, to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, scheme);
  SET(MatmulPreference, to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
  return CUBLAS_STATUS_SUCCESS;
}

/* How many algorithms there are, best first. */
static int ask(const mrt_cuda *c, const mrt_lt *p, int most,
               cublasLtMatmulHeuristicResult_t *found) {
  cublasLtMatmulPreference_t preference;
  int count = 0, good = 0;
  if (cublasLtMatmulPreferenceCreate(&preference)) return 0;
  if (prefer(c, p, preference) ||
      cublasLtMatmulAlgoGetHeuristic(c->lt_library->lt, p->desc, p->a, p->b,
                                     p->y, p->y, preference, most, found,
                                     &count))
    count = 0;
  cublasLtMatmulPreferenceDestroy(preference);
  for (int i = 0; i < count; i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) found[good++] = found[i];
  return good;
}

static bool choose(mrt_cuda *c, mrt_lt *p) {
  /* Compared as bytes: none is left to chance. */
  cublasLtMatmulHeuristicResult_t found[CANDIDATES] = { 0 };
  const mrt_lt_shape *s = &p->shape;
  double flop =
      2. * (double)s->m * (double)s->n * (double)s->k * (double)s->count;
  if (describe(p) != CUBLAS_STATUS_SUCCESS) return false;
  bool timed = s->timed && flop >= worth_timing && !c->no_trials;
  int most = timed ? CANDIDATES : 1;
  int best = 0, count = ask(c, p, most, found);
  if (count == 0) return false;
  for (int i = 0; i < count; i++)
    if (found[i].workspaceSize > p->workspace)
      p->workspace = found[i].workspaceSize;
  if (count > 1) best = mrt_lt_best(c, p, found, count);
  if (best < 0) return false;
  p->algo = found[best].algo;
  return true;
}

/* ---- what is known ------------------------------------------------------- */

static unsigned bucket_of(const mrt_lt_shape *s) {
  const unsigned char *byte = (const unsigned char *)s;
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < sizeof *s; i++) hash = (hash ^ byte[i]) * 16777619u;
  return hash % MRT_LT_BUCKETS;
}

mrt_lt *mrt_lt_find(mrt_cuda *c, const mrt_lt_shape *shape) {
  if (!c->lt_library->lt) return NULL;
  mrt_lt **list = &c->lt_library->known[bucket_of(shape)], *p = *list;
  while (p && memcmp(&p->shape, shape, sizeof *shape) != 0) p = p->next;
  if (p) return p->works ? p : NULL;
  p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->shape = *shape, p->next = *list, *list = p;
  p->works = choose(c, p);
  return p->works ? p : NULL;
}

size_t mrt_lt_workspace(const mrt_lt *p) { return p->workspace; }

bool mrt_lt_takes(const mrt_lt *p, const mrt_lt_call *call) {
  uintptr_t all = (uintptr_t)call->a | (uintptr_t)call->b | (uintptr_t)call->y;
  if (p->shape.bias >= 0) all |= (uintptr_t)call->bias;
  if (p->shape.adds) all |= (uintptr_t)call->c;
  if (p->shape.aux) all |= (uintptr_t)call->aux;
  if (p->shape.sums) all |= (uintptr_t)call->sums;
  return p->works && all % (uintptr_t)p->shape.align == 0;
}

/* As text: status, sizes and dtypes. */
static void say(const mrt_lt *p, cublasStatus_t status, char *to, size_t size) {
  const mrt_lt_shape *s = &p->shape;
  int version = (int)mrt_lt_version();
  snprintf(to, size,
           "cuBLASLt %d.%d.%d: %s: %lld x [%lld,%lld] %s%s @ [%lld,%lld] %s%s, "
           "%s%s, epilogue %d, algorithm for %d bytes",
           version / 10000, version / 100 % 100, version % 100, name_of(status),
           (long long)s->count, (long long)s->m, (long long)s->k,
           mrt_dtypes[s->a.dtype].name, s->a.turned ? " turned" : "",
           (long long)s->k, (long long)s->n, mrt_dtypes[s->b.dtype].name,
           s->b.turned ? " turned" : "", mrt_dtypes[s->y.dtype].name,
           s->adds ? " added" : "", (int)epilogue_of(s), s->align);
}

/* What the library refuses it has not launched, and the device goes on.  One
 * that has failed says so whatever it is asked, while recording too. */
static cudaError_t works(const mrt_cuda *c) {
  enum cudaStreamCaptureStatus any;
  cudaGetLastError(); /* the library's */
  return cudaStreamIsCapturing(c->queue, &any);
}

bool mrt_lt_run(mrt_cuda *c, mrt_lt *p, const mrt_lt_call *call) {
  char what[sizeof c->why];
  cublasStatus_t s = mrt_lt_multiply(c, p, &p->algo, call);
  if (s == CUBLAS_STATUS_SUCCESS) return true;
  say(p, s, what, sizeof what);
  cudaError_t code = works(c);
  if (code != cudaSuccess) {
    if (!c->failed) snprintf(c->why, sizeof c->why, "%s", what);
    if (!c->failed) c->failed = code;
    return true;
  }
  p->works = false;
  if (c->lt_library->refused++ == 0)
    fprintf(stderr, "mrt: cuda:%d: a kernel of ours instead of %s\n", c->index,
            what);
  return false;
}
