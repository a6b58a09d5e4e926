/* exp.c -- the exponential of matrices: scaling, a Pade approximant, squaring
 *
 * (Higham 2005, The scaling and squaring method for the matrix exponential
 * revisited): x is halved until its norm is below theta, where the approximant
 * of degree 13, of f32 7, is exact to the last bit, and the result squared as
 * often.  The exponential of a transpose is the transpose of the exponential.
 *
 * SPDX-License-Identifier: MIT */
#include "linalg/matrices.h"

#ifdef MRT_F64
enum { DEGREE = 13 };
static const double theta = 5.371920351148152;
static const real pade[] = { 64764752532480000.,
                             32382376266240000.,
                             7771770303897600.,
                             1187353796428800.,
                             129060195264000.,
                             10559470521600.,
                             670442572800.,
                             33522128640.,
                             1323241920.,
                             40840800.,
                             960960.,
                             16380.,
                             182.,
                             1. };
#else
enum { DEGREE = 7 };
static const double theta = 3.925724783138660;
static const real pade[] = { 17297280, 8648640, 1995840, 277200,
                             25200,    1512,    56,      1 };
#endif
/* Powers that are kept: x^2, x^4, x^6. */
enum { POWERS = 3 };

static size_t exp_room(int64_t n) {
  return (POWERS + 4) * mrt_room(n * n, sizeof(real)) +
         mrt_room(n, sizeof(int));
}

static size_t exp_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * exp_room(mrt_rows_int(&c->in[0]));
}

static void times(const real *a, const real *b, real *y, int n) {
  static const real one = 1, zero = 0;
  mrt_gemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, y, &n, 1, 1);
}

/* The largest sum of a column's magnitudes: NaN, inf where x has one. */
static double norm_of(const real *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)x[i * n + j]);
    if (!(sum <= most)) most = sum;
    if (most != most) return most;
  }
  return most;
}

/* y = p[0] 1 + p[2] x^2 + p[4] x^4 + p[6] x^6, or without the first. */
static void even(const real *p, real *const *power, int64_t n, bool one,
                 real *y) {
  int64_t all = n * n;
  for (int64_t i = 0; i < all; i++)
    y[i] = p[2] * power[0][i] + p[4] * power[1][i] + p[6] * power[2][i];
  for (int64_t i = 0; one && i < n; i++) y[i * n + i] += p[0];
}

/* y = the even powers among pade[first], pade[first + 2], ...: of degree 13 in
 * two steps, x^6 (those from x^8 on) and those up to x^6. */
static void polynomial(int first, real *const *power, int n, real *y,
                       real *other) {
#ifdef MRT_F64
  int64_t all = (int64_t)n * n;
  even(pade + first + 6, power, n, false, other);
  times(power[2], other, y, n);
  even(pade + first, power, n, true, other);
  for (int64_t i = 0; i < all; i++) y[i] += other[i];
#else
  (void)other;
  even(pade + first, power, n, true, y);
#endif
}

/* y = (v - u)^-1 (v + u), x times odd powers being u. */
static bool quotient(real *x, real *const *power, int n, real *y, real *v,
                     real *other, int *swaps) {
  int64_t all = (int64_t)n * n;
  int info = 0;
  polynomial(1, power, n, v, other);
  times(x, v, y, n);
  polynomial(0, power, n, v, other);
  for (int64_t i = 0; i < all; i++) {
    real u = y[i];
    y[i] = v[i] + u, v[i] -= u;
  }
  mrt_getrf(&n, &n, v, &n, swaps, &info);
  if (info) return false;
  mrt_getrs("N", &n, &n, v, &n, swaps, y, &n, &info, 1);
  return true;
}

static bool exp_each(const mrt_call *c, int64_t i, char *room) {
  int n = mrt_rows_int(&c->in[0]);
  int64_t all = (int64_t)n * n;
  real *power[POWERS], *y = mrt_matrix(&c->out[0], i, 2), *from = y;
  real *x = mrt_take(&room, all, sizeof(real));
  real *v = mrt_take(&room, all, sizeof(real));
  real *other = mrt_take(&room, all, sizeof(real));
  real *result = mrt_take(&room, all, sizeof(real));
  for (int p = 0; p < POWERS; p++)
    power[p] = mrt_take(&room, all, sizeof(real));
  int *swaps = mrt_take(&room, n, sizeof(int)), halvings = 0;
  if (n == 0) return true;
  const real *given = mrt_matrix(&c->in[0], i, 2);
  double norm = norm_of(given, n);
  if (!(norm < (double)INFINITY)) {
    mrt_fill(y, all, (real)NAN);
    return true;
  }
  if (norm > theta) halvings = (int)ceil(log2(norm / theta));
  double scale = ldexp(1, -halvings);
  for (int64_t k = 0; k < all; k++) x[k] = (real)((double)given[k] * scale);
  times(x, x, power[0], n);
  times(power[0], power[0], power[1], n);
  times(power[1], power[0], power[2], n);
  if (!quotient(x, power, n, result, v, other, swaps))
    mrt_fill(result, all, (real)NAN);
  for (from = result; halvings > 0; halvings--) {
    real *to = from == result ? v : result;
    times(from, from, to, n);
    from = to;
  }
  memcpy(y, from, (size_t)all * sizeof *y);
  return true;
}

static void matrix_exp(const mrt_call *c) {
  int n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, 20. * n * n * n, exp_room(n), exp_each);
}
MRT_KERNEL(matrix_exp, .run = matrix_exp, .scratch = exp_scratch);
