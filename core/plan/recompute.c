/* recompute.c -- what is not kept for the backward pass is computed again
 *
 *   needs   the order, layouts, steps
 *   gives   a graph with clones of forward nodes right before those that need
 *           them; nothing changes without a policy, a budget or a region
 *   method  Activations are listed (activations.c); the policy chooses; what it
 *           leaves open is kept, or chosen within its bytes (keep_within.c), or
 *           left to the solver when there is a budget for the whole
 *           (schedule.h).  The schedule becomes clones (clone.c).  A clone
 *           draws the same random numbers and reads the same bits, so no
 *           result changes.
 *   never   runs an update twice, nor anything after what it reads was updated
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute.h"

#include <stdint.h>

/* until[i]: the first update of a variable that node i reads; updates never
 * run again. */
static mrt_status find_until(mrt_keeping *k) {
  const mrt_graph *g = &k->plan->graph;
  int n = g->node_count, *update = MRT_NEW(k->arena, int, g->value_count);
  k->problem.until = MRT_NEW(k->arena, int, n);
  if (!update || !k->problem.until) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < g->value_count; i++) update[i] = n;
  for (int i = n; i-- > 0;)
    for (int u = 0; k->flow.update[i] && u < g->nodes[i]->op->updates; u++)
      update[g->nodes[i]->in[u]->base->id] = i;
  for (int i = 0; i < n; i++) {
    k->problem.until[i] = k->flow.update[i] ? 0 : n;
    for (int r = 0; r < g->nodes[i]->nin; r++) {
      int at = update[g->nodes[i]->in[r]->base->id];
      if (at < k->problem.until[i]) k->problem.until[i] = at;
    }
  }
  return MRT_OK;
}

static mrt_status make_problem(mrt_keeping *k) {
  mrt_flow *f = &k->flow;
  mrt_problem *p = &k->problem;
  int *makes = MRT_NEW(k->arena, int, f->blocks);
  *p = (mrt_problem){ .ops = f->real,
                      .values = f->blocks,
                      .reads = f->reads,
                      .makes = { f->made, makes },
                      .cost = MRT_NEW(k->arena, double, f->real),
                      .scratch = f->scratch,
                      .bytes = f->bytes,
                      .take_start = f->take_start,
                      .take = f->take };
  if (!makes || !p->cost) return mrt_nomem(&k->plan->ctx->error);
  for (int b = 0; b < f->blocks; b++) makes[b] = b;
  for (int i = 0; i < f->real; i++)
    p->cost[i] = mrt_node_seconds(k->plan, k->plan->graph.nodes[i]);
  return find_until(k);
}

mrt_status mrt_keeping_make(mrt_keeping *k, mrt_plan *plan, mrt_arena *arena) {
  *k = (mrt_keeping){ .plan = plan, .arena = arena };
  MRT_TRY(mrt_flow_make(&k->flow, plan, arena, false));
  MRT_TRY(make_problem(k));
  return mrt_activations_list(k);
}

static bool has_regions(const mrt_plan *plan) {
  for (int i = 0; i < plan->graph.node_count; i++)
    if (plan->graph.nodes[i]->origin.region) return true;
  return false;
}

/* The solver's choice of what is open, within the budget for the whole. */
static mrt_status solve(mrt_keeping *k, size_t arena, mrt_schedule *s) {
  uint8_t *may = MRT_NEW(k->arena, uint8_t, k->flow.blocks);
  if (!may) return mrt_nomem(&k->plan->ctx->error);
  for (int b = 0; b < k->flow.blocks; b++) {
    static const uint8_t sets[] = {
      [MRT_CHOICE_OPEN] = MRT_MAY_KEEP | MRT_MAY_RECOMPUTE,
      [MRT_CHOICE_KEEP] = MRT_MAY_KEEP,
      [MRT_CHOICE_RECOMPUTE] = MRT_MAY_RECOMPUTE,
      [MRT_CHOICE_SWAP] = MRT_MAY_SWAP,
    };
    int a = k->activation_of[b];
    may[b] =
        a < 0 ? sets[MRT_CHOICE_OPEN] : sets[k->asked.activations[a].choice];
  }
  return mrt_schedule_solve(k->arena, &k->plan->ctx->error, &k->problem, may,
                            (int64_t)arena, s);
}

static mrt_status recompute(mrt_keeping *k) {
  const mrt_plan_options *o = &k->plan->options;
  mrt_schedule s = { 0 };
  k->asked.kept = SIZE_MAX;
  if (o->checkpoint) MRT_TRY(o->checkpoint(o->checkpoint_user, &k->asked));
  if (k->asked.kept != SIZE_MAX) MRT_TRY(mrt_keep_within(k, k->asked.kept));
  if (o->memory) {
    size_t rest = mrt_plan_rest(k->plan);
    MRT_TRY(solve(k, o->memory > rest ? o->memory - rest : 0, &s));
  } else {
    MRT_TRY(mrt_schedule_chosen(k, &s));
  }
  return mrt_schedule_apply(k, &s);
}

mrt_status mrt_pass_recompute(mrt_plan *plan) {
  const mrt_plan_options *o = &plan->options;
  if (!o->checkpoint && !o->memory && !has_regions(plan)) return MRT_OK;
  mrt_arena arena;
  mrt_keeping k;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = mrt_keeping_make(&k, plan, &arena);
  if (!s) s = recompute(&k);
  mrt_arena_free(&arena);
  return s;
}
