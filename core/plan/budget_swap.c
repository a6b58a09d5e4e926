/* budget_swap.c -- which candidates that swap compete for a budget
 *
 *   method  Activations whose copies fill the time of the step once or half,
 *           as many variables as copies hide or the budget wants, both; where
 *           nothing fits, more and more.  Then the same with nothing
 *           recomputed, a search of its own, for what is best with recomputing
 *           leads it elsewhere.  At last the host updates what is swapped where
 *           it lies.
 *   never   plans what cannot be quicker than the best known, or would win
 *           little
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"
#include "plan/swap/swap.h"

#include <math.h>

enum {
  PREFETCHED = 8, /* copies under way in a lane, where they are to be hidden */
  GROWTHS = 6,    /* of the variables that are swapped, each by twice, */
  CUTS = 2        /* and smaller ones between the last two of these */
};

/* Where less of the step's time than this may be won, another plan is not worth
 * it; nor is one of a large graph. */
static const double little = 0.005, large_little = 0.02;

/* A plan is thought to run so many steps: another search of a large graph, which
 * takes some seconds, is worth it where these may lose as many. */
static const double steps = 200, search = 1;

/* Enough: what is left are many small variables. */
static const double most = 0.95;

/* Can so much time still be won that another plan is worth it? */
static bool worth(const mrt_budget_search *c, double least) {
  if (least >= c->limit) return false;
  if (c->seconds == INFINITY) return true;
  double least_gain = (c->large ? large_little : little) * c->base;
  return c->left > 0 && least + least_gain < c->seconds;
}

/* Is the best in another order than that of the least peak, where values live
 * briefly? */
static bool is_brief(const mrt_budget_search *c) {
  const mrt_plan *best = c->best.plan;
  if (c->kept) return true;
  if (!best || c->planner->memo.same_order) return false;
  const mrt_candidate *candidate = &best->candidate;
  return candidate->brief || candidate->segmented || candidate->seeded;
}

static mrt_status try_activations(mrt_budget_search *c, double lanes,
                                  size_t variables, bool brief) {
  mrt_candidate candidate = { .lanes = lanes,
                              .variables = variables,
                              .prefetch = PREFETCHED,
                              .kept = c->kept,
                              .brief = brief };
  return worth(c, c->base) ? mrt_budget_try(c, candidate) : MRT_OK;
}

/* Variables, if hiding them is worth it with all else kept. */
static mrt_status try_variables(mrt_budget_search *c, size_t bytes) {
  mrt_candidate candidate = { .variables = bytes,
                              .prefetch = PREFETCHED,
                              .kept = c->kept };
  mrt_result o = { .candidate = candidate };
  if (bytes == 0 || !worth(c, c->base)) return MRT_OK;
  MRT_TRY(mrt_budget_plan_once(c, SIZE_MAX / 4, &o));
  return worth(c, o.seconds) ? mrt_budget_try(c, candidate) : MRT_OK;
}

/* Bytes above the budget with all kept. */
static size_t excess(const mrt_budget_search *c) {
  mrt_plan *plan = c->planner->plan;
  const mrt_memo *memo = &c->planner->memo;
  size_t kept = memo->order_peak + mrt_plan_rest(plan);
  if (!memo->order) return SIZE_MAX;
  return kept > plan->options.memory ? kept - plan->options.memory : 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Variables that the planner may swap: not of one micro-batch, for others must
 * agree. */
size_t mrt_budget_movable(const mrt_budget_search *c) {
  return c->planner->plan->options.part ? 0 : c->planner->memo.variables;
}

/* So many variables did, half of them did not: something between them? */
static mrt_status try_fewer(mrt_budget_search *c, size_t variables) {
  double known;
  size_t step = variables / 2;
  for (int i = 0; i < CUTS; i++) {
    step /= 2, known = c->seconds;
    mrt_candidate fewer = { .variables = variables - step, .kept = c->kept };
    MRT_TRY(mrt_budget_try(c, fewer));
    if (c->seconds < known) variables -= step;
  }
  return MRT_OK;
}

/* More and more variables, at last all and all activations; their copies as
 * late as can be. */
static mrt_status try_anything(mrt_budget_search *c, size_t variables) {
  size_t all = mrt_budget_movable(c);
  mrt_candidate last[] = {
    { .variables = all },
    { .variables = all, .in_tier = true },
    { .lanes = MRT_ALL_LANES },
    { .lanes = MRT_ALL_LANES, .variables = all },
    { .lanes = MRT_ALL_LANES, .variables = all, .in_tier = true },
  };
  for (int i = 0; i < GROWTHS && !c->large && c->seconds == INFINITY; i++) {
    variables *= 2;
    if (variables == 0 || variables > all) break;
    MRT_TRY(mrt_budget_try(
        c, (mrt_candidate){ .variables = variables, .kept = c->kept }));
    if (c->seconds < INFINITY) return try_fewer(c, variables);
  }
  for (int i = c->large; i < MRT_COUNT(last) && c->seconds == INFINITY; i++) {
    last[i].kept = c->kept;
    if (!last[i].in_tier || mrt_budget_may_update(c))
      MRT_TRY(mrt_budget_try(c, last[i]));
  }
  return MRT_OK;
}

static size_t swapped(const mrt_budget_search *c) {
  return c->best.plan ? c->best.plan->candidate.variables : 0;
}

static mrt_status try_candidates(mrt_budget_search *c) {
  size_t all = mrt_budget_movable(c),
         state = smaller(all, c->planner->memo.state);
  size_t want = smaller((size_t)(most * (double)all), excess(c));
  size_t first = smaller(want, (size_t)(most * (double)state));
  double before = c->seconds;
  bool brief = is_brief(c);
  int left = c->left;
  MRT_TRY(try_activations(c, 1, 0, brief));
  if (c->seconds == before && brief && !c->kept) {
    c->left = left;
    MRT_TRY(try_activations(c, 1, 0, false));
  }
  if (c->large && c->seconds < before) return MRT_OK;
  if (c->large) first = want;
  MRT_TRY(try_variables(c, first));
  if (swapped(c) == 0 && want > first) MRT_TRY(try_variables(c, want));
  if (swapped(c) > 0) MRT_TRY(try_activations(c, 0.5, swapped(c), is_brief(c)));
  if (c->seconds == before && !(c->large && before == INFINITY))
    MRT_TRY(try_activations(c, 0.5, 0, is_brief(c)));
  return c->seconds == INFINITY ? try_anything(c, want) : MRT_OK;
}

bool mrt_budget_may_update(const mrt_budget_search *c) {
  return mrt_may_update_in_tier(c->planner);
}

/* The best so far, but what it swaps is updated by the host where that lies. */
static mrt_status try_in_tier(mrt_budget_search *c) {
  const mrt_plan *best = c->best.plan ? c->best.plan : c->planner->plan;
  mrt_candidate candidate = best->candidate;
  bool swaps = candidate.variables > 0 || best->options.swap;
  candidate.in_tier = true;
  return swaps && mrt_budget_may_update(c) ? mrt_budget_try(c, candidate)
                                           : MRT_OK;
}

/* Everything copied out and back that may be: where that fits, nothing is
 * solved. */
static mrt_status try_all_copies(mrt_budget_search *c) {
  size_t all = mrt_budget_movable(c);
  mrt_result o;
  for (int i = 0; i < 2 && c->seconds == INFINITY; i++) {
    o.candidate = (mrt_candidate){ .least = true,
                                   .kept = true,
                                   .in_tier = mrt_budget_may_update(c),
                                   .lanes = MRT_ALL_LANES,
                                   .variables = i ? 0 : all };
    MRT_TRY(mrt_budget_plan_once(c, SIZE_MAX / 4, &o));
  }
  return MRT_OK;
}

/* The same with copies alone, all else kept: a search of its own, for what is
 * best with recomputing leads it elsewhere.  Nothing is planned that cannot be
 * quicker than the best so far. */
static mrt_status try_copies(mrt_budget_search *c) {
  mrt_budget_search own = { .planner = c->planner,
                            .large = c->large,
                            .hurried = c->hurried,
                            .kept = true,
                            .base = c->base,
                            .limit = c->seconds,
                            .left = MRT_BUDGET_SOLVED,
                            .seconds = INFINITY };
  if (own.base >= own.limit) return MRT_OK;
  size_t state = smaller(mrt_budget_movable(c), c->planner->memo.state);
  mrt_status s = try_candidates(&own);
  if (!s) s = try_variables(&own, (size_t)(most * (double)state));
  if (!s) s = try_all_copies(&own);
  if (!s && own.seconds < c->seconds) {
    c->seconds = own.seconds;
    mrt_planner_take(&c->best, &own.best);
  }
  mrt_plan_discard(own.best.plan); /* unless it was taken */
  return s;
}

/* With recomputing, unless that alone loses too little, and without. */
mrt_status mrt_budget_swap(mrt_budget_search *c, bool enough) {
  if (!enough) MRT_TRY(try_candidates(c));
  bool alone =
      !c->hurried && c->seconds < INFINITY && !c->planner->memo.no_recompute;
  if (c->large) alone &= (c->seconds - c->base) * steps > search;
  if (alone) MRT_TRY(try_copies(c));
  return c->seconds < INFINITY ? try_in_tier(c) : MRT_OK;
}
