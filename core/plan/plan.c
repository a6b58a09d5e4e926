/* plan.c -- a plan comes and goes
 *
 * Everything that a plan points to lies in its graph's arena, but for states
 * that kernels have prepared, which are released by their kernels.  So it may
 * be discarded at any moment of being made: steps up to step_count have a
 * state.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/planner.h"

static void release_steps(mrt_plan *plan) {
  for (int i = 0; i < plan->step_count; i++) {
    const mrt_step *s = &plan->steps[i];
    if (s->call.state && s->kernel->release) s->kernel->release(s->call.state);
  }
  plan->step_count = 0;
}

mrt_plan *mrt_plan_copy(const mrt_plan *blank) {
  mrt_plan *plan = mrt_calloc(blank->ctx->allocator, 1, sizeof *plan);
  if (!plan) return mrt_nomem(&blank->ctx->error), NULL;
  *plan = *blank;
  plan->graph = (mrt_graph){ .ctx = blank->ctx };
  mrt_arena_init(&plan->graph.arena, blank->ctx->allocator);
  return plan;
}

void mrt_plan_discard(mrt_plan *plan) {
  if (!plan) return;
  const mrt_allocator *a = plan->ctx->allocator;
  release_steps(plan);
  mrt_graph_free(&plan->graph);
  mrt_release(a, plan, sizeof *plan);
}
