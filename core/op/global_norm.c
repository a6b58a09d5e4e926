/* global_norm.c -- one length for many tensors, as gradient clipping needs it
 *
 *     y = sqrt(sum over all elements of all inputs of x * x)
 *
 *   inputs  any number, any shapes, one dtype, f32 | f64
 *   y       a scalar; summed in double whatever the dtype
 *   cost    2 flop per element; reads each input once
 *   grad    dx = x * dy / y, 0 where y is 0
 *   fails   EDTYPE
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

/* All x are 0 where y is, and stay so when divided by 1 instead. */
static void gradient(mrt_build *b) {
  mrt_tensor *y = b->out[0];
  mrt_tensor *is_zero = MRT_MAKE(b, eq, NULL, y, mrt_const_like(b, y, 0));
  mrt_tensor *by = mrt_where(b, is_zero, mrt_const_like(b, y, 1), y);
  mrt_tensor *scale = mrt_div(b, b->dout[0], by);
  for (int i = 0; i < b->nin; i++)
    if (b->wants[i]) b->din[i] = mrt_mul(b, b->in[i], scale);
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
