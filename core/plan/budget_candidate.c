/* budget_candidate.c -- one way into a budget, planned to the end
 *
 *   gives  the plan, kept if it is the quickest so far that fits; what others
 *          may begin with
 *   method Where the end takes more than the solver knew of, it gets less, a few
 *          times.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/budget.h"

#include <math.h>
#include <string.h>

enum { SOLVED = 3 }; /* times that a candidate is solved at most */

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

/* What others may begin with: the runs of the segments that take least. */
mrt_status mrt_budget_note_runs(mrt_budget_search *c, const mrt_plan *own) {
  const mrt_graph *g = &own->graph;
  mrt_planner *p = c->planner;
  int *runs = MRT_NEW(p->memo_arena, int, g->node_count), count = 0;
  if (!runs) return mrt_nomem(&own->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    if (!mrt_node_is_copy(n))
      runs[count++] = n->recomputed ? n->original->id : n->id;
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
  return least ? mrt_budget_note_runs(c, own->plan) : MRT_OK;
}

mrt_status mrt_budget_begin(const mrt_budget_search *c, mrt_candidate candidate,
                            mrt_planner *own) {
  candidate.rough = c->large;
  candidate.frugal = c->planner->plan->candidate.frugal;
  return mrt_planner_begin(c->planner, candidate, own);
}

/* Plan the candidate to the end. */
mrt_status mrt_budget_plan_once(mrt_budget_search *c, size_t memory,
                                mrt_result *o) {
  mrt_planner own;
  MRT_TRY(mrt_budget_begin(c, o->candidate, &own));
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
  int most = c->large || c->hurried ? MRT_BUDGET_FEW : SOLVED;
  if (c->large) candidate.slack = memory >> 10;
  *o = (mrt_result){ .candidate = candidate };
  MRT_TRY(mrt_budget_plan_once(c, memory, o));
  c->left--;
  for (int i = 1;
       i < most && o->over > 0 && o->over < SIZE_MAX && o->seconds < c->seconds;
       i++) {
    c->left--;
    o->candidate.slack += (size_t)i * o->over + o->over / 16;
    if (c->large) o->candidate.slack += o->over + (memory >> 8);
    MRT_TRY(mrt_budget_plan_once(c, memory, o));
  }
  return MRT_OK;
}

mrt_status mrt_budget_try(mrt_budget_search *c, mrt_candidate candidate) {
  mrt_result o;
  return mrt_budget_plan(c, c->planner->plan->options.memory, candidate, &o);
}
