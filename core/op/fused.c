/* fused.c -- a chain of pointwise operators in one pass over memory
 *
 *   fused         its results are written
 *   fused_reduce  its one result is joined by a reduction, and never written
 *
 * Made by the fuse pass and by run/direct.c, after gradients and never by a
 * user.  The program is in the options (fused.h), and so are the types it
 * computes.
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
static void add_work(const mrt_signature *s, const mrt_fused_options *o,
                     double *by_kind) {
  for (int i = 0; i < o->code_count; i++) {
    const mrt_op *op = mrt_ops[o->code[i].op];
    mrt_signature part = *s;
    part.op = op, part.options = o->code[i].options, part.nout = 1;
    if (op->flops) by_kind[op->cost] += op->flops(&part);
  }
}

static void work(const mrt_signature *s, double *by_kind) {
  add_work(s, s->options, by_kind);
}

static mrt_status reduce_infer(mrt_infer *c) {
  const mrt_fused_reduce_options *o = c->options;
  c->out[0] = o->out;
  return MRT_OK;
}

static void reduce_work(const mrt_signature *s, double *by_kind) {
  const mrt_fused_reduce_options *o = s->options;
  const mrt_type *x = &o->program.out_types[0];
  mrt_signature part = *s;
  part.out = &x, part.nout = 1;
  add_work(&part, &o->program, by_kind);
  by_kind[MRT_COST_reduce] += (double)mrt_type_count(x);
}

static double flops(const mrt_signature *s) {
  double by_kind[MRT_COST_COUNT] = { 0 }, sum = 0;
  s->op->work(s, by_kind);
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
const mrt_op mrt_op_fused_reduce = {
  .name = "fused_reduce",
  .number = MRT_OP_fused_reduce,
  .cost = MRT_COST_reduce,
  .doc = "a reduction of what a chain of pointwise operators computes",
  .min_inputs = 0,
  .max_inputs = -1,
  .options_size = sizeof(mrt_fused_reduce_options),
  .infer = reduce_infer,
  .flops = flops,
  .work = reduce_work,
  .strided = UINT32_MAX,
  .width = MRT_WIDE,
  .traits = MRT_INTERNAL,
};
