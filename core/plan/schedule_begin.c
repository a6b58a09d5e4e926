/* schedule_begin.c -- lines to search from, and the best kept
 *
 *   method  A start is a repair of the whole program: at the first runs above
 *           the budget or at the worst, the price of a byte following what was
 *           paid last, quickly or slowly, with or without noise.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/schedule_solver.h"

#include <limits.h>
#include <math.h>

/* A byte above the budget during one run, to begin with: little. */
static double first_price(const mrt_solver *s) {
  const mrt_line *l = &s->line;
  double excess = 0;
  for (int run = 0; run >= 0; run = mrt_line_next(l, run))
    if (mrt_line_bytes(l, run) > s->budget)
      excess += (double)(mrt_line_bytes(l, run) - s->budget);
  return excess > 0 ? 0.003 * l->cost / excess : 0;
}

void mrt_solver_keep(mrt_solver *s) {
  mrt_line *l = &s->line;
  if (l->cost >= s->best_cost) return;
  s->best_cost = l->cost;
  s->best_price = s->price;
  s->bests = 0;
  for (int run = 0; l->run[run].op < l->p->ops; run = mrt_line_next(l, run))
    s->best[s->bests++] = l->run[run].op;
}

void mrt_solver_clear(mrt_solver *s) {
  mrt_line *l = &s->line;
  mrt_line_accept(l);
  for (int run = 0; l->run[run].op < l->p->ops && !l->failed;) {
    int next = mrt_line_next(l, run);
    if (!l->run[run].first) mrt_line_remove(l, run);
    run = next;
  }
  mrt_line_accept(l);
}

void mrt_solver_restore(mrt_solver *s) {
  mrt_line *l = &s->line;
  mrt_solver_clear(s);
  for (int i = 0, first = 0; i < s->bests && !l->failed; i++) {
    if (s->best[i] == first)
      first++;
    else
      mrt_line_insert(l, s->best[i], first);
  }
  mrt_line_accept(l);
}

typedef struct start {
  bool worst;   /* repair where most is above the budget, or near the first */
  double learn; /* how fast the price follows what is paid */
  double noise;
} start;

static const start starts[] = {
  { false, 1, 0 },    { false, 0.2, 0 }, { true, 0.2, 0 },
  { true, 1, 0 },     { false, 0, 0 },   { false, 0.2, 0.5 },
  { true, 0.2, 0.5 }, { false, 0.5, 1 }, { true, 0.5, 1 },
};
_Static_assert(MRT_COUNT(starts) == MRT_SCHEDULE_STARTS, "as announced");

bool mrt_solver_start(mrt_solver *s, int number) {
  const start *start = &starts[number];
  mrt_line *l = &s->line;
  double ops = l->p->ops;
  s->window = start->worst ? INT_MAX : 1 + l->p->ops / 2000 * 8;
  s->batch = (int)fmin(1000, 1 + 1e-10 * ops * ops * ops);
  s->learn = start->learn;
  s->noise = start->noise;
  s->price = first_price(s);
  double work = fmin(MRT_SCHEDULE_START_WORK, 2e6 + 4e4 * ops);
  s->work = l->worked + (int64_t)work;
  bool good = mrt_repair(s, INFINITY);
  int64_t peak = mrt_line_peak(l);
  if (peak < s->least) s->least = peak;
  if (good) {
    mrt_clean(s);
    mrt_line_accept(l);
  }
  return good && !l->failed;
}
