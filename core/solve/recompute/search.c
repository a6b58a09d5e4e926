/* search.c -- taking runs out and repairing, again and again
 *
 *   method  Large neighbourhood search: a few runs near each other are taken
 *           out, what then is above the budget is repaired with other choices,
 *           needless runs go; a worse line is taken back.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <limits.h>
#include <math.h>

/* All runs that are not first ones, into s->again. */
static void list_again(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  s->agains = 0;
  for (int run = 0; run >= 0; run = mrt_sequence_next(l, run))
    if (!l->run[run].first) s->again[s->agains++] = run;
  l->worked += l->length;
}

static void take_out(mrt_schedule_solver *s, int run) {
  mrt_sequence *l = &s->line;
  const mrt_sequence_run *r = &l->run[run];
  if (!r->there) return;
  for (int i = r->access; i < r->access + r->makes; i++)
    s->tabu[l->access[i].value] = s->round;
  mrt_sequence_run_remove(s, run);
}

static void clean_some(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  for (int i = 0; i < l->changes; i++) {
    mrt_sequence_change c = l->change[i];
    if (!c.removed && l->run[c.run].there)
      mrt_sequence_run_drop(s, c.run, true);
  }
  for (int i = 0; i < 24; i++) {
    int run = s->again[(int)(mrt_schedule_random(s) * s->agains)];
    if (l->run[run].there) mrt_sequence_run_drop(s, run, true);
  }
}

/* Take out a few runs near each other and repair; the line may be worse. */
static bool try_other(mrt_schedule_solver *s, double limit) {
  mrt_sequence *l = &s->line;
  int at = (int)(mrt_schedule_random(s) * s->agains);
  int many = 1 + (int)(mrt_schedule_random(s) * mrt_schedule_random(s) * 12);
  s->round++;
  s->noise = 0.5 * mrt_schedule_random(s);
  s->window = mrt_schedule_random(s) < 0.3 ? INT_MAX : 1;
  for (int i = 0; i < many && at < s->agains; i++) {
    take_out(s, s->again[at]);
    at += 1 + (int)(mrt_schedule_random(s) * 3);
  }
  double price = s->price;
  bool good = mrt_schedule_repair(s, limit);
  s->price = price;
  if (good) clean_some(s);
  return good && l->cost <= limit;
}

bool mrt_schedule_search(mrt_schedule_solver *s, double goal, int64_t work) {
  mrt_sequence *l = &s->line;
  double start = l->cost, best = l->cost, base = 0;
  int64_t begin = l->worked;
  for (int op = 0; op < l->p->ops; op++) base += l->p->cost[op];
  mrt_sequence_accept(l);
  s->work = begin + work;
  s->batch = 1;
  list_again(s);
  while (l->worked < s->work && best > goal && s->agains && !l->failed) {
    double left = 1 - (double)(l->worked - begin) / (double)work;
    double warm = left * left * (best - base) / s->agains;
    int mark = l->changes;
    double limit = l->cost - warm * log(1e-9 + mrt_schedule_random(s));
    if (!try_other(s, limit))
      mrt_sequence_undo(l, mark);
    else if (l->cost < best * (1 - 1e-12)) {
      best = l->cost;
      mrt_sequence_accept(l);
    } else if (l->changes > 2 * s->agains + 50) {
      mrt_sequence_undo(l, 0);
    }
    if (l->changes != mark) list_again(s);
  }
  mrt_sequence_undo(l, 0);
  s->noise = 0;
  return best < start;
}
