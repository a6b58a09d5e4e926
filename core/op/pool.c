/* pool.c -- windows of images to one element, channels last
 *
 *   max_pool2d       y = the largest of each window, and index: its place there
 *   max_pool2d_grad  dx[p] = sum of the dy whose index points at p
 *   max_pool2d_pick  y = the element of x that index points at
 *   avg_pool2d       y = the mean of each window;  avg_pool2d_grad: its dx
 *   adaptive_avg_pool2d  y of `size`: row i of y is the mean of rows
 *                    floor(i H / H') to ceil((i + 1) H / H') - 1 of x, columns
 *                    alike;  adaptive_avg_pool2d_grad: its dx, by x's size
 *   adaptive_max_pool2d  the largest of the same rows and columns, and index:
 *                    its place i W + j in x
 *
 *   x      [N, H, W, C], f32 | f64;  y [N, H', W', C] as for conv2d
 *   index  u8, or i32 for windows of more than 256 places, row by row: all
 *          that the gradient keeps.  The first of equals; NaN is larger than
 *          anything, and the last NaN counts, as in PyTorch.  Of
 *          adaptive_max_pool2d i64, of all of the image
 *   kernel, stride (by default the kernel), padding: one integer serves both
 *          dimensions.  Padding never is the largest; in a mean it counts as
 *          zeros unless count_include_pad is false
 *   cost   an operation for each element of each window; gradients ask, at each
 *          place of dx, every element of the window that it may be
 *   grad   max_pool2d_grad and max_pool2d_pick, a mean and its _grad are each
 *          other's; that of adaptive_max_pool2d is a scatter_add
 *   fails  ESHAPE  a kernel larger than the padded image
 *          EVALUE  a stride or kernel below 1, padding above half the kernel
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/window.h"

#define KERNEL                                                                 \
  MRT_OPTION(mrt_pool_options, kernel, MRT_OPT_INTS, .required = true),        \
      MRT_OPTION(mrt_pool_options, stride, MRT_OPT_INTS),                      \
      MRT_OPTION(mrt_pool_options, padding, MRT_OPT_INTS)
#define CEIL MRT_OPTION(mrt_pool_options, ceil_mode, MRT_OPT_BOOL)
#define MAX  KERNEL, MRT_OPTION(mrt_pool_options, dilation, MRT_OPT_INTS), CEIL
#define AVG                                                                    \
  KERNEL, CEIL,                                                                \
      MRT_OPTION(mrt_pool_options, count_include_pad, MRT_OPT_BOOL,            \
                 .preset = true)
#define SIZE MRT_OPTION(mrt_pool_options, size, MRT_OPT_INTS, .required = true)
static const mrt_option max_table[] = { MAX };
static const mrt_option max_grad_table[] = { MAX, SIZE };
static const mrt_option avg_table[] = { AVG };
static const mrt_option avg_grad_table[] = { AVG, SIZE };
static const mrt_option adaptive_table[] = { SIZE };
#undef KERNEL
#undef CEIL
#undef MAX
#undef AVG
#undef SIZE

/* ---- types --------------------------------------------------------------- */

static mrt_status want_options(mrt_infer *c) {
  mrt_pool_options *o = c->options;
  if (o->kernel.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "kernel: one or two integers wanted");
  MRT_TRY(mrt_want_pair(c, &o->kernel, "kernel", 1, 1));
  if (o->stride.count == 0) o->stride = o->kernel;
  MRT_TRY(mrt_want_pair(c, &o->stride, "stride", 1, 1));
  MRT_TRY(mrt_want_pair(c, &o->padding, "padding", 0, 0));
  MRT_TRY(mrt_want_pair(c, &o->dilation, "dilation", 1, 1));
  for (int i = 0; i < 2; i++) {
    int64_t span = (o->kernel.at[i] - 1) * o->dilation.at[i] + 1;
    if (o->padding.at[i] > span / 2)
      return mrt_refuse(c, MRT_EVALUE,
                        "padding %lld of a window that spans %lld, at most "
                        "half of it wanted",
                        (long long)o->padding.at[i], (long long)span);
  }
  if (o->kernel.at[0] * o->kernel.at[1] <= INT32_MAX) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "a window of %lld places is too large",
                    (long long)(o->kernel.at[0] * o->kernel.at[1]));
}

/* y of an x of this type. */
static mrt_status type_of_y(mrt_infer *c, const mrt_type *x, mrt_type *y) {
  const mrt_pool_options *o = c->options;
  *y = *x;
  for (int i = 0; i < 2; i++) {
    mrt_slide s = { x->dims[1 + i],   o->kernel.at[i],   o->stride.at[i],
                    o->padding.at[i], o->dilation.at[i], o->ceil_mode };
    MRT_TRY(mrt_want_places(c, &s, &y->dims[1 + i]));
  }
  return MRT_OK;
}

static mrt_dtype dtype_of_index(const mrt_pool_options *o) {
  return o->kernel.at[0] * o->kernel.at[1] <= 256 ? MRT_u8 : MRT_i32;
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_want_image(c, 0));
  MRT_TRY(want_options(c));
  return type_of_y(c, c->in[0], &c->out[0]);
}

static mrt_status max_infer(mrt_infer *c) {
  MRT_TRY(infer(c));
  c->nout = 2;
  c->out[1] = c->out[0];
  c->out[1].dtype = dtype_of_index(c->options);
  return MRT_OK;
}

/* Input `i` is the index of an x of this type. */
static mrt_status want_index(mrt_infer *c, int i, const mrt_type *x) {
  mrt_type y;
  MRT_TRY(type_of_y(c, x, &y));
  MRT_TRY(mrt_want_dtype(c, i, dtype_of_index(c->options)));
  return mrt_want_shape(c, i, 4, y.dims, "the shape of the result");
}

static mrt_status pick_infer(mrt_infer *c) {
  MRT_TRY(infer(c));
  return want_index(c, 1, c->in[0]);
}

/* x from dy: out[0], by `size`. */
static mrt_status grad_infer(mrt_infer *c) {
  mrt_pool_options *o = c->options;
  MRT_TRY(mrt_want_image(c, 0));
  MRT_TRY(want_options(c));
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 0, 0));
  c->out[0] = *c->in[0];
  for (int i = 0; i < 2; i++) c->out[0].dims[1 + i] = o->size.at[i];
  mrt_type y;
  MRT_TRY(type_of_y(c, &c->out[0], &y));
  return mrt_want_shape(c, 0, 4, y.dims, "the shape of the result");
}

static mrt_status max_grad_infer(mrt_infer *c) {
  MRT_TRY(grad_infer(c));
  return want_index(c, 1, &c->out[0]);
}

/* From one size to another, either way. */
static mrt_status adaptive_infer(mrt_infer *c) {
  mrt_pool_options *o = c->options;
  MRT_TRY(mrt_want_image(c, 0));
  mrt_ints from = { 2, { c->in[0]->dims[1], c->in[0]->dims[2] } };
  if (o->size.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "size: one or two integers wanted");
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 1, 1));
  MRT_TRY(mrt_want_pair(c, &from, "a side of the image:", 1, 1));
  c->out[0] = *c->in[0];
  for (int i = 0; i < 2; i++) c->out[0].dims[1 + i] = o->size.at[i];
  return MRT_OK;
}

static mrt_status adaptive_max_infer(mrt_infer *c) {
  MRT_TRY(adaptive_infer(c));
  c->nout = 2;
  c->out[1] = c->out[0];
  c->out[1].dtype = MRT_i64;
  return MRT_OK;
}

/* ---- cost, shard rule --------------------------------------------------------- */

static double window(const mrt_signature *s) {
  const mrt_pool_options *o = s->options;
  return (double)o->kernel.at[0] * (double)o->kernel.at[1];
}
static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->out[0]) * window(s);
}
static double adaptive_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]) + (double)mrt_type_count(s->out[0]);
}
/* Images and channels do not meet. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  return dim == 0 || dim == 3 ? dim : MRT_RULE_UNKNOWN;
}

/* ---- gradients ----------------------------------------------------------- */

static mrt_pool_options sized(mrt_build *b) {
  mrt_pool_options o = *(const mrt_pool_options *)b->options;
  const int64_t *x = mrt_of(b->in[0])->dims;
  o.size = (mrt_ints){ 2, { x[1], x[2] } };
  return o;
}
static mrt_pool_options unsized(mrt_build *b) {
  mrt_pool_options o = *(const mrt_pool_options *)b->options;
  o.size = (mrt_ints){ 0 };
  return o;
}

static void max_gradient(mrt_build *b) {
  mrt_pool_options o = sized(b);
  b->din[0] = MRT_MAKE(b, max_pool2d_grad, &o, b->dout[0], b->out[1]);
}
static void pick_gradient(mrt_build *b) {
  mrt_pool_options o = sized(b);
  b->din[0] = MRT_MAKE(b, max_pool2d_grad, &o, b->dout[0], b->in[1]);
}
static void max_grad_gradient(mrt_build *b) {
  mrt_pool_options o = unsized(b);
  b->din[0] = MRT_MAKE(b, max_pool2d_pick, &o, b->dout[0], b->in[1]);
}
static void avg_gradient(mrt_build *b) {
  mrt_pool_options o = sized(b);
  b->din[0] = MRT_MAKE(b, avg_pool2d_grad, &o, b->dout[0]);
}
static void avg_grad_gradient(mrt_build *b) {
  mrt_pool_options o = unsized(b);
  b->din[0] = MRT_MAKE(b, avg_pool2d, &o, b->dout[0]);
}

static mrt_pool_options size_of_x(mrt_build *b) {
  const int64_t *x = mrt_of(b->in[0])->dims;
  return (mrt_pool_options){ .size = { 2, { x[1], x[2] } } };
}
static void adaptive_gradient(mrt_build *b) {
  mrt_pool_options o = size_of_x(b);
  b->din[0] = MRT_MAKE(b, adaptive_avg_pool2d_grad, &o, b->dout[0]);
}
/* Of each image, its places in one dimension. */
static mrt_tensor *flat(mrt_build *b, mrt_tensor *x) {
  const int64_t *d = mrt_of(x)->dims;
  return mrt_reshape_to(b, x, 3, (int64_t[]){ d[0], d[1] * d[2], d[3] });
}
static void adaptive_max_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0];
  mrt_dim_options places = { 1 };
  mrt_tensor *none =
      flat(b, mrt_expand_to(b, mrt_const_like(b, x, 0), mrt_of(x)));
  mrt_tensor *dx = MRT_MAKE(b, scatter_add, &places, none, flat(b, b->out[1]),
                            flat(b, b->dout[0]));
  b->din[0] = mrt_reshape_like(b, dx, x);
}
static void adaptive_grad_gradient(mrt_build *b) {
  mrt_pool_options o = size_of_x(b);
  b->din[0] = MRT_MAKE(b, adaptive_avg_pool2d, &o, b->dout[0]);
}

/* ---- rows ---------------------------------------------------------------- */

const mrt_op mrt_op_max_pool2d = {
  .name = "max_pool2d",
  .number = MRT_OP_max_pool2d,
  .cost = MRT_COST_pooling,
  .doc = "y = the largest of each window of x [N,H,W,C], and index: where",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(max_table, mrt_pool_options),
  .infer = max_infer,
  .shard_rule = shard_rule,
  .grad = max_gradient,
  .flops = flops,
  .width = MRT_FOLLOW,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
};
const mrt_op mrt_op_max_pool2d_grad = {
  .name = "max_pool2d_grad",
  .number = MRT_OP_max_pool2d_grad,
  .cost = MRT_COST_pooling,
  .doc = "dx of y, index = max_pool2d(x), from dy and index",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(max_grad_table, mrt_pool_options),
  .infer = max_grad_infer,
  .shard_rule = shard_rule,
  .grad = max_grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_max_pool2d_pick = {
  .name = "max_pool2d_pick",
  .number = MRT_OP_max_pool2d_pick,
  .cost = MRT_COST_pooling,
  .doc = "y = the element of each window of x that index points at",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(max_table, mrt_pool_options),
  .infer = pick_infer,
  .shard_rule = shard_rule,
  .grad = pick_gradient,
  .flops = flops,
  .width = MRT_FOLLOW,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_avg_pool2d = {
  .name = "avg_pool2d",
  .number = MRT_OP_avg_pool2d,
  .cost = MRT_COST_pooling,
  .doc = "y = the mean of each window of x [N,H,W,C]",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(avg_table, mrt_pool_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = avg_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LINEAR,
};
const mrt_op mrt_op_avg_pool2d_grad = {
  .name = "avg_pool2d_grad",
  .number = MRT_OP_avg_pool2d_grad,
  .cost = MRT_COST_pooling,
  .doc = "dx of y = avg_pool2d(x), from dy; size is x's height and width",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(avg_grad_table, mrt_pool_options),
  .infer = grad_infer,
  .shard_rule = shard_rule,
  .grad = avg_grad_gradient,
  .flops = flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};
const mrt_op mrt_op_adaptive_avg_pool2d = {
  .name = "adaptive_avg_pool2d",
  .number = MRT_OP_adaptive_avg_pool2d,
  .cost = MRT_COST_pooling,
  .doc = "y = means of x [N,H,W,C], as many as size says",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(adaptive_table, mrt_pool_options),
  .infer = adaptive_infer,
  .shard_rule = shard_rule,
  .grad = adaptive_gradient,
  .flops = adaptive_flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LINEAR,
};
const mrt_op mrt_op_adaptive_avg_pool2d_grad = {
  .name = "adaptive_avg_pool2d_grad",
  .number = MRT_OP_adaptive_avg_pool2d_grad,
  .cost = MRT_COST_pooling,
  .doc = "dx of y = adaptive_avg_pool2d(x), from dy; size is x's",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(adaptive_table, mrt_pool_options),
  .infer = adaptive_infer,
  .shard_rule = shard_rule,
  .grad = adaptive_grad_gradient,
  .flops = adaptive_flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_LINEAR | MRT_LIBRARY,
};
const mrt_op mrt_op_adaptive_max_pool2d = {
  .name = "adaptive_max_pool2d",
  .number = MRT_OP_adaptive_max_pool2d,
  .cost = MRT_COST_pooling,
  .doc = "y = the largest of windows of x [N,H,W,C], as many as size says",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(adaptive_table, mrt_pool_options),
  .infer = adaptive_max_infer,
  .shard_rule = shard_rule,
  .grad = adaptive_max_gradient,
  .flops = adaptive_flops,
  .width = MRT_FOLLOW,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
};
