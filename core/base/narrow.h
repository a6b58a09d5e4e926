/* narrow.h -- 16- and 8-bit floats, branch-free so that loops vectorise
 *
 * To a narrow float: nearest, ties to even; f8 saturates.  NaN stays NaN.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_NARROW_H
#define MRT_BASE_NARROW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static inline float bf16_to_float(uint16_t h) {
  return bits_float((uint32_t)h << 16);
}
static inline uint16_t float_to_bf16(float x) {
  uint32_t u = float_bits(x), nan = u >> 16 | 0x40;
  uint32_t even = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : even);
}
/* Up with probability (the part cut off) / 2^16, for `random` uniform in
 * [0, 2^16); what needs no rounding stays. */
static inline uint16_t float_to_bf16_at(float x, uint32_t random) {
  uint32_t u = float_bits(x), chosen = (u + random) >> 16;
  bool finite = (u & 0x7fffffff) < 0x7f800000;
  return finite ? (uint16_t)chosen : float_to_bf16(x);
}

/* Multiplying by 2^112 moves the exponent and makes subnormals normal. */
static inline float f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, u = (uint32_t)(h & 0x7fff)
                                                    << 13;
  uint32_t finite = float_bits(bits_float(u) * 0x1p112f);
  return bits_float(sign | (u >= 0x0f800000 ? u | 0x7f800000 : finite));
}
/* Adding 1/2 rounds a subnormal and leaves its bits at the end. */
static inline uint16_t float_to_f16(float x) {
  uint32_t u = float_bits(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  uint32_t tiny = float_bits(bits_float(m) + 0.5f) - float_bits(0.5f);
  uint32_t normal = (m + 0xfff + (m >> 13 & 1) - 0x38000000) >> 13;
  uint32_t nan = 0x7e00 | (m >> 13 & 0x1ff);
  uint32_t h = m < 0x38800000 ? tiny : normal;
  h = m >= 0x477ff000 ? 0x7c00 : h;
  return (uint16_t)(sign | (m > 0x7f800000 ? nan : h));
}

/* As e5m2 is the upper half of f16. */
static inline float f8_e5m2_to_float(uint8_t h) {
  return f16_to_float((uint16_t)(h << 8));
}
static inline float f8_e4m3_to_float(uint8_t h) {
  uint32_t sign = (uint32_t)(h & 0x80) << 24, u = (uint32_t)(h & 0x7f) << 20;
  uint32_t finite = float_bits(bits_float(u) * 0x1p120f);
  return bits_float(sign | (u == 0x07f00000 ? 0x7fc00000 : finite));
}

/* A float to one of 8 bits.  `least` is the smallest normal number's pattern,
 * adding `step` rounds what is below it; `cut` bits of the fraction go, and
 * `shift` moves the exponent; `most` is the largest number's pattern. */
static inline uint8_t float_to_f8(float x, uint32_t least, float step, int cut,
                                  uint32_t shift, uint32_t most) {
  uint32_t u = float_bits(x), sign = u >> 24 & 0x80, m = u & 0x7fffffff;
  uint32_t tiny = float_bits(bits_float(m) + step) - float_bits(step);
  uint32_t half = (UINT32_C(1) << (cut - 1)) - 1;
  uint32_t normal = (m + half + (m >> cut & 1) - shift) >> cut;
  uint32_t h = m < least ? tiny : normal;
  h = m >= 0x47800000 || h > most ? most : h; /* 2^16 is above them all */
  return (uint8_t)(sign | (m > 0x7f800000 ? 0x7f : h));
}
static inline uint8_t float_to_f8_e4m3(float x) {
  return float_to_f8(x, 0x3c800000, 0x1p14f, 20, UINT32_C(120) << 23, 0x7e);
}
static inline uint8_t float_to_f8_e5m2(float x) {
  return float_to_f8(x, 0x38800000, 0x1p7f, 21, UINT32_C(112) << 23, 0x7b);
}

/* On the way from double to fewer bits: an inexact float gets an odd last bit, so
 * the second rounding sees what the first cut off, and the result is rounded
 * once. */
static inline float float_to_odd(double x) {
  float f = (float)x;
  uint32_t u = float_bits(f);
  bool inexact = (double)f != x && x == x;
  bool away = x < 0 ? (double)f < x : (double)f > x;
  return bits_float(inexact ? (u - away) | 1 : u);
}

#endif
