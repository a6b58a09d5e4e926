/* emulate_product.cc -- computing what emulate_blas.cc found to be in order
 *
 * SPDX-License-Identifier: MIT */
#include "emulate_blas.h"

#include <cmath>

namespace {

int dtype_of(cudaDataType t) {
  return t == CUDA_R_64F       ? MRT_f64
         : t == CUDA_R_16F     ? MRT_f16
         : t == CUDA_R_16BF    ? MRT_bf16
         : t == CUDA_R_8F_E4M3 ? MRT_f8_e4m3
         : t == CUDA_R_8F_E5M2 ? MRT_f8_e5m2
                               : MRT_f32;
}
template <typename R> mrt_any<R> any_of(const void *data, cudaDataType type) {
  return { (void *)data, dtype_of(type) };
}

/* op(x) with rows `rows`, one after another. */
template <typename R>
std::vector<R> read(const void *data, const layout &l, cublasOperation_t op,
                    int64_t index, bool rows_first) {
  std::vector<R> all(l.rows * l.cols);
  mrt_any<R> x = any_of<R>(data, l.type);
  bool as_stored = (op == CUBLAS_OP_N) != rows_first;
  for (uint64_t j = 0; j < l.cols; j++)
    for (uint64_t i = 0; i < l.rows; i++)
      all[as_stored ? j * l.rows + i : i * l.cols + j] =
          mrt_get<R>(x, index * l.step + (int64_t)j * l.ld + (int64_t)i);
  return all;
}

template <typename R>
R dot(const R *a, const R *b, uint64_t from, uint64_t to) {
  R sum = 0;
  for (uint64_t p = from; p < to; p++) sum += a[p] * b[p];
  return sum;
}

/* GELU by tanh, and its slope. */
template <typename R> R gelu(R x) {
  return (R)0.5 * x *
         (1 + std::tanh((R)0.7978845608028654 * (x + (R)0.044715 * x * x * x)));
}
template <typename R> R gelu_slope(R x) {
  const R k = (R)0.7978845608028654, c = (R)0.044715;
  R t = std::tanh(k * (x + c * x * x * x));
  return (R)0.5 * (1 + t) + (R)0.5 * x * (1 - t * t) * k * (1 + 3 * c * x * x);
}

/* What becomes of y, at row i and column j. */
template <typename R> R ended(const problem &p, R y, uint64_t i, uint64_t j) {
  cudaDataType bias =
      (cudaDataType)(p.m.bias_type < 0 ? p.d.type : p.m.bias_type);
  mrt_any<R> aux = any_of<R>(p.m.aux, p.d.type);
  int64_t at = (int64_t)i + (int64_t)j * p.m.aux_ld;
  if (has(&p.m, BIAS)) y += mrt_get<R>(any_of<R>(p.m.bias, bias), (int64_t)i);
  if (has(&p.m, DGELU)) return y * gelu_slope(mrt_get<R>(aux, at));
  if (has(&p.m, AUX)) mrt_put(aux, at, y);
  return has(&p.m, GELU) ? gelu(y) : y;
}

/* Of each column of op(B). */
template <typename R> void put_sums(const problem &p, const std::vector<R> &b) {
  mrt_any<R> to = any_of<R>(
      p.m.bias, (cudaDataType)(p.m.bias_type < 0 ? p.d.type : p.m.bias_type));
  for (uint64_t j = 0; j < p.d.cols; j++) {
    R sum = 0;
    for (uint64_t k = 0; k < p.k(); k++) sum += b[j * p.k() + k];
    mrt_put(to, (int64_t)j, sum);
  }
}

template <typename R>
void multiply(const problem &p, R alpha, const void *A, const void *B, R beta,
              const void *C, void *D, int algorithm, void *workspace) {
  uint64_t k = p.k(), half = algorithm == HALVES ? k / 2 : 0;
  mrt_any<R> c = any_of<R>(C, p.c.type), d = any_of<R>(D, p.d.type);
  R *parts = (R *)workspace;
  for (int64_t index = 0; index < p.d.count; index++) {
    std::vector<R> a = read<R>(A, p.a, p.m.a, index, true);
    std::vector<R> b = read<R>(B, p.b, p.m.b, index, false);
    if (has(&p.m, BGRADB)) put_sums(p, b);
    for (uint64_t j = 0; j < p.d.cols; j++)
      for (uint64_t i = 0; i < p.d.rows; i++) {
        R sum = dot(&a[i * k], &b[j * k], half, k);
        if (algorithm == HALVES) {
          R *part = parts + 2 * (j * p.d.rows + i);
          part[0] = dot(&a[i * k], &b[j * k], 0, half), part[1] = sum;
          sum = part[0] + part[1];
        }
        int64_t at = (int64_t)i + (int64_t)j * p.c.ld + index * p.c.step;
        R y = alpha * sum;
        if (beta != 0) y += beta * mrt_get<R>(c, at);
        mrt_put(d, (int64_t)i + (int64_t)j * p.d.ld + index * p.d.step,
                ended(p, y, i, j));
      }
  }
}

} // namespace

void mrt_emulate_product(const problem &p, double alpha, const void *A,
                         const void *B, double beta, const void *C, void *D,
                         int algorithm, void *workspace) {
  if (p.m.compute == CUBLAS_COMPUTE_64F)
    multiply<double>(p, alpha, A, B, beta, C, D, algorithm, workspace);
  else
    multiply<float>(p, (float)alpha, A, B, (float)beta, C, D, algorithm,
                    workspace);
}
