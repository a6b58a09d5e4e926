/* wide.h -- functions of double that the compiler can vectorise
 *
 * For functions of float whose formulas lose digits: computed in double and
 * rounded once they are right to half an ulp and a little.  Branch-free; the
 * argument is a number of a known range, special cases are the caller's.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_WIDE_H
#define MRT_WIDE_H

#include "cpu.h"

#define WIDE_LN_2  0.69314718055994530942
#define WIDE_LOG2E 1.44269504088896340736
#define WIDE_PI    3.14159265358979323846

static inline uint64_t double_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline double bits_double(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* a * b + c, rounded once where the processor can. */
static inline double wide_fma(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/* A normal x > 0 is 2^e m, m from sqrt(1/2) to sqrt(2); ln m is an odd series
 * of s = (m - 1) / (m + 1). */
typedef struct wide_parts {
  double e, s;
} wide_parts;
static inline wide_parts wide_split(double x) {
  const uint64_t half_root = UINT64_C(0x3fe6a09e667f3bcd);
  uint64_t u = double_bits(x) - half_root;
  /* the exponent becomes the last bits of 2^52 + 2^51 + e */
  double e = bits_double(((u + (UINT64_C(1023) << 52)) >> 52) |
                         (UINT64_C(0x433) << 52));
  double m = bits_double((u & UINT64_C(0xfffffffffffff)) + half_root);
  return (wide_parts){ e - (0x1p52 + 1023), (m - 1) / (m + 1) };
}
/* ln x: to a relative 1e-11, near 1 as well. */
static inline double wide_log(double x) {
  wide_parts w = wide_split(x);
  double t = w.s * w.s, p = 0.23616359099145984;
  p = wide_fma(p, t, 0.28535051037816311);
  p = wide_fma(p, t, 0.40000384672375189);
  p = wide_fma(p, t, 0.66666665247487522);
  p = wide_fma(p, t, 2.0000000000083595);
  return wide_fma(p, w.s, w.e * WIDE_LN_2);
}
/* ln x: to the last digits of double. */
static inline double wide_log_full(double x) {
  wide_parts w = wide_split(x);
  double t = w.s * w.s, p = 0.14809710360655276;
  p = wide_fma(p, t, 0.15312528148364191);
  p = wide_fma(p, t, 0.18183631680229329);
  p = wide_fma(p, t, 0.22222197056726048);
  p = wide_fma(p, t, 0.28571428760641682);
  p = wide_fma(p, t, 0.39999999999302338);
  p = wide_fma(p, t, 0.66666666666667651);
  p = wide_fma(p, t, 2);
  return wide_fma(p, w.s, w.e * WIDE_LN_2);
}

/* sin(pi x), |x| <= 1/2: x p(x^2). */
static inline double wide_sin_pi(double x) {
  double t = x * x, p = 7.6978267682241909e-07;
  p = wide_fma(p, t, -2.1903497074626018e-05);
  p = wide_fma(p, t, 0.00046629981618983939);
  p = wide_fma(p, t, -0.0073704305059169436);
  p = wide_fma(p, t, 0.0821458865731029);
  p = wide_fma(p, t, -0.59926452931894469);
  p = wide_fma(p, t, 2.5501640398773007);
  p = wide_fma(p, t, -5.1677127800499694);
  p = wide_fma(p, t, 3.1415926535897931);
  return p * x;
}

#endif
