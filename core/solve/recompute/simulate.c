/* simulate.c -- a schedule followed act by act
 *
 *   method  Values are absent, there, or on their way.  Two copy queues, out
 *           and in, run beside the operators, each in the order of its acts;
 *           an IN waits for its OUT.  Time passes in runs and in waiting: for a
 *           value that is still coming in, before a run that reads it; for one
 *           that is still going out, before its drop.  What a value leaves on
 *           the swap tier stays there, so a second OUT is free.
 *   never   Uses anything of the solver.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/schedule.h"

typedef struct tier { /* one value */
  bool there, ran;    /* `ran`: its maker has run */
  bool out;           /* is, or will be, on the swap tier */
  double out_end, in_end;
} tier;

typedef struct schedule_walk {
  const mrt_problem *p;
  mrt_schedule *s;
  mrt_error *e;
  tier *value;
  bool *ran; /* by op */
  int first; /* the next operator's first run */
  double time, out_queue, in_queue;
  int64_t live;
} schedule_walk;

static mrt_status wrong(schedule_walk *w, int act, const char *what,
                        int index) {
  return mrt_fail(w->e, MRT_EPLAN, "schedule: act %d: %s %d", act + 1, what,
                  index + 1);
}

static void reach(schedule_walk *w, int64_t bytes) {
  if (bytes > w->s->peak) w->s->peak = bytes;
}

/* Is `value` dropped by one of the acts right after this run? */
static bool drops(const schedule_walk *w, int act, int value) {
  for (int i = act + 1; i < w->s->count; i++) {
    if (w->s->act[i].kind != MRT_ACT_DROP) return false;
    if (w->s->act[i].index == value) return true;
  }
  return false;
}

/* Bytes of outputs that lie in inputs dropped right after this run. */
static int64_t in_place(const schedule_walk *w, int act) {
  const mrt_problem *p = w->p;
  int op = w->s->act[act].index;
  int64_t sum = 0;
  if (!p->take_start) return 0;
  for (int k = p->take_start[op]; k < p->take_start[op + 1]; k++) {
    const mrt_take *t = &p->take[k];
    bool may = !w->value[t->out].there && drops(w, act, t->in);
    for (int j = p->take_start[op]; j < k && may; j++)
      may = p->take[j].out != t->out && p->take[j].in != t->in;
    if (may) sum += p->bytes[t->in];
  }
  return sum;
}

/* May the operator run now? */
static mrt_status allow(schedule_walk *w, int act) {
  const mrt_problem *p = w->p;
  int op = w->s->act[act].index;
  if (op < 0 || op >= p->ops) return wrong(w, act, "there is no operator", op);
  if (!w->ran[op] && op != w->first)
    return wrong(w, act, "too early, out of order: operator", op);
  if (w->ran[op] && p->until && w->first > p->until[op])
    return wrong(w, act, "too late to run again: operator", op);
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++)
    if (!w->value[p->reads.item[i]].there)
      return wrong(w, act, "not there, but read: value", p->reads.item[i]);
  return MRT_OK;
}

static mrt_status run(schedule_walk *w, int act) {
  const mrt_problem *p = w->p;
  MRT_TRY(allow(w, act));
  int op = w->s->act[act].index;
  int64_t bytes = p->scratch ? p->scratch[op] : 0, made = 0;
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
    double end = w->value[p->reads.item[i]].in_end;
    if (end > w->time) w->time = end;
  }
  bytes -= in_place(w, act);
  for (int i = p->makes.start[op]; i < p->makes.start[op + 1]; i++) {
    tier *v = &w->value[p->makes.item[i]];
    bytes += p->bytes[p->makes.item[i]];
    if (!v->there) made += p->bytes[p->makes.item[i]];
    if (!v->there) v->in_end = 0;
    v->there = v->ran = true;
  }
  reach(w, w->live + bytes);
  w->live += made;
  w->time += p->cost[op];
  if (!w->ran[op]) w->first++;
  w->ran[op] = true;
  return MRT_OK;
}

static mrt_status move_value(schedule_walk *w, int act, mrt_act_kind kind,
                             int value) {
  const mrt_problem *p = w->p;
  if (value < 0 || value >= p->values)
    return wrong(w, act, "there is no value", value);
  tier *v = &w->value[value];
  double bytes = (double)p->bytes[value];
  if (kind != MRT_ACT_IN && !v->there)
    return wrong(w, act, "not there: value", value);
  if (kind == MRT_ACT_DROP) {
    if (v->out_end > w->time) w->time = v->out_end;
    if (v->in_end > w->time) w->time = v->in_end;
    v->there = false;
    w->live -= p->bytes[value];
    return MRT_OK;
  }
  if (!(p->swap_out > 0 && p->swap_in > 0))
    return wrong(w, act, "nothing can be swapped, but value", value);
  if (kind == MRT_ACT_OUT) {
    if (v->out) return MRT_OK;
    double start = w->out_queue > w->time ? w->out_queue : w->time;
    if (v->in_end > start) start = v->in_end;
    w->out_queue = v->out_end = start + bytes * p->swap_out;
    v->out = true;
    return MRT_OK;
  }
  if (v->there || !v->out)
    return wrong(w, act,
                 v->there ? "there already: value"
                          : "not on the swap tier: value",
                 value);
  double start = w->in_queue > w->time ? w->in_queue : w->time;
  if (v->out_end > start) start = v->out_end;
  w->in_queue = v->in_end = start + bytes * p->swap_in;
  v->there = true;
  w->live += p->bytes[value];
  reach(w, w->live);
  return MRT_OK;
}

static mrt_status finish(schedule_walk *w) {
  const mrt_problem *p = w->p;
  if (w->first < p->ops)
    return wrong(w, w->s->count, "the end, without operator", w->first);
  for (int v = 0; v < p->values; v++) {
    if (!p->pinned || !p->pinned[v]) continue;
    if (!w->value[v].there)
      return wrong(w, w->s->count, "the end, without value", v);
    if (w->value[v].in_end > w->time) w->time = w->value[v].in_end;
  }
  w->s->cost = w->time;
  return MRT_OK;
}

mrt_status mrt_schedule_simulate(mrt_arena *arena, mrt_error *e,
                                 const mrt_problem *p, mrt_schedule *s) {
  schedule_walk w = {
    .p = p,
    .s = s,
    .e = e,
    .value = MRT_NEW(arena, tier, p->values + 1),
    .ran = MRT_NEW(arena, bool, p->ops + 1),
  };
  if (!w.value || !w.ran) return mrt_nomem(e);
  s->peak = 0;
  for (int i = 0; i < s->count; i++) {
    mrt_act a = s->act[i];
    MRT_TRY(a.kind == MRT_ACT_RUN ? run(&w, i)
                                  : move_value(&w, i, a.kind, a.index));
  }
  return finish(&w);
}
