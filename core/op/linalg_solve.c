/* linalg_solve.c -- systems of equations and what is factored for them
 *
 *   solve             A X = B; also the LU factors of A^T that it was solved by
 *   lu_solve          A X = B, or A^T X = B, by the factors of `solve`
 *   inverse           A^-1
 *   solve_triangular  op(A) X = B, or X op(A) = B, from one triangle of A
 *   lu                A = P L U: L and U packed, and the rows of A in P's order
 *
 *   A      f32 | f64, [..., n, n]; of lu [..., m, n]
 *   B      [..., n, k], of A's dtype and batch
 *   order  i64 [..., m]: row i of L U is row order[i] of A, from 0
 *   cost   2/3 n^3 flop, and 2 n^2 k of each solution
 *   grad   of X: what solves A^T Z = dX is dB, and -Z X^T is dA (Giles 2008);
 *          lu_solve reads A only for that.  Of lu: P L^-T (tril(L^T dL, -1) +
 *          triu(dU U^T)) U^-T, and what is beside the square part
 *          (de Hoog, Anderssen, Lukas 2011)
 *   fails  ESHAPE, EDTYPE; EDEVICE  without LAPACK
 *          EDATA   when run: an element 0 on the diagonal of the triangle
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"
#include "op/move.h"

/* -z x^T */
static mrt_tensor *outer(mrt_build *b, mrt_tensor *z, mrt_tensor *x) {
  return mrt_neg(b, mrt_matmul(b, z, mrt_transpose_last(b, x)));
}

static mrt_status want_sides(mrt_infer *c, int a, int y, bool left) {
  MRT_TRY(mrt_want_square(c, a, 0));
  MRT_TRY(mrt_want_matrix(c, y, 0));
  MRT_TRY(mrt_want_same_batch(c, a, y));
  const mrt_type *t = c->in[y];
  int64_t n = mrt_matrix_rows(c->in[a]);
  if ((left ? mrt_matrix_rows(t) : mrt_matrix_cols(t)) == n) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s against %s, %lld %s wanted",
                    mrt_show(c->in[a]).s, mrt_show(t).s, (long long)n,
                    left ? "rows" : "columns");
}

static double solve_flops(const mrt_signature *s) {
  const mrt_type *a = s->in[0], *x = s->in[s->nin - 1];
  double n = (double)mrt_matrix_cols(a), k = (double)mrt_matrix_cols(x);
  bool factors = s->op->number == MRT_OP_solve;
  return mrt_matrix_count(a) * (factors * 2 / 3. * n * n * n + 2 * n * n * k);
}

/* ---- solve, lu_solve ----------------------------------------------------- */

static mrt_status solve_infer(mrt_infer *c) {
  MRT_TRY(want_sides(c, 0, 1, true));
  c->nout = 3;
  c->out[0] = *c->in[1];
  c->out[1] = *c->in[0];
  c->out[2] = mrt_vector_type(c->in[0], mrt_matrix_rows(c->in[0]));
  c->out[2].dtype = MRT_i32;
  return MRT_OK;
}

static void solve_grad(mrt_build *b) {
  mrt_lu_solve_options o = { .adjoint = true };
  b->din[1] =
      MRT_MAKE(b, lu_solve, &o, b->in[0], b->out[1], b->out[2], b->dout[0]);
  if (b->wants[0]) b->din[0] = outer(b, b->din[1], b->out[0]);
}

const mrt_op mrt_op_solve = {
  .name = "solve",
  .number = MRT_OP_solve,
  .cost = MRT_COST_matmul,
  .doc = "x with a x = b; factors of a^T, rows swapped",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = solve_infer,
  .grad = solve_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = solve_flops,
  .width = MRT_WIDE,
  .fault = "matrix %lld of %lld is singular",
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

static const mrt_option lu_solve_table[] = {
  MRT_OPTION(mrt_lu_solve_options, adjoint, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status lu_solve_infer(mrt_infer *c) {
  MRT_TRY(want_sides(c, 0, 3, true));
  MRT_TRY(mrt_want_same(c, 0, 1));
  MRT_TRY(mrt_want_dtype(c, 2, MRT_i32));
  mrt_type swaps = mrt_vector_type(c->in[0], mrt_matrix_rows(c->in[0]));
  MRT_TRY(mrt_want_shape(c, 2, swaps.rank, swaps.dims, "a swap for each row"));
  c->out[0] = *c->in[3];
  return MRT_OK;
}

static void lu_solve_grad(mrt_build *b) {
  const mrt_lu_solve_options *o = b->options;
  mrt_lu_solve_options other = { .adjoint = !o->adjoint };
  mrt_tensor *z =
      MRT_MAKE(b, lu_solve, &other, b->in[0], b->in[1], b->in[2], b->dout[0]);
  b->din[3] = z;
  if (b->wants[0])
    b->din[0] = o->adjoint ? outer(b, b->out[0], z) : outer(b, z, b->out[0]);
}

const mrt_op mrt_op_lu_solve = {
  .name = "lu_solve",
  .number = MRT_OP_lu_solve,
  .cost = MRT_COST_matmul,
  .doc = "x with a x = b, by the factors of a that solve gives",
  .min_inputs = 4,
  .max_inputs = 4,
  MRT_OPTIONS(lu_solve_table, mrt_lu_solve_options),
  .infer = lu_solve_infer,
  .grad = lu_solve_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = solve_flops,
  .width = MRT_WIDE,
  .fault = "matrix %lld of %lld is singular",
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

/* ---- inverse ------------------------------------------------------------- */

static mrt_status inverse_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 1));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void inverse_grad(mrt_build *b) {
  mrt_tensor *t = mrt_transpose_last(b, b->out[0]);
  mrt_tensor *left = mrt_matmul(b, t, b->dout[0]);
  b->din[0] = mrt_neg(b, mrt_matmul(b, left, t));
}

static double inverse_flops(const mrt_signature *s) {
  double n = (double)mrt_matrix_cols(s->in[0]);
  return mrt_matrix_count(s->in[0]) * 2 * n * n * n;
}

const mrt_op mrt_op_inverse = {
  .name = "inverse",
  .number = MRT_OP_inverse,
  .cost = MRT_COST_matmul,
  .doc = "y with x y = 1, of square matrices",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = inverse_infer,
  .grad = inverse_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = inverse_flops,
  .width = MRT_WIDE,
  .fault = "matrix %lld of %lld is singular",
  .traits = MRT_FAULTS,
};

/* ---- solve_triangular ---------------------------------------------------- */

static const mrt_option triangular_table[] = {
  MRT_OPTION(mrt_triangular_options, upper, MRT_OPT_BOOL, .required = true),
  MRT_OPTION(mrt_triangular_options, left, MRT_OPT_BOOL, .preset = 1),
  MRT_OPTION(mrt_triangular_options, unitriangular, MRT_OPT_BOOL, .preset = 0),
  MRT_OPTION(mrt_triangular_options, transposed, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status triangular_infer(mrt_infer *c) {
  const mrt_triangular_options *o = c->options;
  MRT_TRY(want_sides(c, 0, 1, o->left));
  c->out[0] = *c->in[1];
  return MRT_OK;
}

static void triangular_grad(mrt_build *b) {
  const mrt_triangular_options *o = b->options;
  mrt_triangular_options other = *o;
  other.transposed = !o->transposed;
  mrt_tensor *x = b->out[0],
             *z = mrt_triangular(b, b->in[0], b->dout[0], other);
  b->din[1] = z;
  if (!b->wants[0]) return;
  mrt_tensor *da = NULL;
  if (o->left)
    da = o->transposed ? outer(b, x, z) : outer(b, z, x);
  else {
    mrt_tensor *xt = mrt_transpose_last(b, x), *zt = mrt_transpose_last(b, z);
    da = o->transposed ? mrt_matmul(b, zt, x) : mrt_matmul(b, xt, z);
    da = mrt_neg(b, da);
  }
  int64_t k = o->unitriangular;
  b->din[0] = o->upper ? mrt_upper(b, da, k) : mrt_lower(b, da, -k);
}

static double triangular_flops(const mrt_signature *s) {
  const mrt_triangular_options *o = s->options;
  const mrt_type *x = s->in[1];
  double n = (double)mrt_matrix_cols(s->in[0]);
  int64_t k = o->left ? mrt_matrix_cols(x) : mrt_matrix_rows(x);
  return mrt_matrix_count(x) * n * n * (double)k;
}

const mrt_op mrt_op_solve_triangular = {
  .name = "solve_triangular",
  .number = MRT_OP_solve_triangular,
  .cost = MRT_COST_matmul,
  .doc = "x with a x = b (or x a = b), from one triangle of a",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(triangular_table, mrt_triangular_options),
  .infer = triangular_infer,
  .grad = triangular_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = triangular_flops,
  .inplace = 2,
  .width = MRT_WIDE,
  .fault = "matrix %lld of %lld is singular: a 0 on its diagonal",
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

/* ---- lu ------------------------------------------------------------------ */

static mrt_status lu_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_matrix(c, 0, 0));
  c->nout = 2;
  c->out[0] = *c->in[0];
  c->out[1] = mrt_vector_type(c->in[0], mrt_matrix_rows(c->in[0]));
  c->out[1].dtype = MRT_i64;
  return MRT_OK;
}

/* Y with y's rows in the order of A's. */
static mrt_tensor *rows_back(mrt_build *b, mrt_tensor *y, mrt_tensor *order) {
  if (!y) return NULL;
  const mrt_type *t = mrt_of(y);
  mrt_tensor *index = mrt_expand_to(b, mrt_as_col(b, order), t);
  mrt_dim_options o = { t->rank - 2 };
  return MRT_MAKE(b, scatter_add, &o, mrt_zeros_of(b, y, t), index, y);
}

/* With k = min(m, n): the square part from its k by k corner, then what of L
 * lies below it, or of U beside it. */
static void lu_grad(mrt_build *b) {
  mrt_tensor *lu = b->out[0], *d = b->dout[0];
  const mrt_type *t = mrt_of(lu);
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t), k = m < n ? m : n;
  mrt_triangular_options lower = { .left = true,
                                   .unitriangular = true,
                                   .transposed = true };
  mrt_triangular_options upper = { .upper = true, .transposed = true };
  mrt_tensor *corner = mrt_cols_of(b, mrt_rows_of(b, lu, 0, k), 0, k);
  mrt_tensor *dc = mrt_cols_of(b, mrt_rows_of(b, d, 0, k), 0, k);
  mrt_type square = mrt_matrix_type(t, k, k);
  mrt_tensor *one = mrt_expand_to(b, mrt_const_like(b, lu, 1), &square);
  mrt_tensor *eye = mrt_lower(b, mrt_upper(b, one, 0), 0);
  mrt_tensor *l = mrt_add(b, mrt_lower(b, corner, -1), eye);
  mrt_tensor *u = mrt_upper(b, corner, 0);
  mrt_tensor *low =
      mrt_matmul(b, mrt_transpose_last(b, l), mrt_lower(b, dc, -1));
  mrt_tensor *high =
      mrt_matmul(b, mrt_upper(b, dc, 0), mrt_transpose_last(b, u));
  mrt_tensor *beside = mrt_cols_of(b, d, k, n - k);
  mrt_tensor *below = mrt_rows_of(b, d, k, m - k);
  if (n > k)
    low = mrt_sub(
        b, low,
        mrt_matmul(b, beside,
                   mrt_transpose_last(b, mrt_cols_of(b, lu, k, n - k))));
  if (m > k) {
    mrt_tensor *rest = mrt_transpose_last(b, mrt_rows_of(b, lu, k, m - k));
    high = mrt_sub(b, high, mrt_matmul(b, rest, below));
  }
  mrt_tensor *middle = mrt_add(b, mrt_lower(b, low, -1), mrt_upper(b, high, 0));
  if (m > k) {
    middle = mrt_triangular(b, corner, middle, lower);
    middle = mrt_triangular(b, corner, mrt_beside(b, middle, below, -2), upper);
  } else {
    middle = mrt_triangular(b, corner, middle, upper);
    if (n > k) middle = mrt_beside(b, middle, beside, -1);
    middle = mrt_triangular(b, corner, middle, lower);
  }
  b->din[0] = rows_back(b, middle, b->out[1]);
}

static double lu_flops(const mrt_signature *s) {
  double m = (double)mrt_matrix_rows(s->in[0]);
  double n = (double)mrt_matrix_cols(s->in[0]), k = m < n ? m : n;
  return mrt_matrix_count(s->in[0]) *
         (2 * m * n * k - (m + n) * k * k + 2 / 3. * k * k * k);
}

const mrt_op mrt_op_lu = {
  .name = "lu",
  .number = MRT_OP_lu,
  .cost = MRT_COST_matmul,
  .doc = "L (unit diagonal) and U packed, order: (L U)[i,:] = x[order[i],:]",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = lu_infer,
  .grad = lu_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = lu_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
