/* fused.c -- a chain of pointwise operators in one pass over memory
 *
 * Made by the fuse pass, after gradients and never by a user.  The program is
 * in the options (fused.h), and so are the types it computes.
 *
 *   cost   the sum of its operators'; reads each input once, writes each
 *          output once
 *   grad   none: fusing comes last
 *
 * SPDX-License-Identifier: MIT */
#include "op/fused.h"
#include "op/op.h"

static mrt_status infer(mrt_infer *c) {
  const mrt_fused_options *o = c->options;
  for (int i = 0; i < c->nout; i++) c->out[i] = o->out_types[i];
  return MRT_OK;
}

/* Pointwise costs depend on options and output type only. */
static void work(const mrt_signature *s, double *by_kind) {
  const mrt_fused_options *o = s->options;
  for (int i = 0; i < o->code_count; i++) {
    const mrt_op *op = mrt_ops[o->code[i].op];
    mrt_signature part = *s;
    part.op = op, part.options = o->code[i].options, part.nout = 1;
    if (op->flops) by_kind[op->cost] += op->flops(&part);
  }
}

static double flops(const mrt_signature *s) {
  double by_kind[MRT_COST_COUNT] = { 0 }, sum = 0;
  work(s, by_kind);
  for (int i = 0; i < MRT_COST_COUNT; i++) sum += by_kind[i];
  return sum;
}

const mrt_op mrt_op_fused = {
  .name = "fused",
  .number = MRT_OP_fused,
  .cost = MRT_COST_pointwise,
  .doc = "a chain of pointwise operators",
  .min_inputs = 0,
  .max_inputs = -1,
  .options_size = sizeof(mrt_fused_options),
  .infer = infer,
  .flops = flops,
  .work = work,
  .inplace = UINT32_MAX,
  .strided = UINT32_MAX,
  .width = MRT_WIDE,
  .traits = MRT_INTERNAL,
};
