/* swap.c -- copies between a device's memory and the slow tier: queued
 *
 * As kernels/cpu/swap.c, but nobody waits: the queue does.
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "device/kernel.h"
#include "tensor/dtype.h"

void mrt_cuda_swap_out(const mrt_call *c);
void mrt_cuda_swap_in(const mrt_call *c);
void mrt_cuda_swap_wait(const mrt_call *c);

static void begin(const mrt_call *c, void *data, const mrt_operand *slow) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  run->copies[o->transfer] =
      run->tier->start(run->tier, o->lane, data, (size_t)(uintptr_t)slow->data,
                       mrt_type_bytes(&slow->type));
}

void mrt_cuda_swap_out(const mrt_call *c) {
  begin(c, c->in[0].data, &c->out[0]);
}
void mrt_cuda_swap_in(const mrt_call *c) {
  begin(c, c->out[0].data, &c->in[0]);
}

void mrt_cuda_swap_wait(const mrt_call *c) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  int code = run->tier->wait(run->tier, o->lane, run->copies[o->transfer]);
  if (code && !run->lost) run->lost = c->node + 1, run->lost_code = code;
}
