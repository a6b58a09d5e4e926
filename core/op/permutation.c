/* permutation.c -- numbers drawn as an order
 *
 *   permutation  y = 0, 1 ... n - 1;  for i = 0, 1 ...: swap y[i] and
 *                y[i + floor(x[i] (n - i))]
 *
 *   x      [n] f64, drawn from [0, 1): every order is then as likely as the
 *          others
 *   y      [n] i64
 *   cost   n swaps, one after the other
 *   fails  EDTYPE  not f64;  ESHAPE  not one dimension
 *   from   Fisher and Yates, by Durstenfeld, doi:10.1145/364520.364540
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"

static mrt_status infer(mrt_infer *c) {
  MRT_TRY(mrt_want_dtype(c, 0, MRT_f64));
  if (c->in[0]->rank != 1)
    return mrt_refuse(c, MRT_ESHAPE, "%s, one dimension wanted",
                      mrt_show(c->in[0]).s);
  c->out[0] = *c->in[0];
  c->out[0].dtype = MRT_i64;
  return MRT_OK;
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[0]);
}

const mrt_op mrt_op_permutation = {
  .name = "permutation",
  .number = MRT_OP_permutation,
  .cost = MRT_COST_move,
  .doc = "the order of 0 to n - 1 that n numbers drawn from [0, 1) give",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = infer,
  .flops = flops,
  .width = MRT_WIDE,
  .wide_inputs = 1,
  .traits = MRT_LIBRARY,
};
