/* starts.c -- lines to search from, and the best kept
 *
 *   method  A start is a repair of the whole program: at the first runs above
 *           the budget or at the worst, the price of a byte following what was
 *           paid last, quickly or slowly, with or without noise.  Or the budget
 *           falls to the one wanted in small steps; or segments are run again
 *           first.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <limits.h>
#include <math.h>

double mrt_schedule_first_price(const mrt_schedule_solver *s) {
  const mrt_sequence *l = &s->line;
  double excess = 0;
  for (int run = 0; run >= 0; run = mrt_sequence_next(l, run))
    if (mrt_sequence_bytes(l, run) > s->budget)
      excess += (double)(mrt_sequence_bytes(l, run) - s->budget);
  return excess > 0 ? 0.003 * l->cost / excess : 0;
}

void mrt_schedule_keep(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  if (l->cost >= s->best_cost) return;
  s->best_cost = l->cost;
  s->best_price = s->price;
  s->bests = 0;
  for (int run = 0; l->run[run].op < l->p->ops; run = mrt_sequence_next(l, run))
    s->best[s->bests++] = l->run[run].op;
}

void mrt_schedule_clear(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  mrt_sequence_accept(l);
  for (int run = 0; l->run[run].op < l->p->ops && !l->failed;) {
    int next = mrt_sequence_next(l, run);
    if (!l->run[run].first) mrt_sequence_remove(l, run);
    run = next;
  }
  mrt_sequence_accept(l);
}

void mrt_schedule_restore(mrt_schedule_solver *s) {
  mrt_sequence *l = &s->line;
  mrt_schedule_clear(s);
  for (int i = 0, first = 0; i < s->bests && !l->failed; i++) {
    if (s->best[i] == first)
      first++;
    else
      mrt_sequence_insert(l, s->best[i], first);
  }
  mrt_sequence_accept(l);
}

typedef enum way { PLAIN, STEPS, SEGMENTS } way;

typedef struct start {
  way way;
  bool worst;   /* repair where most is above the budget, or near the first */
  double learn; /* how fast the price follows what is paid */
  double noise;
  double price; /* of a byte while segments are cut, in first prices */
} start;

/* The last few may be tried more than once: they differ each time. */
static const start starts[] = {
  { PLAIN, true, 0.2, 0, 0 },    { PLAIN, false, 1, 0, 0 },
  { SEGMENTS, true, 0.2, 0, 1 }, { PLAIN, false, 0.2, 0, 0 },
  { STEPS, true, 0.2, 0, 0 },    { SEGMENTS, false, 1, 0, 1000 },
  { PLAIN, true, 1, 0, 0 },      { PLAIN, false, 0.2, 0.5, 0 },
  { PLAIN, true, 0.2, 0.5, 0 },  { STEPS, false, 0.2, 0.5, 0 },
  { PLAIN, true, 0.5, 1, 0 },
};
_Static_assert(MRT_COUNT(starts) == MRT_SCHEDULE_STARTS, "as announced");
enum { AGAIN = 3 };

/* Repair for a budget a little lower than the last one, again and again.  A
 * step that fails, or makes the line cost much more, is taken back: then
 * the line is searched from, and a smaller step tried, in another way. */
static bool come_down(mrt_schedule_solver *s) {
  static const double learns[] = { 0.2, 1, 0 };
  mrt_sequence *l = &s->line;
  int64_t wanted = s->budget, end = s->work, at = mrt_sequence_peak(l);
  int64_t part = (end - l->worked) / 20;
  double size = 0.05;
  bool worst = s->window == INT_MAX;
  int batch = s->batch;
  for (int fails = 0; at > wanted && l->worked < end && !l->failed;) {
    s->budget = (int64_t)((1 - size) * (double)at);
    if (s->budget < wanted) s->budget = wanted;
    s->price = mrt_schedule_first_price(s);
    s->learn = learns[fails % MRT_COUNT(learns)];
    s->window = worst == (fails % 2 == 0) ? INT_MAX : 1;
    s->noise = fails ? 0.5 : 0;
    s->batch = batch;
    s->work = l->worked + part * (1 + fails);
    s->round++;
    mrt_sequence_accept(l);
    if (mrt_schedule_repair(s, 1.3 * l->cost)) {
      at = mrt_sequence_peak(l);
      size = fmin(1.3 * size, 0.05);
      fails = 0;
      continue;
    }
    mrt_sequence_undo(l, 0);
    size = fmax(size / 2, 0.002);
    s->budget = at;
    if (fails++) mrt_schedule_search(s, 0, part / 2);
  }
  mrt_sequence_accept(l);
  s->budget = wanted;
  return at <= wanted;
}

/* A line that costs more than this is given up. */
static double too_dear(const mrt_schedule_solver *s, int number) {
  if (s->best_cost < INFINITY) return 1.25 * s->best_cost;
  return (2 + 0.5 * number) * s->line.cost;
}

static bool go(mrt_schedule_solver *s, const start *start, double limit) {
  if (start->way == STEPS) return come_down(s);
  if (start->way == SEGMENTS) {
    double price = s->price;
    s->price *= start->price;
    mrt_mincut(s);
    s->price = price;
  }
  return mrt_schedule_repair(s, limit);
}

bool mrt_schedule_start(mrt_schedule_solver *s, int number) {
  int over = number - MRT_SCHEDULE_STARTS;
  double limit = too_dear(s, number);
  if (s->hint.count) limit = INFINITY;
  if (over >= 0) number = MRT_SCHEDULE_STARTS - AGAIN + over % AGAIN;
  const start *start = &starts[number];
  mrt_sequence *l = &s->line;
  double ops = l->p->ops, times = 1;
  s->window = start->worst ? INT_MAX : 1 + l->p->ops / 2000 * 8;
  s->batch = (int)fmin(1000, 1 + 1e-10 * ops * ops * ops);
  s->learn = start->learn;
  s->noise = start->noise;
  s->price = mrt_schedule_first_price(s);
  s->round++;
  if (s->best_cost == INFINITY && !s->hint.quick &&
      (start->way == STEPS || over >= 0))
    times = 4;
  double work = fmin(MRT_SCHEDULE_START_WORK, times * (1e6 + 2e4 * ops));
  s->work = l->worked + (int64_t)work;
  bool good = go(s, start, limit);
  int64_t peak = mrt_sequence_peak(l);
  if (peak < s->least) s->least = peak;
  if (good) {
    mrt_schedule_clean(s);
    mrt_sequence_accept(l);
  }
  return good && !l->failed;
}
