/* recompute.c -- what is not kept for the backward pass is computed again
 *
 *   needs   the order, layouts, steps
 *   gives   a graph with clones of forward nodes right before those that need
 *           them; nothing changes without a policy, a budget or a region
 *   method  Activations are listed (activations.c); the policy chooses; what it
 *           leaves open is kept, or chosen within its bytes (keep_budget.c), or
 *           left to the solver when there is a budget for the whole
 *           (schedule.h).  The schedule becomes clones (clone.c).  A clone
 *           draws the same random numbers and reads the same bits, so no
 *           result changes.
 *   never   runs an update twice, nor anything after what it reads was updated
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"
#include "solve/pack/pack.h"

#include <stdint.h>

/* Would a clone take bytes that the dag does not know of?  Results of the plan
 * have storage of their own, but not their clones. */
static bool makes_result(const mrt_recompute *k, int i) {
  const mrt_node *n = k->plan->graph.nodes[i];
  return k->dag.made[i + 1] - k->dag.made[i] < n->nout;
}

/* until[i]: the first update of a variable that node i reads; updates never
 * run again, nor collectives that other ranks do not expect, nor what would
 * take more than the budget was told of. */
static mrt_status find_until(mrt_recompute *k) {
  const mrt_graph *g = &k->plan->graph;
  int n = g->node_count, *update = MRT_NEW(k->arena, int, g->value_count);
  k->problem.until = MRT_NEW(k->arena, int, n);
  if (!update || !k->problem.until) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < g->value_count; i++) update[i] = n;
  for (int i = n; i-- > 0;)
    for (int u = 0; k->dag.update[i] && u < g->nodes[i]->op->updates; u++)
      update[g->nodes[i]->in[u]->base->id] = i;
  for (int i = 0; i < n; i++) {
    uint32_t traits = g->nodes[i]->op->traits;
    bool never = k->dag.update[i] ||
                 (k->plan->options.memory && makes_result(k, i)) ||
                 ((traits & MRT_COLLECTIVE) && !(traits & MRT_REPEATS));
    k->problem.until[i] = never ? 0 : n;
    for (int r = 0; r < g->nodes[i]->nin; r++) {
      int at = update[g->nodes[i]->in[r]->base->id];
      if (at < k->problem.until[i]) k->problem.until[i] = at;
    }
  }
  return MRT_OK;
}

static mrt_status make_problem(mrt_recompute *k) {
  mrt_dag *f = &k->dag;
  const int64_t *staged = k->planner->staged;
  for (int i = 0; staged && i < f->real; i++) f->scratch[i] += staged[i];
  mrt_problem *p = &k->problem;
  int *makes = MRT_NEW(k->arena, int, f->buffers);
  *p = (mrt_problem){ .ops = f->real,
                      .values = f->buffers,
                      .reads = f->reads,
                      .makes = { f->made, makes },
                      .cost = MRT_NEW(k->arena, double, f->real),
                      .scratch = f->scratch,
                      .bytes = f->bytes,
                      .take_start = f->take_start,
                      .take = f->take };
  if (!makes || !p->cost) return mrt_nomem(&k->plan->ctx->error);
  for (int b = 0; b < f->buffers; b++) makes[b] = b;
  for (int i = 0; i < f->real; i++)
    p->cost[i] = mrt_node_seconds(k->plan, k->plan->graph.nodes[i]);
  return find_until(k);
}

/* Does node i follow from the backward pass or an update? */
static bool follows(const mrt_recompute *k, int i) {
  const mrt_dag *f = &k->dag;
  const mrt_node *n = k->plan->graph.nodes[i];
  bool yes = n->origin.backward || f->update[i];
  for (int r = 0; r < n->nin; r++) {
    const mrt_node *from = mrt_value_root(n->in[r])->node;
    yes |= from && mrt_node_is_update(from);
  }
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++)
    yes |= !k->forward[f->maker[f->reads.item[r]]];
  return yes;
}

/* Does a result or the backward pass come of node i?  What an optimizer works
 * out for itself is no activation. */
static bool leads(const mrt_recompute *k, int i, const bool *lead) {
  const mrt_dag *f = &k->dag;
  bool yes = k->plan->graph.nodes[i]->origin.backward || makes_result(k, i);
  for (int b = f->made[i]; b < f->made[i + 1]; b++)
    for (int r = f->readers.start[b]; r < f->readers.start[b + 1]; r++)
      yes |= lead[f->readers.item[r]];
  return yes;
}

static mrt_status find_forward(mrt_recompute *k) {
  int n = k->dag.real;
  bool *lead = MRT_NEW(k->arena, bool, n);
  k->forward = MRT_NEW(k->arena, bool, n);
  if (!lead || !k->forward) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < n; i++) k->forward[i] = !follows(k, i);
  for (int i = n; i-- > 0;) lead[i] = leads(k, i, lead);
  for (int i = 0; i < n; i++) k->forward[i] &= lead[i];
  return MRT_OK;
}

mrt_status mrt_recompute_make(mrt_recompute *k, mrt_planner *p,
                              mrt_arena *arena) {
  *k = (mrt_recompute){ .planner = p, .plan = p->plan, .arena = arena };
  MRT_TRY(mrt_plan_dag(&k->dag, &k->value, p->plan, arena, false));
  MRT_TRY(make_problem(k));
  MRT_TRY(find_forward(k));
  return mrt_recompute_activations(k);
}

enum { ROUNDS = 6 }; /* of the solver with less, when placing took more */

static void may_do(const mrt_recompute *k, uint8_t *may) {
  static const uint8_t sets[] = {
    [MRT_CHOICE_OPEN] = MRT_MAY_KEEP | MRT_MAY_RECOMPUTE,
    [MRT_CHOICE_KEEP] = MRT_MAY_KEEP,
    [MRT_CHOICE_RECOMPUTE] = MRT_MAY_RECOMPUTE,
    [MRT_CHOICE_SWAP] = MRT_MAY_SWAP,
  };
  bool keep = k->asked.no_recompute || k->plan->candidate.kept;
  for (int b = 0; b < k->dag.buffers; b++) {
    int a = k->activation_of[b];
    may[b] = sets[a < 0 ? MRT_CHOICE_OPEN : k->asked.activations[a].choice];
    if (keep && may[b] == sets[MRT_CHOICE_OPEN]) may[b] = MRT_MAY_KEEP;
  }
}

/* Where nothing is to be recomputed, what is open is kept. */
static void keep_open(mrt_recompute *k) {
  for (int a = 0; a < k->asked.count; a++) {
    mrt_activation *v = &k->asked.activations[a];
    if (v->choice == MRT_CHOICE_OPEN) v->choice = MRT_CHOICE_KEEP;
  }
}

typedef struct solving {
  mrt_recompute *k;
  const mrt_problem *problem; /* the dag's, or with copies */
  uint8_t *may;               /* by its values */
  mrt_solve_hint hint;
  mrt_schedule *s;
  int64_t height;
} solving;

/* Begin with what was found. */
static mrt_status go_on_from(solving *w) {
  int *op = MRT_NEW(w->k->arena, int, w->s->count), n = 0;
  if (!op) return mrt_nomem(&w->k->plan->ctx->error);
  for (int i = 0; i < w->s->count; i++)
    if (w->s->act[i].kind == MRT_ACT_RUN) op[n++] = w->s->act[i].index;
  w->hint.op = op, w->hint.count = n;
  return MRT_OK;
}

/* A schedule whose arena takes at most `wanted` bytes.  With runs to begin
 * with, every other round goes on from what the last one found. */
static mrt_status fit(solving *w, int64_t wanted) {
  mrt_recompute *k = w->k;
  mrt_error *e = &k->plan->ctx->error;
  mrt_solve_hint given = w->hint;
  int64_t budget = wanted, step;
  int packing = k->plan->options.effort > 0 ? 1 : MRT_PACK_WORTH;
  for (int round = 0; round < ROUNDS && budget > 0; round++) {
    mrt_status status = mrt_schedule_solve(k->arena, e, w->problem, w->may,
                                           budget, w->hint, w->s);
    if (status == MRT_EBUDGET) break;
    MRT_TRY(status);
    MRT_TRY(mrt_recompute_arena_of(k->arena, e, w->problem, w->s, wanted,
                                   packing, &w->height));
    if (w->height <= wanted) return MRT_OK;
    step = w->height - wanted;
    budget -= step > wanted >> 9 ? step : wanted >> 9;
    if (given.count > 0 && round % 2 == 0)
      w->hint = given;
    else
      MRT_TRY(go_on_from(w));
  }
  return MRT_EBUDGET;
}

/* The runs to begin with, by nodes as they are ordered now. */
static mrt_status known_runs(const mrt_recompute *k, mrt_solve_hint *hint) {
  const mrt_memo *memo = &k->planner->memo;
  const mrt_graph *g = &k->plan->graph;
  int *at = MRT_NEW(k->arena, int, g->next_node);
  int *op = MRT_NEW(k->arena, int, memo->run_count);
  if (!at || !op) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < g->node_count; i++) at[g->nodes[i]->id] = i;
  for (int i = 0; i < memo->run_count; i++) op[i] = at[memo->runs[i]];
  hint->op = op, hint->count = memo->run_count;
  return MRT_OK;
}

/* Begin with the segments of the least bytes. */
static mrt_status from_segments(solving *w) {
  const mrt_memo *memo = &w->k->planner->memo;
  if (!memo->segments_count || !w->k->plan->candidate.brief) return MRT_OK;
  MRT_TRY(mrt_recompute_segment_schedule(w->k, &memo->segments[0], w->s));
  return go_on_from(w);
}

/* Unless the script asks for more, the solver goes on for as long as it may win
 * by what a plan is thought to run: a second less in a step is worth the
 * touches (2.5 ns each) of as many seconds. */
static double worth(const mrt_plan_options *o) {
  static const double steps = 200, touch = 2.5e-9, least = 1e-9;
  bool hurry = o->effort < 0 || o->glance;
  return o->effort > 0 ? 0 : hurry ? least : steps / touch;
}

/* The solver's choice of what is open, so that what moves takes at most
 * `wanted` bytes. */
static mrt_status solve(mrt_recompute *k, int64_t wanted, mrt_schedule *s) {
  const mrt_candidate *candidate = &k->plan->candidate;
  mrt_error *e = &k->plan->ctx->error;
  solving w = { .k = k, .s = s, .problem = &k->problem };
  bool hard = candidate->lanes > 0 && /* copies are hard to place */
              !k->planner->blank->options.quick;
  w.hint.quick = !hard && !candidate->thorough;
  w.hint.glance = k->plan->options.glance;
  w.hint.worth = worth(&k->plan->options);
  mrt_with_swap copies = { .problem.values = k->dag.buffers };
  if (candidate->lanes > 0) {
    MRT_TRY(mrt_with_swap_make(&copies, k, candidate->lanes));
    w.problem = &copies.problem;
  }
  w.may = MRT_NEW(k->arena, uint8_t, copies.problem.values);
  if (!w.may) return mrt_nomem(&k->plan->ctx->error);
  if (candidate->seeded) MRT_TRY(known_runs(k, &w.hint));
  w.hint.least = candidate->least;
  if (candidate->least && candidate->lanes > 0)
    MRT_TRY(mrt_with_swap_runs(&copies, k->arena, &w.hint, e));
  else if (candidate->least)
    MRT_TRY(from_segments(&w));
  may_do(k, w.may);
  for (int op = 0; op < copies.problem.ops; op++) /* which a copy makes again */
    if (copies.copied[op] >= 0)
      w.may[copies.copied[op]] = MRT_MAY_KEEP | MRT_MAY_RECOMPUTE;
  for (int v = k->dag.buffers; v < copies.problem.values; v++)
    w.may[v] = MRT_MAY_KEEP | MRT_MAY_RECOMPUTE;
  mrt_status status =
      candidate->least
          ? mrt_schedule_solve(k->arena, e, w.problem, w.may, wanted, w.hint, s)
          : fit(&w, wanted);
  if (status == MRT_EBUDGET) k->planner->memo.solved = s->peak;
  if (!status && candidate->lanes > 0)
    status = mrt_with_swap_schedule(&copies, k, s);
  return status == MRT_EBUDGET ? mrt_plan_over(k->plan, 0) : status;
}

static int value_of(const mrt_recompute *k, int a) {
  return k->value[k->buffer_of[a]]->id;
}

/* As the policy has answered; orders differ, values do not. */
static void recall(mrt_recompute *k) {
  const mrt_memo *memo = &k->planner->memo;
  for (int a = 0; a < k->asked.count; a++) {
    mrt_activation *v = &k->asked.activations[a];
    const mrt_activation *said = &memo->answered[value_of(k, a)];
    if (v->region) continue; /* not asked about */
    v->choice = said->choice, v->priority = said->priority;
    v->segment = said->segment;
  }
  k->asked.kept = memo->kept, k->asked.no_recompute = memo->no_recompute;
}

/* The policy's answers; it is asked once for all plans of a trace. */
static mrt_status ask(mrt_recompute *k) {
  mrt_plan *plan = k->plan;
  mrt_checkpoint *c = &k->asked;
  mrt_memo *memo = &k->planner->memo;
  const mrt_plan_options *o = &plan->options;
  if (memo->answered) return recall(k), MRT_OK;
  if (!o->checkpoint) return MRT_OK;
  MRT_TRY(o->checkpoint(o->checkpoint_user, c));
  memo->answered =
      MRT_NEW(k->planner->memo_arena, mrt_activation, plan->graph.value_count);
  if (!memo->answered) return mrt_nomem(&plan->ctx->error);
  for (int a = 0; a < c->count; a++)
    memo->answered[value_of(k, a)] = c->activations[a];
  memo->kept = c->kept, memo->no_recompute = c->no_recompute;
  return MRT_OK;
}

/* What is to be swapped is kept so far; the swap pass goes on from here. */
static void note_swapped(const mrt_recompute *k, const mrt_schedule *s) {
  for (int a = 0; a < k->asked.count; a++)
    if (k->asked.activations[a].choice == MRT_CHOICE_SWAP)
      k->value[k->buffer_of[a]]->evicted = k->plan->swaps = true;
  for (int i = 0; i < s->count; i++)
    if (s->act[i].kind == MRT_ACT_IN)
      k->value[s->act[i].index]->evicted = k->plan->swaps = true;
}

/* All of the plan stays within the budget: variables, constants and outputs
 * take the rest of it. */
static mrt_status go_within(mrt_recompute *k, mrt_schedule *s) {
  mrt_plan *plan = k->plan;
  mrt_memo *memo = &k->planner->memo;
  const mrt_candidate *candidate = &plan->candidate;
  int64_t wanted = (int64_t)plan->options.memory;
  wanted -= (int64_t)mrt_plan_rest(plan) + candidate->slack;
  if (wanted < 0) wanted = 0;
  if (candidate->brief && !memo->segments_count && !k->asked.no_recompute &&
      !candidate->kept)
    MRT_TRY(
        mrt_recompute_segment_search(k, memo->segments, &memo->segments_count));
  if (candidate->brief && memo->same_order && !candidate->segmented &&
      !candidate->least && !candidate->kept)
    return mrt_plan_over(plan, 0); /* that was tried */
  bool above = (int64_t)memo->order_peak > wanted && !candidate->least;
  if (plan->options.any && memo->order && above) return mrt_plan_over(plan, 0);
  return candidate->segmented
             ? mrt_recompute_segment_schedule(k, &candidate->segments, s)
             : solve(k, wanted, s);
}

/* The share of the time that may be spent unasked; 0: none. */
static double to_spend(const mrt_planner *p) {
  const mrt_plan *plan = p->plan;
  const mrt_plan_options *o = &plan->options;
  if (o->memory || o->checkpoint || !p->source) return 0;
  double share = o->spend == 0 ? plan->device.spend : o->spend;
  return share > 0 ? share : 0;
}

/* Peaks of both schedules: with what is spent, and with all kept. */
static mrt_status peaks(mrt_recompute *k, mrt_schedule *spent,
                        mrt_schedule *kept) {
  mrt_error *e = &k->plan->ctx->error;
  for (int a = 0; a < k->asked.count; a++) {
    mrt_activation *v = &k->asked.activations[a];
    if (!v->region) v->choice = MRT_CHOICE_KEEP;
  }
  MRT_TRY(mrt_recompute_policy_schedule(k, kept));
  MRT_TRY(mrt_schedule_simulate(k->arena, e, &k->problem, spent));
  return mrt_schedule_simulate(k->arena, e, &k->problem, kept);
}

/* What is spent shall be a smaller share of the time than of the bytes. */
static mrt_status spend(mrt_recompute *k, mrt_schedule *s) {
  double share = to_spend(k->planner), rest;
  mrt_schedule kept = { 0 };
  if (share == 0) return MRT_OK;
  MRT_TRY(mrt_recompute_spend(k, share, &k->planner->memo.offers));
  if (k->planner->memo.offers == 0) return MRT_OK;
  MRT_TRY(mrt_recompute_policy_schedule(k, s));
  MRT_TRY(peaks(k, s, &kept));
  rest = (double)mrt_plan_rest(k->plan);
  double less = (double)(kept.peak - s->peak) / ((double)kept.peak + rest);
  k->planner->memo.spent = less > s->cost / kept.cost - 1;
  if (!k->planner->memo.spent) *s = kept;
  return MRT_OK;
}

static mrt_status recompute(mrt_recompute *k) {
  const mrt_plan_options *o = &k->plan->options;
  mrt_schedule s = { 0 };
  k->asked.kept = SIZE_MAX;
  MRT_TRY(ask(k));
  if (k->asked.no_recompute && !o->memory) keep_open(k);
  if (k->asked.kept != SIZE_MAX)
    MRT_TRY(mrt_recompute_keep_budget(k, k->asked.kept));
  MRT_TRY(spend(k, &s));
  if (o->memory)
    MRT_TRY(go_within(k, &s));
  else if (s.count == 0)
    MRT_TRY(mrt_recompute_policy_schedule(k, &s));
  note_swapped(k, &s);
  return mrt_recompute_apply(k, &s);
}

mrt_status mrt_pass_recompute(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  if (!plan->options.memory && !mrt_plan_has_policy(plan) && to_spend(p) == 0)
    return MRT_OK;
  mrt_arena arena;
  mrt_recompute k;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = mrt_recompute_make(&k, p, &arena);
  if (!s) s = recompute(&k);
  mrt_arena_free(&arena);
  return s;
}
