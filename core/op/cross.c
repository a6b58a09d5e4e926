/* cross.c -- cross products of vectors of three along a dimension
 *
 *   x y   one shape, 3 along dim, f32 | f64
 *   y     x[j] y[k] - x[k] y[j], each product rounded
 *   grad  dx = y x dy;  dy = dy x x
 *   fails ESHAPE, EDTYPE, EVALUE
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"

static const mrt_option table[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .preset = -1),
};

static mrt_status infer(mrt_infer *c) {
  mrt_dim_options *o = c->options;
  const mrt_type *x = c->in[0], *y = c->in[1];
  MRT_TRY(mrt_want_real(c, 0));
  MRT_TRY(mrt_want_same_dtype(c, 0, 1));
  MRT_TRY(mrt_want_dim(c, &o->dim, x->rank));
  if (!mrt_type_same_shape(x, y) || x->dims[o->dim] != 3)
    return mrt_refuse(c, MRT_ESHAPE,
                      "%s and %s, one shape with 3 along dim %lld wanted",
                      mrt_show(x).s, mrt_show(y).s, (long long)o->dim + 1);
  c->out[0] = *x;
  return MRT_OK;
}

static void gradient(mrt_build *b) {
  mrt_tensor *dz = b->dout[0];
  if (b->wants[0]) b->din[0] = MRT_MAKE(b, cross, b->options, b->in[1], dz);
  if (b->wants[1]) b->din[1] = MRT_MAKE(b, cross, b->options, dz, b->in[0]);
}

static double flops(const mrt_signature *s) {
  return 3.0 * (double)mrt_type_count(s->in[0]);
}

static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options;
  return dim == o->dim ? MRT_RULE_UNKNOWN : dim;
}

const mrt_op mrt_op_cross = {
  .name = "cross",
  .number = MRT_OP_cross,
  .cost = MRT_COST_pointwise,
  .doc = "cross products of vectors of three along dim",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(table, mrt_dim_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .width = MRT_WIDE,
};
