/* vmath.h -- elementary functions that the compiler can vectorise
 *
 * Branch-free in float, so a loop over an array becomes vector code and an
 * element's result does not depend on its place.  In double they are libm's:
 * doubles serve as the oracle, not the fast path.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_VMATH_H
#define MRT_VMATH_H

#include "base/narrow.h"
#include "cpu.h"
#include "wide.h"

/* x, held at `past` from 0: below; on both sides.  NaN passes through. */
static inline real m_above(real x, real past) { return x < -past ? -past : x; }
static inline real m_within(real x, real past) {
  x = m_above(x, past);
  return x > past ? past : x;
}

#ifdef MRT_F64
static inline real m_exp(real x) { return exp(x); }
static inline real m_exp_inside(real x) { return exp(x); }
static inline real m_log(real x) { return log(x); }
static inline real m_tanh(real x) { return tanh(x); }
static inline real m_erf(real x) { return erf(x); }
static inline real m_sin(real x) { return sin(x); }
static inline real m_cos(real x) { return cos(x); }
static inline real m_tan(real x) { return tan(x); }
static inline real m_expm1(real x) { return expm1(x); }
static inline real m_pow(real x, real y) { return pow(x, y); }
static inline real m_sqrt(real x) { return sqrt(x); }
static inline real m_abs(real x) { return fabs(x); }
static inline real m_floor(real x) { return floor(x); }
static inline real m_ceil(real x) { return ceil(x); }
static inline real m_trunc(real x) { return trunc(x); }
static inline real m_round(real x) { return rint(x); } /* half to even */
static inline real m_fmod(real x, real y) { return fmod(x, y); }
static inline real m_sin_near(real x) { return sin(x); }
static inline real m_cos_near(real x) { return cos(x); }
static inline real m_tan_near(real x) { return tan(x); }
#define M_NEAR MRT_INF
#else
static inline real m_sqrt(real x) { return __builtin_sqrtf(x); }
static inline real m_abs(real x) { return fabsf(x); }
static inline real m_floor(real x) { return floorf(x); }
static inline real m_ceil(real x) { return ceilf(x); }
static inline real m_trunc(real x) { return truncf(x); }
static inline real m_round(real x) { return rintf(x); }
static inline real m_fmod(real x, real y) { return fmodf(x, y); }

/* 2 to the n, -126 <= n <= 127. */
static inline float power_of_2(int32_t n) {
  return bits_float((uint32_t)(n + 127) << 23);
}

/* x = n ln 2 + r, |r| <= ln 2 / 2: e^r, and n in the low bits of t, over those of
 * EXP_MAGIC, which are 0.  n ln2_high is exact. */
#define EXP_MAGIC 0x1.8p23f /* adding it rounds to an integer */
typedef struct exp_parts {
  float t, p;
} exp_parts;
static inline exp_parts exp_split(float x) {
  float t = fma_(x, 0x1.715476p0f, EXP_MAGIC), n = t - EXP_MAGIC;
  float r = fma_(n, -0x1.63p-1f, x), p = 1.9875691500e-4f;
  r = fma_(n, 0x1.bd0106p-13f, r);
  p = fma_(p, r, 1.3981999507e-3f);
  p = fma_(p, r, 8.3334519073e-3f);
  p = fma_(p, r, 4.1665795894e-2f);
  p = fma_(p, r, 1.6666665459e-1f);
  p = fma_(p, r, 5.0000001201e-1f);
  return (exp_parts){ t, fma_(p, r * r, r) + 1 };
}

/* 2^k e^x, k 0 or -1.  2^(n + k) is applied in halves, so that the ends overflow
 * and underflow as they should.  Every comparison is false for NaN, which passes
 * through. */
static inline float exp_scaled(float x, int32_t k) {
  x = x > 90 ? 90 : x;
  exp_parts e = exp_split(x < -104 ? -104 : x);
  int32_t i = (int32_t)(float_bits(e.t) - float_bits(EXP_MAGIC)) + k;
  int32_t half = i >> 1;
  return e.p * power_of_2(half) * power_of_2(i - half);
}
static inline float m_exp(float x) { return exp_scaled(x, 0); }

/* exp(x) for x from -87 to 88, about half the work of m_exp: nothing overflows
 * or is subnormal.  NaN passes through. */
static inline float m_exp_inside(float x) {
  exp_parts e = exp_split(x);
  return e.p * bits_float((float_bits(e.t) << 23) + 0x3f800000);
}

/* x = 2^e (1 + f), 1 + f from sqrt(1/2) to sqrt(2); subnormals are scaled up
 * first. */
typedef struct log_parts {
  float e, f;
} log_parts;
static inline log_parts log_split(float x) {
  bool tiny = x < 0x1p-126f;
  uint32_t u = float_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
  float e = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
  return (log_parts){ e, bits_float((u & 0x7fffff) + 0x3f3504f3u) - 1 };
}
/* log(1 + f) = f - f^2 / 2 + f^3 p(f): that cubic term. */
static inline float log_cubic(float f) {
  float p = 0.0691512583f;
  p = fma_(p, f, -0.117896848f);
  p = fma_(p, f, 0.118730201f);
  p = fma_(p, f, -0.123843724f);
  p = fma_(p, f, 0.142186552f);
  p = fma_(p, f, -0.166692493f);
  p = fma_(p, f, 0.200022267f);
  p = fma_(p, f, -0.249999866f);
  return fma_(p, f, 0.333333104f);
}
/* e ln 2 + log(1 + f) */
static inline float log_of_parts(log_parts w) {
  float p = log_cubic(w.f);
  p = fma_(p * w.f, w.f * w.f, -0x1.bd0106p-13f * w.e);
  return fma_(w.e, 0x1.63p-1f, w.f + fma_(w.f * w.f, -0.5f, p));
}
/* The logarithm y of x, and what is special. */
static inline float log_ends(float x, float y) {
  y = x == 0 ? -MRT_INF : y;
  y = x < MRT_INF ? y : x; /* inf and NaN */
  return x < 0 ? NAN : y;
}
static inline float m_log(float x) {
  return log_ends(x, log_of_parts(log_split(x)));
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), accurate near 0 as well; halved, so
 * that 2^n does not overflow before its time.  x is at most 89. */
static inline float half_expm1(float x) {
  const float magic = 0x1.8p23f;
  float t = fma_(x, 0x1.715476p0f, magic), n = t - magic;
  float r = fma_(n, -0x1.63p-1f, x);
  r = fma_(n, 0x1.bd0106p-13f, r);
  float p = 1.99135711e-4f;
  p = fma_(p, r, 1.39410197e-3f);
  p = fma_(p, r, 8.33327414e-3f);
  p = fma_(p, r, 4.16663545e-2f);
  p = fma_(p, r, 1.66666668e-1f);
  p = fma_(p, r, 5.00000005e-1f);
  p = fma_(p, r * r, r);
  float h = power_of_2((int32_t)(float_bits(t) - float_bits(magic)) - 1);
  return fma_(h, p, h - 0.5f);
}
static inline float m_expm1(float x) {
  float a = x > 89 ? 89 : x;
  a = a < -18 ? -18 : a;
  return x == 0 ? x : 2 * half_expm1(a); /* keeps the sign of 0 */
}

/* With e = e^2|x| - 1, tanh |x| = e / (e + 2); from |x| = 9 on it is 1. */
static inline float m_tanh(float x) {
  float a = 2 * fabsf(x);
  a = a > 20 ? 20 : a;
  float h = half_expm1(a);
  return copysignf(h / (h + 1), x);
}

/* |x| < 1: x + x p(x^2).  Beyond: 1 - e^q(|x|), q = log erfc. */
static inline float m_erf(float x) {
  float a = fabsf(x), s = x * x, p = 7.88911603e-05f, q = 1.86768745e-4f;
  p = fma_(p, s, -8.02084014e-4f);
  p = fma_(p, s, 5.1895352e-3f);
  p = fma_(p, s, -2.68544445e-2f);
  p = fma_(p, s, 1.12836002e-1f);
  p = fma_(p, s, -3.76126271e-1f);
  p = fma_(p, s, 1.28379166e-1f);
  float b = a > 4 ? 4 : a;
  q = fma_(q, b, -2.9517994e-3f);
  q = fma_(q, b, 2.18560157e-2f);
  q = fma_(q, b, -1.03147377e-1f);
  q = fma_(q, b, -6.3809422e-1f);
  q = fma_(q, b, -1.12712212f);
  q = fma_(q, b, -3.32778876e-4f);
  float far = copysignf(1 - m_exp(q), x);
  return a < 1 ? fma_(p, x, x) : far;
}

/* x is r + q pi / 2: sine and cosine of r.  The remainder is taken in double,
 * exact enough while |x| <= M_NEAR. */
#define M_NEAR    1e5f
typedef struct turned {
  float sine, cosine;
  uint32_t q;
} turned;
static inline turned turn_near(float x) {
  const float magic = 0x1.8p23f;
  float t = fma_(x, 0x1.45f306p-1f, magic), n = t - magic;
  double d = (double)x - (double)n * 0x1.921fb544p0;
  float r = (float)(d - (double)n * 0x1.0b4611a6p-34), s = r * r;
  float odd = -1.9517216e-4f, even = 2.44383575e-5f;
  odd = fma_(odd, s, 8.33217755e-3f);
  odd = fma_(odd, s, -1.66666549e-1f);
  odd = fma_(odd * s, r, r);
  even = fma_(even, s, -1.38873667e-3f);
  even = fma_(even, s, 4.16666469e-2f);
  even = fma_(even, s * s, fma_(s, -0.5f, 1));
  return (turned){ odd, even, float_bits(t) };
}
/* Sine of x + quarters pi / 2. */
static inline float sine_near(float x, uint32_t quarters) {
  turned t = turn_near(x);
  uint32_t q = t.q + quarters;
  return bits_float(float_bits(q & 1 ? t.cosine : t.sine) ^ (q & 2) << 30);
}
static inline float m_sin_near(float x) {
  return x == 0 ? x : sine_near(x, 0); /* keeps the sign of 0 */
}
static inline float m_cos_near(float x) { return sine_near(x, 1); }
static inline float m_tan_near(float x) {
  turned t = turn_near(x);
  bool odd = t.q & 1;
  float y = (odd ? -t.cosine : t.sine) / (odd ? t.sine : t.cosine);
  return x == 0 ? x : y;
}
/* Anywhere; the branch keeps these from being vectorised. */
static inline float m_sin(float x) {
  return fabsf(x) <= M_NEAR ? m_sin_near(x) : sinf(x);
}
static inline float m_cos(float x) {
  return fabsf(x) <= M_NEAR ? m_cos_near(x) : cosf(x);
}
static inline float m_tan(float x) {
  return fabsf(x) <= M_NEAR ? m_tan_near(x) : tanf(x);
}

/* log2 |x| and 2^t in double, where 36 good bits leave half an ulp of float.
 * log2 (1 + f) = s p(s^2), s = f / (2 + f). */
static inline double wide_log2(float x) {
  bool tiny = x < 0x1p-126f;
  uint32_t u = float_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
  float e = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
  double m = (double)bits_float((u & 0x7fffff) + 0x3f3504f3u);
  double s = (m - 1) / (m + 1), ss = s * s, p = 0.34078333801897809;
  p = wide_fma(p, ss, 0.41166989357599082);
  p = wide_fma(p, ss, 0.57708363126742768);
  p = wide_fma(p, ss, 0.96179667310268002);
  p = wide_fma(p, ss, 2.885390081790276);
  return p * s + (double)e;
}
static inline double wide_exp2(double t) {
  const double magic = 0x1.8p52;
  t = t > 200 ? 200 : t;
  t = t < -200 ? -200 : t;
  double n = t + magic, f = t - (n - magic), p = 1.5316453625542694e-05;
  p = wide_fma(p, f, 0.000154697316929865);
  p = wide_fma(p, f, 0.0013333422681021253);
  p = wide_fma(p, f, 0.0096180256040113172);
  p = wide_fma(p, f, 0.055504109760648915);
  p = wide_fma(p, f, 0.24022651213585899);
  p = wide_fma(p, f, 0.69314718053504054);
  p = wide_fma(p, f, 0.99999999995954914);
  uint64_t u;
  memcpy(&u, &n, sizeof u);
  u = (u << 52) + UINT64_C(0x3ff0000000000000);
  memcpy(&n, &u, sizeof n);
  return p * n;
}

/* The special cases are C's. */
static inline float m_pow(float x, float y) {
  float a = fabsf(x);
  double l = wide_log2(a);
  l = a == 0 ? -(double)MRT_INF : l;
  l = a < MRT_INF ? l : (double)a;
  float z = (float)wide_exp2((double)y * l);
  bool whole = floorf(y) == y, odd = whole && floorf(y / 2) * 2 != y;
  z = x < 0 && x > -MRT_INF && !whole ? NAN : z;
  z = odd ? copysignf(z, x) : z;
  return y == 0 || x == 1 || (x == -1 && fabsf(y) == MRT_INF) ? 1 : z;
}
#endif

/* log(1 + u) for 0 <= u <= 1: what rounding 1 + u lost is put back (Kahan). */
static inline real log_one_and(real u) {
  real w = 1 + u;
  return w == 1 ? u : m_log(w) * (u / (w - 1));
}

#endif
