/* det.c -- determinants, by LU; cofactors of a singular matrix by its SVD
 *
 * The determinant of A^T, which LAPACK sees, is that of A.  Diagonals are
 * multiplied, and their logarithms added, in f64.
 *
 * SPDX-License-Identifier: MIT */
#include "linalg/matrices.h"

/* LU of a copy; 0: some element of the diagonal is. */
static bool factor(const mrt_call *c, int64_t i, real *a, int *swaps, int n) {
  int info = 0;
  memcpy(a, mrt_matrix(&c->in[0], i, 2), (size_t)n * (size_t)n * sizeof *a);
  mrt_getrf(&n, &n, a, &n, swaps, &info);
  return info == 0;
}

static bool swapped_oddly(const int *swaps, int n) {
  bool odd = false;
  for (int i = 0; i < n; i++) odd ^= swaps[i] != i + 1;
  return odd;
}

static double product(const real *a, const int *swaps, int64_t n) {
  double d = swapped_oddly(swaps, (int)n) ? -1 : 1;
  for (int64_t i = 0; i < n; i++) d *= (double)a[i * n + i];
  return d;
}

static size_t factor_room(int64_t n) {
  return mrt_room(n * n, sizeof(real)) + mrt_room(n, sizeof(int));
}

static size_t factor_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * factor_room(mrt_rows_int(&c->in[0]));
}

/* ---- det, slogdet -------------------------------------------------------- */

static bool det_each(const mrt_call *c, int64_t i, char *room) {
  int n = mrt_rows_int(&c->in[0]);
  real *a = mrt_take(&room, (int64_t)n * n, sizeof(real));
  int *swaps = mrt_take(&room, n, sizeof(int));
  if (n) factor(c, i, a, swaps, n);
  ((real *)c->out[0].data)[i] = (real)product(a, swaps, n);
  return true;
}

static void det(const mrt_call *c) {
  int n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, 2 / 3. * n * n * n, factor_room(n), det_each);
}
MRT_KERNEL(det, .run = det, .scratch = factor_scratch);

static bool slogdet_each(const mrt_call *c, int64_t i, char *room) {
  int64_t n = mrt_rows_int(&c->in[0]);
  real *a = mrt_take(&room, n * n, sizeof(real));
  int *swaps = mrt_take(&room, n, sizeof(int));
  if (n) factor(c, i, a, swaps, (int)n);
  double sign = swapped_oddly(swaps, (int)n) ? -1 : 1, sum = 0;
  for (int64_t k = 0; k < n; k++) {
    double d = (double)a[k * n + k];
    if (!(d > 0)) sign = d < 0 ? -sign : d * sign;
    sum += log(fabs(d));
  }
  if (sign == 0) sign = 0, sum = -(double)INFINITY;
  ((real *)c->out[0].data)[i] = (real)sign;
  ((real *)c->out[1].data)[i] = (real)sum;
  return true;
}

static void slogdet(const mrt_call *c) {
  int n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, 2 / 3. * n * n * n, factor_room(n), slogdet_each);
}
MRT_KERNEL(slogdet, .run = slogdet, .scratch = factor_scratch);

/* ---- cofactor ------------------------------------------------------------ */

typedef struct cofactor_room {
  size_t bytes;
  int invert, values; /* workspace of getri, gesdd */
} cofactor_room;

static cofactor_room room_of(int n) {
  cofactor_room r = { 0 };
  int ask = -1, info, whole = 1;
  real a = 0, w = 1, v = 1;
  if (n == 0) return r;
  mrt_getri(&n, &a, &n, &whole, &w, &ask, &info);
  mrt_gesdd("A", &n, &n, &a, &n, &a, &a, &n, &a, &n, &v, &ask, &whole, &info,
            1);
  r.invert = mrt_asked(w), r.values = mrt_asked(v);
  int64_t most = r.invert > r.values ? r.invert : r.values, square = n;
  square *= n;
  r.bytes = 3 * mrt_room(square, sizeof(real)) +
            mrt_room(2 * (int64_t)n, sizeof(real)) +
            mrt_room(8 * (int64_t)n, sizeof(int)) +
            mrt_room(most, sizeof(real));
  return r;
}

static size_t cofactor_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * room_of(mrt_rows_int(&c->in[0])).bytes;
}

/* scale[i] = the product of all s but s[i]. */
static void products_but_one(const real *s, real *scale, int n) {
  double before = 1, after = 1;
  for (int i = 0; i < n; before *= (double)s[i++]) scale[i] = (real)before;
  for (int i = n; i-- > 0; after *= (double)s[i])
    scale[i] = (real)((double)scale[i] * after);
}

/* The sign of the determinant of an orthogonal matrix, which is lost. */
static double sign_of(real *q, int *swaps, int n) {
  int info = 0;
  mrt_getrf(&n, &n, q, &n, swaps, &info);
  return product(q, swaps, n) < 0 ? -1 : 1;
}

/* C = det(U) det(V) U diag(products) V^T.  A^T = V S U^T: what LAPACK calls U
 * is V^T read by rows, and what it calls V^T is U. */
static void by_values(const real *x, real *y, char *room, int n, int lwork) {
  static const real one = 1, zero = 0;
  int64_t all = (int64_t)n * n;
  real *a = mrt_take(&room, all, sizeof(real));
  real *vh = mrt_take(&room, all, sizeof(real));
  real *u = mrt_take(&room, all, sizeof(real));
  real *s = mrt_take(&room, 2 * (int64_t)n, sizeof(real)), *scale = s + n;
  int *iwork = mrt_take(&room, 8 * (int64_t)n, sizeof(int)), info = 0;
  real *work = mrt_take(&room, lwork, sizeof(real));
  memcpy(a, x, (size_t)all * sizeof *a);
  if (mrt_finite(a, all))
    mrt_gesdd("A", &n, &n, a, &n, s, vh, &n, u, &n, work, &lwork, iwork, &info,
              1);
  else
    info = 1;
  if (info) {
    mrt_fill(y, all, (real)NAN);
    return;
  }
  products_but_one(s, scale, n);
  memcpy(a, u, (size_t)all * sizeof *a);
  double sign = sign_of(a, iwork, n);
  memcpy(a, vh, (size_t)all * sizeof *a);
  sign *= sign_of(a, iwork, n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) vh[i * n + j] *= scale[i] * (real)sign;
  mrt_gemm("N", "N", &n, &n, &n, &one, vh, &n, u, &n, &zero, y, &n, 1, 1);
}

static bool cofactor_each(const mrt_call *c, int64_t i, char *room) {
  int n = mrt_rows_int(&c->in[0]), info = 0;
  int64_t all = (int64_t)n * n;
  if (n == 0) return true;
  cofactor_room r = room_of(n);
  real *y = mrt_matrix(&c->out[0], i, 2);
  int *swaps = (int *)room;
  real *work = (real *)(room + mrt_room(n, sizeof(int)));
  if (!factor(c, i, y, swaps, n)) {
    by_values(mrt_matrix(&c->in[0], i, 2), y, room, n, r.values);
    return true;
  }
  real d = (real)product(y, swaps, n);
  mrt_getri(&n, y, &n, swaps, work, &r.invert, &info);
  mrt_transpose_square(y, n);
  for (int64_t k = 0; k < all; k++) y[k] *= d;
  return true;
}

static void cofactor(const mrt_call *c) {
  int n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, 2. * n * n * n, room_of(n).bytes, cofactor_each);
}
MRT_KERNEL(cofactor, .run = cofactor, .scratch = cofactor_scratch);
