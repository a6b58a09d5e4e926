/* solve.c -- systems of equations: LU factors, triangles, inverses
 *
 * Row-major A is column-major A^T, and A X = B is X^T A^T = B^T: LAPACK factors
 * A^T = P L U where it lies, and triangles are solved from the right, nothing
 * transposed.  `lu` alone, whose factors users see, transposes A.
 *
 * SPDX-License-Identifier: MIT */
#include "linalg/matrices.h"

/* X (n by k) is B; then op(M) X^T... = B^T with M the column-major triangle. */
static void from_right(const real *m, int n, real *x, int k, char uplo,
                       char trans, char diag) {
  static const real one = 1;
  mrt_trsm("R", &uplo, &trans, &diag, &k, &n, &one, m, &n, x, &k, 1, 1, 1, 1);
}

/* ---- solve, lu_solve ----------------------------------------------------- */

static bool has_zero(const real *m, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (m[i * n + i] == 0) return true;
  return false;
}

static bool are_swaps(const int *swaps, int n) {
  for (int i = 0; i < n; i++)
    if (swaps[i] < 1 || swaps[i] > n) return false;
  return true;
}

/* X is B on entry.  P = S1 S2 ... Sn, Si the swap of i and swaps[i]. */
static bool by_factors(const real *lu, const int *swaps, int n, real *x, int k,
                       bool adjoint) {
  if (n == 0 || k == 0) return true;
  if (has_zero(lu, n) || !are_swaps(swaps, n)) {
    mrt_fill(x, (int64_t)n * k, (real)NAN);
    return false;
  }
  if (adjoint) {
    for (int i = 0; i < n; i++) mrt_swap_rows(x, k, i, swaps[i] - 1);
    from_right(lu, n, x, k, 'L', 'T', 'U');
    from_right(lu, n, x, k, 'U', 'T', 'N');
  } else {
    from_right(lu, n, x, k, 'U', 'N', 'N');
    from_right(lu, n, x, k, 'L', 'N', 'U');
    for (int i = n; i-- > 0;) mrt_swap_rows(x, k, i, swaps[i] - 1);
  }
  return true;
}

/* The swaps that belong to matrix i. */
static int *swaps_of(const mrt_operand *x, int64_t i) {
  return (int *)x->data + i * x->type.dims[x->type.rank - 1];
}

static void copy_reals(real *to, const real *from, int64_t n) {
  if (n > 0 && to != from) memcpy(to, from, (size_t)n * sizeof *to);
}

static bool solve_each(const mrt_call *c, int64_t i, char *room) {
  int n = mrt_rows_int(&c->in[0]), k = mrt_cols_int(&c->in[1]), info = 0;
  real *lu = mrt_matrix(&c->out[1], i, 2), *x = mrt_matrix(&c->out[0], i, 2);
  int *swaps = swaps_of(&c->out[2], i);
  (void)room;
  copy_reals(lu, mrt_matrix(&c->in[0], i, 2), (int64_t)n * n);
  if (n) mrt_getrf(&n, &n, lu, &n, swaps, &info);
  copy_reals(x, mrt_matrix(&c->in[1], i, 2), (int64_t)n * k);
  return by_factors(lu, swaps, n, x, k, false) && info == 0;
}

static void solve(const mrt_call *c) {
  double n = mrt_rows_int(&c->in[0]), k = mrt_cols_int(&c->in[1]);
  mrt_each_matrix(c, n * n * (n + 2 * k), 0, solve_each);
}
MRT_KERNEL(solve, .run = solve);

static bool lu_solve_each(const mrt_call *c, int64_t i, char *room) {
  const mrt_lu_solve_options *o = c->options;
  int n = mrt_rows_int(&c->in[0]), k = mrt_cols_int(&c->in[3]);
  real *x = mrt_matrix(&c->out[0], i, 2);
  (void)room;
  copy_reals(x, mrt_matrix(&c->in[3], i, 2), (int64_t)n * k);
  return by_factors(mrt_matrix(&c->in[1], i, 2), swaps_of(&c->in[2], i), n, x,
                    k, o->adjoint);
}

static void lu_solve(const mrt_call *c) {
  double n = mrt_rows_int(&c->in[0]), k = mrt_cols_int(&c->in[3]);
  mrt_each_matrix(c, 2 * n * n * k, 0, lu_solve_each);
}
MRT_KERNEL(lu_solve, .run = lu_solve);

/* ---- inverse ------------------------------------------------------------- */

static int inverse_work(int n) {
  int ask = -1, info, swaps = 1;
  real a = 0, w = 1;
  if (n) mrt_getri(&n, &a, &n, &swaps, &w, &ask, &info);
  return mrt_asked(w);
}

static size_t inverse_room(int n) {
  return mrt_room(n, sizeof(int)) + mrt_room(inverse_work(n), sizeof(real));
}

static size_t inverse_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * inverse_room(mrt_rows_int(&c->in[0]));
}

static bool has_nan(const real *m, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (m[i] != m[i]) return true;
  return false;
}

/* The inverse of A^T is that of A, transposed too.  That of what has a NaN is
 * NaN everywhere; LAPACK may leave zeros of a triangle. */
static bool inverse_each(const mrt_call *c, int64_t i, char *room) {
  int n = mrt_rows_int(&c->in[0]), info = 0, lwork = inverse_work(n);
  real *y = mrt_matrix(&c->out[0], i, 2);
  if (n == 0) return true;
  int *swaps = mrt_take(&room, n, sizeof(int));
  real *work = mrt_take(&room, lwork, sizeof(real));
  if (has_nan(mrt_matrix(&c->in[0], i, 2), (int64_t)n * n)) {
    mrt_fill(y, (int64_t)n * n, (real)NAN);
    return true;
  }
  copy_reals(y, mrt_matrix(&c->in[0], i, 2), (int64_t)n * n);
  mrt_getrf(&n, &n, y, &n, swaps, &info);
  if (!info) mrt_getri(&n, y, &n, swaps, work, &lwork, &info);
  if (info) mrt_fill(y, (int64_t)n * n, (real)NAN);
  return info == 0;
}

static void inverse(const mrt_call *c) {
  int n = mrt_rows_int(&c->in[0]);
  mrt_each_matrix(c, 2. * n * n * n, inverse_room(n), inverse_each);
}
MRT_KERNEL(inverse, .run = inverse, .scratch = inverse_scratch);

/* ---- solve_triangular ---------------------------------------------------- */

static bool triangular_each(const mrt_call *c, int64_t i, char *room) {
  static const real one = 1;
  const mrt_triangular_options *o = c->options;
  const real *a = mrt_matrix(&c->in[0], i, 2);
  real *x = mrt_matrix(&c->out[0], i, 2);
  int n = mrt_rows_int(&c->in[0]), rows = mrt_rows_int(&c->in[1]);
  int cols = mrt_cols_int(&c->in[1]);
  int64_t all = (int64_t)rows * cols;
  char trans = o->transposed ? 'T' : 'N', diag = o->unitriangular ? 'U' : 'N';
  char uplo = o->upper ? 'L' : 'U';
  (void)room;
  copy_reals(x, mrt_matrix(&c->in[1], i, 2), all);
  if (all == 0) return true;
  if (!o->unitriangular && has_zero(a, n)) {
    mrt_fill(x, all, (real)NAN);
    return false;
  }
  if (o->left)
    from_right(a, n, x, cols, uplo, trans, diag);
  else
    mrt_trsm("L", &uplo, &trans, &diag, &n, &rows, &one, a, &n, x, &n, 1, 1, 1,
             1);
  return true;
}

static void solve_triangular(const mrt_call *c) {
  double n = mrt_rows_int(&c->in[0]);
  double all = (double)mrt_rows_int(&c->in[1]) * mrt_cols_int(&c->in[1]);
  mrt_each_matrix(c, n * all, 0, triangular_each);
}
MRT_KERNEL(solve_triangular, .run = solve_triangular);

/* ---- lu ------------------------------------------------------------------ */

static size_t lu_room(const mrt_call *c) {
  int64_t m = mrt_rows_int(&c->in[0]), n = mrt_cols_int(&c->in[0]);
  return mrt_room(m * n, sizeof(real)) + mrt_room(m < n ? m : n, sizeof(int));
}

static size_t lu_scratch(const mrt_call *c) {
  return (size_t)mrt_batch_parts(c) * lu_room(c);
}

/* A matrix without regular corner has factors too: none is bad. */
static bool lu_each(const mrt_call *c, int64_t i, char *room) {
  int m = mrt_rows_int(&c->in[0]), n = mrt_cols_int(&c->in[0]), info = 0;
  int k = m < n ? m : n;
  real *a = mrt_take(&room, (int64_t)m * n, sizeof(real));
  int *swaps = mrt_take(&room, k, sizeof(int));
  int64_t *order = (int64_t *)c->out[1].data + i * m;
  for (int64_t row = 0; row < m; row++) order[row] = row;
  if (k == 0) return true;
  mrt_transpose_to(mrt_matrix(&c->in[0], i, 2), a, m, n);
  mrt_getrf(&m, &n, a, &m, swaps, &info);
  mrt_transpose_to(a, mrt_matrix(&c->out[0], i, 2), n, m);
  for (int row = 0; row < k; row++) {
    int64_t was = order[row];
    order[row] = order[swaps[row] - 1], order[swaps[row] - 1] = was;
  }
  return true;
}

static void lu(const mrt_call *c) {
  double m = mrt_rows_int(&c->in[0]), n = mrt_cols_int(&c->in[0]);
  mrt_each_matrix(c, m * n * (m < n ? m : n), lu_room(c), lu_each);
}
MRT_KERNEL(lu, .run = lu, .scratch = lu_scratch);
