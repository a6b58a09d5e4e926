/* batch_norm.c -- normalising each channel over all rows; running statistics
 *
 *   batch_norm  y = (x - mean) * rstd * w + b,  rstd = 1 / sqrt(var + eps),
 *               mean and (biased) variance over all dimensions but the last
 *   batch_stats mean and rstd alone: the pass split_batch_norm makes it
 *   running     mean = (1 - momentum) mean + momentum batch's mean
 *               var = (1 - momentum) var + momentum n / (n - 1) batch's var,
 *               which is 1 / rstd^2 - eps
 *
 *   x      [..., C], f32 | f64: the channels last
 *   w b    [C], may be absent
 *   y      type of x; may take x's storage
 *   mean rstd  [C]: kept for the gradient and the running statistics
 *   when   bool scalar, may be absent; false leaves everything untouched
 *   cost   8 flop per element; reads x twice, writes y once
 *   grad   with n = (x - mean) * rstd and means over the rows,
 *          dx = w * rstd * (dy - mean(dy) - n * mean(dy * n))
 *          dw = sum over rows of dy * n;  db = sum over rows of dy
 *   within batch_norm_grad_within: the same of dy where low < y < high, and of 0
 *          elsewhere; the pass mask_batch_norm makes it
 *   fails  ESHAPE  x a scalar; w or b not [C];  EDTYPE  not f32 or f64
 *   from   Ioffe & Szegedy, arXiv:1502.03167
 *
 * SPDX-License-Identifier: MIT */
#include "op/batch_norm.h"
#include "op/norm.h"

#include <math.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_batch_norm_options, eps, MRT_OPT_NUM, .preset = 1e-5),
};
static const mrt_option within_options[] = {
  MRT_OPTION(mrt_within_options, low, MRT_OPT_NUM, .required = true),
  MRT_OPTION(mrt_within_options, high, MRT_OPT_NUM, .preset = INFINITY),
  MRT_OPTION(mrt_within_options, dtype, MRT_OPT_DTYPE, .preset = MRT_f32),
};
static const mrt_option running_options[] = {
  MRT_OPTION(mrt_running_options, momentum, MRT_OPT_NUM, .preset = 0.1),
  MRT_OPTION(mrt_running_options, eps, MRT_OPT_NUM, .preset = 1e-5),
  MRT_OPTION(mrt_running_options, count, MRT_OPT_INT, .required = true),
};

static mrt_type channels(const mrt_type *x) {
  mrt_type t = { .dtype = x->dtype, .rank = 1 };
  t.dims[0] = x->dims[x->rank - 1];
  return t;
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_norm_want_x(c, 1));
  for (int i = 1; i < c->nin; i++) MRT_TRY(mrt_norm_want_channels(c, i));
  c->nout = 3;
  c->out[0] = *c->in[0];
  c->out[1] = c->out[2] = channels(c->in[0]);
  return MRT_OK;
}

static mrt_status infer_stats(mrt_infer *c) {
  MRT_TRY(mrt_norm_want_x(c, 1));
  c->nout = 2;
  c->out[0] = c->out[1] = channels(c->in[0]);
  return MRT_OK;
}

static mrt_status infer_grad(mrt_infer *c) {
  MRT_TRY(mrt_norm_want_x(c, 1));
  for (int i = 1; i < 3; i++) MRT_TRY(mrt_norm_want_channels(c, i));
  MRT_TRY(mrt_want_same(c, 0, 3));
  if (c->nin > 4) MRT_TRY(mrt_norm_want_channels(c, 4));
  c->nout = c->nin > 4 ? 3 : 1;
  c->out[0] = *c->in[0];
  for (int i = 1; i < c->nout; i++) c->out[i] = channels(c->in[0]);
  return MRT_OK;
}

static mrt_status infer_within(mrt_infer *c) {
  const mrt_within_options *o = c->options;
  mrt_infer grad = *c;
  grad.nin = 5;
  MRT_TRY(infer_grad(&grad));
  c->nout = grad.nout;
  MRT_TRY(mrt_norm_want_channels(c, 5));
  if (mrt_is_real(o->dtype) || mrt_is_narrow(o->dtype)) return MRT_OK;
  return mrt_refuse(c, MRT_EDTYPE, "y in %s, a float wanted",
                    mrt_dtype_name(o->dtype));
}

static mrt_status infer_running(mrt_infer *c) {
  const mrt_running_options *o = c->options;
  MRT_TRY(mrt_norm_want_x(c, 1));
  for (int i = 1; i < 4; i++) MRT_TRY(mrt_want_same(c, 0, i));
  if (c->nin > 4) {
    MRT_TRY(mrt_want_dtype(c, 4, MRT_bool));
    MRT_TRY(mrt_want_shape(c, 4, 0, (const int64_t[1]){ 0 }, "when to update"));
  }
  if (o->count < 2)
    return mrt_refuse(c, MRT_EVALUE, "count %lld, 2 or more rows wanted",
                      (long long)o->count);
  c->nout = 2;
  c->out[0] = c->out[1] = *c->in[0];
  return MRT_OK;
}

static double running_flops(const mrt_signature *s) {
  return 8.0 * (double)mrt_type_count(s->in[0]);
}
static double stats_flops(const mrt_signature *s) {
  return 5.0 * (double)mrt_type_count(s->in[0]);
}
static double bytes(const mrt_signature *s) {
  return 2.0 * (double)mrt_type_bytes(s->in[0]) +
         (double)mrt_type_bytes(s->out[0]);
}
static double grad_bytes(const mrt_signature *s) {
  return 2.0 * (double)mrt_type_bytes(s->in[0]) +
         2.0 * (double)mrt_type_bytes(s->in[3]) +
         (double)mrt_type_bytes(s->out[0]);
}

/* ---- the same from plainer operators, to differentiate ------------------- */

static mrt_tensor *mean_rows(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  int64_t rows = mrt_extent(t, 0, t->rank - 1);
  return mrt_mul_k(b, mrt_norm_sum_rows(b, x), 1 / (double)(rows ? rows : 1));
}

static void parts(mrt_build *b, mrt_tensor **value) {
  const mrt_batch_norm_options *o = b->options;
  mrt_tensor *x = b->in[0], *mean = mean_rows(b, x), *d = mrt_sub(b, x, mean);
  mrt_tensor *var = mean_rows(b, mrt_mul(b, d, d));
  mrt_tensor *rstd = MRT_MAKE(b, rsqrt, NULL, mrt_add_k(b, var, o->eps));
  value[0] = mrt_mul(b, d, rstd);
  if (b->nin > 1) value[0] = mrt_mul(b, value[0], b->in[1]);
  if (b->nin > 2) value[0] = mrt_add(b, value[0], b->in[2]);
  value[1] = mean;
  value[2] = rstd;
}

static void stats_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *all[3];
  parts(b, all);
  value[0] = all[1], value[1] = all[2];
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *rstd = b->in[2], *dy = b->in[3];
  mrt_tensor *n = mrt_mul(b, mrt_sub(b, x, b->in[1]), rstd);
  mrt_tensor *along = mrt_mul(b, n, mean_rows(b, mrt_mul(b, dy, n)));
  mrt_tensor *rest = mrt_sub(b, mrt_sub(b, dy, mean_rows(b, dy)), along);
  mrt_tensor *scale = b->nin > 4 ? mrt_mul(b, rstd, b->in[4]) : rstd;
  value[0] = mrt_mul(b, scale, rest);
  if (b->nin == 4) return;
  value[1] = mrt_norm_sum_rows(b, mrt_mul(b, dy, n));
  value[2] = mrt_norm_sum_rows(b, dy);
}

/* ---- gradients ----------------------------------------------------------- */

static void gradient(mrt_build *b) {
  mrt_norm_gradient(b, MRT_OP_batch_norm_grad, NULL, parts);
}
static void stats_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, stats_parts);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

const mrt_op mrt_op_batch_norm = {
  .name = "batch_norm",
  .number = MRT_OP_batch_norm,
  .cost = MRT_COST_norm,
  .doc = "y = (x - mean) / sqrt(var + eps) * w + b for each channel, the last "
         "dimension, over all rows; also mean and 1 / sqrt(var + eps)",
  .min_inputs = 1,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_batch_norm_options),
  .infer = infer,
  .grad = gradient,
  .flops = mrt_norm_flops,
  .bytes = bytes,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
  .traits = MRT_BATCH_STATISTICS,
};
const mrt_op mrt_op_batch_stats = {
  .name = "batch_stats",
  .number = MRT_OP_batch_stats,
  .cost = MRT_COST_norm,
  .doc = "mean and 1 / sqrt(var + eps) of each channel, the last dimension, "
         "over all rows",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_batch_norm_options),
  .infer = infer_stats,
  .grad = stats_gradient,
  .flops = stats_flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .traits = MRT_BATCH_STATISTICS | MRT_LIBRARY,
};
const mrt_op mrt_op_batch_norm_grad = {
  .name = "batch_norm_grad",
  .number = MRT_OP_batch_norm_grad,
  .cost = MRT_COST_norm,
  .doc = "dx, and with w dw and db, for x, mean, rstd, dy[, w]",
  .min_inputs = 4,
  .max_inputs = 5,
  .infer = infer_grad,
  .grad = grad_gradient,
  .flops = mrt_norm_grad_flops,
  .bytes = grad_bytes,
  .inplace = 1 | 8,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 8,
  .narrow_outputs = 1,
  .traits = MRT_BATCH_STATISTICS | MRT_LIBRARY,
};
const mrt_op mrt_op_batch_norm_grad_within = {
  .name = "batch_norm_grad_within",
  .number = MRT_OP_batch_norm_grad_within,
  .cost = MRT_COST_norm,
  .doc = "dx, dw and db for x, mean, rstd, dy, w, b; dy counts where "
         "low < y < high",
  .min_inputs = 6,
  .max_inputs = 6,
  MRT_OPTIONS(within_options, mrt_within_options),
  .infer = infer_within,
  .flops = mrt_norm_grad_flops,
  .bytes = grad_bytes,
  .inplace = 1 | 8,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 8,
  .narrow_outputs = 1,
  .traits = MRT_BATCH_STATISTICS | MRT_LIBRARY,
};
const mrt_op mrt_op_running = {
  .name = "running",
  .number = MRT_OP_running,
  .cost = MRT_COST_update,
  .doc = "mean, var = running statistics after one batch, "
         "for mean, var, batch's mean, rstd[, when]",
  .min_inputs = 4,
  .max_inputs = 5,
  MRT_OPTIONS(running_options, mrt_running_options),
  .infer = infer_running,
  .flops = running_flops,
  .updates = 2,
  .width = MRT_WIDE,
  .traits = MRT_UPDATES | MRT_FIXED,
};
