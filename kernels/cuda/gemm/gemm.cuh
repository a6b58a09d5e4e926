/* gemm.cuh -- what kernels of products and of quantised numbers share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_GEMM_CUH
#define MRT_CUDA_GEMM_CUH

#include "cuda.cuh"

/* x as the nearest number of a dtype; itself for MRT_DTYPE_COUNT. */
MRT_DEVICE float mrt_rounded(float x, int dtype) {
  MRT_BY_DTYPE(dtype, T, T y; mrt_round(x, &y); x = (float)mrt_widen(y))
  return x;
}
MRT_DEVICE double mrt_rounded(double x, int) { return x; }

/* a / b of numbers that are not negative; most are small. */
MRT_DEVICE int64_t mrt_quotient(int64_t a, int64_t b) {
  return (a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

#endif
