/* factor.c -- Cholesky and QR
 *
 * The lower triangle of A is the upper one of what LAPACK sees, and L its U.
 * QR of A is LQ of A^T: R is that L transposed and Q that Q, so both lie as
 * tensors want them.
 *
 * SPDX-License-Identifier: MIT */
#include "linalg/matrices.h"

/* ---- cholesky ------------------------------------------------------------ */

/* OpenBLAS takes the root of a NaN without a word. */
static bool is_positive(const real *y, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(y[i * n + i] > 0 && y[i * n + i] < MRT_INF)) return false;
  return true;
}

static bool cholesky_each(const mrt_call *c, int64_t i, char *room) {
  const mrt_cholesky_options *o = c->options;
  int n = mrt_rows_int(&c->in[0]), info = 0;
  const real *x = mrt_matrix(&c->in[0], i, 2);
  real *y = mrt_matrix(&c->out[0], i, 2);
  (void)room;
  if (n == 0) return true;
  if (x != y) memcpy(y, x, (size_t)n * (size_t)n * sizeof *y);
  mrt_potrf(o->upper ? "L" : "U", &n, y, &n, &info, 1);
  for (int64_t row = 0; row < n; row++) {
    int64_t from = o->upper ? 0 : row + 1, to = o->upper ? row : n;
    for (int64_t k = from; k < to; k++) y[row * n + k] = 0;
  }
  bool good = info == 0 && is_positive(y, n);
  if (!good) mrt_fill(y, (int64_t)n * n, (real)NAN);
  return good;
}

static void cholesky(const mrt_call *c) {
  double n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, n * n * n / 3, 0, cholesky_each);
}
MRT_KERNEL(cholesky, .run = cholesky);

/* ---- qr ------------------------------------------------------------------ */

typedef struct qr_shape {
  int m, n, least, k; /* least: min(m, n); k: columns of Q */
  int lwork;
  size_t bytes;
} qr_shape;

static qr_shape shape_of(const mrt_call *c) {
  qr_shape s = { .m = mrt_rows_int(&c->in[0]),
                 .n = mrt_cols_int(&c->in[0]),
                 .k = mrt_cols_int(&c->out[0]) };
  int ask = -1, info;
  real a = 0, w = 1, v = 1;
  s.least = s.m < s.n ? s.m : s.n;
  if (s.least) {
    mrt_gelqf(&s.n, &s.m, &a, &s.n, &a, &w, &ask, &info);
    mrt_orglq(&s.k, &s.m, &s.least, &a, &s.k, &a, &v, &ask, &info);
  }
  s.lwork = mrt_asked(w > v ? w : v);
  s.bytes = mrt_room((int64_t)s.m * s.n, sizeof(real)) +
            mrt_room(s.least, sizeof(real)) + mrt_room(s.lwork, sizeof(real));
  return s;
}

static size_t qr_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * shape_of(c).bytes;
}

static void take_r(const real *a, real *r, const qr_shape *s) {
  for (int64_t i = 0; i < s->k; i++)
    for (int64_t j = 0; j < s->n; j++)
      r[i * s->n + j] = i < s->least && j >= i ? a[i * s->n + j] : 0;
}

/* The reflections of LQ, least by m with columns n apart, k apart. */
static void take_reflections(const real *a, real *q, const qr_shape *s) {
  for (int64_t j = 0; j < s->m; j++)
    for (int64_t i = 0; i < s->k; i++)
      q[j * s->k + i] = i < s->least ? a[j * s->n + i] : 0;
}

static bool qr_each(const mrt_call *c, int64_t i, char *room) {
  qr_shape s = shape_of(c);
  int info = 0;
  real *a = mrt_take(&room, (int64_t)s.m * s.n, sizeof(real));
  real *tau = mrt_take(&room, s.least, sizeof(real));
  real *work = mrt_take(&room, s.lwork, sizeof(real));
  real *q = mrt_matrix(&c->out[0], i, 2), *r = mrt_matrix(&c->out[1], i, 2);
  if (s.least == 0) {
    if (s.k == s.m) mrt_identity(q, s.m);
    mrt_fill(r, (int64_t)s.k * s.n, 0);
    return true;
  }
  memcpy(a, mrt_matrix(&c->in[0], i, 2), (size_t)s.m * (size_t)s.n * sizeof *a);
  mrt_gelqf(&s.n, &s.m, a, &s.n, tau, work, &s.lwork, &info);
  take_r(a, r, &s);
  take_reflections(a, q, &s);
  mrt_orglq(&s.k, &s.m, &s.least, q, &s.k, tau, work, &s.lwork, &info);
  return true;
}

static void qr(const mrt_call *c) {
  qr_shape s = shape_of(c);
  mrt_each_matrix(c, 4. * s.m * s.k * s.least, s.bytes, qr_each);
}
MRT_KERNEL(qr, .run = qr, .scratch = qr_scratch);
