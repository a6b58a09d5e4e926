/* group_norm.c -- normalising groups of channels, each sample by itself
 *
 *   group_norm  y = (x - mean) * rstd * w + b,  rstd = 1 / sqrt(var + eps),
 *               mean and variance over a sample's positions and the C / groups
 *               channels of a group, which follow each other
 *
 *   x      [N, ..., C], f32 | f64: the channels last
 *   w b    [C], may be absent
 *   y      type of x; may take x's storage
 *   mean rstd  [N, groups]: kept for the gradient, and results like any other
 *   cost   8 flop per element; reads x twice, writes y once
 *   grad   with n = (x - mean) * rstd and g = dy * w, means over the group,
 *          dx = rstd * (g - mean(g) - n * mean(g * n))
 *          dw = sum over all but the channels of dy * n;  db = that of dy
 *   fails  ESHAPE  x of fewer than 2 dimensions; channels that groups do not
 *          divide; w or b not [C];  EDTYPE  not f32 or f64
 *   from   Wu & He, arXiv:1803.08494
 *
 * SPDX-License-Identifier: MIT */
#include "op/group_norm.h"
#include "op/norm.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_group_norm_options, groups, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_group_norm_options, eps, MRT_OPT_NUM, .preset = 1e-5),
};

static int64_t channels(const mrt_type *x) { return x->dims[x->rank - 1]; }

static mrt_status want_groups(mrt_infer *c) {
  const mrt_group_norm_options *o = c->options;
  MRT_TRY(mrt_norm_want_x(c, 2));
  if (o->groups < 1 || channels(c->in[0]) % o->groups)
    return mrt_refuse(c, MRT_ESHAPE, "%lld groups of the %lld channels of %s",
                      (long long)o->groups, (long long)channels(c->in[0]),
                      mrt_show(c->in[0]).s);
  return MRT_OK;
}

static mrt_status infer(mrt_infer *c) {
  const mrt_group_norm_options *o = c->options;
  MRT_TRY(want_groups(c));
  for (int i = 1; i < c->nin; i++) MRT_TRY(mrt_norm_want_channels(c, i));
  c->nout = 3;
  c->out[0] = *c->in[0];
  c->out[1] = c->out[2] =
      (mrt_type){ .dtype = c->in[0]->dtype,
                  .rank = 2,
                  .dims = { c->in[0]->dims[0], o->groups } };
  return MRT_OK;
}

static mrt_status infer_grad(mrt_infer *c) {
  const mrt_group_norm_options *o = c->options;
  MRT_TRY(want_groups(c));
  int64_t stats[] = { c->in[0]->dims[0], o->groups };
  for (int i = 1; i < 3; i++) {
    MRT_TRY(mrt_want_same_dtype(c, 0, i));
    MRT_TRY(mrt_want_shape(c, i, 2, stats, "one number for each group"));
  }
  MRT_TRY(mrt_want_same(c, 0, 3));
  if (c->nin > 4) MRT_TRY(mrt_norm_want_channels(c, 4));
  c->nout = c->nin > 4 ? 3 : 1;
  c->out[0] = *c->in[0];
  for (int i = 1; i < c->nout; i++) c->out[i] = *c->in[4];
  return MRT_OK;
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

/* x as [samples, positions, groups, channels of a group]. */
static mrt_tensor *grouped(mrt_build *b, mrt_tensor *x) {
  const mrt_group_norm_options *o = b->options;
  const mrt_type *t = mrt_of(b->in[0]);
  int64_t dims[] = { t->dims[0], mrt_extent(t, 1, t->rank - 1), o->groups,
                     channels(t) / o->groups };
  return mrt_reshape_to(b, x, 4, dims);
}

/* One number for each sample and group, or each channel, to broadcast. */
static mrt_tensor *per_group(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  return mrt_reshape_to(b, x, 4, (int64_t[]){ t->dims[0], 1, t->dims[1], 1 });
}
static mrt_tensor *per_channel(mrt_build *b, mrt_tensor *x) {
  const mrt_group_norm_options *o = b->options;
  int64_t dims[] = { o->groups, mrt_of(x)->dims[0] / o->groups };
  return mrt_reshape_to(b, x, 2, dims);
}

static mrt_tensor *mean_of(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  double n = t->rank == 4 ? (double)(t->dims[1] * t->dims[3]) : 1;
  mrt_ints dims = { .count = 2, .at = { 1, 3 } };
  return mrt_mul_k(b, mrt_sum_dims(b, x, &dims, true), 1 / (n > 0 ? n : 1));
}

static mrt_tensor *sum_to_channels(mrt_build *b, mrt_tensor *x) {
  mrt_ints dims = { .count = 2, .at = { 0, 1 } };
  return mrt_reshape_like(b, mrt_sum_dims(b, x, &dims, false), b->in[4]);
}

static void parts(mrt_build *b, mrt_tensor **value) {
  const mrt_group_norm_options *o = b->options;
  const mrt_type *t = mrt_of(b->in[0]);
  mrt_tensor *x = grouped(b, b->in[0]), *mean = mean_of(b, x);
  mrt_tensor *d = mrt_sub(b, x, mean), *var = mean_of(b, mrt_mul(b, d, d));
  mrt_tensor *rstd = MRT_MAKE(b, rsqrt, NULL, mrt_add_k(b, var, o->eps));
  mrt_tensor *y = mrt_mul(b, d, rstd);
  if (b->nin > 1) y = mrt_mul(b, y, per_channel(b, b->in[1]));
  if (b->nin > 2) y = mrt_add(b, y, per_channel(b, b->in[2]));
  value[0] = mrt_reshape_like(b, y, b->in[0]);
  value[1] = mrt_reshape_to(b, mean, 2, (int64_t[]){ t->dims[0], o->groups });
  value[2] = mrt_reshape_to(b, rstd, 2, (int64_t[]){ t->dims[0], o->groups });
}

static void grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *rstd = per_group(b, b->in[2]), *dy = grouped(b, b->in[3]);
  mrt_tensor *d = mrt_sub(b, grouped(b, b->in[0]), per_group(b, b->in[1]));
  mrt_tensor *n = mrt_mul(b, d, rstd), *g = dy;
  if (b->nin > 4) g = mrt_mul(b, dy, per_channel(b, b->in[4]));
  mrt_tensor *along = mrt_mul(b, n, mean_of(b, mrt_mul(b, g, n)));
  mrt_tensor *rest = mrt_sub(b, mrt_sub(b, g, mean_of(b, g)), along);
  value[0] = mrt_reshape_like(b, mrt_mul(b, rstd, rest), b->in[0]);
  if (b->nin == 4) return;
  value[1] = sum_to_channels(b, mrt_mul(b, dy, n));
  value[2] = sum_to_channels(b, dy);
}

/* ---- gradients ----------------------------------------------------------- */

static void gradient(mrt_build *b) {
  mrt_norm_gradient(b, MRT_OP_group_norm_grad, b->options, parts);
}
static void grad_gradient(mrt_build *b) { mrt_grad_decomposed(b, grad_parts); }

/* Samples, each by itself. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return input == 0 && dim == 0 ? 0 : MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_group_norm = {
  .name = "group_norm",
  .number = MRT_OP_group_norm,
  .cost = MRT_COST_norm,
  .doc =
      "y = (x - mean) / sqrt(var + eps) * w + b over each sample's groups of "
      "channels, the last dimension; also mean and 1 / sqrt(var + eps)",
  .min_inputs = 1,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_group_norm_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = mrt_norm_flops,
  .bytes = bytes,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
};
const mrt_op mrt_op_group_norm_grad = {
  .name = "group_norm_grad",
  .number = MRT_OP_group_norm_grad,
  .cost = MRT_COST_norm,
  .doc = "dx, and with w dw and db, for x, mean, rstd, dy[, w]",
  .min_inputs = 4,
  .max_inputs = 5,
  MRT_OPTIONS(options, mrt_group_norm_options),
  .infer = infer_grad,
  .grad = grad_gradient,
  .flops = mrt_norm_grad_flops,
  .bytes = grad_bytes,
  .inplace = 1 | 8,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 8,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
