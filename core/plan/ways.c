/* ways.c -- recompute, swap, or both: the quickest way into a budget
 *
 *   question  what is to be swapped, beside what is recomputed, for the least
 *             predicted time?
 *   method    Recompute in the order of the least peak, and in one of brief
 *             lives, where a value is not held by what could run later.  Then
 *             a few ways that swap: activations whose copies fill the time of the step
 *             once or more, so many variables as copies hide or the budget
 *             wants, both.  Each is planned to the end, the solver recomputing
 *             the rest, and judged by its own predicted seconds, waiting
 *             included.  What cannot be quicker than the best known is not
 *             planned.  Ties go to the earlier way; the first swaps nothing.
 *   cost      one run of the solver for each way that is planned
 *   never     exceeds the budget, or is slower than recomputing alone
 *
 * SPDX-License-Identifier: MIT */
#include "plan/cost.h"

#include <math.h>

enum {
  AHEAD = 8,      /* copies under way in a lane, where they are to be hidden */
  SOLVED = 3,     /* times that a way is solved at most, */
  ALL_SOLVED = 5, /* and all together, while something fits */
  GROWTHS = 3,    /* of the variables that are swapped, each by twice */
  HALVINGS = 12,  /* in search of a budget that would do */
  FEW = 2         /* runs of the solver, in all and for a way, where the graph
                     is large; ways are fewer then */
};

/* So little of the step's time is lost that another plan, or a first one, is
 * not worth it; nor is one of a large graph. */
static const double little = 0.005, very_little = 0.002, large_little = 0.02;

/* Swapping must win so much of the time of recomputing alone where the rates of
 * copies are not measured: what a device declares is a guess. */
static const double guess = 0.03;

/* Enough: what is left are many small variables. */
static const double most = 0.95;

typedef struct competing {
  mrt_plan *plan;
  const mrt_plan *before; /* as it was traced */
  mrt_plan best;          /* of the best other way, if `found` */
  bool found, large;
  double seconds; /* to be below; INFINITY: nothing fits yet */
  double base;    /* of the step with all kept in memory */
  int left;       /* solver runs, while something fits */
} competing;

/* ---- one way ------------------------------------------------------------------ */

typedef struct outcome {
  mrt_way way;
  double seconds;
  size_t over; /* bytes above the budget; SIZE_MAX: nothing was found */
} outcome;

/* Keep the plan if it is the best so far that does what is asked. */
static void judge(competing *c, mrt_plan *own, const outcome *o) {
  bool asked = own->options.memory == c->plan->options.memory;
  mrt_plan *loser = own;
  if (asked && !o->over && o->seconds < c->seconds) {
    loser = c->found ? &c->best : NULL;
    c->seconds = o->seconds;
  }
  if (loser) mrt_plan_unmake(loser);
  if (loser == own) return;
  c->best = *own, c->found = true;
}

/* Plan to the end.  That it does not fit is no failure. */
static mrt_status plan_once(competing *c, size_t memory, outcome *o) {
  mrt_plan own = *c->before;
  mrt_error *e = &own.ctx->error;
  own.known = c->plan->known, own.way = o->way;
  own.way.rough = c->large;
  own.options.memory = memory, own.options.quick = true;
  own.graph = (mrt_graph){ .ctx = own.ctx };
  mrt_arena_init(&own.graph.arena, own.ctx->allocator);
  mrt_status s = mrt_graph_retrace(&own.graph, c->plan);
  if (!s) s = mrt_plan_finish(&own);
  o->seconds = own.info.seconds;
  o->over = s == MRT_EBUDGET ? e->needed - memory : 0;
  if (s == MRT_EBUDGET && e->needed <= memory) o->over = SIZE_MAX;
  if (s)
    mrt_plan_unmake(&own);
  else
    judge(c, &own, o);
  return s == MRT_EBUDGET ? MRT_OK : s;
}

/* Plan this way, with less for the solver where copies take more than it knew
 * of. */
static mrt_status plan_way(competing *c, size_t memory, mrt_way way,
                           outcome *o) {
  int most = c->large ? FEW : SOLVED;
  if (c->large) way.slack = memory >> 10;
  *o = (outcome){ .way = way };
  MRT_TRY(plan_once(c, memory, o));
  c->left--;
  for (int i = 1;
       i < most && o->over > 0 && o->over < SIZE_MAX && o->seconds < c->seconds;
       i++) {
    c->left--;
    o->way.slack += (size_t)i * o->over + o->over / 16;
    if (c->large) o->way.slack += o->over + (memory >> 8);
    MRT_TRY(plan_once(c, memory, o));
  }
  return MRT_OK;
}

static mrt_status try(competing *c, mrt_way way) {
  outcome o;
  return plan_way(c, c->plan->options.memory, way, &o);
}

/* ---- which ways ----------------------------------------------------------------- */

/* Can so much time still be won that another plan is worth it? */
static bool worth(const competing *c, double least) {
  if (c->seconds == INFINITY) return true;
  double least_gain = (c->large ? large_little : little) * c->base;
  return c->left > 0 && least + least_gain < c->seconds;
}

static mrt_status try_activations(competing *c, double lanes,
                                  size_t variables) {
  mrt_way way = { .lanes = lanes,
                  .variables = variables,
                  .ahead = AHEAD,
                  .brief = c->found && c->best.way.brief };
  return worth(c, c->base) ? try(c, way) : MRT_OK;
}

/* Variables, if hiding them is worth it with all else kept. */
static mrt_status try_variables(competing *c, size_t bytes) {
  mrt_way way = { .variables = bytes, .ahead = AHEAD };
  outcome o = { .way = way };
  if (bytes == 0 || !worth(c, c->base)) return MRT_OK;
  MRT_TRY(plan_once(c, SIZE_MAX / 4, &o));
  return worth(c, o.seconds) ? try(c, way) : MRT_OK;
}

/* Bytes above the budget with all kept. */
static size_t excess(const competing *c) {
  const mrt_plan *plan = c->plan;
  size_t kept = plan->known.order_peak + mrt_plan_rest(c->plan);
  if (!plan->known.order) return SIZE_MAX;
  return kept > plan->options.memory ? kept - plan->options.memory : 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Variables that the planner may swap: not of one micro-batch, for others must
 * agree. */
static size_t movable(const competing *c) {
  return c->plan->options.part ? 0 : c->plan->known.variables;
}

/* More and more variables, at last all and all activations; their copies as late
 * as can be. */
static mrt_status try_anything(competing *c, size_t variables) {
  size_t all = movable(c);
  const mrt_way last[] = { { .variables = all },
                           { .lanes = MRT_ALL_LANES },
                           { .lanes = MRT_ALL_LANES, .variables = all } };
  for (int i = 0; i < GROWTHS && !c->large && c->seconds == INFINITY; i++) {
    variables *= 2;
    if (variables == 0 || variables > all) break;
    MRT_TRY(try(c, (mrt_way){ .variables = variables }));
  }
  for (int i = c->large; i < MRT_COUNT(last) && c->seconds == INFINITY; i++)
    MRT_TRY(try(c, last[i]));
  return MRT_OK;
}

static size_t swapped(const competing *c) {
  return c->found ? c->best.way.variables : 0;
}

static mrt_status try_ways(competing *c) {
  size_t all = movable(c), state = smaller(all, c->plan->known.state);
  size_t want = smaller((size_t)(most * (double)all), excess(c));
  size_t first = smaller(want, (size_t)(most * (double)state));
  double before = c->seconds;
  MRT_TRY(try_activations(c, 1, 0));
  if (c->large && c->seconds < before) return MRT_OK;
  if (c->large) first = want;
  MRT_TRY(try_variables(c, first));
  if (swapped(c) == 0 && want > first) MRT_TRY(try_variables(c, want));
  if (swapped(c) > 0) MRT_TRY(try_activations(c, 0.5, swapped(c)));
  if (c->seconds == before && !(c->large && before == INFINITY))
    MRT_TRY(try_activations(c, 0.5, 0));
  return c->seconds == INFINITY ? try_anything(c, want) : MRT_OK;
}

/* ---- none ------------------------------------------------------------------------- */

/* Does anything fit into so much? */
static mrt_status fits(competing *c, size_t memory, bool *yes) {
  mrt_way all = { .lanes = MRT_ALL_LANES, .variables = movable(c) };
  outcome o;
  MRT_TRY(plan_way(c, memory, all, &o));
  *yes = !o.over;
  return MRT_OK;
}

/* Say which budget would do: halve between what cannot and what does. */
static mrt_status too_little(competing *c) {
  mrt_plan *plan = c->plan;
  size_t memory = plan->options.memory, low = memory;
  bool yes = false;
  if (plan->options.quick) return mrt_plan_over(plan, 0);
  if (low < plan->known.working_set) low = plan->known.working_set;
  size_t high = low;
  for (int i = 0; i < HALVINGS && !yes; i++) {
    high += high >> !c->large;
    MRT_TRY(fits(c, high, &yes));
    if (!yes) low = high;
  }
  for (int i = 0;
       i < HALVINGS && yes && high - low > high >> (c->large ? 2 : 6); i++) {
    bool enough;
    size_t middle = low + (high - low) / 2;
    MRT_TRY(fits(c, middle, &enough));
    *(enough ? &high : &low) = middle;
  }
  mrt_fail(&plan->ctx->error, MRT_EBUDGET,
           "memory = %zu bytes is too little: with recomputing and swapping, "
           "%zu is the least found",
           memory, high);
  plan->ctx->error.needed = yes ? high : 0;
  return MRT_EBUDGET;
}

/* ---- all ---------------------------------------------------------------------------- */

/* What of the plan's time is lost to recomputing and waiting; *base: the rest. */
static double lost(const mrt_plan *plan, double *base) {
  double lost = 0;
  *base = 0;
  for (int i = 0; i < plan->graph.node_count; i++) {
    const mrt_step *s = &plan->steps[i];
    bool copy = s->node->op->traits & (MRT_SWAPS | MRT_WAITS);
    bool extra = copy || s->node->recomputed;
    *(extra ? &lost : base) += s->seconds;
  }
  return lost;
}

/* The best way's plan instead of the one that only recomputes. */
static mrt_status adopt(competing *c) {
  mrt_plan *plan = c->plan, *best = &c->best;
  mrt_graph *old = &plan->graph, *g = &best->graph;
  while (g->held_count > 0) {
    if (!MRT_PUSH_ROOM(&old->arena, old->held, old->held_count, old->held_room))
      return mrt_nomem(&plan->ctx->error);
    old->held[old->held_count++] = g->held[--g->held_count];
  }
  mrt_plan_release_steps(plan);
  g->held = old->held;
  g->held_count = old->held_count, g->held_room = old->held_room;
  mrt_arena_join(&g->arena, &old->arena);
  best->options = c->before->options;
  *plan = *best;
  for (int i = 0; i < plan->step_count; i++)
    plan->steps[i].call.run = &plan->run;
  c->found = false;
  return MRT_OK;
}

static bool measured(const mrt_plan *plan) {
  return mrt_measured_find(&plan->options, MRT_MEASURED_IN) > 0 &&
         mrt_measured_find(&plan->options, MRT_MEASURED_OUT) > 0;
}

static bool may_swap(const mrt_plan *plan) {
  const mrt_device_profile *d = &plan->device;
  return !plan->options.no_swap && d->slow_read > 0 && d->slow_write > 0;
}

static mrt_status try_brief(competing *c) {
  int left = c->left;
  mrt_status s = try(c, (mrt_way){ .brief = true });
  c->left = left;
  return s;
}

/* Recomputing is all that is allowed: have it say how much it needs. */
static mrt_status too_little_alone(competing *c) {
  mrt_plan own = *c->before;
  if (own.options.quick) return mrt_plan_over(c->plan, 0);
  own.known = c->plan->known, own.way.brief = true;
  own.graph = (mrt_graph){ .ctx = own.ctx };
  mrt_arena_init(&own.graph.arena, own.ctx->allocator);
  mrt_status s = mrt_graph_retrace(&own.graph, c->plan);
  if (!s) s = mrt_plan_finish(&own);
  mrt_plan_unmake(&own);
  return s ? s : mrt_plan_over(c->plan, 0);
}

static mrt_status compete(competing *c) {
  mrt_plan *plan = c->plan;
  plan->options.quick = true;
  mrt_status s = mrt_plan_finish(plan);
  plan->options.quick = c->before->options.quick;
  if (s && s != MRT_EBUDGET) return s;
  double extra = lost(plan, &c->base);
  if (!s) c->seconds = plan->info.seconds;
  if (!s && extra <= (c->large ? large_little : very_little) * c->base)
    return MRT_OK;
  MRT_TRY(try_brief(c));
  if (may_swap(plan)) {
    if (!measured(plan)) c->seconds *= 1 - guess;
    MRT_TRY(try_ways(c));
  }
  if (c->found) return adopt(c);
  if (c->seconds < INFINITY) return MRT_OK;
  return may_swap(plan) ? too_little(c) : too_little_alone(c);
}

mrt_status mrt_plan_compete(mrt_plan *plan) {
  const mrt_plan before = *plan;
  competing c = { .plan = plan,
                  .before = &before,
                  .large = plan->graph.node_count >= MRT_PLAN_LARGE,
                  .seconds = INFINITY };
  c.left = c.large ? FEW : ALL_SOLVED;
  mrt_status s = compete(&c);
  if (c.found) mrt_plan_unmake(&c.best);
  return s;
}
