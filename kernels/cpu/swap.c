/* swap.c -- copies between memory and the swap tier: started, waited for
 *
 * The tier's own threads copy; these kernels only speak with it.
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "cpu.h"

#include <time.h>

static void swap_out(const mrt_call *c) {
  mrt_swap_begin(c, c->in[0].data, &c->out[0]);
}

static void swap_in(const mrt_call *c) {
  mrt_swap_begin(c, c->out[0].data, &c->in[0]);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void swap_wait(const mrt_call *c) {
  double from = seconds();
  mrt_swap_end(c);
  c->run->stalled += seconds() - from;
}

MRT_KERNEL(swap_out, .run = swap_out);
MRT_KERNEL(swap_in, .run = swap_in);
MRT_KERNEL(swap_wait, .run = swap_wait);
