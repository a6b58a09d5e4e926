/* resample.c -- images at other sizes, and the gradient of that
 *
 *   resample       y[i,j] = sum over a, b of u[i,a] v[j,b] x[p[i,a], q[j,b]]
 *                  along dims dim and dim + 1: one place each where nearest,
 *                  two where linear, four where cubic, with weights u, v that
 *                  add up to 1; places outside are those at the border
 *   resample_grad  its dx from dy, by the size of x
 *
 *   x        [..., H, W, ...], f32 | f64;  y the same with `size`
 *   mode     nearest       place floor(i s); each twice where H' = 2 H, itself
 *                          where H' = H
 *            nearest_exact place floor((i + 1/2) s)
 *            linear, cubic around (i + 1/2) s - 1/2, or i s where corners are
 *                          aligned; the cubic is Keys' with a = -3/4
 *   s        1 / scale where that is given, else H / H', or (H - 1) / (H' - 1)
 *            where corners are aligned
 *   cost     2 flop for each weight of each side; reads x and writes y once
 *   grad     each is linear, and the other's
 *   fails    EDTYPE not f32 or f64;  EVALUE a size below 1, a side of x of 0,
 *            a scale that is no positive number;  ESHAPE no dim + 1
 *   from     Keys, Cubic convolution interpolation, IEEE ASSP 29 (1981)
 *
 * SPDX-License-Identifier: MIT */
#include "op/resample.h"
#include "op/build.h"
#include "op/window.h"

#include <math.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_resample_options, dim, MRT_OPT_DIM, .required = true),
  MRT_OPTION(mrt_resample_options, size, MRT_OPT_INTS, .required = true),
  MRT_OPTION(mrt_resample_options, mode, MRT_OPT_ENUM,
             .words = "nearest nearest_exact linear cubic"),
  MRT_OPTION(mrt_resample_options, align_corners, MRT_OPT_BOOL),
  MRT_OPTION(mrt_resample_options, scale_h, MRT_OPT_NUM, .preset = 0),
  MRT_OPTION(mrt_resample_options, scale_w, MRT_OPT_NUM, .preset = 0),
};

static mrt_status want_scale(mrt_infer *c, const char *name, double scale) {
  if (scale == 0 || (scale > 0 && isfinite(scale))) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "%s %g, a positive number wanted", name,
                    scale);
}

static mrt_status infer(mrt_infer *c) {
  mrt_resample_options *o = c->options;
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_dim(c, &o->dim, x->rank));
  if (o->dim + 1 >= x->rank)
    return mrt_refuse(c, MRT_ESHAPE,
                      "dim %lld of %s, one that another follows wanted",
                      (long long)o->dim + 1, mrt_show(x).s);
  if (o->size.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "size: one or two integers wanted");
  mrt_ints from = { 2, { x->dims[o->dim], x->dims[o->dim + 1] } };
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 1, 1));
  MRT_TRY(mrt_want_pair(c, &from, "a side of the image:", 1, 1));
  MRT_TRY(want_scale(c, "scale_h", o->scale_h));
  MRT_TRY(want_scale(c, "scale_w", o->scale_w));
  c->out[0] = *x;
  for (int i = 0; i < 2; i++) c->out[0].dims[o->dim + i] = o->size.at[i];
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  const mrt_resample_options *o = s->options;
  double taps = o->mode == MRT_RESAMPLE_cubic    ? 4
                : o->mode == MRT_RESAMPLE_linear ? 2
                                                 : 0;
  return 4 * taps * (double)mrt_type_count(s->out[0]);
}
static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_resample_options *o = s->options;
  return dim == o->dim || dim == o->dim + 1 ? MRT_RULE_UNKNOWN : dim;
}

static mrt_resample_options sized_as(mrt_build *b) {
  mrt_resample_options o = *(const mrt_resample_options *)b->options;
  const int64_t *x = mrt_of(b->in[0])->dims;
  o.size = (mrt_ints){ 2, { x[o.dim], x[o.dim + 1] } };
  return o;
}
static void gradient(mrt_build *b) {
  mrt_resample_options o = sized_as(b);
  b->din[0] = MRT_MAKE(b, resample_grad, &o, b->dout[0]);
}
static void grad_gradient(mrt_build *b) {
  mrt_resample_options o = sized_as(b);
  b->din[0] = MRT_MAKE(b, resample, &o, b->dout[0]);
}

const mrt_op mrt_op_resample = {
  .name = "resample",
  .number = MRT_OP_resample,
  .cost = MRT_COST_pooling,
  .doc = "x at another size along dim and the one after it",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_resample_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR,
};
const mrt_op mrt_op_resample_grad = {
  .name = "resample_grad",
  .number = MRT_OP_resample_grad,
  .cost = MRT_COST_pooling,
  .doc = "dx of y = resample(x), from dy; size is x's",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_resample_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};
