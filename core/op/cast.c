/* cast.c -- another element type
 *
 *   x      any shape, any dtype
 *   y      shape of x, dtype `dtype`
 *   rule   to a narrower float: nearest, ties to even; float to integer:
 *          towards zero, at the ends saturated, NaN to 0; integer to integer:
 *          modulo 2^bits; to bool: x is not 0
 *   grad   dx = dy cast back, between floats; otherwise none
 *
 * SPDX-License-Identifier: MIT */
#include "op/cast.h"
#include "op/pointwise.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_cast_options, dtype, MRT_OPT_DTYPE, .required = true),
};

static mrt_status infer(mrt_infer *c) {
  const mrt_cast_options *o = c->options;
  c->out[0] = *c->in[0];
  c->out[0].dtype = o->dtype;
  return MRT_OK;
}

static void grad(mrt_build *b) {
  const mrt_cast_options *o = b->options;
  mrt_dtype from = mrt_of(b->in[0])->dtype;
  if (mrt_is_float(from) && mrt_is_float(o->dtype))
    b->din[0] = mrt_cast_to(b, b->dout[0], from);
}

/* No processor rounds to 8 bits by itself. */
static double flops(const mrt_signature *s) {
  mrt_dtype to = s->out[0]->dtype;
  return mrt_is_narrow(to) && mrt_dtypes[to].bytes == 1 ? mrt_flops_ten(s)
                                                        : mrt_flops_one(s);
}

const mrt_op mrt_op_cast = {
  .name = "cast",
  .number = MRT_OP_cast,
  .cost = MRT_COST_pointwise,
  .doc = "y = x in another dtype",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_cast_options),
  .infer = infer,
  .grad = grad,
  .flops = flops,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE | MRT_LINEAR,
};
