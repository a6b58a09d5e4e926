/* global_norm.c -- lengths, as gradient clipping needs them
 *
 *     global_norm  y = sqrt(sum over all elements of all inputs of x * x)
 *     row_norm     y = sqrt(sum over the last dimension of x * x)
 *
 *   inputs  global_norm: any number, any shapes; row_norm: one of at least one
 *           dimension; one dtype, f32 | f64
 *   y       a scalar; of x's shape but the last dimension.  Summed in double
 *           whatever the dtype
 *   cost    2 flop per element; reads each input once
 *   grad    dx = x * dy / y, 0 where y is 0
 *   fails   EDTYPE; row_norm: ESHAPE of a scalar
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"

static mrt_status infer(mrt_infer *c) {
  for (int i = 0; i < c->nin; i++) {
    MRT_TRY(mrt_want_real(c, i));
    MRT_TRY(mrt_want_same_dtype(c, 0, i));
  }
  c->out[0] = mrt_type_scalar(c->in[0]->dtype);
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  double n = 0;
  for (int i = 0; i < s->nin; i++) n += (double)mrt_type_count(s->in[i]);
  return 2 * n;
}

static mrt_status row_infer(mrt_infer *c) {
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (x->rank == 0)
    return mrt_refuse(c, MRT_ESHAPE, "%s, at least one dimension wanted",
                      mrt_show(x).s);
  c->out[0] = *x;
  c->out[0].rank--;
  return MRT_OK;
}

/* dy / y.  All x are 0 where y is, and stay so when divided by 1 instead. */
static mrt_tensor *scale_of(mrt_build *b) {
  mrt_tensor *y = b->out[0];
  mrt_tensor *zero = mrt_expand_to(b, mrt_const_like(b, y, 0), mrt_of(y));
  mrt_tensor *is_zero = MRT_MAKE(b, eq, NULL, y, zero);
  mrt_tensor *by = mrt_where(b, is_zero, mrt_const_like(b, y, 1), y);
  return mrt_div(b, b->dout[0], by);
}

static void gradient(mrt_build *b) {
  mrt_tensor *scale = scale_of(b);
  for (int i = 0; i < b->nin; i++)
    if (b->wants[i]) b->din[i] = mrt_mul(b, b->in[i], scale);
}

static void row_gradient(mrt_build *b) {
  mrt_type rows = *mrt_of(b->in[0]);
  rows.dims[rows.rank - 1] = 1;
  mrt_tensor *scale = mrt_reshape_to(b, scale_of(b), rows.rank, rows.dims);
  b->din[0] = mrt_mul(b, b->in[0], scale);
}

const mrt_op mrt_op_global_norm = {
  .name = "global_norm",
  .number = MRT_OP_global_norm,
  .cost = MRT_COST_reduce,
  .doc = "y = sqrt(sum of squares of all elements of all inputs)",
  .min_inputs = 1,
  .max_inputs = -1,
  .infer = infer,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = UINT32_MAX,
  .wide_outputs = 1,
};

const mrt_op mrt_op_row_norm = {
  .name = "row_norm",
  .number = MRT_OP_row_norm,
  .cost = MRT_COST_reduce,
  .doc = "y = sqrt(sum of squares along the last dimension)",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = row_infer,
  .grad = row_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .wide_outputs = 1,
  .traits = MRT_LIBRARY,
};
