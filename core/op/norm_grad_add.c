/* norm_grad_add.c -- the gradient of a norm, added to what is there
 *
 *   layer_norm_grad_add  s = c + dx[, dw, db][, t]  for c, x, mean, rstd, dy[, w]
 *   rms_norm_grad_add    s = c + dx[, dw][, t]      for c, x, rstd, dy[, w]
 *
 *   in     as layer_norm_grad and rms_norm_grad; c as dx
 *   s      type of dx; may take the storage of c, x or dy
 *   t      s rounded to the option `round`, f16 or bf16; without it there is none
 *   rule   dx is rounded to its dtype, or to the option `first`, before it is
 *          added: bits are those of the gradient, of casts and of add.  Where a
 *          residual branch begins with a norm, c is the gradient that goes past the
 *          branch and t what the product before reads: one pass over memory instead
 *          of two.  The pass add_norm_grads makes it of the three
 *   cost   that of the gradient, and 1 flop per element
 *   grad   of these
 *   fails  ESHAPE, EDTYPE as the gradients; c not as x; EVALUE  `round` is wide
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/norm.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_norm_add_options, round, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
  MRT_OPTION(mrt_norm_add_options, first, MRT_OPT_DTYPE,
             .preset = MRT_DTYPE_COUNT),
};

static mrt_status want_narrow(mrt_infer *c, const char *name, mrt_dtype d) {
  if (d == MRT_DTYPE_COUNT || mrt_is_narrow(d)) return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "%s is %s, a narrow float wanted", name,
                    mrt_dtypes[d].name);
}

/* Those of the gradient follow c. */
static mrt_status infer(mrt_infer *c, int stats) {
  const mrt_norm_add_options *o = c->options;
  mrt_infer gradient = *c;
  gradient.in++, gradient.nin--;
  MRT_TRY(mrt_norm_infer_grad(&gradient, stats));
  MRT_TRY(mrt_want_same(c, 0, 1));
  c->nout = gradient.nout;
  MRT_TRY(want_narrow(c, "round", o->round));
  MRT_TRY(want_narrow(c, "first", o->first));
  if (o->round == MRT_DTYPE_COUNT) return MRT_OK;
  c->out[c->nout] = c->out[0];
  c->out[c->nout++].dtype = o->round;
  return MRT_OK;
}
static mrt_status infer_layer(mrt_infer *c) { return infer(c, 2); }
static mrt_status infer_rms(mrt_infer *c) { return infer(c, 1); }

static double flops(const mrt_signature *s) {
  return mrt_norm_grad_flops(s) + (double)mrt_type_count(s->in[0]);
}

static void parts(mrt_build *b, int grad, int stats, mrt_tensor **value) {
  const mrt_norm_add_options *o = b->options;
  int nout = b->nin > stats + 3 ? 1 + stats : 1;
  mrt_make_all(b, grad, NULL, b->nin - 1, b->in + 1, value, nout);
  if (o->first != MRT_DTYPE_COUNT)
    value[0] = mrt_cast_to(b, mrt_cast_to(b, value[0], o->first),
                           mrt_of(b->in[0])->dtype);
  value[0] = mrt_add(b, b->in[0], value[0]);
  if (o->round != MRT_DTYPE_COUNT)
    value[nout] = mrt_cast_to(b, value[0], o->round);
}
static void layer_parts(mrt_build *b, mrt_tensor **value) {
  parts(b, MRT_OP_layer_norm_grad, 2, value);
}
static void rms_parts(mrt_build *b, mrt_tensor **value) {
  parts(b, MRT_OP_rms_norm_grad, 1, value);
}
static void layer_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, layer_parts);
}
static void rms_gradient(mrt_build *b) { mrt_grad_decomposed(b, rms_parts); }

const mrt_op mrt_op_layer_norm_grad_add = {
  .name = "layer_norm_grad_add",
  .number = MRT_OP_layer_norm_grad_add,
  .cost = MRT_COST_norm,
  .doc = "c + dx, with w dw and db, and the sum rounded, for c, x, mean, rstd, "
         "dy[, w]",
  .min_inputs = 5,
  .max_inputs = 6,
  MRT_OPTIONS(options, mrt_norm_add_options),
  .infer = infer_layer,
  .grad = layer_gradient,
  .flops = flops,
  .inplace = 1 | 2 | 16,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 16 | 32,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
const mrt_op mrt_op_rms_norm_grad_add = {
  .name = "rms_norm_grad_add",
  .number = MRT_OP_rms_norm_grad_add,
  .cost = MRT_COST_norm,
  .doc = "c + dx, with w dw, and the sum rounded, for c, x, rstd, dy[, w]",
  .min_inputs = 4,
  .max_inputs = 5,
  MRT_OPTIONS(options, mrt_norm_add_options),
  .infer = infer_rms,
  .grad = rms_gradient,
  .flops = flops,
  .inplace = 1 | 2 | 8,
  .width = MRT_WIDE,
  .narrow_inputs = 1 | 2 | 8 | 16,
  .narrow_outputs = 1,
  .traits = MRT_LIBRARY,
};
