/* spectral.c -- singular values and eigenvalues
 *
 * A^T = V S U^T: what LAPACK's gesdd writes as U is V^T read by rows, and its
 * V^T is U, so both lie as tensors want them.  Eigenvectors are transposed.
 *
 * What is not finite is not handed on: it may keep LAPACK from an end.
 *
 * SPDX-License-Identifier: MIT */
#include "linalg/matrices.h"

/* ---- svd, svdvals -------------------------------------------------------- */

typedef struct svd_shape {
  int m, n, k, u, v; /* columns of U, rows of Vh; job N: 1 */
  char job;
  int lwork;
  size_t bytes;
} svd_shape;

static svd_shape shape_of(const mrt_call *c) {
  svd_shape s = { .m = mrt_rows_int(&c->in[0]),
                  .n = mrt_cols_int(&c->in[0]),
                  .u = 1,
                  .v = 1,
                  .job = 'N' };
  s.k = s.m < s.n ? s.m : s.n;
  if (c->nout == 3) {
    s.u = mrt_cols_int(&c->out[0]), s.v = mrt_rows_int(&c->out[2]);
    s.job = s.u > s.k || s.v > s.k ? 'A' : 'S';
  }
  int ask = -1, info, whole;
  real a = 0, w = 1;
  if (s.k)
    mrt_gesdd(&s.job, &s.n, &s.m, &a, &s.n, &a, &a, &s.n, &a, &s.u, &w, &ask,
              &whole, &info, 1);
  s.lwork = mrt_asked(w);
  s.bytes = mrt_room((int64_t)s.m * s.n, sizeof(real)) +
            mrt_room(8 * (int64_t)s.k, sizeof(int)) +
            mrt_room(s.lwork, sizeof(real));
  return s;
}

static size_t svd_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * shape_of(c).bytes;
}

/* One matrix; u and vh are NULL where only values are wanted. */
static bool svd_one(const svd_shape *s, const real *x, real *u, real *values,
                    real *vh, char *room) {
  int info = 0;
  int64_t all = (int64_t)s->m * s->n;
  real *a = mrt_take(&room, all, sizeof(real));
  int *iwork = mrt_take(&room, 8 * (int64_t)s->k, sizeof(int));
  real *work = mrt_take(&room, s->lwork, sizeof(real));
  if (!mrt_finite(x, all)) return false;
  memcpy(a, x, (size_t)all * sizeof *a);
  mrt_gesdd(&s->job, &s->n, &s->m, a, &s->n, values, vh, &s->n, u, &s->u, work,
            &s->lwork, iwork, &info, 1);
  return info == 0;
}

static bool svd_each(const mrt_call *c, int64_t i, char *room) {
  svd_shape s = shape_of(c);
  real *u = mrt_matrix(&c->out[0], i, 2), *vh = mrt_matrix(&c->out[2], i, 2);
  real *values = mrt_matrix(&c->out[1], i, 1);
  if (s.k == 0) {
    if (s.u == s.m) mrt_identity(u, s.m);
    if (s.v == s.n) mrt_identity(vh, s.n);
    return true;
  }
  if (svd_one(&s, mrt_matrix(&c->in[0], i, 2), u, values, vh, room))
    return true;
  mrt_fill(u, (int64_t)s.m * s.u, (real)NAN);
  mrt_fill(values, s.k, (real)NAN);
  mrt_fill(vh, (int64_t)s.v * s.n, (real)NAN);
  return false;
}

static void svd(const mrt_call *c) {
  svd_shape s = shape_of(c);
  mrt_each_matrix(c, 20. * s.m * s.n * s.k, s.bytes, svd_each);
}
MRT_KERNEL(svd, .run = svd, .scratch = svd_scratch);

static bool svdvals_each(const mrt_call *c, int64_t i, char *room) {
  svd_shape s = shape_of(c);
  real *values = mrt_matrix(&c->out[0], i, 1), unread;
  if (s.k == 0) return true;
  if (svd_one(&s, mrt_matrix(&c->in[0], i, 2), &unread, values, &unread, room))
    return true;
  mrt_fill(values, s.k, (real)NAN);
  return false;
}

static void svdvals(const mrt_call *c) {
  svd_shape s = shape_of(c);
  mrt_each_matrix(c, 4. * s.m * s.n * s.k, s.bytes, svdvals_each);
}
MRT_KERNEL(svdvals, .run = svdvals, .scratch = svd_scratch);

/* ---- eigh, eigvalsh ------------------------------------------------------ */

typedef struct eigh_shape {
  int n;
  const char *job, *uplo;
  int lwork, liwork;
  size_t bytes;
} eigh_shape;

static eigh_shape eigh_shape_of(const mrt_call *c) {
  const mrt_eigh_options *o = c->options;
  eigh_shape s = { .n = mrt_rows_int(&c->in[0]),
                   .job = c->nout == 2 ? "V" : "N",
                   .uplo = o->upper ? "L" : "U",
                   .liwork = 1 };
  int ask = -1, info;
  real a = 0, w = 1;
  if (s.n)
    mrt_syevd(s.job, s.uplo, &s.n, &a, &s.n, &a, &w, &ask, &s.liwork, &ask,
              &info, 1, 1);
  s.lwork = mrt_asked(w);
  s.bytes = mrt_room((int64_t)s.n * s.n, sizeof(real)) +
            mrt_room(s.liwork, sizeof(int)) + mrt_room(s.lwork, sizeof(real));
  return s;
}

static size_t eigh_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * eigh_shape_of(c).bytes;
}

/* Only the triangle that is read need be finite. */
static bool triangle_finite(const real *a, int64_t n, bool upper) {
  real sum = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t from = upper ? i : 0, to = upper ? n : i + 1;
    for (int64_t j = from; j < to; j++) sum += a[i * n + j] - a[i * n + j];
  }
  return sum == 0;
}

static bool eigh_each(const mrt_call *c, int64_t i, char *room) {
  const mrt_eigh_options *o = c->options;
  eigh_shape s = eigh_shape_of(c);
  int info = 0;
  int64_t all = (int64_t)s.n * s.n;
  bool vectors = c->nout == 2;
  if (s.n == 0) return true;
  real *a = mrt_take(&room, all, sizeof(real));
  int *iwork = mrt_take(&room, s.liwork, sizeof(int));
  real *work = mrt_take(&room, s.lwork, sizeof(real));
  real *values = mrt_matrix(&c->out[0], i, 1);
  memcpy(a, mrt_matrix(&c->in[0], i, 2), (size_t)all * sizeof *a);
  if (triangle_finite(a, s.n, o->upper))
    mrt_syevd(s.job, s.uplo, &s.n, a, &s.n, values, work, &s.lwork, iwork,
              &s.liwork, &info, 1, 1);
  else
    info = 1;
  if (info) mrt_fill(values, s.n, (real)NAN), mrt_fill(a, all, (real)NAN);
  if (vectors) mrt_transpose_to(a, mrt_matrix(&c->out[1], i, 2), s.n, s.n);
  return info == 0;
}

static void eigh(const mrt_call *c) {
  eigh_shape s = eigh_shape_of(c);
  double n = s.n;
  mrt_each_matrix(c, (c->nout == 2 ? 9 : 4 / 3.) * n * n * n, s.bytes,
                  eigh_each);
}
MRT_KERNEL(eigh, .run = eigh, .scratch = eigh_scratch);
MRT_KERNEL(eigvalsh, .run = eigh, .scratch = eigh_scratch);
