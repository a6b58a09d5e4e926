/* vmath.h -- elementary functions that the compiler can vectorise
 *
 * Branch-free in float, so a loop over an array becomes vector code and an
 * element's result does not depend on its place.  In double they are libm's:
 * doubles serve as the oracle, not the fast path.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_VMATH_H
#define MRT_VMATH_H

#include "cpu.h"

#ifdef MRT_F64
static inline real m_exp(real x) { return exp(x); }
static inline real m_log(real x) { return log(x); }
static inline real m_tanh(real x) { return tanh(x); }
static inline real m_erf(real x) { return erf(x); }
static inline real m_sin(real x) { return sin(x); }
static inline real m_cos(real x) { return cos(x); }
static inline real m_sqrt(real x) { return sqrt(x); }
static inline real m_pow(real x, real y) { return pow(x, y); }
#else

static inline uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
/* 2 to the n, -126 <= n <= 127. */
static inline float power_of_2(int32_t n) {
  return float_of((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r, |r| <= ln 2 / 2: e^x = 2^n e^r.  n ln2_high is exact, and
 * 2^n is applied in halves, so that the ends overflow and underflow as they
 * should.  Every comparison is false for NaN, which passes through. */
static inline float m_exp(float x) {
  const float magic = 0x1.8p23f; /* adding it rounds to an integer */
  x = x > 89 ? 89 : x;
  x = x < -104 ? -104 : x;
  float t = fma_(x, 0x1.715476p0f, magic), n = t - magic;
  float r = fma_(n, -0x1.63p-1f, x);
  r = fma_(n, 0x1.bd0106p-13f, r);
  float p = 1.9875691500e-4f;
  p = fma_(p, r, 1.3981999507e-3f);
  p = fma_(p, r, 8.3334519073e-3f);
  p = fma_(p, r, 4.1665795894e-2f);
  p = fma_(p, r, 1.6666665459e-1f);
  p = fma_(p, r, 5.0000001201e-1f);
  p = fma_(p, r * r, r) + 1;
  int32_t i = (int32_t)(bits_of(t) - bits_of(magic)), half = i >> 1;
  return p * power_of_2(half) * power_of_2(i - half);
}

static inline real m_sqrt(real x) { return __builtin_sqrtf(x); }
static inline real m_pow(real x, real y) { return powf(x, y); }
static inline real m_log(real x) { return logf(x); }
static inline real m_tanh(real x) { return tanhf(x); }
static inline real m_erf(real x) { return erff(x); }
static inline real m_sin(real x) { return sinf(x); }
static inline real m_cos(real x) { return cosf(x); }
#endif

#endif
