/* norm.c -- layer_norm and rms_norm over the last dimension
 *
 *   layer_norm  y = (x - mean) * rstd * w + b,  rstd = 1 / sqrt(var x + eps)
 *   rms_norm    y = x * rstd * w,   rstd = 1 / sqrt(mean(x * x) + eps)
 *
 *   x      [..., C], f32 | f64
 *   w b    [C], may be absent
 *   y      type of x; may take x's storage
 *   mean rstd  [...]: kept for the gradient, and results like any other
 *   cost   8 flop per element; reads x once, writes y once
 *   grad   with n = (x - mean) * rstd and g = dy * w, means over the row,
 *          dx = rstd * (g - mean(g) - n * mean(g * n))
 *          dw = sum over rows of dy * n;  db = sum over rows of dy
 *          (rms_norm: mean = 0, and no mean(g))
 *   fails  ESHAPE  x a scalar; w or b not [C];  EDTYPE  not f32 or f64
 *   from   Ba, Kiros & Hinton, arXiv:1607.06450; Zhang & Sennrich,
 *          arXiv:1910.07467
 *
 * SPDX-License-Identifier: MIT */
#include "op/norm.h"
#include "op/build.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_norm_options, eps, MRT_OPT_NUM, .preset = 1e-5),
};

/* ---- what all norms share ------------------------------------------------ */

mrt_status mrt_norm_want_x(mrt_infer *c, int rank) {
  MRT_TRY(mrt_want_real(c, 0));
  if (c->in[0]->rank >= rank) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s, at least %s wanted",
                    mrt_show(c->in[0]).s,
                    rank == 1 ? "one dimension" : "two dimensions");
}

mrt_status mrt_norm_want_channels(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_same_dtype(c, 0, i));
  return mrt_want_shape(c, i, 1, &c->in[0]->dims[c->in[0]->rank - 1],
                        "the last dimension");
}

double mrt_norm_flops(const mrt_signature *s) {
  return 8.0 * (double)mrt_type_count(s->in[0]);
}
double mrt_norm_grad_flops(const mrt_signature *s) {
  return 12.0 * (double)mrt_type_count(s->in[0]);
}

mrt_tensor *mrt_norm_sum_rows(mrt_build *b, mrt_tensor *x) {
  mrt_ints rows = { .count = mrt_of(x)->rank - 1 };
  for (int i = 0; i < rows.count; i++) rows.at[i] = i;
  return rows.count ? mrt_sum_dims(b, x, &rows, false) : x;
}

void mrt_norm_gradient(mrt_build *b, int grad, const void *options,
                       mrt_decompose parts) {
  enum { MOST = 2 }; /* statistics */
  mrt_tensor *in[MOST + 3], *d[MOST + 1] = { NULL };
  int nin = 0;
  in[nin++] = b->in[0];
  for (int i = 1; i < b->nout; i++) {
    if (b->dout[i]) {
      mrt_grad_decomposed(b, parts);
      return;
    }
    in[nin++] = b->out[i];
  }
  in[nin++] = b->dout[0];
  if (b->nin > 1) in[nin++] = b->in[1];
  mrt_make_all(b, grad, options, nin, in, d, b->nout);
  for (int i = 0; i < b->nin; i++) b->din[i] = d[i];
}

/* ---- over a row ---------------------------------------------------------- */

/* Input i is one number per row of x, [...]. */
static mrt_status want_per_row(mrt_infer *c, int i) {
  MRT_TRY(mrt_want_same_dtype(c, 0, i));
  return mrt_want_shape(c, i, c->in[0]->rank - 1, c->in[0]->dims,
                        "one number for each row");
}

/* y and `stats` outputs of one number per row. */
static mrt_status infer_norm(mrt_infer *c, int stats) {
  MRT_TRY(mrt_norm_want_x(c, 1));
  for (int i = 1; i < c->nin; i++) MRT_TRY(mrt_norm_want_channels(c, i));
  c->nout = 1 + stats;
  for (int i = 0; i < c->nout; i++) {
    c->out[i] = *c->in[0];
    if (i > 0) c->out[i].dims[--c->out[i].rank] = 0;
  }
  return MRT_OK;
}
static mrt_status infer_layer(mrt_infer *c) { return infer_norm(c, 2); }
static mrt_status infer_rms(mrt_infer *c) { return infer_norm(c, 1); }

mrt_status mrt_norm_infer_grad(mrt_infer *c, int stats) {
  MRT_TRY(mrt_norm_want_x(c, 1));
  for (int i = 1; i <= stats; i++) MRT_TRY(want_per_row(c, i));
  MRT_TRY(mrt_want_same(c, 0, stats + 1));
  bool affine = c->nin > stats + 2;
  if (affine) MRT_TRY(mrt_norm_want_channels(c, stats + 2));
  c->nout = affine ? 1 + stats : 1;
  c->out[0] = *c->in[0];
  for (int i = 1; i < c->nout; i++) c->out[i] = *c->in[stats + 2];
  return MRT_OK;
}
static mrt_status infer_layer_grad(mrt_infer *c) {
  return mrt_norm_infer_grad(c, 2);
}
static mrt_status infer_rms_grad(mrt_infer *c) {
  return mrt_norm_infer_grad(c, 1);
}

/* ---- the same from plainer operators, to differentiate ------------------- */

/* Mean over the last dimension, kept with size 1. */
static mrt_tensor *row_mean(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  int64_t columns = t->rank ? t->dims[t->rank - 1] : 1;
  return mrt_mul_k(b, mrt_sum_dim(b, x, t->rank - 1, true),
                   1 / (double)(columns ? columns : 1));
}

/* From [..., 1] to [...] and back. */
static mrt_tensor *drop_last(mrt_build *b, mrt_tensor *x) {
  const mrt_type *t = mrt_of(x);
  return mrt_reshape_to(b, x, t->rank - 1, t->dims);
}
static mrt_tensor *keep_last(mrt_build *b, mrt_tensor *x) {
  mrt_type t = *mrt_of(x);
  t.dims[t.rank] = 1;
  return mrt_reshape_to(b, x, t.rank + 1, t.dims);
}

/* y = d * rstd * w + b for the rows d; returns rstd, [..., 1]. */
static mrt_tensor *normalise(mrt_build *b, mrt_tensor *d, mrt_tensor **y) {
  const mrt_norm_options *o = b->options;
  mrt_tensor *var = row_mean(b, mrt_mul(b, d, d));
  mrt_tensor *rstd = MRT_MAKE(b, rsqrt, NULL, mrt_add_k(b, var, o->eps));
  *y = mrt_mul(b, d, rstd);
  if (b->nin > 1) *y = mrt_mul(b, *y, b->in[1]);
  if (b->nin > 2) *y = mrt_add(b, *y, b->in[2]);
  return rstd;
}

static void layer_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *mean = row_mean(b, x);
  mrt_tensor *rstd = normalise(b, mrt_sub(b, x, mean), &value[0]);
  value[1] = drop_last(b, mean);
  value[2] = drop_last(b, rstd);
}

static void rms_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *rstd = normalise(b, b->in[0], &value[0]);
  value[1] = drop_last(b, rstd);
}

static void layer_grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *dy = b->in[3];
  mrt_tensor *mean = keep_last(b, b->in[1]), *rstd = keep_last(b, b->in[2]);
  mrt_tensor *n = mrt_mul(b, mrt_sub(b, x, mean), rstd);
  mrt_tensor *g = b->nin > 4 ? mrt_mul(b, dy, b->in[4]) : dy;
  mrt_tensor *along = mrt_mul(b, n, row_mean(b, mrt_mul(b, g, n)));
  mrt_tensor *rest = mrt_sub(b, mrt_sub(b, g, row_mean(b, g)), along);
  value[0] = mrt_mul(b, rstd, rest);
  if (b->nin == 4) return;
  value[1] = mrt_norm_sum_rows(b, mrt_mul(b, dy, n));
  value[2] = mrt_norm_sum_rows(b, dy);
}

static void rms_grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *dy = b->in[2], *rstd = keep_last(b, b->in[1]);
  mrt_tensor *n = mrt_mul(b, x, rstd);
  mrt_tensor *g = b->nin > 3 ? mrt_mul(b, dy, b->in[3]) : dy;
  mrt_tensor *along = mrt_mul(b, n, row_mean(b, mrt_mul(b, g, n)));
  value[0] = mrt_mul(b, rstd, mrt_sub(b, g, along));
  if (b->nin > 3) value[1] = mrt_norm_sum_rows(b, mrt_mul(b, dy, n));
}

/* ---- gradients ----------------------------------------------------------- */

static void layer_gradient(mrt_build *b) {
  mrt_norm_gradient(b, MRT_OP_layer_norm_grad, NULL, layer_parts);
}
static void rms_gradient(mrt_build *b) {
  mrt_norm_gradient(b, MRT_OP_rms_norm_grad, NULL, rms_parts);
}
static void layer_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, layer_grad_parts);
}
static void rms_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, rms_grad_parts);
}

/* Rows of x, each by itself. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  bool row = input == 0 && dim < s->in[0]->rank - 1;
  return row ? dim : MRT_RULE_UNKNOWN;
}

/* dx row by row; dw and db are sums over the rows. */
static int grad_rule(const mrt_signature *s, int input, int dim, int w) {
  int rank = s->in[0]->rank;
  if (input == w || dim >= rank - 1) return MRT_RULE_UNKNOWN;
  return s->out[0]->rank == rank ? dim : MRT_RULE_PARTIAL;
}
static int layer_grad_rule(const mrt_signature *s, int input, int dim) {
  return grad_rule(s, input, dim, 4);
}
static int rms_grad_rule(const mrt_signature *s, int input, int dim) {
  return grad_rule(s, input, dim, 3);
}

const mrt_op mrt_op_layer_norm = {
  .name = "layer_norm",
  .number = MRT_OP_layer_norm,
  .cost = MRT_COST_norm,
  .doc = "y = (x - mean) / sqrt(var + eps) * w + b over the last dimension; "
         "also mean and 1 / sqrt(var + eps)",
  .min_inputs = 1,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_norm_options),
  .infer = infer_layer,
  .shard_rule = shard_rule,
  .grad = layer_gradient,
  .flops = mrt_norm_flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 4,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
};
const mrt_op mrt_op_layer_norm_grad = {
  .name = "layer_norm_grad",
  .number = MRT_OP_layer_norm_grad,
  .cost = MRT_COST_norm,
  .doc = "dx, and with w dw and db, for x, mean, rstd, dy[, w]",
  .min_inputs = 4,
  .max_inputs = 5,
  .infer = infer_layer_grad,
  .shard_rule = layer_grad_rule,
  .grad = layer_grad_gradient,
  .flops = mrt_norm_grad_flops,
  .inplace = 1 | 8,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 8 | 16,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_rms_norm = {
  .name = "rms_norm",
  .number = MRT_OP_rms_norm,
  .cost = MRT_COST_norm,
  .doc = "y = x / sqrt(mean(x * x) + eps) * w over the last dimension; "
         "also 1 / sqrt(mean(x * x) + eps)",
  .min_inputs = 1,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_norm_options),
  .infer = infer_rms,
  .shard_rule = shard_rule,
  .grad = rms_gradient,
  .flops = mrt_norm_flops,
  .inplace = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2,
  .narrow_outputs = 1,
  .wide_outputs = ~UINT32_C(1),
};
const mrt_op mrt_op_rms_norm_grad = {
  .name = "rms_norm_grad",
  .number = MRT_OP_rms_norm_grad,
  .cost = MRT_COST_norm,
  .doc = "dx, and with w dw, for x, rstd, dy[, w]",
  .min_inputs = 3,
  .max_inputs = 4,
  .infer = infer_rms_grad,
  .shard_rule = rms_grad_rule,
  .grad = rms_grad_gradient,
  .flops = mrt_norm_grad_flops,
  .inplace = 1 | 4,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 4 | 8,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
