/* gemm.cuh -- what kernels of products and of quantised numbers share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_GEMM_CUH
#define MRT_CUDA_GEMM_CUH

#include "cuda.cuh"
#include "gemm/gemm.h"

/* x as the nearest number of a dtype; itself for MRT_DTYPE_COUNT. */
MRT_DEVICE float mrt_rounded(float x, int dtype) {
  MRT_BY_DTYPE(dtype, T, T y; mrt_round(x, &y); x = (float)mrt_widen(y))
  return x;
}
MRT_DEVICE double mrt_rounded(double x, int) { return x; }

/* Where matrix `index` of a batch begins. */
MRT_DEVICE int64_t mrt_matrix_at(const mrt_cuda_batch &b, int64_t index) {
  int64_t at = 0;
  for (int i = b.rank - 1; i >= 0; i--) {
    at += index % b.dims[i] * b.step[i];
    index /= b.dims[i];
  }
  return at;
}

/* a / b of numbers that are not negative; most are small. */
MRT_DEVICE int64_t mrt_quotient(int64_t a, int64_t b) {
  return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

#endif
