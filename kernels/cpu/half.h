/* half.h -- 16-bit floats, branch-free so that loops over them vectorise
 *
 * The same bits as mrt_f16_to_float and its siblings, which do one at a time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_HALF_H
#define MRT_CPU_HALF_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float half_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline float bf16_to_float(uint16_t h) {
  return half_float((uint32_t)h << 16);
}
/* Nearest, ties to even; NaN stays a quiet NaN. */
static inline uint16_t float_to_bf16(float x) {
  uint32_t u = half_bits(x), nan = u >> 16 | 0x40;
  uint32_t even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
}

/* Multiplying by 2^112 moves the exponent and makes subnormals normal. */
static inline float f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = (uint32_t)(h & 0x7fff)
                                                    << 13;
  uint32_t finite = half_bits(half_float(u) * 0x1p112f);
  return half_float(sign | (u >= 0x0f800000 ? u | 0x7f800000 : finite));
}
/* Adding 1/2 rounds a subnormal and leaves its bits at the end. */
static inline uint16_t float_to_f16(float x) {
  uint32_t u = half_bits(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  uint32_t tiny = half_bits(half_float(m) + 0.5f) - half_bits(0.5f);
  uint32_t normal = (m + 0xfff + (m >> 13 & 1) - 0x38000000) >> 13;
  uint32_t nan = 0x7e00 | (m >> 13 & 0x1ff);
  uint32_t h = m < 0x38800000 ? tiny : normal;
  h = m >= 0x477ff000 ? 0x7c00 : h;
  return (uint16_t)(sign | (m > 0x7f800000 ? nan : h));
}

/* On the way from double to 16 bits: an inexact float gets an odd last bit, so
 * the second rounding sees what the first cut off, and the result is rounded
 * once. */
static inline float float_to_odd(double x) {
  float f = (float)x;
  uint32_t u = half_bits(f);
  bool inexact = (double)f != x && x == x;
  bool away = x < 0 ? (double)f < x : (double)f > x;
  return half_float(inexact ? (u - away) | 1 : u);
}

#endif
