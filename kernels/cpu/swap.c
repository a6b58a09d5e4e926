/* swap.c -- copies between memory and the slow tier: started, waited for
 *
 * The tier's own threads copy; these kernels only speak with it.  A copy that
 * fails is noted in the run, which then stops.
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "cpu.h"

static void begin(const mrt_call *c, void *data, const mrt_operand *slow) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  run->copies[o->transfer] =
      run->tier->start(run->tier, o->lane, data, (size_t)(uintptr_t)slow->data,
                       mrt_type_bytes(&slow->type));
}

static void swap_out(const mrt_call *c) { begin(c, c->in[0].data, &c->out[0]); }

static void swap_in(const mrt_call *c) { begin(c, c->out[0].data, &c->in[0]); }

static void swap_wait(const mrt_call *c) {
  const mrt_swap_options *o = c->options;
  mrt_run *run = c->run;
  double from = omp_get_wtime();
  int code = run->tier->wait(run->tier, o->lane, run->copies[o->transfer]);
  run->stalled += omp_get_wtime() - from;
  if (code && !run->lost) run->lost = c->node + 1, run->lost_code = code;
}

MRT_KERNEL(swap_out, .run = swap_out);
MRT_KERNEL(swap_in, .run = swap_in);
MRT_KERNEL(swap_wait, .run = swap_wait);
