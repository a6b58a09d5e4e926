/* divisor.c -- integers that something is divided by
 *
 *   divisor   y = x; an element 0 ends the run
 *
 *   x      an integer or bool of any shape
 *   y      as x; may take its storage
 *   cost   reads x once, writes y once
 *   fails  EDTYPE; an element 0 is a fault of the run (EDATA)
 *
 * Floats have a quotient by 0, integers have none: where both operands are
 * integers the front end divides by this (`//`, `%`).
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"

static mrt_status divisor_infer(mrt_infer *c) {
  if (!mrt_is_int(c->in[0]->dtype) && c->in[0]->dtype != MRT_bool)
    return mrt_refuse(c, MRT_EDTYPE, "%s, an integer or bool wanted",
                      mrt_show(c->in[0]).s);
  c->out[0] = *c->in[0];
  return MRT_OK;
}

const mrt_op mrt_op_divisor = {
  .name = "divisor",
  .number = MRT_OP_divisor,
  .cost = MRT_COST_move,
  .doc = "y = x; an element 0 ends the run with an error",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = divisor_infer,
  .shard_rule = mrt_shard_rules_same,
  .inplace = 1,
  .width = MRT_FOLLOW,
  .fault = "an element is 0, which divides no integer",
  .traits = MRT_FAULTS | MRT_LIBRARY,
};
