/* budget.c -- recompute, swap, or both: the quickest way into a budget
 *
 *   question  what is to be swapped, beside what is recomputed, for the least
 *             predicted time?
 *   method    Recompute in the order of the least peak, and in one of brief
 *             lives, where a value is not held by what could run later.  Then
 *             a few candidates that swap: activations whose copies fill the
 *             time of the step once or more, as many variables as copies hide
 *             or the budget wants, both; and the same with copies alone.  Each
 *             is planned to the end, the solver recomputing the rest, and
 *             judged by its own predicted seconds, waiting included.  What
 *             cannot be quicker than the best known is not planned.  Ties go to
 *             the earlier candidate; the first swaps nothing.
 *   cost      one run of the solver for each candidate that is planned
 *   never     exceeds the budget, is slower than recomputing or copies alone,
 *             or swaps where recomputing does and nobody knows how quick
 *             copies are
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"
#include "plan/swap/swap.h"

#include <math.h>
#include <string.h>

enum {
  OVERLAPS = 2,   /* times that collectives are tried beside the steps */
  PREFETCHED = 8, /* copies under way in a lane, where they are to be hidden */
  SOLVED = 3,     /* times that a candidate is solved at most, */
  ALL_SOLVED = 5, /* and all together, while something fits */
  GROWTHS = 6,    /* of the variables that are swapped, each by twice, */
  CUTS = 2,       /* and smaller ones between the last two of these */
  NEAR = 16,      /* a part of the floor, that all else may come below it */
  FEW = 2 /* runs of the solver, in all and for a candidate, where the graph
                     is large; candidates are fewer then */
};

/* Where less of the step's time than this is lost, another plan, or a first
 * one, is not worth it; nor is one of a large graph. */
static const double little = 0.005, very_little = 0.002, large_little = 0.02;

/* A plan is thought to run so many steps: another search of a large graph, which
 * takes some seconds, is worth it where these may lose as many. */
static const double steps = 200, search = 1;

/* Orders and packing change the bytes of segments by this factor. */
static const double close = 1.1;

/* The schedule of a plan of other sizes does where it loses no more than this
 * many times the part of the time that is lost there. */
static const double alike = 1.1;

/* A solver that does not give up early has been seen to find schedules of so
 * much fewer bytes. */
static const double thorough = 1.3;

/* Enough: what is left are many small variables. */
static const double most = 0.95;

/* ---- one candidate ------------------------------------------------------- */

/* Keep the plan if it is the best so far that does what is asked. */
static void judge(mrt_budget_search *c, mrt_planner *own, const mrt_result *o) {
  size_t asked = c->planner->plan->options.memory;
  bool other = o->candidate.unbudgeted || o->candidate.least;
  bool fits = other ? own->plan->info.peak <= asked
                    : own->plan->options.memory == asked;
  if (!fits || o->over || o->seconds >= c->seconds) return;
  c->seconds = o->seconds;
  mrt_planner_take(&c->best, own);
}

static bool is_copy(const mrt_node *n) {
  return n->op->traits & (MRT_SWAPS | MRT_WAITS);
}

/* What others may begin with: the runs of the segments that take least. */
static mrt_status note_runs(mrt_budget_search *c, const mrt_plan *own) {
  const mrt_graph *g = &own->graph;
  mrt_planner *p = c->planner;
  int *runs = MRT_NEW(p->memo_arena, int, g->node_count), count = 0;
  if (!runs) return mrt_nomem(&own->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    if (!is_copy(n)) runs[count++] = n->recomputed ? n->original->id : n->id;
  }
  p->memo.runs = runs, p->memo.run_count = count;
  c->least = own->info.peak;
  return MRT_OK;
}

static void note_found(mrt_budget_search *c, const mrt_planner *own) {
  mrt_memo *memo = &c->planner->memo;
  memo->kept_peak = own->memo.kept_peak;
  if (memo->segments_count) return;
  memcpy(memo->segments, own->memo.segments, sizeof memo->segments);
  memo->segments_count = own->memo.segments_count;
}

/* That a candidate does not fit is no failure; what it has found is noted. */
static mrt_status finish(mrt_budget_search *c, mrt_planner *own,
                         mrt_result *o) {
  size_t memory = own->plan->options.memory;
  const mrt_error *e = &own->plan->ctx->error;
  mrt_status s = mrt_planner_finish(own);
  o->seconds = own->plan->info.seconds;
  size_t needs = memory + own->plan->device.overhead;
  o->over = s != MRT_EBUDGET    ? 0
            : e->needed > needs ? e->needed - needs
                                : SIZE_MAX;
  note_found(c, own);
  bool runs = o->candidate.segmented || o->candidate.unbudgeted;
  bool least = runs && o->over < SIZE_MAX &&
               (!c->least || own->plan->info.peak < c->least);
  if (s && s != MRT_EBUDGET) return s;
  return least ? note_runs(c, own->plan) : MRT_OK;
}

/* Plan the candidate to the end. */
static mrt_status plan_once(mrt_budget_search *c, size_t memory,
                            mrt_result *o) {
  mrt_planner own;
  mrt_candidate candidate = o->candidate;
  candidate.rough = c->large;
  MRT_TRY(mrt_planner_begin(c->planner, candidate, &own));
  own.plan->options.memory = memory, own.plan->options.quick = true;
  mrt_status s = finish(c, &own, o);
  if (!s) judge(c, &own, o);
  mrt_plan_discard(own.plan); /* unless it was taken */
  return s;
}

/* Plan the candidate, with less for the solver where copies take more than it
 * knew of. */
mrt_status mrt_budget_plan(mrt_budget_search *c, size_t memory,
                           mrt_candidate candidate, mrt_result *o) {
  int most = c->large || c->hurried ? FEW : SOLVED;
  if (c->large) candidate.slack = memory >> 10;
  *o = (mrt_result){ .candidate = candidate };
  MRT_TRY(plan_once(c, memory, o));
  c->left--;
  for (int i = 1;
       i < most && o->over > 0 && o->over < SIZE_MAX && o->seconds < c->seconds;
       i++) {
    c->left--;
    o->candidate.slack += (size_t)i * o->over + o->over / 16;
    if (c->large) o->candidate.slack += o->over + (memory >> 8);
    MRT_TRY(plan_once(c, memory, o));
  }
  return MRT_OK;
}

static mrt_status try(mrt_budget_search *c, mrt_candidate candidate) {
  mrt_result o;
  return mrt_budget_plan(c, c->planner->plan->options.memory, candidate, &o);
}

/* ---- which candidates ---------------------------------------------------- */

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
  return worth(c, c->base) ? try(c, candidate) : MRT_OK;
}

/* Variables, if hiding them is worth it with all else kept. */
static mrt_status try_variables(mrt_budget_search *c, size_t bytes) {
  mrt_candidate candidate = { .variables = bytes,
                              .prefetch = PREFETCHED,
                              .kept = c->kept };
  mrt_result o = { .candidate = candidate };
  if (bytes == 0 || !worth(c, c->base)) return MRT_OK;
  MRT_TRY(plan_once(c, SIZE_MAX / 4, &o));
  return worth(c, o.seconds) ? try(c, candidate) : MRT_OK;
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
    MRT_TRY(try(c, fewer));
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
    MRT_TRY(try(c, (mrt_candidate){ .variables = variables, .kept = c->kept }));
    if (c->seconds < INFINITY) return try_fewer(c, variables);
  }
  for (int i = c->large; i < MRT_COUNT(last) && c->seconds == INFINITY; i++) {
    last[i].kept = c->kept;
    if (!last[i].in_tier || mrt_budget_may_update(c)) MRT_TRY(try(c, last[i]));
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
  return swaps && mrt_budget_may_update(c) ? try(c, candidate) : MRT_OK;
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
    MRT_TRY(plan_once(c, SIZE_MAX / 4, &o));
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
                            .left = ALL_SOLVED,
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

/* ---- all ----------------------------------------------------------------- */

/* What of the plan's time is lost to recomputing and waiting; *base: the
 * rest. */
static double lost(const mrt_plan *plan, double *base) {
  double lost = 0;
  *base = 0;
  for (int i = 0; i < plan->graph.node_count; i++) {
    const mrt_step *s = &plan->steps[i];
    bool extra = is_copy(s->node) || s->node->recomputed;
    *(extra ? &lost : base) += s->seconds;
  }
  return lost;
}

/* This plan, the best candidate's, instead of the one that only recomputes. */
static void adopt(mrt_budget_search *c, mrt_planner *own) {
  mrt_planner *p = c->planner;
  own->plan->options = p->blank->options;
  mrt_planner_take(p, own);
}

static bool measured(const mrt_plan *plan) {
  return mrt_measured_find(&plan->options, MRT_MEASURED_IN) > 0 &&
         mrt_measured_find(&plan->options, MRT_MEASURED_OUT) > 0;
}

/* Are rates of copies more than what a device declares that nobody measured? */
static bool known(const mrt_plan *plan) {
  return plan->device.swap_known || measured(plan);
}

bool mrt_budget_may_swap(const mrt_budget_search *c) {
  const mrt_device_profile *d = &c->planner->plan->device;
  return !c->planner->plan->options.no_swap && d->swap_read > 0 &&
         d->swap_write > 0;
}

static mrt_status try_brief(mrt_budget_search *c) {
  int left = c->left;
  mrt_status s = try(c, (mrt_candidate){ .brief = true });
  c->left = left;
  return s;
}

/* Planned to the end, the first took `c->least` bytes: can this cut be within
 * the budget, or take less than that? */
static bool cut_may_do(const mrt_budget_search *c, const mrt_segments *cut) {
  const mrt_segments *first = c->planner->memo.segments;
  double times = (double)cut->peak / (double)first->peak;
  double takes = times * (double)c->least / close;
  return takes <= (double)c->planner->plan->options.memory ||
         takes <= (double)c->least;
}

/* Segments to the end, then the solver from the ones that take least. */
static mrt_status try_segments(mrt_budget_search *c) {
  const mrt_memo *memo = &c->planner->memo;
  int left = c->left;
  mrt_result o;
  for (int i = 0; i < memo->segments_count; i++) {
    if (i > 0 && c->least && !cut_may_do(c, &memo->segments[i])) continue;
    o.candidate = (mrt_candidate){ .brief = true,
                                   .segmented = true,
                                   .segments = memo->segments[i] };
    if (c->large && i > 0) break;
    MRT_TRY(plan_once(c, c->planner->plan->options.memory, &o));
  }
  bool solved = c->best.plan && !c->best.plan->candidate.segmented;
  if (memo->run_count > 0 && !(c->hurried && solved))
    MRT_TRY(try(c, (mrt_candidate){ .seeded = true }));
  c->left = left;
  return MRT_OK;
}

/* As without a budget, in either order; then the solver from the runs that take
 * least.  So no budget is refused that what is planned without one keeps to. */
static mrt_status try_unbudgeted(mrt_budget_search *c) {
  bool policy = mrt_plan_has_policy(c->planner->plan);
  size_t least = c->least;
  int left = c->left;
  mrt_result o;
  for (int lowest = 0; lowest <= policy; lowest++) {
    o.candidate = (mrt_candidate){ .unbudgeted = true, .lowest = lowest };
    if (lowest && c->large) break;
    MRT_TRY(plan_once(c, 0, &o));
  }
  if (c->seconds == INFINITY && c->least != least)
    MRT_TRY(try(c, (mrt_candidate){ .seeded = true }));
  c->left = left;
  return MRT_OK;
}

/* Could segments be quicker than the best so far? */
static bool segments_may_win(const mrt_budget_search *c) {
  const mrt_memo *memo = &c->planner->memo;
  bool may = c->seconds == INFINITY;
  for (int i = 0; i < memo->segments_count; i++)
    may |= memo->segments[i].seconds < c->seconds;
  return may;
}

/* May a thorough solver come within the budget, where the first did not? */
static bool nearly(const mrt_budget_search *c) {
  mrt_plan *plan = c->planner->plan;
  double wanted = (double)plan->options.memory - (double)mrt_plan_rest(plan);
  return (double)c->planner->memo.solved <= thorough * wanted;
}

/* As a plan of other sizes was run; *done if that does here, and loses little
 * more of the time than there. */
static mrt_status try_like(mrt_budget_search *c, bool *done) {
  mrt_plan *plan = c->planner->plan;
  const mrt_plan *like = plan->options.like;
  mrt_memo *memo = &c->planner->memo;
  double base, here, there;
  if (!like || like->ctx != plan->ctx || like->swaps ||
      plan->options.keep_order || c->large || mrt_plan_has_policy(plan))
    return MRT_OK;
  MRT_TRY(note_runs(c, like));
  memo->like = like;
  MRT_TRY(try(c, (mrt_candidate){ .seeded = true }));
  memo->like = NULL;
  there = lost(like, &base) / base;
  if (c->best.plan) here = lost(c->best.plan, &base) / base;
  *done = c->best.plan && here <= there * alike + very_little;
  if (*done) return MRT_OK;
  mrt_plan_discard(c->best.plan);
  c->best.plan = NULL, c->seconds = INFINITY, c->least = 0;
  c->left = ALL_SOLVED, memo->runs = NULL, memo->run_count = 0;
  return MRT_OK;
}

/* Is the budget below what the largest node takes in the arena? */
static bool hopeless(const mrt_budget_search *c) {
  const mrt_planner *p = c->planner;
  return p->plan->options.memory < p->memo.working_set;
}

/* Nothing fits that only recomputes: does anything? */
static mrt_status look_down(mrt_budget_search *c) {
  const mrt_plan *plan = c->planner->plan;
  size_t kept = c->planner->memo.order_peak + mrt_plan_rest(c->planner->plan);
  MRT_TRY(mrt_budget_floor(c));
  if (!mrt_budget_is_below(c, 0)) return MRT_OK;
  if (!mrt_plan_has_policy(plan) && c->floor.plan->info.peak <= kept)
    return MRT_OK;
  mrt_result o = { .candidate.unbudgeted = true };
  return plan_once(c, 0, &o);
}

static bool fits_floor(const mrt_budget_search *c) {
  const mrt_plan *plan = c->planner->plan;
  return c->floor.plan && c->floor.plan->info.peak <= plan->options.memory;
}

/* Other ways to recompute alone. */
static mrt_status try_others(mrt_budget_search *c) {
  MRT_TRY(try_brief(c));
  bool enough = c->hurried && c->seconds < INFINITY;
  if (!enough && segments_may_win(c)) MRT_TRY(try_segments(c));
  if (c->seconds == INFINITY && !c->large && !c->hurried && nearly(c))
    MRT_TRY(try(c, (mrt_candidate){ .thorough = true }));
  return c->seconds == INFINITY ? try_unbudgeted(c) : MRT_OK;
}

/* With recomputing, unless that alone loses too little, and without. */
static mrt_status try_swapping(mrt_budget_search *c, bool enough) {
  if (!enough) MRT_TRY(try_candidates(c));
  bool alone =
      !c->hurried && c->seconds < INFINITY && !c->planner->memo.no_recompute;
  if (c->large) alone &= (c->seconds - c->base) * steps > search;
  if (alone) MRT_TRY(try_copies(c));
  return c->seconds < INFINITY ? try_in_tier(c) : MRT_OK;
}

static mrt_status compete(mrt_budget_search *c) {
  mrt_plan *plan = c->planner->plan;
  bool done = false;
  MRT_TRY(try_like(c, &done));
  if (done) return adopt(c, &c->best), MRT_OK;
  plan->options.quick = true;
  mrt_status s = mrt_planner_finish(c->planner);
  plan->options.quick = c->planner->blank->options.quick;
  if (s && s != MRT_EBUDGET) return s;
  if (s && plan->options.quick && hopeless(c)) return mrt_plan_over(plan, 0);
  if (s) MRT_TRY(look_down(c));
  if (s && mrt_budget_is_below(c, NEAR)) return mrt_budget_refuse(c);
  if (s && plan->options.any && fits_floor(c))
    return adopt(c, &c->floor), MRT_OK;
  double extra = lost(plan, &c->base);
  if (!s && extra == 0) return MRT_OK;
  if (!s) c->seconds = plan->info.seconds;
  bool enough =
      !s && extra <= (c->large ? large_little : very_little) * c->base;
  if (!enough) MRT_TRY(try_others(c));
  bool beside = known(plan) || c->seconds == INFINITY;
  if (mrt_budget_may_swap(c) && beside) MRT_TRY(try_swapping(c, enough));
  if (c->best.plan) return adopt(c, &c->best), MRT_OK;
  if (c->seconds < INFINITY) return MRT_OK;
  if (mrt_budget_is_below(c, 0)) return mrt_budget_refuse(c);
  return adopt(c, &c->floor), MRT_OK;
}

/* The floor, if it takes what is said to be needed. */
static void offer(mrt_budget_search *c) {
  const mrt_context *ctx = c->planner->plan->ctx;
  const mrt_plan *floor = c->floor.plan;
  if (!floor) return;
  if (floor->info.peak + floor->device.overhead != ctx->error.needed) return;
  adopt(c, &c->floor);
  c->planner->plan->offered = true;
}

mrt_status mrt_plan_within_budget(mrt_planner *p) {
  mrt_budget_search c = { .planner = p,
                          .large = p->plan->graph.node_count >= MRT_PLAN_LARGE,
                          .hurried = p->plan->options.glance,
                          .limit = INFINITY,
                          .seconds = INFINITY };
  c.left = c.large || c.hurried ? FEW : ALL_SOLVED;
  mrt_status s = compete(&c);
  if (s == MRT_EBUDGET && p->plan->options.offer) offer(&c);
  mrt_plan_discard(c.best.plan); /* unless it was taken */
  mrt_plan_discard(c.floor.plan);
  return s;
}

mrt_status mrt_plan_best_order(mrt_planner *p) {
  mrt_budget_search c = { .planner = p, .seconds = INFINITY };
  mrt_result o = { .candidate = { .lowest = true } };
  bool large = p->plan->graph.node_count >= MRT_PLAN_LARGE;
  MRT_TRY(mrt_planner_finish(p));
  if (large || p->plan->options.keep_order) return MRT_OK;
  mrt_status s = plan_once(&c, 0, &o);
  size_t kept = p->memo.kept_peak;
  if (!s && c.best.plan && c.best.plan->info.peak < p->plan->info.peak)
    adopt(&c, &c.best);
  mrt_plan_discard(c.best.plan);
  p->memo.kept_peak = kept;
  return s;
}

mrt_status mrt_plan_best_updates(mrt_planner *p) {
  mrt_budget_search c = { .planner = p,
                          .seconds = p->plan->info.seconds,
                          .limit = INFINITY };
  mrt_result o = { .candidate = p->plan->candidate };
  if (p->plan->options.in_tier || !mrt_may_update_in_tier(p)) return MRT_OK;
  o.candidate.in_tier = true;
  mrt_status s = plan_once(&c, 0, &o);
  if (!s && c.best.plan) adopt(&c, &c.best);
  mrt_plan_discard(c.best.plan);
  return s == MRT_EVALUE ? MRT_OK : s; /* that no tier has room for */
}

/* Again with less where packing takes more than its live bytes. */
mrt_status mrt_plan_overlapped(mrt_planner *p) {
  size_t memory = p->plan->options.memory, excess = 1;
  size_t most = memory ? memory : p->plan->info.peak;
  mrt_budget_search c = { .planner = p };
  mrt_result o = { .candidate = p->plan->candidate };
  mrt_status s = MRT_OK;
  o.candidate.overlap = true;
  if (!mrt_overlap_possible(p->plan)) return MRT_OK;
  for (int i = 0; i < OVERLAPS && !s && excess; i++) {
    c.seconds = p->plan->info.seconds;
    s = plan_once(&c, memory, &o);
    excess = o.over < SIZE_MAX ? o.over : 0;
    if (c.best.plan && c.best.plan->info.peak > most) {
      excess = c.best.plan->info.peak - most;
      mrt_plan_discard(c.best.plan);
      c.best.plan = NULL;
    }
    o.candidate.slack += (int64_t)(excess + most / 64);
  }
  if (!s && c.best.plan) adopt(&c, &c.best);
  mrt_plan_discard(c.best.plan);
  return s;
}
