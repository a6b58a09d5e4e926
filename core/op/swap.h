/* swap.h -- options of the copies between tiers
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SWAP_H
#define MRT_OP_SWAP_H

#include "base/dtype.h"
#include "device/kernel.h"
#include "device/tier.h"

typedef struct mrt_swap_options {
  int transfer; /* its number in the plan: the same where it starts and ends */
  mrt_tier_lane lane;
} mrt_swap_options;

/* For kernels: queue the copy between data and swapped, to or from as the lane
 * says. */
static inline void mrt_swap_begin(const mrt_call *c, void *data,
                                  const mrt_operand *swapped) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  run->copies[o->transfer] = run->tier->start(run->tier, o->lane, data,
                                              (size_t)(uintptr_t)swapped->data,
                                              mrt_type_bytes(&swapped->type));
}

/* Wait for it; one that fails is noted in the run, which then stops. */
static inline void mrt_swap_end(const mrt_call *c) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  int code = run->tier->wait(run->tier, o->lane, run->copies[o->transfer]);
  if (code && !run->lost) run->lost = c->node + 1, run->lost_code = code;
}

#endif
