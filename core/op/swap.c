/* swap.c -- copies between the device's memory and the swap tier
 *
 *   swap_out   swapped = x   begins to copy x out
 *   swap_in    y = swapped   begins to copy it in; y is whole after the wait
 *   swap_wait  (x, swapped)  waits until the copy between the two is over
 *
 * Made by passes after gradients and order (plan/swap/swap.h), never by a user.
 * The nodes between the start of a copy and its wait run while it goes on; a
 * wait reads both sides, so lifetimes follow the edges as everywhere: neither
 * side's memory has another use before the copy is over.
 *
 *   x y swapped  any dtype, one shape, contiguous; swapped lies in the swap tier
 *   cost         none of the processor's
 *   grad         none: swapping comes last
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "op/op.h"

static mrt_status infer_copy(mrt_infer *c) {
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static mrt_status infer_wait(mrt_infer *c) {
  c->nout = 0;
  return mrt_want_same(c, 0, 1);
}

const mrt_op mrt_op_swap_out = {
  .name = "swap_out",
  .number = MRT_OP_swap_out,
  .doc = "swapped = x: begins to copy x to the swap tier",
  .min_inputs = 1,
  .max_inputs = 1,
  .options_size = sizeof(mrt_swap_options),
  .infer = infer_copy,
  .width = MRT_FOLLOW,
  .cost = MRT_COST_move,
  .traits = MRT_INTERNAL | MRT_FIXED | MRT_SWAPS,
};
const mrt_op mrt_op_swap_in = {
  .name = "swap_in",
  .number = MRT_OP_swap_in,
  .doc = "y = swapped: begins to copy it from the swap tier",
  .min_inputs = 1,
  .max_inputs = 1,
  .options_size = sizeof(mrt_swap_options),
  .infer = infer_copy,
  .width = MRT_FOLLOW,
  .cost = MRT_COST_move,
  .traits = MRT_INTERNAL | MRT_FIXED | MRT_SWAPS,
};
const mrt_op mrt_op_swap_wait = {
  .name = "swap_wait",
  .number = MRT_OP_swap_wait,
  .doc = "waits for the copy between x and swapped",
  .min_inputs = 2,
  .max_inputs = 2,
  .options_size = sizeof(mrt_swap_options),
  .infer = infer_wait,
  .width = MRT_FOLLOW,
  .cost = MRT_COST_move,
  .traits = MRT_INTERNAL | MRT_FIXED | MRT_WAITS,
};
