/* gamma_grad.c -- standard_gamma_grad
 *
 * With P(a, y) the regularised incomplete gamma function and f its density,
 * dy/da = -(dP/da) / f.  P / f and (1 - P) / f have no factor that overflows:
 *
 *   y <= a + 1   P / f = y / a S,  S = sum over k of y^k / ((a+1) ... (a+k)),
 *                dy/da = -y / a (S (log y - psi(a + 1)) + dS/da)
 *   else         (1 - P) / f = y F, F = 1 / (y + 1 - a - (1 - a) / (y + 3 - a -
 *                2 (2 - a) / ...)),  dy/da = y (F (log y - psi(a)) + dF/da)
 *   a > LARGE    Cornish & Fisher's expansion of y in a normal z:
 *                y = a + z sqrt(a) + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt(a))
 *                - (3 z^4 + 7 z^2 - 16) / (810 a) + ..., solved for z by Newton
 *
 * Derivatives are carried along with values, in double (Figurnov, Mohamed &
 * Mnih, arXiv:1805.08498).
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

static const double LARGE = 1000;
enum { TERMS = 2000 };

/* For x > 0: up to 10 by recurrence, then the asymptotic series. */
static double digamma(double x) {
  double shift = 0;
  for (; x < 10; x++) shift += 1 / x;
  double i2 = 1 / (x * x);
  double rest =
      i2 * (1.0 / 12 - i2 * (1.0 / 120 - i2 * (1.0 / 252 - i2 * (1.0 / 240))));
  return log(x) - 0.5 / x - rest - shift;
}

static double by_series(double a, double y) {
  double term = 1, sum = 1, slope = 0, dsum = 0;
  for (int k = 1; k < TERMS; k++) {
    term *= y / (a + k);
    slope -= 1 / (a + k);
    sum += term;
    dsum += term * slope;
    if (term * (1 - slope) < 1e-17 * (sum - dsum)) break;
  }
  return -y / a * (sum * (log(y) - digamma(a + 1)) + dsum);
}

/* Lentz's method; c and d of the step before, and their derivatives. */
static double by_fraction(double a, double y) {
  double b = y + 1 - a, d = 1 / b, dd = d * d;
  double c = 1e300, dc = 0, f = d, df = dd;
  for (int k = 1; k < TERMS; k++) {
    double n = -k * (k - a), dn = k;
    b += 2;
    double t = b + n * d, dt = -1 + dn * d + n * dd;
    d = 1 / t, dd = -dt * d * d;
    dc = -1 + dn / c - n * dc / (c * c), c = b + n / c;
    double step = c * d, dstep = dc * d + c * dd;
    df = df * step + f * dstep, f *= step;
    if (fabs(step - 1) < 1e-16 && fabs(dstep) < 1e-16) break;
  }
  return y * (f * (log(y) - digamma(a)) + df);
}

static double by_expansion(double a, double y) {
  double r = sqrt(a), z = (y - a) / r;
  for (int i = 0; i < 8; i++) {
    double z2 = z * z;
    double value = a + z * r + (z2 - 1) / 3 + (z2 - 7) * z / (36 * r) -
                   (3 * z2 * z2 + 7 * z2 - 16) / (810 * a);
    double slope = r + 2 * z / 3 + (3 * z2 - 7) / (36 * r) -
                   (12 * z2 + 14) * z / (810 * a);
    double step = (value - y) / slope;
    if (!(fabs(step) < 1e3)) break;
    z -= step;
  }
  double z2 = z * z;
  return 1 + z / (2 * r) - (z2 - 7) * z / (72 * a * r) +
         (3 * z2 * z2 + 7 * z2 - 16) / (810 * a * a);
}

static double gradient(double a, double y) {
  if (!(a > 0 && y >= 0 && y < INFINITY)) return NAN;
  if (y == 0) return 0;
  if (a > LARGE) return by_expansion(a, y);
  return y <= a + 1 ? by_series(a, y) : by_fraction(a, y);
}

static void grad_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  const real *a = c->in[0].data, *y = c->in[1].data;
  real *out = c->out[0].data;
  int64_t i, end;
  mrt_share(mrt_rows(&c->in[0]) * mrt_cols(&c->in[0]), part, parts, &i, &end);
  for (; i < end; i++) out[i] = (real)gradient(a[i], y[i]);
}

static void run(const mrt_call *c) {
  double n = (double)(mrt_rows(&c->in[0]) * mrt_cols(&c->in[0]));
  mrt_parallel(c, mrt_team(c, 200 * n), grad_part, NULL);
}
MRT_KERNEL(standard_gamma_grad, .run = run);
