/* evict.c -- dropping one value for a while, with all that follows
 *
 *   method  A value dropped before a read is made again just before it.  What
 *           that needs and is not there stays longer, or is made again too,
 *           whichever costs less at the present price of bytes.  An operator
 *           that runs again later anyway may run here instead: then only the
 *           bytes between cost.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>
#include <stdlib.h>

/* The next run of the operator after `next`, unless it is the first. */
static int later_run(mrt_sequence *l, int op, int next) {
  int run = l->run[op].next_run;
  for (; run >= 0 && !mrt_sequence_is_before(l, next, run); l->worked++)
    run = l->run[run].next_run;
  return run;
}

/* What keeping the outputs of `run` from before `next` on would cost. */
static double keep_cost(mrt_schedule_solver *s, int run, int next,
                        double limit) {
  mrt_sequence *l = &s->line;
  const mrt_sequence_run *r = &l->run[run];
  double excess = 0;
  for (int i = r->access; i < r->access + r->makes; i++) {
    const mrt_sequence_access *a = &l->access[i];
    if (!mrt_sequence_is_linked(l, a) || !mrt_sequence_lives_on(l, i)) continue;
    int from = l->access[a->before].run;
    if (mrt_sequence_is_before(l, from, next)) from = next;
    excess += mrt_sequence_excess(l, from, run, l->p->bytes[a->value],
                                  s->budget, limit / s->price);
  }
  return excess * s->price;
}

static double run_cost(mrt_schedule_solver *s, int op, int next) {
  mrt_sequence *l = &s->line;
  if (l->p->until && l->p->until[op] < l->run[next].stage) return INFINITY;
  double cost = l->p->cost[op];
  int later = later_run(l, op, next);
  if (later < 0) return cost;
  double keep = keep_cost(s, later, next, cost);
  return keep < cost ? keep : cost;
}

/* Is the value there just before `next`?  If not, *from is its last access. */
static bool is_there(mrt_sequence *l, int value, int next, int *from) {
  int x = mrt_sequence_find(l, value, next);
  *from = x;
  return x >= 0 && (l->access[x].run == next || mrt_sequence_lives_on(l, x));
}

static void add_op(mrt_schedule_solver *s, int op) {
  s->mark[op] = s->stamp;
  s->op[s->ops++] = op;
}

int64_t mrt_sequence_split_spill(mrt_schedule_solver *s, int value, int next) {
  mrt_sequence *l = &s->line;
  const mrt_problem *p = l->p;
  int op = l->maker[value], from, before = mrt_sequence_before(l, next);
  int64_t bytes = mrt_sequence_crossing(l, before) + l->work[op] - s->budget;
  bytes -= p->bytes[value];
  l->worked += l->run[before].count;
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1] && bytes > 0; i++)
    if (is_there(l, p->reads.item[i], next, &from))
      bytes -= p->bytes[p->reads.item[i]];
  return bytes > 0 ? bytes : 0;
}

double mrt_sequence_split_cost(mrt_schedule_solver *s, int value, int next,
                               double limit) {
  mrt_sequence *l = &s->line;
  const mrt_problem *p = l->p;
  s->ops = 0;
  s->stamp++;
  double cost = run_cost(s, l->maker[value], next);
  if (cost >= limit) return INFINITY;
  cost += s->price * (double)mrt_sequence_split_spill(s, value, next);
  add_op(s, l->maker[value]);
  for (int k = 0; k < s->ops && cost < limit; k++) {
    int op = s->op[k];
    for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
      int u = p->reads.item[i], from;
      l->worked += 2;
      if (s->mark[l->maker[u]] == s->stamp || is_there(l, u, next, &from))
        continue;
      bool may = !l->may || (l->may[u] & MRT_MAY_RECOMPUTE);
      double again = may ? run_cost(s, l->maker[u], next) : INFINITY;
      double longer = s->price * mrt_sequence_excess(
                                     l, l->access[from].run, next, p->bytes[u],
                                     s->budget, again / s->price);
      cost += longer < again ? longer : again;
      if (again < longer) add_op(s, l->maker[u]);
    }
  }
  return cost < limit ? cost : INFINITY;
}

static int rising(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

/* Runs whose outputs nobody reads are needless. */
static bool is_needless(const mrt_sequence *l, int run) {
  const mrt_sequence_run *r = &l->run[run];
  if (r->first || !r->there) return false;
  for (int i = r->access; i < r->access + r->makes; i++)
    if (mrt_sequence_is_linked(l, &l->access[i]) && mrt_sequence_lives_on(l, i))
      return false;
  return true;
}

void mrt_sequence_run_remove(mrt_schedule_solver *s, int run) {
  mrt_sequence *l = &s->line;
  mrt_sequence_remove(l, run);
  for (int i = l->run[run].access + l->run[run].makes;
       i < l->run[run].access + l->run[run].count && !l->failed; i++) {
    int from = l->access[l->access[i].before].run;
    if (is_needless(l, from)) mrt_sequence_run_remove(s, from);
  }
}

bool mrt_sequence_run_drop(mrt_schedule_solver *s, int run, bool strict) {
  mrt_sequence *l = &s->line;
  const mrt_sequence_run *r = &l->run[run];
  double excess = 0;
  for (int i = r->access; i < r->access + r->makes; i++) {
    const mrt_sequence_access *a = &l->access[i];
    if (mrt_sequence_is_linked(l, a) && mrt_sequence_lives_on(l, i))
      excess += mrt_sequence_excess(l, l->access[a->before].run, run,
                                    l->p->bytes[a->value], s->budget,
                                    strict ? 0 : INFINITY);
  }
  if (strict ? excess > 0 : excess * s->price > l->p->cost[r->op]) return false;
  int changes = l->changes;
  mrt_sequence_run_remove(s, run);
  if (strict && mrt_sequence_peak(l) > s->budget) {
    mrt_sequence_undo(l, changes);
    return false;
  }
  return true;
}

void mrt_sequence_split_do(mrt_schedule_solver *s, int next) {
  mrt_sequence *l = &s->line;
  qsort(s->op, (size_t)s->ops, sizeof *s->op, rising);
  for (int i = 0; i < s->ops; i++)
    if (mrt_sequence_insert(l, s->op[i], next) < 0) return;
  for (int i = s->ops - 1; i >= 0 && !l->failed; i--) {
    int later = later_run(l, s->op[i], next);
    if (later >= 0) mrt_sequence_run_drop(s, later, false);
  }
}
