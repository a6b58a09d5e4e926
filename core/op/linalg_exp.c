/* linalg_exp.c -- the exponential of matrices
 *
 *   matrix_exp   y = 1 + x + x x / 2 + ...
 *
 *   x, y   f32 | f64, [..., n, n]
 *   cost   some 20 n^3 flop, and 2 n^3 for each doubling of a large norm
 *   grad   the upper right block of the exponential of [[x^T, dy], [0, x^T]]
 *          (Najfeld and Havel 1995; Mathias 1996)
 *   fails  ESHAPE, EDTYPE; EDEVICE  without LAPACK
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"

static mrt_status exp_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 6));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void exp_grad(mrt_build *b) {
  mrt_tensor *t = mrt_transpose_last(b, b->in[0]);
  const mrt_type *type = mrt_of(t);
  int64_t n = mrt_matrix_rows(type);
  mrt_tensor *above = mrt_beside(b, t, b->dout[0], -1);
  mrt_tensor *below = mrt_beside(b, mrt_zeros_of(b, t, type), t, -1);
  mrt_tensor *y =
      MRT_MAKE(b, matrix_exp, NULL, mrt_beside(b, above, below, -2));
  b->din[0] = mrt_cols_of(b, mrt_rows_of(b, y, 0, n), n, n);
}

static double exp_flops(const mrt_signature *s) {
  double n = (double)mrt_matrix_cols(s->in[0]);
  return mrt_matrix_count(s->in[0]) * 20 * n * n * n;
}

const mrt_op mrt_op_matrix_exp = {
  .name = "matrix_exp",
  .number = MRT_OP_matrix_exp,
  .cost = MRT_COST_matmul,
  .doc = "1 + x + x x / 2 + ..., of square matrices",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = exp_infer,
  .grad = exp_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = exp_flops,
  .width = MRT_WIDE,
};
