/* planner.h -- what lives while a plan is made
 *
 * A planner makes one mrt_plan: it gives the graph to the rows of passes.def
 * in turn and keeps what only they need.  A budget has several candidates, each
 * with a planner and a plan of its own, made of the same source; the winner is
 * taken by pointer and the others are freed (budget.c).
 *
 * Invariants
 *   - source, options, device and memo determine the plan: no pass looks at
 *     the clock, at an address or at what another planner does;
 *   - while passes run the plan is the planner's alone, afterwards it does not
 *     change;
 *   - a status that is not MRT_OK leaves the plan good for nothing but being
 *     freed, and the message in the context.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_PLANNER_H
#define MRT_PLAN_PLANNER_H

#include "plan/plan.h"

typedef struct mrt_planner {
  mrt_plan *plan;        /* being made; owned until somebody takes it */
  const mrt_plan *blank; /* what every candidate begins as */
  mrt_graph *source;     /* as it was captured; NULL: of one evaluation */
  mrt_arena *memo_arena; /* outlives this plan, not the source */
  mrt_memo memo;
  int64_t *staged; /* by step: of the arena for variables that are fetched, as
                      planned before others come and go; NULL: none */
} mrt_planner;

typedef mrt_status (*mrt_pass)(mrt_planner *p);
typedef mrt_status (*mrt_rewriter)(mrt_rewrite *r);
#define REWRITE(name, doc)
#define LOWER(name, doc)
#define PASS(name, doc) mrt_status mrt_pass_##name(mrt_planner *p);
#include "mrt/passes.def"

/* ---- pipeline.c ---------------------------------------------------------- */

/* Run the first `count` passes over the plan's graph. */
mrt_status mrt_planner_run(mrt_planner *p, int count);
/* Is the graph after the i-th stage the plan's?  It is from the pass on that
 * asks a policy: once only. */
bool mrt_stage_is_planned(int i);
/* Run all passes as the plan's candidate says, then add up what the plan takes.
 * EBUDGET, with what would do, when that is more than its budget. */
mrt_status mrt_planner_finish(mrt_planner *p);
/* The same, whichever way the options leave open is the quickest; p->plan is
 * then the winner. */
mrt_status mrt_planner_make(mrt_planner *p);
/* A new plan of the source for `candidate`: *own is then a planner as this one
 * is, beside it. */
mrt_status mrt_planner_begin(const mrt_planner *p, mrt_candidate candidate,
                             mrt_planner *own);
/* p's plan is freed; it has the other's from now on, and its memo. */
void mrt_planner_take(mrt_planner *p, mrt_planner *other);

/* ---- the budget search (budget.c) ---------------------------------------- */

/* A budget: the quickest of several candidates. */
mrt_status mrt_plan_within_budget(mrt_planner *p);
/* A policy: of two orders the one that needs less. */
mrt_status mrt_plan_best_order(mrt_planner *p);
/* A policy that swaps variables: the host updates them where they lie, if that
 * is quicker. */
mrt_status mrt_plan_best_updates(mrt_planner *p);
/* Where computing again what is quick to make was of no use: in an order in which
 * values live briefly. */
mrt_status mrt_plan_best_spent(mrt_planner *p);
/* Once it is made: the same with collectives beside its steps, where that is
 * quicker and takes no more. */
mrt_status mrt_plan_overlapped(mrt_planner *p);
/* May a collective begin before its result is read, and is that worth it? */
bool mrt_overlap_possible(const mrt_plan *plan);

/* ---- for passes ---------------------------------------------------------- */

/* The new executing order, with nodes that have no step yet: they get one.
 * `nodes` lives in the graph's arena; all old nodes are among them.  Between
 * the order pass and the lifetime pass. */
mrt_status mrt_plan_insert(mrt_plan *plan, mrt_node **nodes, int count);
/* A new buffer; its index, or -1 when memory is out. */
int mrt_plan_add_buffer(mrt_plan *plan, mrt_buffer buffer);
/* Fill step i for its node: kernel, call, scratch.  Steps up to i then have
 * kernels' states to release. */
mrt_status mrt_step_make(mrt_plan *plan, int i);
/* EBUDGET: the plan's budget is too little; `needed` bytes would do, 0 where
 * that is unknown. */
mrt_status mrt_plan_over(mrt_plan *plan, size_t needed);
/* Bytes of the places that inputs are copied to on a device that records runs,
 * behind the arena: a recording holds where they lie. */
size_t mrt_plan_slots(const mrt_plan *plan);
/* The most bytes of the arena that are alive at one step, and which: *largest
 * and *step become it where it is above *largest. */
mrt_status mrt_plan_live(mrt_plan *plan, size_t *largest, int *step);
/* Bytes of the peak outside the arena: these, variables, constants, outputs. */
size_t mrt_plan_rest(mrt_plan *plan);
/* The option; 0 is for plans without a budget: for one, all that is usual is
 * worth it. */
int mrt_plan_effort(const mrt_plan *plan);
/* A policy or a region says what is to be recomputed. */
bool mrt_plan_has_policy(const mrt_plan *plan);
/* Seconds of steps as they are with collectives beside them. */
mrt_status mrt_plan_collective_time(mrt_plan *plan);
/* Part of the check: nothing touches what is done beside the steps. */
mrt_status mrt_check_copies(const mrt_plan *plan, mrt_arena *arena);

#endif
