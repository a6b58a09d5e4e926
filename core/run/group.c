/* group.c -- which steps of a plan one launch may do together
 *
 * Steps that follow each other, of one kernel that takes several calls, none
 * of which writes what another reads or writes: proved by where their operands
 * lie, not by what they are called.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

enum { MOST = 256 }; /* steps: each is held against all others */

/* Does what `a` shows lie, in part, where `b` does? */
static bool overlap(const mrt_plan *plan, const mrt_value *a,
                    const mrt_value *b) {
  const mrt_buffer *s = &plan->buffers[a->base->buffer];
  const mrt_buffer *t = &plan->buffers[b->base->buffer];
  if (s == t) return true;
  return mrt_buffer_in_arena(s) && mrt_buffer_in_arena(t) &&
         s->offset < t->offset + t->bytes && t->offset < s->offset + s->bytes;
}

static bool touches(const mrt_plan *plan, const mrt_node *n,
                    const mrt_value *written) {
  for (int k = 0; k < n->nin; k++)
    if (overlap(plan, written, n->in[k])) return true;
  for (int k = 0; k < n->nout; k++)
    if (overlap(plan, written, n->out[k])) return true;
  return false;
}

static bool disturbs(const mrt_plan *plan, const mrt_node *a,
                     const mrt_node *b) {
  for (int k = 0; k < a->nout; k++)
    if (touches(plan, b, a->out[k])) return true;
  return false;
}

/* May step i be done while steps from `first` on are? */
static bool is_free(const mrt_plan *plan, int first, int i) {
  const mrt_node *n = plan->steps[i].node;
  for (int k = first; k < i; k++) {
    const mrt_node *other = plan->steps[k].node;
    if (disturbs(plan, n, other) || disturbs(plan, other, n)) return false;
  }
  return true;
}

static int steps_from(const mrt_plan *plan, int first) {
  const mrt_kernel *kernel = plan->steps[first].kernel;
  int i = first + 1;
  if (!kernel->together || plan->steps[first].hosted) return 1;
  while (i < plan->step_count && i - first < MOST &&
         plan->steps[i].kernel == kernel && is_free(plan, first, i))
    i++;
  return i - first;
}

mrt_status mrt_runner_group(const mrt_plan *plan) {
  int n = plan->step_count;
  mrt_runner *r = plan->runner;
  r->call_list = MRT_NEW(&r->arena, const mrt_call *, n);
  r->together = MRT_NEW(&r->arena, int, n);
  if (!r->call_list || !r->together) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < n; i++) r->call_list[i] = &r->calls[i];
  for (int i = 0; i < n; i += r->together[i])
    r->together[i] = steps_from(plan, i);
  return MRT_OK;
}
