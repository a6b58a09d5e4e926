/* schedule.c -- the stages in turn, the answer
 *
 *   method  Several starts, each searched from for a while, then the best for
 *           longer.  A lower bound ends it when little is left to win.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>
#include <string.h>

/* Of the usual work, where to give up early is asked for. */
static const double quick = 0.4, glance = 0.1;

enum {
  FAR = 6,      /* the part of the peak that repairs may save, */
  FAR_OPS = 300 /* of a program with more operators */
};

static int most_takes(const mrt_problem *p) {
  int most = 0;
  for (int op = 0; p->take_start && op < p->ops; op++)
    if (p->take_start[op + 1] - p->take_start[op] > most)
      most = p->take_start[op + 1] - p->take_start[op];
  return most;
}

static mrt_status solver_new(mrt_schedule_solver *s) {
  const mrt_problem *p = s->line.p;
  mrt_arena *arena = s->line.arena;
  s->most = MRT_SCHEDULE_RUNS * p->ops + 100;
  s->op = MRT_NEW(arena, int, p->ops + 1);
  s->mark = MRT_NEW(arena, int, p->ops + 1);
  s->over = MRT_NEW(arena, int, p->ops + 1);
  s->excess = MRT_NEW(arena, double, p->ops + 2);
  s->choice = MRT_NEW(arena, mrt_schedule_evict, p->values + most_takes(p) + 1);
  s->across = MRT_NEW(arena, int, p->values + 1);
  s->tabu = MRT_NEW(arena, int, p->values + 1);
  s->again = MRT_NEW(arena, int, s->most + p->ops + 1);
  s->best = MRT_NEW(arena, int, s->most + p->ops + 1);
  s->round = 1;
  s->best_cost = INFINITY;
  s->goal = -INFINITY;
  if (!s->op || !s->mark || !s->over || !s->excess || !s->across ||
      !s->choice || !s->tabu || !s->again || !s->best)
    return MRT_ENOMEM;
  return MRT_OK;
}

double mrt_schedule_random(mrt_schedule_solver *s) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(s->random >> 11) / 9007199254740992.0;
}

/* Touches that may still be spent on what may still be won, of `work`. */
static int64_t worth(const mrt_schedule_solver *s, double work) {
  if (s->hint.worth <= 0) return (int64_t)work;
  double all = MRT_SCHEDULE_LITTLE_WORK +
               fmax(0, s->best_cost - s->bound) * s->hint.worth;
  return (int64_t)fmax(0, fmin(work, all - (double)s->line.worked));
}

/* What the bound says of the best known: where to stop, and how much work the
 * rest is worth. */
static mrt_status aim(mrt_schedule_solver *s, mrt_schedule *out) {
  double base = 0, extra;
  for (int op = 0; op < s->line.p->ops; op++) base += s->line.p->cost[op];
  mrt_schedule_clear(s);
  MRT_TRY(mrt_schedule_bound(&s->line, s->budget, s->best_cost - base, &extra));
  s->bound = out->bound = base + extra;
  double open = (s->best_cost - out->bound) / (s->best_cost - base);
  s->hard = s->best_cost - base > 2 * extra;
  s->goal = out->bound + 0.03 * extra + 1e-4 * base;
  s->search_work = MRT_SCHEDULE_SEARCH_WORK * fmin(1, fmax(0.1, 2 * open)) *
                   fmin(1, 0.1 + s->line.p->ops / 300.0);
  return MRT_OK;
}

/* A start, and some search from it. */
static mrt_status begin(mrt_schedule_solver *s, int number, mrt_schedule *out) {
  if (!mrt_schedule_start(s, number)) return MRT_OK;
  bool first = s->best_cost == INFINITY;
  mrt_schedule_keep(s);
  if (first) MRT_TRY(aim(s, out));
  if (first) mrt_schedule_restore(s);
  if (s->line.cost > s->goal && !s->only_fit) {
    mrt_schedule_search(s, s->goal, worth(s, s->search_work / 12));
    mrt_schedule_keep(s);
  }
  return MRT_OK;
}

/* Is start number `i` worth its while?  While nothing is found, or the bound is
 * far, noisy ones go on for as long as there is work left. */
static bool worth_starting(const mrt_schedule_solver *s, int i) {
  const mrt_sequence *l = &s->line;
  double ops = l->p->ops, most = MRT_SCHEDULE_STARTS_WORK;
  if (ops >= MRT_SCHEDULE_LARGE) most /= 4;
  double worked = (double)l->worked;
  if (s->best_cost <= s->goal || l->failed) return false;
  if (s->best_cost == INFINITY) {
    double times = ops <= 300 ? 4 : ops <= 2000 ? 2 : 1;
    if (s->hint.quick) times = quick;
    if (s->hint.glance) return worked < fmin(glance * most, 3e5 * ops);
    return worked < fmin(times * most, 3e6 * ops);
  }
  if (s->only_fit || worked > most || worth(s, 1) < 1) return false;
  return i < MRT_SCHEDULE_STARTS || (s->hard && worked < 8e5 * ops);
}

/* The runs that were given take so much more than the budget that repairing
 * them, which is slow, has not been seen to do. */
static bool far(const mrt_schedule_solver *s) {
  int64_t peak = mrt_sequence_peak(&s->line);
  return s->line.p->ops > FAR_OPS && peak - peak / FAR > s->budget;
}

/* Starts from the runs that were given, until one does. */
static mrt_status begin_from_given(mrt_schedule_solver *s, mrt_schedule *out) {
  static const int numbers[] = { 0, 4, 8 };
  const mrt_solve_hint *h = &s->hint;
  for (int i = 0; i < MRT_COUNT(numbers) && s->best_cost == INFINITY &&
                  h->count <= s->most && !s->line.failed;
       i++) {
    memcpy(s->best, h->op, (size_t)h->count * sizeof *h->op);
    s->bests = h->count;
    mrt_schedule_restore(s);
    if (far(s)) break;
    MRT_TRY(begin(s, numbers[i], out));
  }
  return MRT_OK;
}

static mrt_status solve(mrt_schedule_solver *s, mrt_schedule *out) {
  mrt_sequence *l = &s->line;
  if (s->hint.count) MRT_TRY(begin_from_given(s, out));
  for (int i = 0; !s->hint.count && worth_starting(s, i); i++) {
    mrt_schedule_clear(s);
    MRT_TRY(begin(s, i, out));
  }
  if (s->best_cost < INFINITY) {
    mrt_schedule_restore(s);
    s->price = s->best_price;
    if (s->best_cost > s->goal && !s->only_fit)
      mrt_schedule_search(s, s->goal, worth(s, s->search_work * 7 / 12));
  }
  if (l->failed) return MRT_ENOMEM;
  return mrt_sequence_acts(l, l->arena, out);
}

/* Solve when the program as it is does not fit.  A budget below what a single
 * operator needs is raised to that, to say what would do. */
static mrt_status fit(mrt_schedule_solver *s, mrt_schedule *out) {
  int64_t set;
  MRT_TRY(mrt_schedule_set(&s->line, &set));
  s->least = mrt_sequence_peak(&s->line);
  out->bound = s->line.cost;
  if (s->hint.least) {
    mrt_schedule_descend(s, set);
    if (s->line.failed) return MRT_ENOMEM;
    return mrt_sequence_acts(&s->line, s->line.arena, out);
  }
  if (s->least <= s->budget || (set > s->budget && s->strict))
    return mrt_sequence_acts(&s->line, s->line.arena, out);
  if (set > s->budget) {
    s->budget = set;
    s->only_fit = true;
  }
  return solve(s, out);
}

static mrt_status begin_solving(mrt_schedule_solver *s, mrt_arena *arena,
                                mrt_error *e, const mrt_problem *p,
                                const uint8_t *may, mrt_schedule *out) {
  *out = (mrt_schedule){ 0 };
  MRT_TRY(mrt_schedule_check(arena, e, p));
  mrt_status status = mrt_sequence_new(arena, p, may, &s->line);
  if (!status) status = solver_new(s);
  if (!status) status = fit(s, out);
  return status ? mrt_nomem(e) : MRT_OK;
}

static mrt_status end(const mrt_schedule_solver *s, mrt_error *e,
                      int64_t budget, mrt_schedule *out) {
  if (out->peak <= budget || s->hint.least) return MRT_OK;
  out->peak = s->least;
  return mrt_fail(e, MRT_EBUDGET,
                  "schedule: %lld bytes are the least found, %lld are given",
                  (long long)s->least, (long long)budget);
}

mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_solve_hint hint,
                              mrt_schedule *out) {
  mrt_schedule_solver s = { .budget = budget,
                            .hint = hint,
                            .strict = !hint.raise };
  MRT_TRY(begin_solving(&s, arena, e, p, may, out));
  return end(&s, e, budget, out);
}
