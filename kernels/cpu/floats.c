/* floats.c -- pieces of narrow operands, widened and rounded
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "narrow.h"

#define NARROW(name, T)                                                        \
  static void widen_##name(const void *from, real *to, int64_t n) {            \
    const T *x = from;                                                         \
    for (int64_t i = 0; i < n; i++) to[i] = name##_to_float(x[i]);             \
  }                                                                            \
  static void round_##name(const real *x, void *to, int64_t n) {               \
    T *y = to;                                                                 \
    for (int64_t i = 0; i < n; i++) y[i] = float_to_##name((float)x[i]);       \
  }
NARROW(f16, uint16_t)
NARROW(bf16, uint16_t)
NARROW(f8_e4m3, uint8_t)
NARROW(f8_e5m2, uint8_t)

void mrt_widen(mrt_dtype dtype, const void *from, real *to, int64_t n) {
  static void (*const widen[MRT_DTYPE_COUNT])(const void *, real *, int64_t) = {
    [MRT_f16] = widen_f16,
    [MRT_bf16] = widen_bf16,
    [MRT_f8_e4m3] = widen_f8_e4m3,
    [MRT_f8_e5m2] = widen_f8_e5m2,
  };
  widen[dtype](from, to, n);
}

void mrt_round(mrt_dtype dtype, const real *from, void *to, int64_t n) {
  static void (*const round[MRT_DTYPE_COUNT])(const real *, void *, int64_t) = {
    [MRT_f16] = round_f16,
    [MRT_bf16] = round_bf16,
    [MRT_f8_e4m3] = round_f8_e4m3,
    [MRT_f8_e5m2] = round_f8_e5m2,
  };
  round[dtype](from, to, n);
}
