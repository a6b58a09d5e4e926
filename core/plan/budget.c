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
  OVERLAPS = 2, /* times that collectives are tried beside the steps */
  NEAR = 16     /* a part of the floor, that all else may come below it */
};

/* Where less of the step's time than this is lost, another plan is not worth it;
 * nor is one of a large graph. */
static const double very_little = 0.002, large_little = 0.02;

/* Orders and packing change the bytes of segments by this factor. */
static const double close = 1.1;

/* The schedule of a plan of other sizes does where it loses no more than this
 * many times the part of the time that is lost there. */
static const double alike = 1.1;

/* A solver that does not give up early has been seen to find schedules of so
 * much fewer bytes. */
static const double thorough = 1.3;

/* What of the plan's time is lost to recomputing and waiting; *base: the
 * rest. */
static double lost(const mrt_plan *plan, double *base) {
  double lost = 0;
  *base = 0;
  for (int i = 0; i < plan->graph.node_count; i++) {
    const mrt_step *s = &plan->steps[i];
    bool extra = mrt_node_is_copy(s->node) || s->node->recomputed;
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
  mrt_status s = mrt_budget_try(c, (mrt_candidate){ .brief = true });
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
    MRT_TRY(mrt_budget_plan_once(c, c->planner->plan->options.memory, &o));
  }
  bool solved = c->best.plan && !c->best.plan->candidate.segmented;
  if (memo->run_count > 0 && !(c->hurried && solved))
    MRT_TRY(mrt_budget_try(c, (mrt_candidate){ .seeded = true }));
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
    MRT_TRY(mrt_budget_plan_once(c, 0, &o));
  }
  if (c->seconds == INFINITY && c->least != least)
    MRT_TRY(mrt_budget_try(c, (mrt_candidate){ .seeded = true }));
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
  MRT_TRY(mrt_budget_note_runs(c, like));
  memo->like = like;
  MRT_TRY(mrt_budget_try(c, (mrt_candidate){ .seeded = true }));
  memo->like = NULL;
  there = lost(like, &base) / base;
  if (c->best.plan) here = lost(c->best.plan, &base) / base;
  *done = c->best.plan && here <= there * alike + very_little;
  if (*done) return MRT_OK;
  mrt_plan_discard(c->best.plan);
  c->best.plan = NULL, c->seconds = INFINITY, c->least = 0;
  c->left = MRT_BUDGET_SOLVED, memo->runs = NULL, memo->run_count = 0;
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
  return mrt_budget_plan_once(c, 0, &o);
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
    MRT_TRY(mrt_budget_try(c, (mrt_candidate){ .thorough = true }));
  return c->seconds == INFINITY ? try_unbudgeted(c) : MRT_OK;
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
  if (mrt_budget_may_swap(c) && beside) MRT_TRY(mrt_budget_swap(c, enough));
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
  c.left = c.large || c.hurried ? MRT_BUDGET_FEW : MRT_BUDGET_SOLVED;
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
  p->memo.brief_arena = p->plan->arena_bytes;
  mrt_status s = mrt_budget_plan_once(&c, 0, &o);
  size_t kept = p->memo.kept_peak;
  if (!s && c.best.plan && c.best.plan->info.peak < p->plan->info.peak)
    adopt(&c, &c.best);
  mrt_plan_discard(c.best.plan);
  p->memo.kept_peak = kept;
  return s;
}

/* What could be computed again brought nothing in the order that takes least
 * with all kept; in one in which values live briefly it may: there memory is to
 * be saved by a larger share than time is lost. */
mrt_status mrt_plan_best_spent(mrt_planner *p) {
  const mrt_plan_info *kept = &p->plan->info;
  mrt_budget_search c = { .planner = p,
                          .seconds = INFINITY,
                          .limit = INFINITY };
  mrt_result o = { .candidate.brief = true };
  bool large = p->plan->graph.node_count >= MRT_PLAN_LARGE;
  if (p->memo.offers == 0 || p->memo.spent || large ||
      p->plan->options.keep_order)
    return MRT_OK;
  mrt_status s = mrt_budget_plan_once(&c, 0, &o);
  if (!s && c.best.plan) {
    const mrt_plan_info *spent = &c.best.plan->info;
    double less = 1 - (double)spent->peak / (double)kept->peak;
    if (less > spent->seconds / kept->seconds - 1 && less > 0)
      adopt(&c, &c.best);
  }
  mrt_plan_discard(c.best.plan);
  return s;
}

mrt_status mrt_plan_best_updates(mrt_planner *p) {
  mrt_budget_search c = { .planner = p,
                          .seconds = p->plan->info.seconds,
                          .limit = INFINITY };
  mrt_result o = { .candidate = p->plan->candidate };
  if (p->plan->options.in_tier || !mrt_may_update_in_tier(p)) return MRT_OK;
  o.candidate.in_tier = true;
  mrt_status s = mrt_budget_plan_once(&c, 0, &o);
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
    s = mrt_budget_plan_once(&c, memory, &o);
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
