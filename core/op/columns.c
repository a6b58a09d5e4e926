/* columns.c -- the windows of images as columns, and back
 *
 *   im2col  y[n, (c kh + a) kw + b, i W' + j]
 *               = x[n, c, i sh + a dh - ph, j sw + b dw - pw], 0 outside
 *   col2im  x = the sum of all that im2col reads at a place
 *
 *   x       [N, C, H, W], f32 | f64;  y [N, C kh kw, H' W'], H' as of conv2d
 *   kernel, stride, padding, dilation: one integer serves both sides
 *   cost    what is moved; col2im an addition for each element of y
 *   grad    each is linear, and the other's
 *   fails   EDTYPE not f32 or f64;  ESHAPE a kernel larger than the padded
 *           image, columns that are not those of `size`
 *           EVALUE a kernel, stride or dilation below 1, padding below 0
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/window.h"

#define WINDOW                                                                 \
  MRT_OPTION(mrt_pool_options, kernel, MRT_OPT_INTS, .required = true),        \
      MRT_OPTION(mrt_pool_options, dilation, MRT_OPT_INTS),                    \
      MRT_OPTION(mrt_pool_options, padding, MRT_OPT_INTS),                     \
      MRT_OPTION(mrt_pool_options, stride, MRT_OPT_INTS)
static const mrt_option options[] = { WINDOW };
static const mrt_option sized[] = {
  MRT_OPTION(mrt_pool_options, size, MRT_OPT_INTS, .required = true), WINDOW
};
#undef WINDOW

static mrt_status want_options(mrt_infer *c) {
  mrt_pool_options *o = c->options;
  if (o->kernel.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "kernel: one or two integers wanted");
  MRT_TRY(mrt_want_pair(c, &o->kernel, "kernel", 1, 1));
  MRT_TRY(mrt_want_pair(c, &o->stride, "stride", 1, 1));
  MRT_TRY(mrt_want_pair(c, &o->padding, "padding", 0, 0));
  MRT_TRY(mrt_want_pair(c, &o->dilation, "dilation", 1, 1));
  if (o->kernel.at[0] * o->kernel.at[1] <= INT32_MAX) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "a window of %lld places is too large",
                    (long long)(o->kernel.at[0] * o->kernel.at[1]));
}

/* The columns of an x of this type. */
static mrt_status type_of_y(mrt_infer *c, const mrt_type *x, mrt_type *y) {
  const mrt_pool_options *o = c->options;
  int64_t places[2], rows;
  for (int i = 0; i < 2; i++) {
    mrt_slide s = { x->dims[2 + i],   o->kernel.at[i],   o->stride.at[i],
                    o->padding.at[i], o->dilation.at[i], false };
    MRT_TRY(mrt_want_places(c, &s, &places[i]));
  }
  int64_t taps = o->kernel.at[0] * o->kernel.at[1];
  if (__builtin_mul_overflow(x->dims[1], taps, &rows))
    return mrt_refuse(c, MRT_ESHAPE, "%s in windows of %lld places: too many",
                      mrt_show(x).s, (long long)taps);
  *y = (mrt_type){ x->dtype, 3, { x->dims[0], rows, places[0] * places[1] } };
  return MRT_OK;
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_want_real(c, 0));
  if (c->in[0]->rank != 4)
    return mrt_refuse(c, MRT_ESHAPE,
                      "input 1 is %s, [batch, channels, height, width] wanted",
                      mrt_show(c->in[0]).s);
  MRT_TRY(want_options(c));
  return type_of_y(c, c->in[0], &c->out[0]);
}

static mrt_status back_infer(mrt_infer *c) {
  mrt_pool_options *o = c->options;
  const mrt_type *y = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(want_options(c));
  if (o->size.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "size: one or two integers wanted");
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 0, 0));
  int64_t taps = o->kernel.at[0] * o->kernel.at[1];
  if (y->rank != 3 || y->dims[1] % taps)
    return mrt_refuse(c, MRT_ESHAPE,
                      "input 1 is %s, [batch, channels * %lld, places] wanted",
                      mrt_show(y).s, (long long)taps);
  c->out[0] = (mrt_type){
    y->dtype, 4, { y->dims[0], y->dims[1] / taps, o->size.at[0], o->size.at[1] }
  };
  mrt_type wanted;
  MRT_TRY(type_of_y(c, &c->out[0], &wanted));
  return mrt_want_shape(c, 0, 3, wanted.dims, "the columns of that size");
}

/* Images and, where they stay whole, channels do not meet. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return dim == 0 ? 0 : MRT_RULE_UNKNOWN;
}

static void gradient(mrt_build *b) {
  mrt_pool_options o = *(const mrt_pool_options *)b->options;
  const int64_t *x = mrt_of(b->in[0])->dims;
  o.size = (mrt_ints){ 2, { x[2], x[3] } };
  b->din[0] = MRT_MAKE(b, col2im, &o, b->dout[0]);
}
static void back_gradient(mrt_build *b) {
  mrt_pool_options o = *(const mrt_pool_options *)b->options;
  o.size = (mrt_ints){ 0 };
  b->din[0] = MRT_MAKE(b, im2col, &o, b->dout[0]);
}
static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_im2col = {
  .name = "im2col",
  .number = MRT_OP_im2col,
  .cost = MRT_COST_move,
  .doc = "the windows of x [N,C,H,W] as columns [N, C kh kw, places]",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_pool_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR,
};
const mrt_op mrt_op_col2im = {
  .name = "col2im",
  .number = MRT_OP_col2im,
  .cost = MRT_COST_pooling,
  .doc = "x [N,C,H,W], each place the sum of its places in columns",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(sized, mrt_pool_options),
  .infer = back_infer,
  .shard_rule = shard_rule,
  .grad = back_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .traits = MRT_LINEAR,
};
