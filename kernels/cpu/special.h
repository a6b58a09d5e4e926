/* special.h -- gamma, its derivatives, error integrals, Bessel functions
 *
 * Computed in double, for float too: branch-free, so that loops over floats
 * become vector code, except for derivatives of digamma from the second on.
 * A float is right to half an ulp and a little; a double to a few ulp, near
 * zeros of digamma to a few ulp of 1.
 *
 * From NIST, Digital Library of Mathematical Functions, 5.4 (reflection), 5.5
 * (recurrence), 5.11 (asymptotic series), 25.11 (zeta); Bessel functions by
 * Chebyshev interpolation of I_v(x) e^-x.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SPECIAL_H
#define MRT_SPECIAL_H

#include "bessel.h"
#include "elementary.h"

/* From here on the asymptotic series are exact enough. */
enum { SHIFT = 10 };

/* x - n, n the nearest whole number: sin(pi x) = +-sin(pi rest). */
static inline double wide_rest(double x) { return x - __builtin_rint(x); }
static inline bool wide_pole(double x) {
  return x <= 0 && __builtin_floor(x) == x;
}

/* sin(pi x) / (pi x) */
static inline double wide_sinc(double x) {
  double n = __builtin_rint(x), half = n * 0.5;
  double y = wide_sin_pi(x - n) / (WIDE_PI * x);
  y = __builtin_floor(half) != half ? -y : y;
  return x == 0 ? 1 : y;
}

/* ---- gamma --------------------------------------------------------------- */

/* B_2k / 2k z^-2k, summed from k = 1 on, of w = z^-2: minus digamma's. */
static inline double digamma_series(double w) {
  double p = 1 / 12.0;
  p = wide_fma(p, w, -691 / 32760.0);
  p = wide_fma(p, w, 1 / 132.0);
  p = wide_fma(p, w, -1 / 240.0);
  p = wide_fma(p, w, 1 / 252.0);
  p = wide_fma(p, w, -1 / 120.0);
  p = wide_fma(p, w, 1 / 12.0);
  return p * w;
}

/* ln gamma(x), x > 0.  Below SHIFT: gamma(x) = gamma(x + 10) / product. */
static inline double lgamma_above(double x) {
  bool low = x < SHIFT;
  double product = x, z = low ? x + SHIFT : x;
#pragma GCC unroll 16
  for (int k = 1; k < SHIFT; k++) product *= x + k;
  double v = 1 / z, w = v * v, p = 1 / 156.0;
  p = wide_fma(p, w, -691 / 360360.0);
  p = wide_fma(p, w, 1 / 1188.0);
  p = wide_fma(p, w, -1 / 1680.0);
  p = wide_fma(p, w, 1 / 1260.0);
  p = wide_fma(p, w, -1 / 360.0);
  p = wide_fma(p, w, 1 / 12.0);
  double y = (z - 0.5) * wide_log_full(z) - z + 0.91893853320467274178 + p * v;
  return y - wide_log_full(low ? product : 1); /* ln 1 is 0 */
}

/* The sum of 1 / (x + k), k < SHIFT, is a quotient of polynomials. */
static inline double digamma_above(double x) {
  double product = 1, rise = 0, z = x < SHIFT ? x + SHIFT : x;
  double low = x < SHIFT ? x : 1;
#pragma GCC unroll 16
  for (int k = 0; k < SHIFT; k++) {
    rise = rise * (low + k) + product;
    product *= low + k;
  }
  double v = 1 / z;
  double y = wide_log_full(z) - 0.5 * v - digamma_series(v * v);
  return y - (x < SHIFT ? rise : 0) / product;
}
/* digamma(1 - x) - pi / tan(pi x) */
static inline double wide_digamma(double x) {
  bool below = x < 0;
  double r = below ? wide_rest(x) : 0.25, a = r < 0 ? -r : r;
  double cosine = wide_sin_pi(0.5 - a), sine = wide_sin_pi(r);
  double y = digamma_above(below ? 1 - x : x);
  y = below ? y - WIDE_PI * cosine / sine : y;
  y = below && __builtin_floor(x) == x ? (double)NAN : y;
  y = x < (double)INFINITY ? y : x;
  return x == 0 ? -1 / x : y;
}

/* The sum of 1 / (x + k)^2, too. */
static inline double trigamma_above(double x) {
  double product = 1, rise = 0, z = x < SHIFT ? x + SHIFT : x;
  double low = x < SHIFT ? x : 1;
#pragma GCC unroll 16
  for (int k = 0; k < SHIFT; k++) {
    double square = (low + k) * (low + k);
    rise = rise * square + product;
    product *= square;
  }
  double v = 1 / z, w = v * v, p = 7 / 6.0;
  p = wide_fma(p, w, -691 / 2730.0);
  p = wide_fma(p, w, 5 / 66.0);
  p = wide_fma(p, w, -1 / 30.0);
  p = wide_fma(p, w, 1 / 42.0);
  p = wide_fma(p, w, -1 / 30.0);
  p = wide_fma(p, w, 1 / 6.0);
  double y = v + 0.5 * w + p * w * v;
  return y + (x < SHIFT ? rise : 0) / product;
}
/* pi^2 / sin^2(pi x) - trigamma(1 - x) */
static inline double wide_trigamma(double x) {
  bool below = x < 0;
  double s = WIDE_PI / wide_sin_pi(below ? wide_rest(x) : 0.5);
  double y = trigamma_above(below ? 1 - x : x);
  y = below ? s * s - y : y;
  return wide_pole(x) && x > -(double)INFINITY ? (double)INFINITY : y;
}

/* n! times the zeta function of n + 1 from x on, x > 0: the first terms, then
 * Euler and Maclaurin's formula. */
static double zeta_above(int n, double x) {
  static const double bernoulli[] = {
    /* B_2k / (2k)! */
    0.083333333333333329,    -0.0013888888888888889,  3.3068783068783071e-05,
    -8.2671957671957675e-07, 2.08767569878681e-08,    -5.2841901386874932e-10,
    1.3382536530684679e-11,  -3.3896802963225827e-13, 8.5860620562778452e-15,
    -2.1748686985580619e-16
  };
  double sum = 0, factorial = 1;
  for (int k = 2; k <= n; k++) factorial *= k;
  for (; x < n + SHIFT; x++) sum += pow(x, -n - 1);
  double term = pow(x, -n - 1), rise = n + 1;
  sum += term * x / n + term / 2;
  for (int k = 0; k < (int)MRT_COUNT(bernoulli); k++) {
    term /= x;
    sum += bernoulli[k] * rise * term;
    term /= x;
    rise *= (n + 2 * k + 2) * (double)(n + 2 * k + 3);
  }
  return factorial * sum;
}

/* The n-th derivative of pi cot(pi x), a polynomial of c = cot(pi x): that of
 * p(c) is -pi (1 + c^2) p'(c). */
static double cot_derivative(int n, double x) {
  double r = wide_rest(x), a = r < 0 ? -r : r;
  double c = wide_sin_pi(0.5 - a) / wide_sin_pi(r), y = 0;
  double p[MRT_POLYGAMMA_MOST + 2] = { 0, WIDE_PI };
  for (int k = 0; k < n; k++) {
    double q[MRT_POLYGAMMA_MOST + 2] = { 0 };
    for (int i = 1; i <= k + 1; i++) {
      q[i - 1] -= WIDE_PI * i * p[i];
      q[i + 1] -= WIDE_PI * i * p[i];
    }
    memcpy(p, q, sizeof p);
  }
  for (int i = n + 1; i >= 0; i--) y = y * c + p[i];
  return y;
}
/* n from 2 to MRT_POLYGAMMA_MOST */
static double wide_polygamma(int n, double x) {
  double sign = n % 2 ? 1 : -1;
  if (x == (double)INFINITY) return 0;
  if (!(x > -(double)INFINITY)) return NAN;
  if (wide_pole(x)) return sign * (double)INFINITY;
  if (x > 0) return sign * zeta_above(n, x);
  return -zeta_above(n, 1 - x) - cot_derivative(n, x);
}

/* ---- by dtype ------------------------------------------------------------ */

#ifdef MRT_F64
/* POSIX's, for lgamma of C writes a global. */
extern double lgamma_r(double x, int *sign);
static inline real m_lgamma(real x) {
  int sign;
  return lgamma_r(x, &sign);
}
static inline real m_lgamma_above(real x) { return m_lgamma(x); }
static inline real m_erfc(real x) { return erfc(x); }
static inline real m_logit(real x) {
  bool near = x > 0.25 && x < 0.75;
  return near ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x));
}
static inline double exp_of(double x) { return exp(x); }

/* Winitzki's approximation, and Halley's iteration on the tail. */
static inline real m_erfinv(real x) {
  const double a = 0.147, slope = 0.88622692545275801365; /* sqrt(pi) / 2 */
  double z = fabs(x), l = log1p(-z * z), t = 2 / (WIDE_PI * a) + l / 2;
  double y = sqrt(sqrt(t * t - l / a) - t);
  for (int k = 0; k < 3; k++) {
    double far = erfc(y) - (1 - z), low = z - erf(y);
    double e = slope * exp(y * y) * (z > 0.5 ? far : low);
    y += e / (1 - y * e);
  }
  y = z < 1 ? y : (z == 1 ? (double)INFINITY : (double)NAN);
  return x == 0 ? x : copysign(y, x);
}
#else
static inline float m_lgamma(float x) {
  bool below = x < 0;
  double d = x, r = below ? wide_rest(d) : 0.5, s = wide_sin_pi(r < 0 ? -r : r);
  double y = lgamma_above(below ? 1 - d : (x > 0 ? d : 1));
  y = below ? wide_log_full(WIDE_PI / (s > 0 ? s : 1)) - y : y;
  y = wide_pole(d) || fabsf(x) == MRT_INF ? (double)MRT_INF : y;
  return x == x ? (float)y : x;
}

static inline float m_lgamma_above(float x) { return (float)lgamma_above(x); }

static inline double exp_of(double x) { return wide_exp2(x * WIDE_LOG2E); }

/* e^(-a^2) p(t) / (1 + 2a), t = (a - 3) / (a + 3); below 0: 2 - that. */
static inline float m_erfc(float x) {
  double a = fabsf(x) > 11 ? 11 : fabsf(x), flat = 1 + 2 * a;
  double v = 1 / (flat * (a + 3)), t = (a - 3) * flat * v;
  double p = 3.7645945667088178e-05;
  p = wide_fma(p, t, -0.00017690560295646155);
  p = wide_fma(p, t, -0.00073842106874123792);
  p = wide_fma(p, t, 0.0019473167877448001);
  p = wide_fma(p, t, 0.0025269799382524405);
  p = wide_fma(p, t, -0.023787395894315701);
  p = wide_fma(p, t, 0.068306638710874848);
  p = wide_fma(p, t, -0.11927160306707478);
  p = wide_fma(p, t, 0.12964535247084086);
  p = wide_fma(p, t, -0.047562387176800912);
  p = wide_fma(p, t, -0.13562111116962919);
  p = wide_fma(p, t, 1.2530080589762511);
  double y = exp_of(-a * a) * p * ((a + 3) * v);
  return (float)(x < 0 ? 2 - y : y);
}

/* With w = -ln(1 - x^2): x p(w - 5/2), from w = 5 on x p(sqrt w - 3). */
static inline float m_erfinv(float x) {
  double d = x, rest = (1 - d) * (1 + d);
  double w = -wide_log(rest > 0 ? rest : 1), u = w - 2.5;
  double v = __builtin_sqrt(w > 5 ? w : 5) - 3;
  double p = -8.931925970244222e-09, q = 0.0001074866142537799;
  p = wide_fma(p, u, 2.3335967195708108e-08);
  p = wide_fma(p, u, 4.6813134805534123e-07);
  p = wide_fma(p, u, -3.4639852676333717e-06);
  p = wide_fma(p, u, -4.9724196894547514e-06);
  p = wide_fma(p, u, 0.00021834938623976644);
  p = wide_fma(p, u, -0.0012527263917732291);
  p = wide_fma(p, u, -0.0041773928752031489);
  p = wide_fma(p, u, 0.24664027905463662);
  p = wide_fma(p, u, 1.5014093604503289);
  q = wide_fma(q, v, -0.00030110998168730835);
  q = wide_fma(q, v, -4.5034770062456953e-05);
  q = wide_fma(q, v, 0.0014741307815955749);
  q = wide_fma(q, v, -0.0036035169741393822);
  q = wide_fma(q, v, 0.0056914079455859107);
  q = wide_fma(q, v, -0.0076359625839089833);
  q = wide_fma(q, v, 0.0094447215084584504);
  q = wide_fma(q, v, 1.0016748793995316);
  q = wide_fma(q, v, 2.8329768119942584);
  float y = (float)(d * (w > 5 ? q : p)), a = fabsf(x);
  return a < 1 ? y : (a == 1 ? x * MRT_INF : NAN);
}
#endif

/* I_v(a) e^-a, a >= 0, comes from bessel.h; e^a in halves, so that it overflows
 * with the product only. */
static inline real m_i0(real x) {
  double a = m_abs(x) < MRT_INF ? (double)m_abs(x) : 1, h = exp_of(a / 2);
  real y = (real)(bessel_i0e(a) * h * h);
  return m_abs(x) < MRT_INF ? y : m_abs(x);
}
static inline real m_i1(real x) {
  double a = m_abs(x) < MRT_INF ? (double)m_abs(x) : 1, h = exp_of(a / 2);
  real y = (real)(bessel_i1e(a) * h * h);
  return m_abs(x) < MRT_INF ? m_copysign(y, x) : x;
}

#endif
