/* budget_minimum.c -- a budget is too little: which one would do?
 *
 *   needs   that no way was found, segments planned where there are any
 *   gives   an error that names the least budget found.  Given that one, the
 *           planner does the same as here, and so stays within it.
 *   method  What segments take would do.  Halve between that, or what is found
 *           by doubling, and what no plan is below: by recomputing, then by
 *           swapping all there is too.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"

enum {
  DOUBLINGS = 12,
  SMALL = 500, /* nodes: with fewer, */
  MANY = 12,   /* halvings, else */
  HALVINGS = 4,
  FEW = 2 /* and of a large graph */
};

typedef struct search {
  mrt_ways *c;
  mrt_way way;
  size_t low, high; /* too little; does.  high = 0: unknown */
} search;

static mrt_status fits(search *s, size_t memory) {
  mrt_outcome o;
  MRT_TRY(mrt_way_plan(s->c, memory, s->way, &o));
  *(o.over ? &s->low : &s->high) = memory;
  return MRT_OK;
}

static mrt_status halve(search *s) {
  bool large = s->c->large;
  bool small = s->c->plan->graph.node_count < SMALL;
  int halvings = large ? FEW : small ? MANY : HALVINGS;
  for (int i = 0; i < DOUBLINGS && !s->high; i++)
    MRT_TRY(fits(s, s->low + (s->low >> !large)));
  for (int i = 0; i < halvings && s->high; i++) {
    if (s->high - s->low <= s->high >> 6) break;
    MRT_TRY(fits(s, s->low + (s->high - s->low) / 2));
  }
  return MRT_OK;
}

mrt_status mrt_ways_refuse(mrt_ways *c) {
  mrt_plan *plan = c->plan;
  size_t memory = plan->options.memory, low = memory;
  if (plan->options.quick) return mrt_plan_over(plan, 0);
  if (low < plan->known.working_set) low = plan->known.working_set;
  bool swaps = mrt_ways_may_swap(c);
  size_t overhead = plan->device.overhead; /* what a budget is for, too */
  search s = { .c = c, .low = low, .high = c->least };
  s.way = c->least ? (mrt_way){ .seeded = true } : (mrt_way){ .brief = true };
  if (c->least || !swaps) MRT_TRY(halve(&s));
  s.way = (mrt_way){ .lanes = MRT_ALL_LANES, .variables = mrt_ways_movable(c) };
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
