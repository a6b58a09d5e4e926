/* linalg_spectral.c -- singular values and eigenvalues
 *
 *   svd       A = U diag(S) Vh; S falls
 *   svdvals   S alone
 *   eigh      A = V diag(L) V^T of symmetric matrices; L rises
 *   eigvalsh  L alone
 *
 *   A      f32 | f64, [..., m, n]; [..., n, n], of which one triangle is read
 *   U, Vh  [..., m, k] and [..., k, n], k = min(m, n); full_matrices: square
 *   cost   some 20 m n k flop, a fifth without vectors; 9 n^3, or 4/3 n^3
 *   grad   svd: U ((skew(U^T dU) / E) S + S (skew(V^T dV) / E) + dS) Vh and
 *          what of dU and dV lies outside (Townsend 2016; Seeger et al. 2017),
 *          E_ij = S_j^2 - S_i^2: infinite or NaN where vectors have a gradient
 *          and two singular values are equal.  eigh: V (dL + (V^T dV) / E) V^T,
 *          E_ij = L_j - L_i (Giles 2008), its symmetric part: that of a symmetric
 *          A.  Of the columns that only full_matrices has, no gradient is taken
 *   fails  ESHAPE, EDTYPE; EDEVICE  without LAPACK
 *          EDATA   when run: an infinity or NaN; no convergence
 *
 * The signs of vectors are LAPACK's.
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"

#define FAULT                                                                  \
  "matrix %lld of %lld has an infinity or a NaN, or did not converge"

/* ---- svd, svdvals -------------------------------------------------------- */

static const mrt_option svd_table[] = {
  MRT_OPTION(mrt_svd_options, full_matrices, MRT_OPT_BOOL, .preset = 1),
};

static int64_t shorter(const mrt_type *t) {
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t);
  return m < n ? m : n;
}

static mrt_status svd_infer(mrt_infer *c) {
  const mrt_svd_options *o = c->options;
  MRT_TRY(mrt_want_matrix(c, 0, 6));
  int64_t m = mrt_matrix_rows(c->in[0]), n = mrt_matrix_cols(c->in[0]);
  int64_t k = shorter(c->in[0]), longer = m > n ? m : n;
  if (o->full_matrices && (double)longer * (double)longer > (double)INT32_MAX)
    return mrt_refuse(c, MRT_ESHAPE,
                      "square vectors of %s are too large: full_matrices = "
                      "false has fewer",
                      mrt_show(c->in[0]).s);
  c->nout = 3;
  c->out[0] = mrt_matrix_type(c->in[0], m, o->full_matrices ? m : k);
  c->out[1] = mrt_vector_type(c->in[0], k);
  c->out[2] = mrt_matrix_type(c->in[0], o->full_matrices ? n : k, n);
  return MRT_OK;
}

/* (x - x^T) / E */
static mrt_tensor *skew_over(mrt_build *b, mrt_tensor *x, mrt_tensor *e) {
  return mrt_div(b, mrt_sub(b, x, mrt_transpose_last(b, x)), e);
}

/* E_ij = s_j - s_i, or that of the squares; 1 on the diagonal. */
static mrt_tensor *gaps(mrt_build *b, mrt_tensor *s, bool squares) {
  mrt_tensor *row = mrt_as_row(b, s), *col = mrt_as_col(b, s);
  mrt_tensor *e = mrt_sub(b, row, col);
  if (squares) e = mrt_mul(b, e, mrt_add(b, row, col));
  mrt_tensor *one = mrt_expand_to(b, mrt_const_like(b, s, 1), mrt_of(e));
  return mrt_add(b, e, mrt_lower(b, mrt_upper(b, one, 0), 0));
}

/* The middle, k by k, and the part of the whole outside the span of U, of V. */
static void svd_grad(mrt_build *b) {
  const mrt_type *t = mrt_of(b->in[0]);
  int64_t m = mrt_matrix_rows(t), n = mrt_matrix_cols(t), k = shorter(t);
  mrt_tensor *u = mrt_cols_of(b, b->out[0], 0, k), *s = b->out[1];
  mrt_tensor *vh = mrt_rows_of(b, b->out[2], 0, k);
  mrt_tensor *du = mrt_cols_of(b, b->dout[0], 0, k);
  mrt_tensor *dvh = mrt_rows_of(b, b->dout[2], 0, k);
  mrt_tensor *e = du || dvh ? gaps(b, s, true) : NULL;
  mrt_tensor *ut = mrt_transpose_last(b, u), *v = mrt_transpose_last(b, vh);
  mrt_tensor *utdu = mrt_matmul(b, ut, du);
  mrt_tensor *dvhv = mrt_matmul(b, dvh, v);
  mrt_tensor *vtdv = mrt_transpose_last(b, dvhv);
  mrt_tensor *middle = mrt_diagonal_of(b, b->dout[1]);
  middle = mrt_add_some(
      b, middle, utdu ? mrt_scale_cols(b, skew_over(b, utdu, e), s) : NULL);
  middle = mrt_add_some(
      b, middle, vtdv ? mrt_scale_rows(b, skew_over(b, vtdv, e), s) : NULL);
  mrt_tensor *left = mrt_matmul(b, u, middle), *whole = NULL;
  if (m > k && du) {
    mrt_tensor *out = mrt_sub(b, du, mrt_matmul(b, u, utdu));
    left = mrt_add_some(b, left, mrt_div(b, out, mrt_as_row(b, s)));
  }
  whole = mrt_matmul(b, left, vh);
  if (n > k && dvh) {
    mrt_tensor *out = mrt_sub(b, dvh, mrt_matmul(b, dvhv, vh));
    out = mrt_div(b, out, mrt_as_col(b, s));
    whole = mrt_add_some(b, whole, mrt_matmul(b, u, out));
  }
  b->din[0] = whole;
}

static double svd_flops(const mrt_signature *s) {
  const mrt_type *t = s->in[0];
  return mrt_matrix_count(t) * 20 * (double)mrt_matrix_rows(t) *
         (double)mrt_matrix_cols(t) * (double)shorter(t);
}

const mrt_op mrt_op_svd = {
  .name = "svd",
  .number = MRT_OP_svd,
  .cost = MRT_COST_matmul,
  .doc = "x = U diag(S) Vh: orthonormal columns, singular values, rows",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(svd_table, mrt_svd_options),
  .infer = svd_infer,
  .grad = svd_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = svd_flops,
  .width = MRT_WIDE,
  .fault = FAULT,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

static mrt_status svdvals_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_matrix(c, 0, 6));
  c->out[0] = mrt_vector_type(c->in[0], shorter(c->in[0]));
  return MRT_OK;
}

static void svdvals_grad(mrt_build *b) {
  mrt_tensor *usv[3];
  mrt_svd_options o = { .full_matrices = false };
  mrt_make_all(b, MRT_OP_svd, &o, 1, b->in, usv, 3);
  b->din[0] = mrt_matmul(b, mrt_scale_cols(b, usv[0], b->dout[0]), usv[2]);
}

static double svdvals_flops(const mrt_signature *s) { return svd_flops(s) / 5; }

const mrt_op mrt_op_svdvals = {
  .name = "svdvals",
  .number = MRT_OP_svdvals,
  .cost = MRT_COST_matmul,
  .doc = "the singular values of matrices, the largest first",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = svdvals_infer,
  .grad = svdvals_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = svdvals_flops,
  .width = MRT_WIDE,
  .fault = FAULT,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

/* ---- eigh, eigvalsh ------------------------------------------------------ */

static const mrt_option eigh_table[] = {
  MRT_OPTION(mrt_eigh_options, upper, MRT_OPT_BOOL, .preset = 0),
};

static mrt_status eigh_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 3));
  c->nout = 2;
  c->out[0] = mrt_vector_type(c->in[0], mrt_matrix_rows(c->in[0]));
  c->out[1] = *c->in[0];
  return MRT_OK;
}

/* v x v^T, symmetric. */
static mrt_tensor *around(mrt_build *b, mrt_tensor *v, mrt_tensor *x) {
  mrt_tensor *y = mrt_matmul(b, mrt_matmul(b, v, x), mrt_transpose_last(b, v));
  return mrt_mul_k(b, mrt_add(b, y, mrt_transpose_last(b, y)), 0.5);
}

/* Vectors keep their length: of V^T dV the diagonal has no effect. */
static void eigh_grad(mrt_build *b) {
  mrt_tensor *v = b->out[1], *x = mrt_diagonal_of(b, b->dout[0]);
  mrt_tensor *turn = mrt_matmul(b, mrt_transpose_last(b, v), b->dout[1]);
  if (turn) {
    turn = mrt_add(b, mrt_lower(b, turn, -1), mrt_upper(b, turn, 1));
    turn = mrt_div(b, turn, gaps(b, b->out[0], false));
  }
  b->din[0] = around(b, v, mrt_add_some(b, x, turn));
}

static double eigh_flops(const mrt_signature *s) {
  double n = (double)mrt_matrix_cols(s->in[0]);
  return mrt_matrix_count(s->in[0]) * 9 * n * n * n;
}

const mrt_op mrt_op_eigh = {
  .name = "eigh",
  .number = MRT_OP_eigh,
  .cost = MRT_COST_matmul,
  .doc = "x = V diag(L) V^T of symmetric matrices: L, which rises, and V",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(eigh_table, mrt_eigh_options),
  .infer = eigh_infer,
  .grad = eigh_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = eigh_flops,
  .width = MRT_WIDE,
  .fault = FAULT,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};

static mrt_status eigvalsh_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 3));
  c->out[0] = mrt_vector_type(c->in[0], mrt_matrix_rows(c->in[0]));
  return MRT_OK;
}

static void eigvalsh_grad(mrt_build *b) {
  mrt_tensor *lv[2];
  mrt_make_all(b, MRT_OP_eigh, b->options, 1, b->in, lv, 2);
  mrt_tensor *y = mrt_scale_cols(b, lv[1], b->dout[0]);
  y = mrt_matmul(b, y, mrt_transpose_last(b, lv[1]));
  b->din[0] = mrt_mul_k(b, mrt_add(b, y, mrt_transpose_last(b, y)), 0.5);
}

static double eigvalsh_flops(const mrt_signature *s) {
  return eigh_flops(s) * 4 / 27;
}

const mrt_op mrt_op_eigvalsh = {
  .name = "eigvalsh",
  .number = MRT_OP_eigvalsh,
  .cost = MRT_COST_matmul,
  .doc = "the eigenvalues of symmetric matrices, the smallest first",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(eigh_table, mrt_eigh_options),
  .infer = eigvalsh_infer,
  .grad = eigvalsh_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = eigvalsh_flops,
  .width = MRT_WIDE,
  .fault = FAULT,
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
