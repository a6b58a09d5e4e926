/* product.c -- products of matrices by cuBLASLt
 *
 * The library's matrices have contiguous columns.  Ours are theirs turned
 * around, so that y = a @ b is asked for as y^T = b^T @ a^T: their A is our b.
 *
 * The heuristic names up to CANDIDATES algorithms; for all but small products
 * each is timed on random numbers, and a later one is taken only if it is
 * clearly faster.  The workspace is that of the hungriest candidate, so the
 * bytes of a plan do not hang on a clock.  Partial sums that are rounded to
 * the dtype of y are not permitted.
 *
 * SPDX-License-Identifier: MIT */
#include "product.h"
#include "multiply.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 8, RUNS = 3, BUCKETS = 256 };
/* Flop: a smaller product takes about as long as its launch. */
static const double worth_timing = 1e7;
static const float clearly = 0.97f; /* of the time of the one before */

struct mrt_lt {
  mrt_lt_shape shape;
  mrt_lt *next;
  bool works;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, y;
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
};

typedef struct mrt_products {
  cublasLtHandle_t lt;
  size_t workspace; /* the most */
  mrt_lt *known[BUCKETS];
} mrt_products;

cudaError_t mrt_product_open(mrt_cuda *c) {
  c->products = calloc(1, sizeof *c->products);
  if (!c->products) return cudaErrorMemoryAllocation;
  /* What the library's manual recommends. */
  c->products->workspace = (size_t)(c->arch >= 90 ? 32 : 8) << 20;
  return cublasLtCreate(&c->products->lt) ? cudaErrorLaunchFailure
                                          : cudaSuccess;
}

static void forget(mrt_lt *p) {
  if (p->desc) cublasLtMatmulDescDestroy(p->desc);
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->y) cublasLtMatrixLayoutDestroy(p->y);
  free(p);
}

void mrt_product_close(mrt_cuda *c) {
  mrt_products *all = c->products;
  if (!all) return;
  for (int i = 0; i < BUCKETS; i++)
    while (all->known[i]) {
      mrt_lt *p = all->known[i];
      all->known[i] = p->next;
      forget(p);
    }
  if (all->lt) cublasLtDestroy(all->lt);
  free(all);
  c->products = NULL;
}

size_t mrt_product_version(void) { return cublasLtGetVersion(); }

/* ---- descriptors ----------------------------------------------------------- */

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
  if (s->aux) {
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s->n);
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, like);
  }
  return CUBLAS_STATUS_SUCCESS;
}

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

static cublasStatus_t multiply(const mrt_cuda *c, const mrt_lt *p,
                               const cublasLtMatmulAlgo_t *algo,
                               const mrt_lt_call *call) {
  static const float one = 1, zero = 0;
  static const double one64 = 1, zero64 = 0;
  bool f64 = p->shape.y.dtype == MRT_f64;
  if (p->shape.bias >= 0)
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call->bias);
  if (p->shape.aux)
    SET(MatmulDesc, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        call->aux);
  return cublasLtMatmul(
      c->products->lt, p->desc, f64 ? (const void *)&one64 : &one, call->b,
      p->a, call->a, p->b, f64 ? (const void *)&zero64 : &zero, call->y, p->y,
      call->y, p->y, algo, call->workspace, p->workspace, c->queue);
}

/* ---- which algorithm --------------------------------------------------------- */

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
  uint64_t most = c->products->workspace;
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
      cublasLtMatmulAlgoGetHeuristic(c->products->lt, p->desc, p->a, p->b, p->y,
                                     p->y, preference, most, found, &count))
    count = 0;
  cublasLtMatmulPreferenceDestroy(preference);
  for (int i = 0; i < count; i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) found[good++] = found[i];
  return good;
}

/* Operands of random numbers, in memory that is given back. */
typedef struct trial {
  void *data;
  mrt_lt_call call;
  cudaEvent_t from, to;
} trial;

static size_t up(size_t bytes) { return (bytes + 255) / 256 * 256; }
static int64_t elements(const mrt_lt_shape *s, const mrt_lt_matrix *x,
                        int64_t rows, int64_t cols) {
  int64_t lines = x->turned ? cols : rows, length = x->turned ? rows : cols;
  return (s->count - 1) * x->step + (lines - 1) * x->ld + length;
}
static size_t bytes(int64_t n, int dtype) {
  return up((size_t)n * mrt_dtypes[dtype].bytes);
}

/* `n` numbers of the next memory. */
static void *some(mrt_cuda *c, char **next, int64_t n, int dtype) {
  void *data = *next;
  *next += bytes(n, dtype);
  mrt_cuda_noise(data, dtype, n, c->queue);
  return data;
}

static bool begin_trial(mrt_cuda *c, const mrt_lt *p, trial *t) {
  const mrt_lt_shape *s = &p->shape;
  int64_t a = elements(s, &s->a, s->m, s->k);
  int64_t b = elements(s, &s->b, s->k, s->n);
  int64_t y = elements(s, &s->y, s->m, s->n);
  int64_t bias = s->bias < 0 ? 0 : s->n, aux = s->aux ? s->m * s->n : 0;
  int bias_dtype = s->bias < 0 ? MRT_f32 : s->bias;
  size_t all = bytes(a, s->a.dtype) + bytes(b, s->b.dtype) +
               bytes(y + aux, s->y.dtype) + 256 + bytes(bias, bias_dtype);
  *t = (trial){ 0 };
  if (cudaMalloc(&t->data, all + p->workspace) != cudaSuccess)
    return cudaGetLastError(), false;
  char *next = t->data;
  t->call.a = some(c, &next, a, s->a.dtype);
  t->call.b = some(c, &next, b, s->b.dtype);
  t->call.y = some(c, &next, y, s->y.dtype);
  t->call.aux = some(c, &next, aux, s->y.dtype);
  t->call.bias = some(c, &next, bias, bias_dtype);
  t->call.workspace = next;
  return cudaEventCreate(&t->from) == cudaSuccess &&
         cudaEventCreate(&t->to) == cudaSuccess;
}
static void end_trial(trial *t) {
  if (t->from) cudaEventDestroy(t->from);
  if (t->to) cudaEventDestroy(t->to);
  cudaFree(t->data);
}

/* Milliseconds, the least of some runs after a first; < 0: it failed. */
static float time_of(mrt_cuda *c, const mrt_lt *p, const trial *t,
                     const cublasLtMatmulAlgo_t *algo) {
  float least = -1, ms = 0;
  for (int i = 0; i <= RUNS; i++) {
    bool ok = cudaEventRecord(t->from, c->queue) == cudaSuccess &&
              !multiply(c, p, algo, &t->call) &&
              cudaEventRecord(t->to, c->queue) == cudaSuccess &&
              cudaEventSynchronize(t->to) == cudaSuccess &&
              cudaEventElapsedTime(&ms, t->from, t->to) == cudaSuccess;
    if (!ok) return -1;
    if (i > 0 && (least < 0 || ms < least)) least = ms;
  }
  return least;
}

static int fastest(mrt_cuda *c, const mrt_lt *p,
                   const cublasLtMatmulHeuristicResult_t *found, int count) {
  trial t;
  int best = 0;
  float least = -1;
  bool ready = begin_trial(c, p, &t);
  for (int i = 0; ready && i < count; i++) {
    float ms = time_of(c, p, &t, &found[i].algo);
    if (ms < 0 || (least >= 0 && ms > clearly * least)) continue;
    least = ms, best = i;
  }
  if (t.data) end_trial(&t);
  return best;
}

static bool is_recording(const mrt_cuda *c) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(c->queue, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

static bool choose(mrt_cuda *c, mrt_lt *p, bool timed) {
  cublasLtMatmulHeuristicResult_t found[CANDIDATES];
  const mrt_lt_shape *s = &p->shape;
  double flop =
      2. * (double)s->m * (double)s->n * (double)s->k * (double)s->count;
  if (describe(p) != CUBLAS_STATUS_SUCCESS) return false;
  timed = timed && flop >= worth_timing && !is_recording(c);
  int best = 0, count = ask(c, p, timed ? CANDIDATES : 1, found);
  if (count == 0) return false;
  for (int i = 0; i < count; i++)
    if (found[i].workspaceSize > p->workspace)
      p->workspace = found[i].workspaceSize;
  if (count > 1) best = fastest(c, p, found, count);
  p->algo = found[best].algo;
  return true;
}

/* ---- what is known ------------------------------------------------------------ */

static unsigned bucket_of(const mrt_lt_shape *s) {
  const unsigned char *byte = (const unsigned char *)s;
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < sizeof *s; i++) hash = (hash ^ byte[i]) * 16777619u;
  return hash % BUCKETS;
}

const mrt_lt *mrt_lt_find(mrt_cuda *c, const mrt_lt_shape *shape, bool timed) {
  mrt_lt **list = &c->products->known[bucket_of(shape)], *p = *list;
  while (p && memcmp(&p->shape, shape, sizeof *shape) != 0) p = p->next;
  if (p) return p->works ? p : NULL;
  p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->shape = *shape, p->next = *list, *list = p;
  p->works = choose(c, p, timed);
  return p->works ? p : NULL;
}

size_t mrt_lt_workspace(const mrt_lt *p) { return p->workspace; }

bool mrt_lt_takes(const mrt_lt *p, const mrt_lt_call *call) {
  uintptr_t all = (uintptr_t)call->a | (uintptr_t)call->b | (uintptr_t)call->y;
  if (p->shape.bias >= 0) all |= (uintptr_t)call->bias;
  if (p->shape.aux) all |= (uintptr_t)call->aux;
  return all % (uintptr_t)p->shape.align == 0;
}

void mrt_lt_run(mrt_cuda *c, const mrt_lt *p, const mrt_lt_call *call) {
  if (multiply(c, p, &p->algo, call) != CUBLAS_STATUS_SUCCESS && !c->failed)
    c->failed = cudaErrorLaunchFailure;
}
