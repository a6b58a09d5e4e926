/* dropout.c -- set a random share p of elements to 0, scale the rest
 *
 *   x      any shape, f32 | f64
 *   y      x / (1 - p) with probability 1 - p, else 0; may take x's storage
 *   grad   dx = the same drawing applied to dy: the key says which elements
 *          were kept, so no mask is stored
 *   fails  EVALUE  p outside [0, 1]
 *          EDTYPE  x not f32 or f64
 *   from   Srivastava et al., JMLR 15 (2014)
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"
#include "op/random.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_dropout_options, key, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_dropout_options, seed, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_dropout_options, inner, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_dropout_options, p, MRT_OPT_NUM, .preset = 0.5),
};

static mrt_status infer(mrt_infer *c) {
  const mrt_dropout_options *o = c->options;
  if (!(o->p >= 0 && o->p <= 1))
    return mrt_refuse(c, MRT_EVALUE, "p is %g, 0 to 1 wanted", o->p);
  return mrt_infer_reals(c);
}

static void grad(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, dropout, b->options, b->dout[0]);
}

const mrt_op mrt_op_dropout = {
  .name = "dropout",
  .number = MRT_OP_dropout,
  .cost = MRT_COST_dropout,
  .doc = "y = x / (1 - p) with probability 1 - p, else 0",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_dropout_options),
  .infer = infer,
  .grad = grad,
  .flops = mrt_flops_ten,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE | MRT_RANDOM,
};
