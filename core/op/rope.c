/* rope.c -- rotary position embedding
 *
 *   (y0, y1) = scale (x0 cos a - x1 sin a, x0 sin a + x1 cos a)
 *   a = p base^(-2 i / width), or p f[i], for the i-th of width / 2 pairs of a
 *   row at position p; what lies behind `width` is copied
 *
 *   x      [..., T, H, D], any strides; width even, at most D; default D
 *   f      [width / 2], f32 or x's dtype; optional, then base counts
 *   p      [T] or, of x [B, T, H, D], [B, T], integers; optional, then offset
 *          + 0, 1, ..., T - 1
 *   y      type of x; may take x's storage
 *   width  angles in double, their sine and cosine rounded to x's dtype; with f
 *          of f32 an angle is the product rounded to f32, as models were
 *          trained with it
 *   cost   3 flop per element; reads x once, writes y once
 *   grad   the rotation back; keeps nothing.  f has none (EGRAD)
 *   fails  ESHAPE  fewer than three dimensions, width odd or beyond D, f or p
 *                  that do not fit
 *          EVALUE  base not positive and finite, scale not finite
 *          EDTYPE  x not f32 or f64, p no integers
 *   from   Su et al., arXiv:2104.09864
 *
 * SPDX-License-Identifier: MIT */
#include "op/rope.h"
#include "op/build.h"
#include "tensor/tensor.h"

#include <math.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_rope_options, base, MRT_OPT_NUM, .preset = 10000),
  MRT_OPTION(mrt_rope_options, offset, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_rope_options, inverse, MRT_OPT_BOOL, .preset = false),
  MRT_OPTION(mrt_rope_options, interleaved, MRT_OPT_BOOL, .preset = false),
  MRT_OPTION(mrt_rope_options, width, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_rope_options, scale, MRT_OPT_NUM, .preset = 1),
};

static mrt_status want_options(mrt_infer *c) {
  mrt_rope_options *o = c->options;
  const mrt_type *x = c->in[0];
  int64_t D = x->dims[x->rank - 1];
  if (o->width == 0) o->width = D;
  if (o->width % 2)
    return mrt_refuse(c, MRT_ESHAPE, "%s, an even width wanted", mrt_show(x).s);
  if (o->width < 0 || o->width > D)
    return mrt_refuse(c, MRT_ESHAPE, "width %lld of %s, at most all wanted",
                      (long long)o->width, mrt_show(x).s);
  if (!(o->base > 0) || !isfinite(o->base))
    return mrt_refuse(c, MRT_EVALUE, "base %g, a positive one wanted", o->base);
  if (!isfinite(o->scale))
    return mrt_refuse(c, MRT_EVALUE, "scale %g, a finite one wanted", o->scale);
  return MRT_OK;
}

static mrt_status want_frequencies(mrt_infer *c, int i) {
  const mrt_rope_options *o = c->options;
  int64_t pairs = o->width / 2;
  if (c->in[i]->dtype != MRT_f32) MRT_TRY(mrt_want_same_dtype(c, 0, i));
  return mrt_want_shape(c, i, 1, &pairs, "one for each pair");
}

static mrt_status want_positions(mrt_infer *c, int i) {
  const mrt_type *x = c->in[0], *p = c->in[i];
  const int64_t *dims = x->dims + x->rank - 3;
  MRT_TRY(mrt_want_integer(c, i));
  if (p->rank == 2 && x->rank == 4)
    return mrt_want_shape(c, i, 2, x->dims, "samples and time");
  return mrt_want_shape(c, i, 1, dims, "one for each row");
}

static mrt_status infer(mrt_infer *c) {
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (x->rank < 3)
    return mrt_refuse(c, MRT_ESHAPE, "%s, [..., time, heads, width] wanted",
                      mrt_show(x).s);
  MRT_TRY(want_options(c));
  mrt_dtype second = c->in[c->nin > 1]->dtype;
  int f = mrt_rope_frequencies(c->nin, second);
  int p = mrt_rope_positions(c->nin, second);
  if (f) MRT_TRY(want_frequencies(c, f));
  if (p) MRT_TRY(want_positions(c, p));
  if (c->nin > 1 + (f > 0) + (p > 0))
    return mrt_refuse(c, MRT_EVALUE,
                      "%d inputs, x, frequencies and positions wanted", c->nin);
  c->out[0] = *x;
  return MRT_OK;
}

/* Samples and heads each by themselves; a row of time needs its position. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  int rank = s->in[0]->rank;
  if (input == 0)
    return dim == rank - 3 || dim == rank - 1 ? MRT_RULE_UNKNOWN : dim;
  return dim == 0 && s->in[input]->rank == 2 ? 0 : MRT_RULE_UNKNOWN;
}

static double flops(const mrt_signature *s) {
  return 3 * (double)mrt_type_count(s->in[0]);
}

static void gradient(mrt_build *b) {
  mrt_rope_options back = *(const mrt_rope_options *)b->options;
  back.inverse = !back.inverse;
  int f =
      b->nin > 1 ? mrt_rope_frequencies(b->nin, mrt_of(b->in[1])->dtype) : 0;
  if (f && b->wants[f]) {
    b->status = mrt_fail(&b->ctx->error, MRT_EGRAD,
                         "rope: frequencies have no gradient");
    return;
  }
  mrt_tensor *in[3] = { b->dout[0] };
  for (int i = 1; i < b->nin; i++) in[i] = b->in[i];
  mrt_make_all(b, MRT_OP_rope, &back, b->nin, in, b->din, 1);
}

const mrt_op mrt_op_rope = {
  .name = "rope",
  .number = MRT_OP_rope,
  .cost = MRT_COST_pointwise,
  .doc = "pairs of x rotated by position * base^(-2 i / width), or by "
         "frequencies of the second input, at positions of the third",
  .min_inputs = 1,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_rope_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .wide_inputs = 2,
  .narrow_outputs = 1,
};
