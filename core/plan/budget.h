/* budget.h -- the candidates that compete for a budget
 *
 * A candidate is planned to the end and judged by its peak and its predicted
 * seconds, never by an estimate of them.  The quickest that fits is kept as a
 * whole, plan and planner; the others are discarded as soon as they lose.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_BUDGET_H
#define MRT_PLAN_BUDGET_H

#include "plan/cost.h"

enum {
  MRT_BUDGET_SOLVED = 5, /* runs of the solver in all, while something fits */
  MRT_BUDGET_FEW = 2 /* in all and for a candidate, where the graph is large:
                            candidates are fewer then */
};

typedef struct mrt_budget_search {
  mrt_planner *planner; /* its plan: all kept but what recomputing saves */
  mrt_planner best;     /* of the best other candidate; plan NULL: none yet */
  mrt_planner floor; /* of the plan in the least bytes; plan NULL: none yet */
  bool large;
  bool kept;      /* nothing is recomputed: copies alone */
  double seconds; /* to be below; INFINITY: nothing fits yet */
  double limit;   /* what cannot be below it is not planned */
  double base;    /* of the step with all kept in memory */
  int left;       /* solver runs, while something fits */
  bool hurried;   /* a candidate gets few of them, for somebody waits */
  size_t least;   /* peak of the plan whose runs take least, of segments and of
                     what is planned without a budget; 0: none planned */
} mrt_budget_search;

typedef struct mrt_result {
  mrt_candidate candidate;
  double seconds;
  size_t over; /* bytes above the budget; SIZE_MAX: nothing was found */
} mrt_result;

/* Plan the candidate, with less for the solver where more is taken than it knew
 * of; the best within the plan's budget is kept. */
mrt_status mrt_budget_plan(mrt_budget_search *c, size_t memory,
                           mrt_candidate candidate, mrt_result *o);
/* The same for the plan's budget. */
mrt_status mrt_budget_try(mrt_budget_search *c, mrt_candidate candidate);
/* A planner for the candidate, of the graph that the search's plan has. */
mrt_status mrt_budget_begin(const mrt_budget_search *c, mrt_candidate candidate,
                            mrt_planner *own);
/* Plan o->candidate to the end, once, and fill the rest of it. */
mrt_status mrt_budget_plan_once(mrt_budget_search *c, size_t memory,
                                mrt_result *o);
/* The runs of that plan are what others may begin with. */
mrt_status mrt_budget_note_runs(mrt_budget_search *c, const mrt_plan *own);
/* Candidates that swap: with recomputing, unless that alone loses too little,
 * and without. */
mrt_status mrt_budget_swap(mrt_budget_search *c, bool enough);
/* Variables that the planner may swap: not of one micro-batch, for others must
 * agree. */
size_t mrt_budget_movable(const mrt_budget_search *c);
bool mrt_budget_may_swap(const mrt_budget_search *c);
/* May the host update variables where they are swapped to? */
bool mrt_budget_may_update(const mrt_budget_search *c);
/* Plan in the least bytes, into c->floor: the same for all budgets that it is
 * above. */
mrt_status mrt_budget_floor(mrt_budget_search *c);
/* Is the budget less than any plan that is known takes, less a part of that (0:
 * none)? */
bool mrt_budget_is_below(const mrt_budget_search *c, int part);
/* Fails with the least budget that is known to do. */
mrt_status mrt_budget_refuse(mrt_budget_search *c);

static inline bool mrt_node_is_copy(const mrt_node *n) {
  return n->op->traits & (MRT_SWAPS | MRT_WAITS);
}

#endif
