/* narrow.cuh -- element types, and 16- and 8-bit floats
 *
 * To a narrow float: nearest, ties to even; f8 saturates.  NaN stays NaN.  The
 * bits are those of kernels/cpu, but for NaNs.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_NARROW_CUH
#define MRT_CUDA_NARROW_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define MRT_DEVICE static __device__ __forceinline__

struct mrt_f16 {
  uint16_t bits;
};
struct mrt_bf16 {
  uint16_t bits;
};
struct mrt_f8_e4m3 {
  uint8_t bits;
};
struct mrt_f8_e5m2 {
  uint8_t bits;
};

MRT_DEVICE float mrt_widen(float x) { return x; }
MRT_DEVICE double mrt_widen(double x) { return x; }
MRT_DEVICE float mrt_widen(mrt_bf16 x) {
  return __uint_as_float((uint32_t)x.bits << 16);
}
/* 2^112 moves the exponent, and makes subnormals normal. */
MRT_DEVICE float mrt_widen(mrt_f16 x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
  uint32_t u = (uint32_t)(x.bits & 0x7fff) << 13;
  uint32_t finite = __float_as_uint(__uint_as_float(u) * 0x1p112f);
  return __uint_as_float(sign | (u >= 0x0f800000 ? u | 0x7f800000 : finite));
#endif
}
/* The upper half of an f16. */
MRT_DEVICE float mrt_widen(mrt_f8_e5m2 x) {
  mrt_f16 half = { (uint16_t)(x.bits << 8) };
  return mrt_widen(half);
}
MRT_DEVICE float mrt_widen(mrt_f8_e4m3 x) {
  uint32_t sign = (uint32_t)(x.bits & 0x80) << 24;
  uint32_t u = (uint32_t)(x.bits & 0x7f) << 20;
  uint32_t finite = __float_as_uint(__uint_as_float(u) * 0x1p120f);
  return __uint_as_float(sign | (u == 0x07f00000 ? 0x7fc00000 : finite));
}

/* To 8 bits: `least` is the pattern of the smallest normal number, `step`
 * added to smaller ones rounds them, `cut` bits of the fraction go, `shift`
 * moves the exponent, `most` is the pattern of the largest number. */
MRT_DEVICE uint8_t mrt_round_f8(float x, uint32_t least, float step, int cut,
                                uint32_t shift, uint32_t most) {
  uint32_t u = __float_as_uint(x), sign = u >> 24 & 0x80, m = u & 0x7fffffff;
  uint32_t tiny =
      __float_as_uint(__uint_as_float(m) + step) - __float_as_uint(step);
  uint32_t half = (1u << (cut - 1)) - 1;
  uint32_t normal = (m + half + (m >> cut & 1) - shift) >> cut;
  uint32_t h = m < least ? tiny : normal;
  h = m >= 0x47800000 || h > most ? most : h;
  return (uint8_t)(sign | (m > 0x7f800000 ? 0x7f : h));
}

MRT_DEVICE void mrt_round(float x, float *y) { *y = x; }
MRT_DEVICE void mrt_round(float x, double *y) { *y = x; }
MRT_DEVICE void mrt_round(float x, mrt_bf16 *y) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y->bits) : "f"(x));
#else
  uint32_t u = __float_as_uint(x), nan = u >> 16 | 0x40;
  uint32_t even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  y->bits = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
#endif
}
MRT_DEVICE void mrt_round(float x, mrt_f16 *y) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y->bits) : "f"(x));
#else
  uint32_t u = __float_as_uint(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  uint32_t tiny =
      __float_as_uint(__uint_as_float(m) + 0.5f) - __float_as_uint(0.5f);
  uint32_t normal = (m + 0xfff + (m >> 13 & 1) - 0x38000000) >> 13;
  uint32_t h = m < 0x38800000 ? tiny : normal;
  h = m >= 0x477ff000 ? 0x7c00 : h;
  h = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x1ff) : h;
  y->bits = (uint16_t)(sign | h);
#endif
}
MRT_DEVICE void mrt_round(float x, mrt_f8_e4m3 *y) {
  y->bits = mrt_round_f8(x, 0x3c800000, 0x1p14f, 20, 120u << 23, 0x7e);
}
MRT_DEVICE void mrt_round(float x, mrt_f8_e5m2 *y) {
  y->bits = mrt_round_f8(x, 0x38800000, 0x1p7f, 21, 112u << 23, 0x7b);
}
MRT_DEVICE void mrt_round(double x, double *y) { *y = x; }
template <typename T> MRT_DEVICE void mrt_round(double x, T *y) {
  mrt_round((float)x, y);
}

/* Integers: exact, cut off when stored. */
MRT_DEVICE int64_t mrt_widen(int64_t x) { return x; }
MRT_DEVICE int64_t mrt_widen(int32_t x) { return x; }
MRT_DEVICE int64_t mrt_widen(uint8_t x) { return x; }
template <typename T> MRT_DEVICE void mrt_round(int64_t x, T *y) { *y = (T)x; }

#endif
