/* budget_floor.c -- a budget is too little: which one would do?
 *
 *   method  A plan in the fewest bytes that a little work finds (least.c):
 *           with everything swapped that may be, or from the segments that take
 *           least, or in the order of the least peak.  None depends on the
 *           budget, so what the least one takes is always met; a budget well
 *           below it is refused at once.
 *   cost    one to four runs of the solver, of counted work, and plans' passes
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"

#include <string.h>

/* Not less than the plan of the same budget is sure to find. */
static size_t floor_bytes(const mrt_budget_search *c) {
  size_t bytes = c->floor.plan ? c->floor.plan->info.peak : SIZE_MAX;
  return c->least && c->least < bytes ? c->least : bytes;
}

/* Keep the plan of the candidate if it is the least. */
static mrt_status plan(mrt_budget_search *c, mrt_candidate candidate) {
  mrt_planner own;
  MRT_TRY(mrt_budget_begin(c, candidate, &own));
  own.plan->options.memory = SIZE_MAX / 4, own.plan->options.quick = true;
  mrt_status s = mrt_planner_finish(&own);
  if (!s && !c->large && !c->planner->memo.segments_count) {
    mrt_memo *memo = &c->planner->memo;
    memcpy(memo->segments, own.memo.segments, sizeof memo->segments);
    memo->segments_count = own.memo.segments_count;
  }
  bool least =
      !s && (!c->floor.plan || own.plan->info.peak < c->floor.plan->info.peak);
  if (least) mrt_planner_take(&c->floor, &own);
  mrt_plan_discard(own.plan); /* unless it was taken */
  return s == MRT_EBUDGET ? MRT_OK : s;
}

/* With all that may be swapped, then without: not always is that less, and
 * what recomputing alone keeps to is not to be refused for allowing more. */
mrt_status mrt_budget_floor(mrt_budget_search *c) {
  size_t all = mrt_budget_movable(c);
  const mrt_candidate ways[] = {
    { .least = true, .lanes = MRT_ALL_LANES, .variables = all },
    { .least = true, .lanes = MRT_ALL_LANES },
    { .least = true, .brief = true },
    { .least = true },
  };
  int first = mrt_budget_may_swap(c) ? 0 : MRT_COUNT(ways) / 2;
  for (int i = first; i < MRT_COUNT(ways); i++) {
    mrt_candidate candidate = ways[i];
    candidate.in_tier = candidate.variables > 0 && mrt_budget_may_update(c);
    if (i > first && !mrt_budget_is_below(c, 0)) break;
    MRT_TRY(plan(c, candidate));
  }
  return MRT_OK;
}

bool mrt_budget_is_below(const mrt_budget_search *c, int part) {
  size_t bytes = floor_bytes(c);
  if (part) bytes -= bytes / (size_t)part;
  return c->planner->plan->options.memory < bytes;
}

mrt_status mrt_budget_refuse(mrt_budget_search *c) {
  mrt_plan *plan = c->planner->plan;
  size_t overhead = plan->device.overhead; /* what a budget is for, too */
  size_t least = floor_bytes(c) + overhead;
  mrt_fail(&plan->ctx->error, MRT_EBUDGET,
           "memory = %zu bytes is too little: with %s, %zu is the least found",
           plan->options.memory + overhead,
           mrt_budget_may_swap(c) ? "recomputing and swapping" : "recomputing",
           least);
  plan->ctx->error.needed = least;
  return MRT_EBUDGET;
}
