/* conv.c -- convolutions of images, channels last
 *
 *   conv2d     y[n,i,j,o] = sum over a, b, c of w[o,c,a,b]
 *                  x[n, i sh + a dh - ph, j sw + b dw - pw, g C/G + c]
 *              + bias[o], for the group g that o is in; x is 0 outside
 *   conv2d_dx  what dy is worth to x;  conv2d_dw  to w
 *
 *   x      [N, H, W, C]      w  [O, C/G, kh, kw]
 *   dtypes, `compute` and `accumulate` as of matmul, bias included; so of dx and
 *          dw.  Narrow sums are taken over rows and columns of the kernel, then
 *          channels; in dw over images, rows and columns
 *   y      [N, H', W', O], H' = floor((H + 2 ph - dh (kh - 1) - 1) / sh) + 1
 *   stride sh, sw; padding, dilation likewise: one integer serves both
 *   cost   2 flop for each element of y, of the kernel and channel of a group
 *   grad   y, dx and dw are linear in both inputs; all three are gradients of
 *          one another, so they can be differentiated again and again
 *   fails  ESHAPE  channels that do not fit w and groups, a kernel larger than
 *          the padded image;  EVALUE  a stride or dilation below 1
 *          EDTYPE  as matmul
 *
 * The bias is added in the kernel, once, after the whole sum.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/matmul.h"
#include "op/window.h"

#define PAIRS                                                                  \
  MRT_OPTION(mrt_conv_options, stride, MRT_OPT_INTS),                          \
      MRT_OPTION(mrt_conv_options, padding, MRT_OPT_INTS),                     \
      MRT_OPTION(mrt_conv_options, dilation, MRT_OPT_INTS),                    \
      MRT_OPTION(mrt_conv_options, groups, MRT_OPT_INT, .preset = 1),          \
      MRT_OPTION(mrt_conv_options, compute, MRT_OPT_DTYPE,                     \
                 .preset = MRT_DTYPE_COUNT),                                   \
      MRT_OPTION(mrt_conv_options, accumulate, MRT_OPT_DTYPE,                  \
                 .preset = MRT_DTYPE_COUNT)
static const mrt_option options[] = { PAIRS };
static const mrt_option sized[] = {
  PAIRS,
  MRT_OPTION(mrt_conv_options, size, MRT_OPT_INTS, .required = true),
};
#undef PAIRS

/* ---- types --------------------------------------------------------------- */

static mrt_status want_options(mrt_infer *c) {
  mrt_conv_options *o = c->options;
  MRT_TRY(mrt_want_pair(c, &o->stride, "stride", 1, 1));
  MRT_TRY(mrt_want_pair(c, &o->padding, "padding", 0, 0));
  MRT_TRY(mrt_want_pair(c, &o->dilation, "dilation", 1, 1));
  if (o->groups >= 1) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "groups %lld, 1 or more wanted",
                    (long long)o->groups);
}

static mrt_status want_image(mrt_infer *c, int i) {
  if (c->in[i]->rank == 4) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "input %d is %s, [batch, height, width, channels] wanted",
                    i + 1, mrt_show(c->in[i]).s);
}

static mrt_status want_dtypes(mrt_infer *c, mrt_dtype *y) {
  mrt_conv_options *o = c->options;
  MRT_TRY(mrt_want_factors(c, o->compute, y));
  return mrt_want_sums(c, &o->accumulate);
}

static mrt_status want_weights(mrt_infer *c, int i) {
  if (c->in[i]->rank == 4) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "input %d is %s, [outputs, inputs / groups, height, width] "
                    "wanted",
                    i + 1, mrt_show(c->in[i]).s);
}

static mrt_status want_groups(mrt_infer *c, int64_t channels,
                              const char *what) {
  const mrt_conv_options *o = c->options;
  if (channels % o->groups == 0) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE,
                    "%lld %s channels, a multiple of the %lld groups wanted",
                    (long long)channels, what, (long long)o->groups);
}

/* Fill *y with the type of conv2d(x, w); x and w may be types to come. */
static mrt_status type_of_y(mrt_infer *c, const mrt_type *x, const mrt_type *w,
                            mrt_type *y) {
  const mrt_conv_options *o = c->options;
  MRT_TRY(want_groups(c, x->dims[3], "input"));
  MRT_TRY(want_groups(c, w->dims[0], "output"));
  if (x->dims[3] / o->groups != w->dims[1])
    return mrt_refuse(c, MRT_ESHAPE,
                      "%s in %lld group%s of %lld channels, weights %s want "
                      "%lld",
                      mrt_show(x).s, (long long)o->groups,
                      o->groups == 1 ? "" : "s",
                      (long long)(x->dims[3] / o->groups), mrt_show(w).s,
                      (long long)w->dims[1]);
  *y = (mrt_type){ x->dtype, 4, { x->dims[0], 0, 0, w->dims[0] } };
  for (int i = 0; i < 2; i++) {
    mrt_slide s = { x->dims[1 + i],   w->dims[2 + i],    o->stride.at[i],
                    o->padding.at[i], o->dilation.at[i], false };
    mrt_ints kernel = { 1, { s.kernel } };
    MRT_TRY(mrt_want_pair(c, &kernel, "a kernel of", 1, 1));
    MRT_TRY(mrt_want_places(c, &s, &y->dims[1 + i]));
  }
  int64_t taps = w->dims[2] * w->dims[3];
  if (taps <= INT32_MAX) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "a kernel of %lld places is too large",
                    (long long)taps);
}

static mrt_status infer(mrt_infer *c) {
  mrt_dtype dtype;
  MRT_TRY(want_dtypes(c, &dtype));
  MRT_TRY(want_image(c, 0));
  MRT_TRY(want_weights(c, 1));
  MRT_TRY(want_options(c));
  MRT_TRY(type_of_y(c, c->in[0], c->in[1], &c->out[0]));
  c->out[0].dtype = dtype;
  if (c->nin == 2) return MRT_OK;
  return mrt_want_shape(c, 2, 1, c->in[1]->dims, "one bias for each output");
}

/* Input i is the y of an x and a w of these types. */
static mrt_status want_y(mrt_infer *c, int i, const mrt_type *x,
                         const mrt_type *w) {
  mrt_type y;
  MRT_TRY(mrt_type_check(x, c->op->name, c->e));
  MRT_TRY(mrt_type_check(w, c->op->name, c->e));
  MRT_TRY(type_of_y(c, x, w, &y));
  return mrt_want_shape(c, i, 4, y.dims, "the shape of the convolution");
}

static mrt_status dx_infer(mrt_infer *c) {
  mrt_conv_options *o = c->options;
  const mrt_type *dy = c->in[0], *w = c->in[1];
  mrt_dtype dtype;
  MRT_TRY(want_dtypes(c, &dtype));
  MRT_TRY(want_image(c, 0));
  MRT_TRY(want_weights(c, 1));
  MRT_TRY(want_options(c));
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 0, 0));
  int64_t C;
  if (__builtin_mul_overflow(w->dims[1], o->groups, &C)) C = -1;
  c->out[0] =
      (mrt_type){ dtype, 4, { dy->dims[0], o->size.at[0], o->size.at[1], C } };
  return want_y(c, 0, &c->out[0], w);
}

static mrt_status dw_infer(mrt_infer *c) {
  mrt_conv_options *o = c->options;
  const mrt_type *x = c->in[0], *dy = c->in[1];
  mrt_dtype dtype;
  MRT_TRY(want_dtypes(c, &dtype));
  for (int i = 0; i < 2; i++) MRT_TRY(want_image(c, i));
  MRT_TRY(want_options(c));
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 1, 1));
  c->out[0] = (mrt_type){ dtype,
                          4,
                          { dy->dims[3], x->dims[3] / o->groups, o->size.at[0],
                            o->size.at[1] } };
  return want_y(c, 1, x, &c->out[0]);
}

/* ---- cost ---------------------------------------------------------------- */

/* The product that the elements of y are: `w` [O, C/G, kh, kw]. */
static mrt_product product_of(const mrt_signature *s, const mrt_type *y,
                              const mrt_type *w) {
  const mrt_conv_options *o = s->options;
  double groups = (double)o->groups;
  return (mrt_product){ groups, (double)mrt_extent(y, 0, 3),
                        (double)w->dims[0] / groups,
                        (double)mrt_extent(w, 1, 4) };
}
static mrt_product product(const mrt_signature *s) {
  return product_of(s, s->out[0], s->in[1]);
}
static mrt_product dx_product(const mrt_signature *s) {
  mrt_product p = product_of(s, s->in[0], s->in[1]);
  double taps = (double)mrt_extent(s->in[1], 2, 4);
  return (mrt_product){ p.count, p.m, p.k / taps, p.n * taps };
}
static mrt_product dw_product(const mrt_signature *s) {
  mrt_product p = product_of(s, s->in[1], s->out[0]);
  return (mrt_product){ p.count, p.n, p.k, p.m };
}
static double flops_of(mrt_product p) { return 2 * p.count * p.m * p.n * p.k; }
static double flops(const mrt_signature *s) {
  double bias = s->nin == 3 ? (double)mrt_type_count(s->out[0]) : 0;
  return flops_of(product(s)) + bias;
}
static double dx_flops(const mrt_signature *s) {
  return flops_of(dx_product(s));
}
static double dw_flops(const mrt_signature *s) {
  return flops_of(dw_product(s));
}

/* ---- shard rule --------------------------------------------------------------- */

/* `whole` where channels are not split into groups. */
static int ungrouped(const mrt_signature *s, int whole) {
  const mrt_conv_options *o = s->options;
  return o->groups == 1 ? whole : MRT_RULE_UNKNOWN;
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  int summed = s->nin == 3 ? MRT_RULE_UNKNOWN : MRT_RULE_PARTIAL;
  if (input == 0 && dim == 0) return 0;
  if (input == 0 && dim == 3) return ungrouped(s, summed);
  if (input == 1 && dim == 1) return ungrouped(s, summed);
  return input > 0 && dim == 0 ? ungrouped(s, 3) : MRT_RULE_UNKNOWN;
}
static int dx_shard_rule(const mrt_signature *s, int input, int dim) {
  if (input == 0 && dim == 0) return 0;
  if (dim == (input == 0 ? 3 : 0)) return ungrouped(s, MRT_RULE_PARTIAL);
  return input == 1 && dim == 1 ? ungrouped(s, 3) : MRT_RULE_UNKNOWN;
}
static int dw_shard_rule(const mrt_signature *s, int input, int dim) {
  if (dim == 0) return MRT_RULE_PARTIAL;
  return dim == 3 ? ungrouped(s, 1 - input) : MRT_RULE_UNKNOWN;
}

/* ---- gradients ----------------------------------------------------------- */

/* The options with the height and width of x, or of the kernel. */
static mrt_conv_options with_size(mrt_build *b, const int64_t *dims) {
  mrt_conv_options o = *(const mrt_conv_options *)b->options;
  o.size = (mrt_ints){ 2, { dims[0], dims[1] } };
  return o;
}
/* They have the dtypes of those whose gradients they are. */
static mrt_tensor *like(mrt_build *b, mrt_tensor *x, mrt_tensor *of) {
  return mrt_cast_to(b, x, mrt_of(of)->dtype);
}
static mrt_tensor *conv(mrt_build *b, mrt_tensor *x, mrt_tensor *w,
                        mrt_tensor *y) {
  mrt_conv_options o = *(const mrt_conv_options *)b->options;
  o.size = (mrt_ints){ 0 };
  return like(b, MRT_MAKE(b, conv2d, &o, x, w), y);
}
static mrt_tensor *conv_dx(mrt_build *b, mrt_tensor *dy, mrt_tensor *w,
                           mrt_tensor *x) {
  mrt_conv_options o = with_size(b, mrt_of(x)->dims + 1);
  return like(b, MRT_MAKE(b, conv2d_dx, &o, dy, w), x);
}
static mrt_tensor *conv_dw(mrt_build *b, mrt_tensor *x, mrt_tensor *dy,
                           mrt_tensor *w) {
  mrt_conv_options o = with_size(b, mrt_of(w)->dims + 2);
  return like(b, MRT_MAKE(b, conv2d_dw, &o, x, dy), w);
}

static void gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *w = b->in[1], *dy = b->dout[0];
  if (b->wants[0]) b->din[0] = conv_dx(b, dy, w, x);
  if (b->wants[1]) b->din[1] = conv_dw(b, x, dy, w);
  mrt_ints rows = { 3, { 0, 1, 2 } };
  if (b->nin == 3 && b->wants[2])
    b->din[2] = like(b, mrt_sum_dims(b, dy, &rows, false), b->in[2]);
}
static void dx_gradient(mrt_build *b) {
  mrt_tensor *dy = b->in[0], *w = b->in[1], *g = b->dout[0];
  if (b->wants[0]) b->din[0] = conv(b, g, w, dy);
  if (b->wants[1]) b->din[1] = conv_dw(b, g, dy, w);
}
static void dw_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *dy = b->in[1], *g = b->dout[0];
  if (b->wants[0]) b->din[0] = conv_dx(b, dy, g, x);
  if (b->wants[1]) b->din[1] = conv(b, x, g, dy);
}

/* ---- rows ---------------------------------------------------------------- */

const mrt_op mrt_op_conv2d = {
  .name = "conv2d",
  .number = MRT_OP_conv2d,
  .cost = MRT_COST_convolution,
  .doc = "y = x [N,H,W,C] convolved with w [O,C/groups,kh,kw], plus bias [O]",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_conv_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .product = product,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
};
const mrt_op mrt_op_conv2d_dx = {
  .name = "conv2d_dx",
  .number = MRT_OP_conv2d_dx,
  .cost = MRT_COST_convolution_dx,
  .doc = "dx of y = conv2d(x, w), from dy and w; size is x's height and width",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(sized, mrt_conv_options),
  .infer = dx_infer,
  .shard_rule = dx_shard_rule,
  .grad = dx_gradient,
  .flops = dx_flops,
  .product = dx_product,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .traits = MRT_PRODUCT | MRT_LIBRARY,
};
const mrt_op mrt_op_conv2d_dw = {
  .name = "conv2d_dw",
  .number = MRT_OP_conv2d_dw,
  .cost = MRT_COST_convolution_dw,
  .doc = "dw of y = conv2d(x, w), from x and dy; size is the kernel's",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(sized, mrt_conv_options),
  .infer = dw_infer,
  .shard_rule = dw_shard_rule,
  .grad = dw_gradient,
  .flops = dw_flops,
  .product = dw_product,
  .width = MRT_NARROW,
  .narrow_outputs = 1,
  .traits = MRT_PRODUCT | MRT_LIBRARY,
};
