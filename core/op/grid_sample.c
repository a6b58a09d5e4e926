/* grid_sample.c -- images read at places between their pixels
 *
 *   grid_sample     y[n,c,p,q] = sum over rows i and columns j of
 *                       u_i(grid[n,p,q,2]) v_j(grid[n,p,q,1]) x[n,c,i,j],
 *                   in nearest mode the one pixel there, else the four around,
 *                   with weights that fall off linearly
 *   grid_sample_dx  what dy is worth to x: of `size`
 *
 *   x        [N, C, H, W], f32 | f64;  y [N, C, P, Q]
 *   grid     [N, P, Q, 2]: column and row, -1 and 1 at the edges of the image,
 *            or at the middles of its outermost pixels where corners are aligned
 *   padding  what lies outside: zeros, the nearest pixel, the image mirrored
 *   order_x, order_y  v and u are replaced by their derivatives of that order:
 *            of order 2 and more they are 0
 *   cost     8 flop for each element of y
 *   grad     with respect to x (dy) each is the other's; with respect to the
 *            grid dy times the derivative, summed over channels; 0 of nearest
 *   fails    EDTYPE not f32 or f64;  ESHAPE shapes that do not fit, an image of
 *            2^31 pixels or none;  EVALUE an order below 0
 *   from     Jaderberg et al., arXiv:1506.02025
 *
 * SPDX-License-Identifier: MIT */
#include "op/grid_sample.h"
#include "op/build.h"
#include "op/move.h"
#include "op/window.h"

#define SHARED                                                                 \
  MRT_OPTION(mrt_grid_options, mode, MRT_OPT_ENUM,                             \
             .words = "bilinear nearest"),                                     \
      MRT_OPTION(mrt_grid_options, padding, MRT_OPT_ENUM,                      \
                 .words = "zeros border reflection"),                          \
      MRT_OPTION(mrt_grid_options, align_corners, MRT_OPT_BOOL),               \
      MRT_OPTION(mrt_grid_options, order_x, MRT_OPT_INT, .preset = 0),         \
      MRT_OPTION(mrt_grid_options, order_y, MRT_OPT_INT, .preset = 0)
static const mrt_option options[] = { SHARED };
static const mrt_option sized[] = {
  SHARED,
  MRT_OPTION(mrt_grid_options, size, MRT_OPT_INTS, .required = true),
};
#undef SHARED

/* ---- types --------------------------------------------------------------- */

static mrt_status want(mrt_infer *c) {
  const mrt_grid_options *o = c->options;
  const mrt_type *x = c->in[0], *grid = c->in[1];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  if (x->rank != 4)
    return mrt_refuse(c, MRT_ESHAPE,
                      "input 1 is %s, [batch, channels, height, width] wanted",
                      mrt_show(x).s);
  if (grid->rank != 4 || grid->dims[3] != 2 || grid->dims[0] != x->dims[0])
    return mrt_refuse(c, MRT_ESHAPE, "grid %s, [%lld, rows, columns, 2] wanted",
                      mrt_show(grid).s, (long long)x->dims[0]);
  if (o->order_x >= 0 && o->order_y >= 0) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "orders %lld and %lld, 0 or more wanted",
                    (long long)o->order_x, (long long)o->order_y);
}

static mrt_status want_pixels(mrt_infer *c, const mrt_type *x) {
  mrt_ints sides = { 2, { x->dims[2], x->dims[3] } };
  MRT_TRY(mrt_want_pair(c, &sides, "a side of the image:", 1, 1));
  if (sides.at[0] * sides.at[1] <= INT32_MAX) return MRT_OK;
  return mrt_refuse(c, MRT_ESHAPE, "%s: fewer than 2^31 pixels wanted",
                    mrt_show(x).s);
}

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(want(c));
  MRT_TRY(want_pixels(c, c->in[0]));
  c->out[0] = *c->in[0];
  for (int i = 0; i < 2; i++) c->out[0].dims[2 + i] = c->in[1]->dims[1 + i];
  return MRT_OK;
}

static mrt_status dx_infer(mrt_infer *c) {
  mrt_grid_options *o = c->options;
  const mrt_type *dy = c->in[0], *grid = c->in[1];
  MRT_TRY(want(c));
  for (int i = 0; i < 2; i++)
    if (dy->dims[2 + i] != grid->dims[1 + i])
      return mrt_refuse(c, MRT_ESHAPE, "%s for grid %s, as many places wanted",
                        mrt_show(dy).s, mrt_show(grid).s);
  if (o->size.count == 0)
    return mrt_refuse(c, MRT_EVALUE, "size: one or two integers wanted");
  MRT_TRY(mrt_want_pair(c, &o->size, "size", 1, 1));
  c->out[0] = *dy;
  for (int i = 0; i < 2; i++) c->out[0].dims[2 + i] = o->size.at[i];
  return want_pixels(c, &c->out[0]);
}

static double flops(const mrt_signature *s) {
  return 8 * (double)mrt_type_count(s->out[0]);
}
static double dx_flops(const mrt_signature *s) {
  return 8 * (double)mrt_type_count(s->in[0]);
}
static int shard_rule(const mrt_signature *s, int input, int dim) {
  if (dim == 0) return 0;
  if (input == 0) return dim == 1 ? 1 : MRT_RULE_UNKNOWN;
  return MRT_RULE_UNKNOWN;
}

/* ---- gradients ----------------------------------------------------------- */

static mrt_tensor *sample(mrt_build *b, mrt_tensor *x, int more_x, int more_y) {
  mrt_grid_options o = *(const mrt_grid_options *)b->options;
  o.order_x += more_x, o.order_y += more_y;
  o.size = (mrt_ints){ 0 };
  return MRT_MAKE(b, grid_sample, &o, x, b->in[1]);
}
static mrt_tensor *spread(mrt_build *b, mrt_tensor *dy, mrt_tensor *x) {
  mrt_grid_options o = *(const mrt_grid_options *)b->options;
  const int64_t *d = mrt_of(x)->dims;
  o.size = (mrt_ints){ 2, { d[2], d[3] } };
  return MRT_MAKE(b, grid_sample_dx, &o, dy, b->in[1]);
}

/* For each place, what dy times the derivative of the pixels is, along x or y:
 * [N, P, Q, 1]. */
static mrt_tensor *along(mrt_build *b, mrt_tensor *dy, mrt_tensor *x,
                         bool of_y) {
  const mrt_grid_options *o = b->options;
  mrt_type one = *mrt_of(b->in[1]);
  one.dims[3] = 1;
  int64_t order = of_y ? o->order_y : o->order_x;
  if (o->mode == MRT_GRID_NEAREST || order > 0)
    return mrt_expand_to(b, mrt_const_like(b, x, 0), &one);
  mrt_tensor *sum =
      mrt_sum_dim(b, mrt_mul(b, dy, sample(b, x, !of_y, of_y)), 1, false);
  return mrt_reshape_to(b, sum, 4, one.dims);
}
static mrt_tensor *of_grid(mrt_build *b, mrt_tensor *dy, mrt_tensor *x) {
  mrt_dim_options last = { 3 };
  return MRT_MAKE(b, cat, &last, along(b, dy, x, false), along(b, dy, x, true));
}

static void gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0], *dy = b->dout[0];
  if (b->wants[0]) b->din[0] = spread(b, dy, x);
  if (b->wants[1]) b->din[1] = of_grid(b, dy, x);
}
static void dx_gradient(mrt_build *b) {
  mrt_tensor *dy = b->in[0], *g = b->dout[0];
  if (b->wants[0]) b->din[0] = sample(b, g, 0, 0);
  if (b->wants[1]) b->din[1] = of_grid(b, dy, g);
}

const mrt_op mrt_op_grid_sample = {
  .name = "grid_sample",
  .number = MRT_OP_grid_sample,
  .cost = MRT_COST_pooling,
  .doc = "x [N,C,H,W] read at the places of grid [N,P,Q,2]: [N,C,P,Q]",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_grid_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
const mrt_op mrt_op_grid_sample_dx = {
  .name = "grid_sample_dx",
  .number = MRT_OP_grid_sample_dx,
  .cost = MRT_COST_pooling,
  .doc =
      "dx of y = grid_sample(x, grid), from dy; size is x's height and width",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(sized, mrt_grid_options),
  .infer = dx_infer,
  .shard_rule = shard_rule,
  .grad = dx_gradient,
  .flops = dx_flops,
  .width = MRT_WIDE,
  .traits = MRT_LIBRARY,
};
