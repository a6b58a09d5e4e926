/* linalg.c -- what the rows of linear algebra share: checks, pieces of matrices
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"
#include "base/lapack.h"
#include "op/make.h"
#include "op/move.h"
#include "op/views.h"

#include <string.h>

/* ---- checks -------------------------------------------------------------- */

/* A block of LAPACK's is at most 64 columns. */
enum { LONGEST = INT32_MAX / 64 };

mrt_status mrt_want_matrix(mrt_infer *c, int input, int times) {
  const mrt_type *t = c->in[input];
  MRT_TRY(mrt_want_real(c, input));
  if (t->rank < 2)
    return mrt_refuse(c, MRT_ESHAPE,
                      "input %d is %s, matrices wanted: two dimensions or more",
                      input + 1, mrt_show(t).s);
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t);
  if (m > LONGEST || n > LONGEST ||
      (double)m * (double)n * times > (double)INT32_MAX)
    return mrt_refuse(
        c, MRT_ESHAPE,
        "matrices of %lld by %lld: LAPACK counts what it works on "
        "in 32 bits, smaller ones wanted",
        (long long)m, (long long)n);
  return mrt_lapack_open(c->op->name, c->e);
}

mrt_status mrt_want_square(mrt_infer *c, int input, int times) {
  MRT_TRY(mrt_want_matrix(c, input, times));
  const mrt_type *t = c->in[input];
  if (mrt_matrix_rows(t) == mrt_matrix_cols(t)) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "input %d is %s, square matrices wanted",
                    input + 1, mrt_show(t).s);
}

mrt_status mrt_want_same_batch(mrt_infer *c, int a, int b) {
  const mrt_type *s = c->in[a], *t = c->in[b];
  MRT_TRY(mrt_want_same_dtype(c, a, b));
  bool same = s->rank == t->rank;
  for (int i = 0; same && i + 2 < s->rank; i++) same = s->dims[i] == t->dims[i];
  if (same) return MRT_OK;
  return mrt_refuse(
      c, MRT_ESHAPE,
      "%s against %s, equal dimensions before the matrices wanted",
      mrt_show(s).s, mrt_show(t).s);
}

mrt_type mrt_matrix_type(const mrt_type *t, int64_t rows, int64_t cols) {
  mrt_type out = *t;
  out.dims[t->rank - 2] = rows, out.dims[t->rank - 1] = cols;
  return out;
}

mrt_type mrt_vector_type(const mrt_type *t, int64_t n) {
  mrt_type out = *t;
  out.rank--;
  out.dims[t->rank - 2] = n, out.dims[t->rank - 1] = 0;
  return out;
}

int mrt_shard_rules_batch(const mrt_signature *s, int input, int dim) {
  return dim < s->in[0]->rank - 2 ? dim : MRT_RULE_UNKNOWN;
}

/* ---- pieces of gradients ------------------------------------------------- */

mrt_tensor *mrt_add_some(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return x && y ? mrt_add(b, x, y) : x ? x : y;
}

/* 0, 1, ... n - 1 as a column or a row. */
static mrt_tensor *count_up(mrt_build *b, int64_t n, bool column) {
  mrt_arange_options o = { 0, (double)n, 1, MRT_i64 };
  mrt_tensor *i = mrt_make(b, MRT_OP_arange, &o, 0, NULL);
  return mrt_reshape_to(b, i, 2, (int64_t[]){ column ? n : 1, column ? 1 : n });
}

static mrt_tensor *triangle(mrt_build *b, mrt_tensor *x, int64_t k, int op) {
  if (!x) return NULL;
  const mrt_type *t = mrt_of(x);
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t);
  mrt_type shape = { .rank = 2, .dims = { m, n } };
  mrt_tensor *i = count_up(b, m, true), *j = count_up(b, n, false);
  if (k) i = mrt_add_k(b, i, (double)k);
  j = mrt_expand_to(b, j, &shape), i = mrt_expand_to(b, i, &shape);
  mrt_tensor *in = mrt_make(b, op, NULL, 2, (mrt_tensor *[]){ j, i });
  return mrt_where(b, mrt_expand_to(b, in, t), x, mrt_const_like(b, x, 0));
}

mrt_tensor *mrt_lower(mrt_build *b, mrt_tensor *x, int64_t k) {
  return triangle(b, x, k, MRT_OP_le);
}

mrt_tensor *mrt_upper(mrt_build *b, mrt_tensor *x, int64_t k) {
  return triangle(b, x, k, MRT_OP_ge);
}

static mrt_tensor *with_one(mrt_build *b, mrt_tensor *v, bool row) {
  mrt_type t = *mrt_of(v);
  int64_t n = t.dims[t.rank - 1];
  t.rank++;
  t.dims[t.rank - 2] = row ? 1 : n, t.dims[t.rank - 1] = row ? n : 1;
  return v ? mrt_reshape_to(b, v, t.rank, t.dims) : NULL;
}

mrt_tensor *mrt_as_row(mrt_build *b, mrt_tensor *v) {
  return v ? with_one(b, v, true) : NULL;
}

mrt_tensor *mrt_as_col(mrt_build *b, mrt_tensor *v) {
  return v ? with_one(b, v, false) : NULL;
}

mrt_tensor *mrt_diagonal_of(mrt_build *b, mrt_tensor *v) {
  if (!v) return NULL;
  const mrt_type *t = mrt_of(v);
  int64_t n = t->dims[t->rank - 1];
  mrt_type square = *t;
  square.rank++, square.dims[square.rank - 1] = n;
  mrt_tensor *x = mrt_expand_to(b, mrt_as_row(b, v), &square);
  return mrt_upper(b, mrt_lower(b, x, 0), 0);
}

mrt_tensor *mrt_scale_cols(mrt_build *b, mrt_tensor *x, mrt_tensor *s) {
  return mrt_mul(b, x, mrt_as_row(b, s));
}

mrt_tensor *mrt_scale_rows(mrt_build *b, mrt_tensor *x, mrt_tensor *s) {
  return mrt_mul(b, x, mrt_as_col(b, s));
}

/* An empty slice has no place of its own: it lies between the first two. */
static mrt_tensor *part(mrt_build *b, mrt_tensor *x, int dim, int64_t first,
                        int64_t n) {
  if (!x) return NULL;
  const mrt_type *t = mrt_of(x);
  mrt_slice_options o = { t->rank + dim, first, first + n - 1, 1 };
  if (first == 0 && n == t->dims[o.dim]) return x;
  if (n == 0) {
    o.first = t->dims[o.dim] > 0;
    o.last = o.first - 1;
  }
  return MRT_MAKE(b, slice, &o, x);
}

mrt_tensor *mrt_cols_of(mrt_build *b, mrt_tensor *x, int64_t first, int64_t n) {
  return part(b, x, -1, first, n);
}

mrt_tensor *mrt_rows_of(mrt_build *b, mrt_tensor *x, int64_t first, int64_t n) {
  return part(b, x, -2, first, n);
}

mrt_tensor *mrt_beside(mrt_build *b, mrt_tensor *x, mrt_tensor *y,
                       int64_t dim) {
  mrt_dim_options o = { dim };
  return MRT_MAKE(b, cat, &o, x, y);
}

mrt_tensor *mrt_zeros_of(mrt_build *b, mrt_tensor *like, const mrt_type *type) {
  return mrt_expand_to(b, mrt_const_like(b, like, 0), type);
}

mrt_tensor *mrt_triangular(mrt_build *b, mrt_tensor *a, mrt_tensor *y,
                           mrt_triangular_options o) {
  return MRT_MAKE(b, solve_triangular, &o, a, y);
}
