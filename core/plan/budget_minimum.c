/* budget_minimum.c -- a budget is too little: which one would do?
 *
 *   needs   that no candidate fits, segments planned where there are any
 *   gives   an error that names the least budget found.  Given that one, the
 *           planner does the same as here, and so stays within it.
 *   method  What segments take would do.  Halve between that, or what is found
 *           by doubling, and what no plan is below: by swapping all there is and
 *           recomputing, or where nothing may be swapped by recomputing.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"

enum {
  DOUBLINGS = 12,
  SMALL = 500, /* nodes: with fewer, */
  MANY = 5,    /* halvings, else */
  HALVINGS = 4,
  FEW = 2,  /* and of a large graph */
  CLOSE = 4 /* near enough: less than 1 / 2^CLOSE of it apart */
};

typedef struct search {
  mrt_budget_search *c;
  mrt_candidate candidate;
  size_t low, high; /* too little; does.  high = 0: unknown */
} search;

static mrt_status fits(search *s, size_t memory) {
  mrt_result o;
  MRT_TRY(mrt_budget_plan(s->c, memory, s->candidate, &o));
  *(o.over ? &s->low : &s->high) = memory;
  return MRT_OK;
}

static mrt_status halve(search *s) {
  bool large = s->c->large;
  bool small = s->c->planner->plan->graph.node_count < SMALL;
  int halvings = large ? FEW : small ? MANY : HALVINGS;
  for (int i = 0; i < DOUBLINGS && !s->high; i++)
    MRT_TRY(fits(s, s->low + (s->low >> !large)));
  for (int i = 0; i < halvings && s->high; i++) {
    if (s->high - s->low <= s->high >> CLOSE) break;
    MRT_TRY(fits(s, s->low + (s->high - s->low) / 2));
  }
  return MRT_OK;
}

mrt_status mrt_budget_minimum(mrt_budget_search *c) {
  const mrt_plan *plan = c->planner->plan;
  size_t memory = plan->options.memory, low = memory;
  if (plan->options.quick) return mrt_plan_over(c->planner->plan, 0);
  if (low < c->planner->memo.working_set) low = c->planner->memo.working_set;
  bool swaps = mrt_budget_may_swap(c);
  c->hurried = true;
  size_t overhead = plan->device.overhead; /* what a budget is for, too */
  search s = { .c = c, .low = low, .high = c->least };
  s.candidate = c->least ? (mrt_candidate){ .seeded = true }
                         : (mrt_candidate){ .brief = true };
  if (!swaps) MRT_TRY(halve(&s));
  s.candidate = (mrt_candidate){ .lanes = MRT_ALL_LANES,
                                 .variables = mrt_budget_movable(c) };
  s.low = low;
  if (swaps) MRT_TRY(halve(&s));
  mrt_fail(&plan->ctx->error, MRT_EBUDGET,
           "memory = %zu bytes is too little: with %s, %zu is the least found",
           memory + overhead,
           swaps ? "recomputing and swapping" : "recomputing",
           s.high + overhead);
  plan->ctx->error.needed = s.high + overhead;
  return MRT_EBUDGET;
}
