/* swap.c -- copies between a device's memory and the swap tier: queued
 *
 * As kernels/cpu/swap.c, but nobody waits: the queue does.
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"

void mrt_cuda_swap_out(const mrt_call *c);
void mrt_cuda_swap_in(const mrt_call *c);
void mrt_cuda_swap_wait(const mrt_call *c);

void mrt_cuda_swap_out(const mrt_call *c) {
  mrt_swap_begin(c, c->in[0].data, &c->out[0]);
}
void mrt_cuda_swap_in(const mrt_call *c) {
  mrt_swap_begin(c, c->out[0].data, &c->in[0]);
}
void mrt_cuda_swap_wait(const mrt_call *c) { mrt_swap_end(c); }
