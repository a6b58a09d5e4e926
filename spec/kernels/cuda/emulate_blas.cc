/* emulate_blas.cc -- products of matrices as cuBLASLt documents them
 *
 * What the library's manual does not list is refused as it says, and so is an
 * algorithm that was found for another problem.  There are three algorithms, in
 * the order of the seed.  With MRT_EMULATE_PRODUCTS in the environment, every
 * product is told on stderr; with MRT_EMULATE_REFUSE=15:3 all from the third on
 * are refused with status 15.
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_blas.h"

#include <cstdio>
#include <cstdlib>

struct cublasLtContext {
  int unused;
};
struct cublasLtMatmulPreference {
  uint64_t workspace;
  uint32_t schemes, align[4]; /* of A, B, C, D */
};

namespace {

bool is_f8(cudaDataType t) {
  return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2;
}
bool is_half(cudaDataType t) { return t == CUDA_R_16F || t == CUDA_R_16BF; }

template <typename T> cublasStatus_t set(T *to, const void *value, size_t n) {
  if (!value || n != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, n);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- what is supported --------------------------------------------------- */

/* The table of dtypes under cublasLtMatmul() in the manual. */
bool types_fit(const desc *m, cudaDataType a, cudaDataType b, cudaDataType c,
               cudaDataType d) {
  if (m->compute == CUBLAS_COMPUTE_64F)
    return m->scale == CUDA_R_64F && a == CUDA_R_64F && b == a && c == a &&
           d == a;
  if (m->compute != CUBLAS_COMPUTE_32F || m->scale != CUDA_R_32F) return false;
  if (is_f8(a) && is_f8(b)) {
    if (a == CUDA_R_8F_E5M2 && b == a) return false;
    return c == d && (d == CUDA_R_32F || is_half(d));
  }
  if (a != b || c != d) return false;
  if (is_half(a)) return d == a || d == CUDA_R_32F;
  return a == CUDA_R_32F && d == CUDA_R_32F;
}

bool bias_fits(const desc *m, cudaDataType a, cudaDataType d) {
  if (!has(m, BIAS | BGRADB)) return true;
  cudaDataType natural = is_f8(a) && d == CUDA_R_32F ? CUDA_R_16BF : d;
  int32_t type = m->bias_type < 0 ? (int32_t)natural : m->bias_type;
  return d != CUDA_R_64F && type == (int32_t)natural;
}

/* Of those that there are: the ones that mrt has use for.  What GELU reads or
 * leaves has the dtype of D and columns of a multiple of 8; no batches here.  Beside
 * 8 bits the manual has aux for D of 8 bits alone, and no gradients. */
bool epilogue_fits(const desc *m, const layout *a, const layout *d) {
  static const uint32_t known[] = {
    CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
    CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
    CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADB
  };
  bool is = false;
  for (uint32_t k : known) is |= m->epilogue == k;
  if (has(m, GELU | DGELU) && (d->type == CUDA_R_64F || d->count != 1))
    return false;
  if (is_f8(a->type) && has(m, DGELU | AUX)) return false;
  if (has(m, BGRADB) && (!is_half(a->type) || d->count != 1)) return false;
  if (has(m, AUX) &&
      (m->aux_ld % 8 != 0 || m->aux_ld < (int64_t)d->rows || !m->aux))
    return false;
  return is && bias_fits(m, a->type, d->type);
}

/* 8 bits: summed dimension contiguous in both, all of 16 bytes. */
bool f8_fits(const desc *m, const layout *a, const layout *b, const layout *d) {
  if (!is_f8(a->type)) return true;
  return m->a == CUBLAS_OP_T && m->b == CUBLAS_OP_N && a->rows % 16 == 0 &&
         a->cols % 16 == 0 && b->cols % 16 == 0 && a->ld % 16 == 0 &&
         b->ld % 16 == 0 && d->ld % 16 == 0 && a->step % 16 == 0 &&
         b->step % 16 == 0 && d->step % 16 == 0;
}

bool is_sound(const layout *l) {
  return l->rows > 0 && l->cols > 0 && l->ld >= (int64_t)l->rows &&
         l->count > 0;
}

cublasStatus_t check(const problem &p) {
  uint64_t m = p.m.a == CUBLAS_OP_N ? p.a.rows : p.a.cols;
  uint64_t n = p.m.b == CUBLAS_OP_N ? p.b.cols : p.b.rows;
  uint64_t k = p.m.b == CUBLAS_OP_N ? p.b.rows : p.b.cols;
  bool fits = p.k() == k && p.d.rows == m && p.d.cols == n && p.c.rows == m &&
              p.c.cols == n && p.a.count == p.d.count &&
              p.b.count == p.d.count && p.c.count == p.d.count;
  if (!fits || !is_sound(&p.a) || !is_sound(&p.b) || !is_sound(&p.c) ||
      !is_sound(&p.d))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_fit(&p.m, p.a.type, p.b.type, p.c.type, p.d.type) ||
      !epilogue_fits(&p.m, &p.a, &p.d) || !f8_fits(&p.m, &p.a, &p.b, &p.d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t hash_of(const problem &p) {
  uint64_t h = 14695981039346656037u;
  const layout *all[] = { &p.a, &p.b, &p.c, &p.d };
  auto add = [&](uint64_t x) { h = (h ^ x) * 1099511628211u; };
  for (const layout *l : all)
    for (uint64_t x : { (uint64_t)l->type, l->rows, l->cols, (uint64_t)l->ld,
                        (uint64_t)l->step, (uint64_t)l->count })
      add(x);
  for (uint64_t x : { (uint64_t)p.m.compute, (uint64_t)p.m.a, (uint64_t)p.m.b,
                      (uint64_t)p.m.epilogue, (uint64_t)p.m.bias_type,
                      (uint64_t)p.m.aux_ld })
    add(x);
  return h;
}

size_t workspace_of(const problem &p, int algorithm) {
  size_t one = p.m.compute == CUBLAS_COMPUTE_64F ? 8 : 4;
  if (algorithm == HALVES) return 2 * p.d.rows * p.d.cols * one;
  return algorithm == SPOILS ? SPOILED : 0;
}

/* How the next product is refused; 0: it is not. */
cublasStatus_t refused() {
  static const char *const text = getenv("MRT_EMULATE_REFUSE");
  static int first, status, calls,
      read = text ? sscanf(text, "%d:%d", &status, &first) : 0;
  return (cublasStatus_t)(read > 0 && ++calls >= first ? status : 0);
}

bool same_layout(const layout &a, const layout &b) {
  return a.type == b.type && a.rows == b.rows && a.cols == b.cols &&
         a.ld == b.ld && a.step == b.step && a.count == b.count;
}

bool aligned(const void *p, uint64_t to) { return (uintptr_t)p % to == 0; }

} // namespace

/* ---- the calls ----------------------------------------------------------- */

size_t cublasLtGetVersion(void) { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  *to = new layout{ type, rows, cols, ld, 0, 1 };
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete l;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t n) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(&l->count, value, n);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(&l->step, value, n);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *to = new desc{ compute,
                  scale,
                  CUBLAS_OP_N,
                  CUBLAS_OP_N,
                  CUBLASLT_EPILOGUE_DEFAULT,
                  NULL,
                  -1,
                  NULL,
                  0 };
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t m) {
  delete m;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t m,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t n) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(&m->a, value, n);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(&m->b, value, n);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(&m->epilogue, value, n);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(&m->bias, value, n);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(&m->aux, value, n);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(&m->aux_ld, value, n);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return set(&m->bias_type, value, n);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
  *to = new cublasLtMatmulPreference{ 0,
                                      CUBLASLT_REDUCTION_SCHEME_MASK,
                                      { 256, 256, 256, 256 } };
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t n) {
  int first = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  int which = (int)attribute - first;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(&p->workspace, value, n);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return set(&p->schemes, value, n);
  if (which >= 0 && which < 4) return set(&p->align[which], value, n);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t m, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most,
    cublasLtMatmulHeuristicResult_t *results, int *count) {
  problem p = { *m, *a, *b, *c, *d };
  *count = 0;
  if (!handle || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t s = check(p)) return s;
  const uint32_t *align = preference->align;
  uint32_t least = 256;
  for (int i = 0; i < 4; i++) least = align[i] < least ? align[i] : least;
  if (has(m, AUX) && !aligned(m->aux, least))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_f8(a->type) && least < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int n = 0; n < ALGORITHMS && *count < most; n++) {
    int i = (int)in_order(n, ALGORITHMS, 5);
    size_t workspace = workspace_of(p, i);
    bool permitted = i != HALVES || preference->schemes &
                                        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (!permitted || workspace > preference->workspace) continue;
    results[(*count)++] = { { { hash_of(p), (uint64_t)i, least } },
                            workspace,
                            CUBLAS_STATUS_SUCCESS,
                            1,
                            {} };
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t m,
                              const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  problem p = { *m, *a, *b, *c, *d };
  bool wide = m->compute == CUBLAS_COMPUTE_64F;
  if (!handle || !A || !B || !C || !D || !algo)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t s = check(p)) return s;
  if (C == D && !same_layout(p.c, p.d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t s = refused()) return s;
  int which = (int)algo->data[1];
  uint64_t align = algo->data[2];
  bool biased = has(m, BIAS | BGRADB);
  if (algo->data[0] != hash_of(p) || workspace_bytes < workspace_of(p, which) ||
      (biased && !m->bias))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!aligned(A, align) || !aligned(B, align) || !aligned(C, align) ||
      !aligned(D, align) || (biased && !aligned(m->bias, align)) ||
      (has(m, AUX) && !aligned(m->aux, align)) ||
      (workspace_of(p, which) && !aligned(workspace, 16)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  static const bool tells = getenv("MRT_EMULATE_PRODUCTS") != NULL;
  double by = wide ? *(const double *)alpha : *(const float *)alpha;
  double plus = wide ? *(const double *)beta : *(const float *)beta;
  if (tells)
    fprintf(stderr, "cublasLtMatmul: algorithm %d, beta %g%s, epilogue %u\n",
            which, plus, plus != 0 && C == D ? " in place" : "", m->epilogue);
  mrt_emulate_work(stream, "cublasLtMatmul", [=] {
    if (which == SPOILS) memset(workspace, 0xff, workspace_bytes);
    mrt_emulate_product(p, by, A, B, plus, C, D, which, workspace);
  });
  return CUBLAS_STATUS_SUCCESS;
}
