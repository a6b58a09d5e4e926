/* rope.c -- rotary position embedding
 *
 *   (y0, y1) = (x0 cos a - x1 sin a, x0 sin a + x1 cos a)
 *   a = (offset + t) base^(-2 i / D) for the i-th of D / 2 pairs of row t
 *
 *   x      [..., T, H, D], D even, f32 | f64, any strides
 *   y      type of x; may take x's storage
 *   width  angles in double, their sine and cosine rounded to x's dtype
 *   cost   3 flop per element; reads x once, writes y once
 *   grad   the rotation back; keeps nothing
 *   fails  ESHAPE  fewer than three dimensions, D odd
 *          EVALUE  base not positive and finite
 *          EDTYPE  x not f32 or f64
 *   from   Su et al., arXiv:2104.09864
 *
 * SPDX-License-Identifier: MIT */
#include "op/rope.h"
#include "op/build.h"

#include <math.h>

static const mrt_option options[] = {
  MRT_OPTION(mrt_rope_options, base, MRT_OPT_NUM, .preset = 10000),
  MRT_OPTION(mrt_rope_options, offset, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_rope_options, inverse, MRT_OPT_BOOL, .preset = false),
  MRT_OPTION(mrt_rope_options, interleaved, MRT_OPT_BOOL, .preset = false),
};

static mrt_status infer(mrt_infer *c) {
  const mrt_rope_options *o = c->options;
  const mrt_type *x = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (x->rank < 3)
    return mrt_refuse(c, MRT_ESHAPE, "%s, [..., time, heads, width] wanted",
                      mrt_show(x).s);
  if (x->dims[x->rank - 1] % 2)
    return mrt_refuse(c, MRT_ESHAPE, "%s, an even width wanted", mrt_show(x).s);
  if (!(o->base > 0) || !isfinite(o->base))
    return mrt_refuse(c, MRT_EVALUE, "base %g, a positive one wanted", o->base);
  c->out[0] = *x;
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return 3 * (double)mrt_type_count(s->in[0]);
}

static void gradient(mrt_build *b) {
  mrt_rope_options back = *(const mrt_rope_options *)b->options;
  back.inverse = !back.inverse;
  b->din[0] = MRT_MAKE(b, rope, &back, b->dout[0]);
}

const mrt_op mrt_op_rope = {
  .name = "rope",
  .number = MRT_OP_rope,
  .cost = MRT_COST_pointwise,
  .doc = "pairs of x rotated by position * base^(-2 i / D)",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_rope_options),
  .infer = infer,
  .shard_rule = mrt_shard_rules_first,
  .grad = gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
};
