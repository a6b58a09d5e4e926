/* softmax.c -- softmax and log_softmax along a dimension
 *
 *   softmax      y = exp(x - max x) / sum exp(x - max x)
 *   log_softmax  y = x - max x - log sum exp(x - max x)
 *
 *   x      any shape with a dimension, f32 | f64
 *   y      type of x; may take x's storage
 *   cost   5 flop per element; reads x once, writes y once
 *   grad   softmax      dx = y * (dy - sum(dy * y));  keeps y, lets x go
 *          log_softmax  dx = dy - exp(y) * sum(dy)
 *   fails  EVALUE  dim outside [-rank, rank)
 *          EDTYPE  x not f32 or f64
 *   from   Milakov & Gimelshein, arXiv:1805.02867
 *
 * SPDX-License-Identifier: MIT */
#include "op/softmax.h"
#include "op/build.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_softmax_options, dim, MRT_OPT_DIM, .preset = -1),
};

static mrt_status infer(mrt_infer *c) {
  mrt_softmax_options *o = c->options;
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_dim(c, &o->dim, c->in[0]->rank));
  if (c->nin == 2) MRT_TRY(mrt_want_same(c, 0, 1));
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return 5.0 * (double)mrt_type_count(s->in[0]);
}

static void softmax_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, softmax_grad, b->options, b->out[0], b->dout[0]);
}

/* dx = y * (dy - sum(dy * y)) from plainer operators, to differentiate. */
static void softmax_grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_softmax_options *o = b->options;
  mrt_tensor *y = b->in[0], *dy = b->in[1];
  mrt_tensor *s = mrt_sum_dim(b, mrt_mul(b, dy, y), o->dim, true);
  value[0] = mrt_mul(b, y, mrt_sub(b, dy, s));
}
static void softmax_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, softmax_grad_parts);
}

static void log_softmax_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, log_softmax_grad, b->options, b->out[0], b->dout[0]);
}

static void log_softmax_grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_softmax_options *o = b->options;
  mrt_tensor *y = b->in[0], *dy = b->in[1];
  mrt_tensor *s = mrt_sum_dim(b, dy, o->dim, true);
  value[0] = mrt_sub(b, dy, mrt_mul(b, mrt_exp(b, y), s));
}
static void log_softmax_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, log_softmax_grad_parts);
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_softmax_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

const mrt_op mrt_op_softmax = {
  .name = "softmax",
  .number = MRT_OP_softmax,
  .cost = MRT_COST_softmax,
  .doc = "y = exp(x - max x) / sum exp(x - max x) along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_softmax_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = softmax_gradient,
  .flops = flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
};
const mrt_op mrt_op_softmax_grad = {
  .name = "softmax_grad",
  .number = MRT_OP_softmax_grad,
  .cost = MRT_COST_softmax,
  .doc = "dx = y * (dy - sum(dy * y)) along dim, for y = softmax(x)",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_softmax_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = softmax_grad_gradient,
  .flops = flops,
  .inplace = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_log_softmax = {
  .name = "log_softmax",
  .number = MRT_OP_log_softmax,
  .cost = MRT_COST_softmax,
  .doc = "y = x - max x - log sum exp(x - max x) along dim",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_softmax_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = log_softmax_gradient,
  .flops = flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
};
const mrt_op mrt_op_log_softmax_grad = {
  .name = "log_softmax_grad",
  .number = MRT_OP_log_softmax_grad,
  .cost = MRT_COST_softmax,
  .doc = "dx = dy - exp(y) * sum dy along dim, for y = log_softmax(x)",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_softmax_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = log_softmax_grad_gradient,
  .flops = flops,
  .inplace = 3,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
