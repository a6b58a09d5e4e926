/* elementary.h -- more functions that the compiler can vectorise
 *
 * As vmath.h: branch-free in float, libm's in double.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ELEMENTARY_H
#define MRT_ELEMENTARY_H

#include "vmath.h"

#ifdef MRT_F64
static inline real m_log1p(real x) { return log1p(x); }
static inline real m_log2(real x) { return log2(x); }
static inline real m_log10(real x) { return log10(x); }
static inline real m_exp2(real x) { return exp2(x); }
static inline real m_sinh(real x) { return sinh(x); }
static inline real m_cosh(real x) { return cosh(x); }
static inline real m_asin(real x) { return asin(x); }
static inline real m_acos(real x) { return acos(x); }
static inline real m_atan(real x) { return atan(x); }
static inline real m_atan2(real y, real x) { return atan2(y, x); }
static inline real m_asinh(real x) { return asinh(x); }
static inline real m_acosh(real x) { return acosh(x); }
static inline real m_atanh(real x) { return atanh(x); }
static inline real m_hypot(real x, real y) { return hypot(x, y); }
static inline real m_copysign(real x, real y) { return copysign(x, y); }
#else
static inline float m_copysign(float x, float y) { return copysignf(x, y); }

/* ---- logarithms ---------------------------------------------------------- */

/* log2(1 + f) and log10(1 + f) from log(1 + f), whose parts are multiplied
 * before they are added up. */
static inline float m_log2(float x) {
  log_parts w = log_split(x);
  float p = log_cubic(w.f) * w.f, rest = w.f * w.f * (p - 0.5f);
  float low = fma_(w.f, 0x1.4ae0bep-26f, rest * 0x1.715476p0f);
  return log_ends(x, w.e + fma_(w.f, 0x1.715476p0f, low));
}
static inline float m_log10(float x) {
  log_parts w = log_split(x);
  float p = log_cubic(w.f) * w.f, rest = w.f * w.f * (p - 0.5f);
  float low = fma_(w.f, -0x1.5b235e0000000p-27f, rest * 0x1.bcb7b20000000p-2f);
  low = fma_(w.e, 0x1.3509f80000000p-18f, low);
  float y = fma_(w.f, 0x1.bcb7b20000000p-2f, low);
  return log_ends(x, fma_(w.e, 0x1.3440000000000p-2f, y));
}
/* log(u + rest), where rest is what was lost of u. */
static inline float log_with_rest(float u, float rest) {
  log_parts w = log_split(u);
  float back = w.e < 100 ? -w.e : -100;
  back = back > 100 ? 100 : back;
  w.f += rest * power_of_2((int32_t)back);
  return log_ends(u, log_of_parts(w));
}
static inline float m_log1p(float x) {
  float u = 1 + x, lost = x > 1 ? 1 - (u - x) : x - (u - 1);
  float y = log_with_rest(u, lost);
  return x == 0 ? x : y;
}
/* Of the ratio, which near 1 is 1 + r. */
static inline float m_logit(float x) {
  float r = (2 * x - 1) / (1 - x), u = 1 + r;
  bool near = x > 0.25f && x < 0.75f;
  float y = log_with_rest(near ? u : x / (1 - x), near ? r - (u - 1) : 0);
  return x == 1 ? MRT_INF : y;
}

/* ---- exponentials -------------------------------------------------------- */

/* 2^n p(f), f from -1/2 to 1/2. */
static inline float m_exp2(float x) {
  const float magic = 0x1.8p23f;
  x = x > 130 ? 130 : x;
  x = x < -152 ? -152 : x;
  float t = x + magic, f = x - (t - magic), p = 1.54614447e-4f;
  p = fma_(p, f, 1.34004282e-3f);
  p = fma_(p, f, 9.61805668e-3f);
  p = fma_(p, f, 5.55032723e-2f);
  p = fma_(p, f, 2.40226509e-1f);
  p = fma_(p, f, 6.93147207e-1f);
  p = fma_(p, f, 1);
  int32_t i = (int32_t)(float_bits(t) - float_bits(magic)), half = i >> 1;
  return p * power_of_2(half) * power_of_2(i - half);
}

static inline float m_sinh(float x) {
  float s = x * x, a = fabsf(x), p = 2.80628026e-6f;
  p = fma_(p, s, 1.9838102e-4f);
  p = fma_(p, s, 8.33333968e-3f);
  p = fma_(p, s, 1.66666666e-1f);
  float half = exp_scaled(a, -1), far = half - 0.25f / half;
  return a < 1 ? fma_(x * s, p, x) : copysignf(far, x);
}
static inline float m_cosh(float x) {
  float half = exp_scaled(fabsf(x), -1);
  return half + 0.25f / half;
}

/* ---- angles -------------------------------------------------------------- */

#define HALF_PI     0x1.921fb6p0f /* and what that lacks: */
#define HALF_PI_LOW -0x1.777a5cp-25f

/* asin z, 0 <= z <= 1/2, s = z^2. */
static inline float asin_near(float z, float s) {
  float p = 3.36908472e-2f;
  p = fma_(p, s, 1.71492384e-2f);
  p = fma_(p, s, 3.11006627e-2f);
  p = fma_(p, s, 4.45994015e-2f);
  p = fma_(p, s, 7.50009454e-2f);
  p = fma_(p, s, 1.66666663e-1f);
  return fma_(z * s, p, z);
}
/* Beyond 1/2: asin x = pi / 2 - 2 asin sqrt((1 - x) / 2). */
static inline float m_asin(float x) {
  float a = fabsf(x), low = a * a, high = (1 - a) * 0.5f;
  bool far = a > 0.5f;
  float s = far ? high : low, z = far ? m_sqrt(high) : a;
  float y = asin_near(z, s);
  y = far ? HALF_PI - (2 * y - HALF_PI_LOW) : y;
  return copysignf(y, x);
}
static inline float m_acos(float x) {
  float a = fabsf(x), low = a * a, high = (1 - a) * 0.5f;
  bool far = a > 0.5f;
  float s = far ? high : low, z = far ? m_sqrt(high) : a;
  float y = asin_near(z, s);
  float near = HALF_PI - (copysignf(y, x) - HALF_PI_LOW);
  float below = 2 * (HALF_PI - (y - HALF_PI_LOW));
  return far ? (x < 0 ? below : 2 * y) : near;
}

/* atan z, 0 <= z <= 1. */
static inline float atan_near(float z) {
  float s = z * z, p = 1.48869194e-3f;
  p = fma_(p, s, -9.14462976e-3f);
  p = fma_(p, s, 2.63050011e-2f);
  p = fma_(p, s, -4.8960514e-2f);
  p = fma_(p, s, 7.03191425e-2f);
  p = fma_(p, s, -8.93182675e-2f);
  p = fma_(p, s, 1.10882616e-1f);
  p = fma_(p, s, -1.42840038e-1f);
  p = fma_(p, s, 1.99999493e-1f);
  p = fma_(p, s, -3.33333331e-1f);
  return fma_(z * s, p, z);
}
static inline float m_atan(float x) {
  float a = fabsf(x);
  bool far = a > 1;
  float y = atan_near(far ? 1 / a : a);
  return copysignf(far ? HALF_PI - (y - HALF_PI_LOW) : y, x);
}
static inline float m_atan2(float y, float x) {
  float a = fabsf(x), b = fabsf(y);
  bool steep = b > a;
  float less = steep ? a : b, more = steep ? b : a, z = less / more;
  z = more == 0 ? 0 : z;
  z = less == MRT_INF ? 1 : z;
  float r = atan_near(z);
  r = steep ? HALF_PI - (r - HALF_PI_LOW) : r;
  r = float_bits(x) >> 31 ? 2 * HALF_PI - (r - 2 * HALF_PI_LOW) : r;
  return x != x || y != y ? x + y : copysignf(r, y);
}

/* ---- inverses of hyperbolic functions ------------------------------------ */

static inline float m_asinh(float x) {
  float a = fabsf(x), near = a - a * a * a * (1 / 6.0f);
  double d = a;
  float far = (float)wide_log(d + __builtin_sqrt(d * d + 1));
  far = a < MRT_INF ? far : a;
  return copysignf(a < 0x1p-8f ? near : far, x);
}
static inline float m_acosh(float x) {
  double t = (double)x - 1, r = t * (t + 2);
  float y = (float)wide_log(1 + (t + __builtin_sqrt(r > 0 ? r : 0)));
  y = x < MRT_INF ? y : x;
  return x < 1 ? NAN : y;
}
static inline float m_atanh(float x) {
  float a = fabsf(x), near = a + a * a * a * (1 / 3.0f);
  float far = 0.5f * m_log1p(2 * a / (1 - a));
  far = a < 1 ? far : (a == 1 ? MRT_INF : NAN);
  return copysignf(a < 0x1p-8f ? near : far, x);
}

/* In double no square of a float overflows or is lost. */
static inline float m_hypot(float x, float y) {
  double a = x, b = y;
  float z = (float)__builtin_sqrt(a * a + b * b);
  return fabsf(x) == MRT_INF || fabsf(y) == MRT_INF ? MRT_INF : z;
}
#endif

/* The bits of numbers of one sign count up as they do. */
#ifdef MRT_F64
typedef uint64_t real_bits;
#else
typedef uint32_t real_bits;
#endif
static inline real m_nextafter(real x, real y) {
  const real_bits sign = (real_bits)1 << (8 * sizeof(real_bits) - 1);
  real_bits u, v;
  memcpy(&u, &x, sizeof u);
  memcpy(&v, &y, sizeof v);
  real_bits step = (y > x) == (x > 0) ? 1 : (real_bits)-1;
  real_bits to = x == 0 ? (v & sign) | 1 : u + step;
  real z;
  memcpy(&z, &to, sizeof z);
  z = x == y ? y : z;
  return x != x ? x : (y != y ? y : z);
}

#endif
