/* linalg_det.c -- determinants
 *
 *   det       the determinant; 0 of a singular matrix
 *   cofactor  its derivative: det(A) A^-T, and of a singular matrix the limit
 *   slogdet   sign and ln |det|: 0 and -inf of a singular matrix
 *
 *   x      f32 | f64, [..., n, n]; of no rows: 1
 *   cost   2/3 n^3 flop; cofactor 2 n^3, of a singular matrix some 20 n^3
 *   grad   det: dy C, C the cofactors.  Of C, with M = A^-T and H = dC:
 *          <H, M> C - C H^T M, which wants A to be regular.  slogdet: A^-T
 *          (Giles 2008)
 *   fails  ESHAPE, EDTYPE; EDEVICE  without LAPACK
 *
 * SPDX-License-Identifier: MIT */
#include "op/linalg.h"

static double det_flops(const mrt_signature *s) {
  double n = (double)mrt_matrix_cols(s->in[0]);
  return mrt_matrix_count(s->in[0]) * 2 / 3. * n * n * n;
}

static mrt_type of_each(const mrt_type *t) {
  mrt_type out = *t;
  out.rank -= 2;
  out.dims[t->rank - 1] = out.dims[t->rank - 2] = 0;
  return out;
}

/* Numbers of matrices as matrices of one element. */
static mrt_tensor *ones_by_one(mrt_build *b, mrt_tensor *x) {
  mrt_type t = *mrt_of(x);
  t.dims[t.rank++] = 1;
  t.dims[t.rank++] = 1;
  return x ? mrt_reshape_to(b, x, t.rank, t.dims) : NULL;
}

static mrt_status det_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 1));
  c->out[0] = of_each(c->in[0]);
  return MRT_OK;
}

static void det_grad(mrt_build *b) {
  mrt_tensor *cofactors = MRT_MAKE(b, cofactor, NULL, b->in[0]);
  b->din[0] = mrt_mul(b, ones_by_one(b, b->dout[0]), cofactors);
}

const mrt_op mrt_op_det = {
  .name = "det",
  .number = MRT_OP_det,
  .cost = MRT_COST_matmul,
  .doc = "the determinants of square matrices",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = det_infer,
  .grad = det_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = det_flops,
  .width = MRT_WIDE,
};

static mrt_status cofactor_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 6));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void cofactor_grad(mrt_build *b) {
  mrt_tensor *h = b->dout[0], *cofactors = b->out[0];
  mrt_tensor *m = mrt_transpose_last(b, MRT_MAKE(b, inverse, NULL, b->in[0]));
  int rank = mrt_of(cofactors)->rank;
  mrt_ints last = { .count = 2, .at = { rank - 2, rank - 1 } };
  mrt_tensor *inner = mrt_sum_dims(b, mrt_mul(b, h, m), &last, true);
  mrt_tensor *right = mrt_matmul(b, mrt_transpose_last(b, h), m);
  b->din[0] =
      mrt_sub(b, mrt_mul(b, inner, cofactors), mrt_matmul(b, cofactors, right));
}

static double cofactor_flops(const mrt_signature *s) {
  return 3 * det_flops(s);
}

const mrt_op mrt_op_cofactor = {
  .name = "cofactor",
  .number = MRT_OP_cofactor,
  .cost = MRT_COST_matmul,
  .doc =
      "the derivative of det: det(x) x^-T, and its limit where x is singular",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = cofactor_infer,
  .grad = cofactor_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = cofactor_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};

static mrt_status slogdet_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_square(c, 0, 1));
  c->nout = 2;
  c->out[0] = c->out[1] = of_each(c->in[0]);
  return MRT_OK;
}

static void slogdet_grad(mrt_build *b) {
  if (!b->dout[1]) return;
  mrt_tensor *m = MRT_MAKE(b, inverse, NULL, b->in[0]);
  b->din[0] = mrt_mul(b, ones_by_one(b, b->dout[1]), mrt_transpose_last(b, m));
}

const mrt_op mrt_op_slogdet = {
  .name = "slogdet",
  .number = MRT_OP_slogdet,
  .cost = MRT_COST_matmul,
  .doc = "the sign of det(x), and ln |det(x)|",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = slogdet_infer,
  .grad = slogdet_grad,
  .shard_rule = mrt_shard_rules_batch,
  .flops = det_flops,
  .width = MRT_WIDE,
};
