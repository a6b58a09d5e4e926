/* with_swap.c -- activations that may wait in the swap tier, for the solver
 *
 *   needs   the dag, its problem, a choice for every activation
 *   gives   a problem in which chosen values come back by a copy, and what its
 *           schedules mean for the dag
 *   method  What the backward pass reads, the dearest to compute again per byte
 *           first, as long as its copies fit into the time of the forward and
 *           of the backward pass.  Right after a chosen value is made, an
 *           operator that reads nothing makes it anew, for what copies cost:
 *           to run that again is to copy the value back.  So the solver, which
 *           knows of recomputing only, weighs both.
 *   never   asks for what a policy keeps or computes again
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"
#include "tensor/swap_tier.h"

#include <stdlib.h>

/* What a second of hidden copying counts: rather keep than copy in vain. */
static const double hidden = 0.05;

typedef struct candidate {
  int buffer;
  double out, in; /* seconds of its copies */
  double score;
} candidate;

typedef struct choosing {
  mrt_recompute *k;
  candidate *list;
  int count;
  double *time;             /* before op i */
  double forward, backward; /* seconds */
} choosing;

/* ---- which --------------------------------------------------------------- */

static bool is_open(const mrt_recompute *k, int a) {
  const mrt_activation *v = &k->asked.activations[a];
  int maker = k->dag.maker[k->buffer_of[a]];
  return v->choice == MRT_CHOICE_OPEN && v->saved &&
         v->bytes >= MRT_TIER_ALIGN && k->problem.until[maker] > 0;
}

/* Seconds between the last forward and the first other reader. */
static double gap(const choosing *c, int buffer) {
  const mrt_dag *f = &c->k->dag;
  int last = f->maker[buffer], next = f->real;
  for (int r = f->readers.start[buffer]; r < f->readers.start[buffer + 1];
       r++) {
    int i = f->readers.item[r];
    if (c->k->forward[i] && i > last) last = i;
    if (!c->k->forward[i] && i < next) next = i;
  }
  return next > last ? c->time[next] - c->time[last + 1] : 0;
}

static int by_score(const void *x, const void *y) {
  const candidate *a = x, *b = y;
  if (a->score != b->score) return a->score < b->score ? 1 : -1;
  return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static mrt_status list_candidates(choosing *c, bool all) {
  mrt_recompute *k = c->k;
  mrt_swap_rates rates = mrt_declared_rates(k->plan);
  c->list = MRT_NEW(k->arena, candidate, k->asked.count);
  c->time = MRT_NEW(k->arena, double, k->dag.real + 1);
  if (!c->list || !c->time) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < k->dag.real; i++) {
    c->time[i + 1] = c->time[i] + k->problem.cost[i];
    *(k->forward[i] ? &c->forward : &c->backward) += k->problem.cost[i];
  }
  for (int a = 0; a < k->asked.count; a++) {
    const mrt_activation *v = &k->asked.activations[a];
    candidate n = { k->buffer_of[a], mrt_copy_seconds(&rates, true, v->bytes),
                    mrt_copy_seconds(&rates, false, v->bytes),
                    v->seconds / (double)v->bytes };
    if (is_open(k, a) && (all || gap(c, n.buffer) >= n.out + n.in))
      c->list[c->count++] = n;
  }
  qsort(c->list, (size_t)c->count, sizeof *c->list, by_score);
  return MRT_OK;
}

/* Leave those whose copies fill the lanes `lanes` times. */
static void fill_lanes(choosing *c, double lanes) {
  double out = lanes * c->forward, in = lanes * c->backward;
  int count = 0;
  for (int i = 0; i < c->count; i++) {
    candidate n = c->list[i];
    if (n.out > out || n.in > in) continue;
    out -= n.out, in -= n.in;
    c->list[count++] = n;
  }
  c->count = count;
}

/* ---- the problem --------------------------------------------------------- */

/* The operators: node i, then a copy for each chosen value that it makes. */
static mrt_status number(mrt_with_swap *w, const mrt_recompute *k,
                         const bool *chosen, int *at) {
  const mrt_dag *f = &k->dag;
  w->node = MRT_NEW(k->arena, int, f->real + w->count);
  w->copied = MRT_NEW(k->arena, int, f->real + w->count);
  if (!w->node || !w->copied) return mrt_nomem(&k->plan->ctx->error);
  int n = 0;
  for (int i = 0; i < f->real; i++) {
    at[i] = n;
    w->node[n] = i, w->copied[n++] = -1;
    for (int b = f->made[i]; b < f->made[i + 1]; b++)
      if (chosen[b]) w->node[n] = -1, w->copied[n++] = b;
  }
  at[f->real] = n;
  return MRT_OK;
}

static mrt_status new_lists(mrt_with_swap *w, const mrt_recompute *k) {
  const mrt_problem *old = &k->problem;
  mrt_problem *p = &w->problem;
  mrt_arena *a = k->arena;
  int n = p->ops + 1;
  p->reads.start = MRT_NEW(a, int, n), p->makes.start = MRT_NEW(a, int, n);
  p->makes.item = MRT_NEW(a, int, p->values);
  p->cost = MRT_NEW(a, double, n), p->scratch = MRT_NEW(a, int64_t, n);
  p->until = MRT_NEW(a, int, n), p->bytes = MRT_NEW(a, int64_t, p->values);
  p->take_start = MRT_NEW(a, int, n);
  p->take = MRT_NEW(a, mrt_take, old->take_start[old->ops]);
  return p->reads.start && p->makes.start && p->makes.item && p->cost &&
                 p->scratch && p->until && p->bytes && p->take_start && p->take
             ? MRT_OK
             : mrt_nomem(&k->plan->ctx->error);
}

/* The value that the node itself makes for buffer b. */
static int raw(const int *raw_of, int b) { return raw_of[b] ? raw_of[b] : b; }

static void add_node(mrt_problem *p, int op, const mrt_problem *old, int i,
                     const int *raw_of, const int *at) {
  int made = p->makes.start[op], takes = p->take_start[op];
  p->cost[op] = old->cost[i], p->scratch[op] = old->scratch[i];
  p->until[op] = at[old->until[i]];
  p->reads.start[op] = old->reads.start[i];
  p->reads.start[op + 1] = old->reads.start[i + 1];
  for (int m = old->makes.start[i]; m < old->makes.start[i + 1]; m++)
    p->makes.item[made++] = raw(raw_of, old->makes.item[m]);
  for (int t = old->take_start[i]; t < old->take_start[i + 1]; t++)
    p->take[takes++] =
        (mrt_take){ raw(raw_of, old->take[t].out), old->take[t].in };
  p->makes.start[op + 1] = made, p->take_start[op + 1] = takes;
}

static void add_copy(mrt_problem *p, int op, int buffer, double cost) {
  int made = p->makes.start[op];
  p->cost[op] = cost, p->until[op] = p->ops;
  p->reads.start[op + 1] = p->reads.start[op];
  p->makes.item[made] = buffer;
  p->makes.start[op + 1] = made + 1;
  p->take_start[op + 1] = p->take_start[op];
}

static mrt_status build(mrt_with_swap *w, const choosing *c, double price) {
  const mrt_recompute *k = c->k;
  const mrt_dag *f = &k->dag;
  mrt_problem *p = &w->problem;
  bool *chosen = MRT_NEW(k->arena, bool, f->buffers);
  int *raw_of = MRT_NEW(k->arena, int, f->buffers);
  int *at = MRT_NEW(k->arena, int, f->real + 1);
  double *cost = MRT_NEW(k->arena, double, f->buffers);
  if (!chosen || !raw_of || !at || !cost)
    return mrt_nomem(&k->plan->ctx->error);
  *p = (mrt_problem){ .ops = f->real + c->count,
                      .values = f->buffers + c->count };
  w->count = c->count;
  MRT_TRY(new_lists(w, k));
  p->reads.item = k->problem.reads.item;
  for (int b = 0; b < f->buffers; b++) p->bytes[b] = f->bytes[b];
  for (int i = 0; i < c->count; i++) {
    const candidate *n = &c->list[i];
    chosen[n->buffer] = true, raw_of[n->buffer] = f->buffers + i;
    p->bytes[f->buffers + i] = f->bytes[n->buffer];
    cost[n->buffer] = price * (n->out + n->in);
  }
  MRT_TRY(number(w, k, chosen, at));
  for (int op = 0; op < p->ops; op++)
    if (w->node[op] >= 0)
      add_node(p, op, &k->problem, w->node[op], raw_of, at);
    else
      add_copy(p, op, w->copied[op], cost[w->copied[op]]);
  return MRT_OK;
}

mrt_status mrt_with_swap_make(mrt_with_swap *w, mrt_recompute *k,
                              double lanes) {
  choosing c = { .k = k };
  *w = (mrt_with_swap){ 0 };
  bool all = lanes >= MRT_ALL_LANES;
  MRT_TRY(list_candidates(&c, all));
  if (!all) fill_lanes(&c, lanes);
  return build(w, &c, all ? 1 : 1 - (1 - hidden) / (lanes > 1 ? lanes : 1));
}

/* ---- all of it, always --------------------------------------------------- */

mrt_status mrt_with_swap_runs(const mrt_with_swap *w, mrt_arena *arena,
                              mrt_solve_hint *hint, mrt_error *e) {
  const mrt_problem *p = &w->problem;
  int *copy = MRT_NEW(arena, int, p->values), *last, *op, n = 0;
  last = MRT_NEW(arena, int, p->values);
  op = MRT_NEW(arena, int, p->ops + p->reads.start[p->ops]);
  if (!copy || !last || !op) return mrt_nomem(e);
  for (int i = 0; i < p->ops; i++)
    if (w->copied[i] >= 0) copy[w->copied[i]] = i + 1, last[w->copied[i]] = i;
  for (int i = 0; i < p->ops; i++) {
    for (int r = p->reads.start[i]; r < p->reads.start[i + 1]; r++) {
      int v = p->reads.item[r];
      if (copy[v] && last[v] + 1 < i) op[n++] = copy[v] - 1;
      last[v] = i;
    }
    op[n++] = i;
  }
  hint->op = op, hint->count = n;
  return MRT_OK;
}

/* ---- and back ------------------------------------------------------------ */

mrt_status mrt_with_swap_schedule(const mrt_with_swap *w, mrt_recompute *k,
                                  mrt_schedule *s) {
  mrt_act *act = MRT_NEW(k->arena, mrt_act, s->count);
  bool *ran = MRT_NEW(k->arena, bool, k->dag.buffers);
  int n = 0;
  if (!act || !ran) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < s->count; i++) {
    mrt_act a = s->act[i];
    if (a.kind == MRT_ACT_DROP) {
      if (a.index < k->dag.buffers) act[n++] = a;
    } else if (w->node[a.index] >= 0) {
      act[n++] = (mrt_act){ MRT_ACT_RUN, w->node[a.index] };
    } else {
      int b = w->copied[a.index];
      if (ran[b]) act[n++] = (mrt_act){ MRT_ACT_IN, b };
      ran[b] = true;
    }
  }
  s->act = act, s->count = n;
  return MRT_OK;
}
