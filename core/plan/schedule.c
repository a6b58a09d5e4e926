/* schedule.c -- the problem checked, the stages in turn, the answer
 *
 *   method  Several starts, each a repair of the whole program by another
 *           rule; the best is searched from.  A lower bound ends the search
 *           when little is left to win.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/schedule_solver.h"

#include "tensor/tensor.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- the problem --------------------------------------------------------- */

static mrt_status check_op(mrt_error *e, const mrt_problem *p, int op,
                           int *maker) {
  if (!(p->cost[op] >= 0) || isinf(p->cost[op]))
    return mrt_fail(e, MRT_EVALUE, "schedule: operator %d costs %g", op + 1,
                    p->cost[op]);
  if (p->scratch && p->scratch[op] < 0)
    return mrt_fail(e, MRT_EVALUE, "schedule: operator %d needs %lld bytes",
                    op + 1, (long long)p->scratch[op]);
  for (int i = p->reads.start[op]; i < p->reads.start[op + 1]; i++) {
    int v = p->reads.item[i];
    if (v < 0 || v >= p->values || maker[v] < 0)
      return mrt_fail(e, MRT_EVALUE,
                      "schedule: operator %d reads value %d, which is not made "
                      "before it",
                      op + 1, v + 1);
    for (int k = p->reads.start[op]; k < i; k++)
      if (p->reads.item[k] == v)
        return mrt_fail(e, MRT_EVALUE,
                        "schedule: operator %d reads value %d twice", op + 1,
                        v + 1);
  }
  for (int i = p->makes.start[op]; i < p->makes.start[op + 1]; i++) {
    int v = p->makes.item[i];
    if (v < 0 || v >= p->values || maker[v] >= 0)
      return mrt_fail(
          e, MRT_EVALUE, "schedule: operator %d makes value %d, which is %s",
          op + 1, v + 1, v < 0 || v >= p->values ? "none" : "made already");
    maker[v] = op;
  }
  return MRT_OK;
}

mrt_status mrt_schedule_check(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p) {
  int *maker = MRT_NEW(arena, int, p->values + 1);
  int64_t sum = 0, most = (int64_t)1 << 60;
  if (!maker) return mrt_nomem(e);
  for (int v = 0; v < p->values; v++) {
    maker[v] = -1;
    if (p->bytes[v] < 0 || p->bytes[v] > most - sum)
      return mrt_fail(e, MRT_EVALUE,
                      "schedule: value %d has %lld bytes; all together must "
                      "take less than 60 bits",
                      v + 1, (long long)p->bytes[v]);
    sum += p->bytes[v];
  }
  for (int op = 0; op < p->ops; op++) MRT_TRY(check_op(e, p, op, maker));
  for (int v = 0; v < p->values; v++)
    if (maker[v] < 0)
      return mrt_fail(e, MRT_EVALUE, "schedule: no operator makes value %d",
                      v + 1);
  return MRT_OK;
}

/* ---- the solver ---------------------------------------------------------- */

static mrt_status solver_new(mrt_solver *s) {
  const mrt_problem *p = s->line.p;
  mrt_arena *arena = s->line.arena;
  s->most = MRT_SCHEDULE_RUNS * p->ops + 100;
  s->op = MRT_NEW(arena, int, p->ops + 1);
  s->mark = MRT_NEW(arena, int, p->ops + 1);
  s->over = MRT_NEW(arena, int, p->ops + 1);
  s->excess = MRT_NEW(arena, double, p->ops + 2);
  s->choice = MRT_NEW(arena, mrt_split, p->values + 1);
  s->across = MRT_NEW(arena, int, p->values + 1);
  s->tabu = MRT_NEW(arena, int, p->values + 1);
  s->again = MRT_NEW(arena, int, s->most + p->ops + 1);
  s->best = MRT_NEW(arena, int, s->most + p->ops + 1);
  s->round = 1;
  s->best_cost = INFINITY;
  if (!s->op || !s->mark || !s->over || !s->excess || !s->across ||
      !s->choice || !s->tabu || !s->again || !s->best)
    return MRT_ENOMEM;
  return MRT_OK;
}

double mrt_solver_random(mrt_solver *s) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(s->random >> 11) / 9007199254740992.0;
}

/* A byte above the budget during one run, to begin with: little. */
static double first_price(const mrt_solver *s) {
  const mrt_line *l = &s->line;
  double excess = 0;
  for (int run = 0; run >= 0; run = mrt_line_next(l, run))
    if (mrt_line_bytes(l, run) > s->budget)
      excess += (double)(mrt_line_bytes(l, run) - s->budget);
  return excess > 0 ? 0.003 * l->cost / excess : 0;
}

static void keep_best(mrt_solver *s) {
  mrt_line *l = &s->line;
  if (l->cost >= s->best_cost) return;
  s->best_cost = l->cost;
  s->bests = 0;
  for (int run = 0; l->run[run].op < l->p->ops; run = mrt_line_next(l, run))
    s->best[s->bests++] = l->run[run].op;
}

/* The line of the program as it is. */
static void clear(mrt_solver *s) {
  mrt_line *l = &s->line;
  mrt_line_accept(l);
  for (int run = 0; l->run[run].op < l->p->ops && !l->failed;) {
    int next = mrt_line_next(l, run);
    if (!l->run[run].first) mrt_line_remove(l, run);
    run = next;
  }
  mrt_line_accept(l);
}

static void restore_best(mrt_solver *s) {
  mrt_line *l = &s->line;
  clear(s);
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
  { false, 0.2, 0 },  { true, 0.2, 0 },  { false, 1, 0 },
  { true, 1, 0 },     { false, 0, 0 },   { false, 0.2, 0.5 },
  { true, 0.2, 0.5 }, { false, 0.5, 1 }, { true, 0.5, 1 },
};
enum { FIRST_STARTS = 5 }; /* the others when none of these does */

static void try_start(mrt_solver *s, const start *start) {
  mrt_line *l = &s->line;
  s->window = start->worst ? INT_MAX : 1 + s->line.p->ops / 256;
  s->batch = 1 + s->line.p->ops / 500;
  s->learn = start->learn;
  s->noise = start->noise;
  s->price = first_price(s);
  s->work = l->worked + MRT_SCHEDULE_START_WORK;
  bool good = mrt_repair(s, INFINITY);
  int64_t peak = mrt_line_peak(l);
  if (peak < s->least) s->least = peak;
  if (good) {
    double price = s->price;
    mrt_clean(s);
    if (l->cost < s->best_cost) s->best_price = price;
    keep_best(s);
  }
  clear(s);
}

static mrt_status search(mrt_solver *s, mrt_schedule *out) {
  mrt_line *l = &s->line;
  double base = 0, extra;
  for (int op = 0; op < l->p->ops; op++) base += l->p->cost[op];
  MRT_TRY(mrt_schedule_bound(l, s->budget, s->best_cost - base, &extra));
  out->bound = base + extra;
  restore_best(s);
  s->price = s->best_price;
  double open = (s->best_cost - out->bound) / (s->best_cost - base);
  double goal = out->bound + 0.03 * extra + 1e-4 * base;
  double work = MRT_SCHEDULE_SEARCH_WORK * fmin(1, fmax(0.1, 2 * open));
  if (s->best_cost > goal) mrt_search(s, goal, (int64_t)work);
  return MRT_OK;
}

static mrt_status solve(mrt_solver *s, mrt_schedule *out) {
  mrt_line *l = &s->line;
  s->least = mrt_line_peak(l);
  if (s->least <= s->budget) {
    keep_best(s);
    out->bound = l->cost;
    return mrt_line_acts(l, l->arena, out);
  }
  int64_t set = 0;
  for (int op = 0; op <= l->p->ops; op++)
    if (l->work[op] > set) set = l->work[op];
  for (int i = 0; i < MRT_COUNT(starts) && !l->failed; i++)
    if (i < FIRST_STARTS || s->best_cost == INFINITY) try_start(s, &starts[i]);
  if (s->best_cost < INFINITY && !l->failed) MRT_TRY(search(s, out));
  if (l->failed) return MRT_ENOMEM;
  return mrt_line_acts(l, l->arena, out);
}

mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_schedule *out) {
  mrt_solver s = { .budget = budget };
  *out = (mrt_schedule){ 0 };
  MRT_TRY(mrt_schedule_check(arena, e, p));
  mrt_status status = mrt_line_new(arena, p, may, &s.line);
  if (!status) status = solver_new(&s);
  if (!status) status = solve(&s, out);
  if (status) return mrt_nomem(e);
  if (out->peak <= budget) return MRT_OK;
  out->peak = s.least;
  return mrt_fail(e, MRT_EBUDGET,
                  "schedule: %lld bytes are the least found, %lld are given",
                  (long long)s.least, (long long)budget);
}

/* ---- for programs -------------------------------------------------------- */

mrt_status mrt_schedule_find(mrt_context *ctx, const mrt_problem *p,
                             const uint8_t *may, int64_t budget,
                             mrt_schedule *schedule) {
  mrt_arena arena;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status status =
      mrt_schedule_solve(&arena, &ctx->error, p, may, budget, schedule);
  mrt_act *acts = NULL;
  size_t count = (size_t)schedule->count;
  if (!status && count) {
    acts = mrt_calloc(ctx->allocator, count, sizeof *acts);
    if (acts)
      memcpy(acts, schedule->act, count * sizeof *acts);
    else
      status = mrt_nomem(&ctx->error);
  }
  if (!acts) schedule->count = 0;
  schedule->act = acts;
  mrt_arena_free(&arena);
  return status;
}

void mrt_schedule_free(mrt_context *ctx, mrt_schedule *schedule) {
  size_t bytes = (size_t)schedule->count * sizeof *schedule->act;
  if (schedule->act) mrt_release(ctx->allocator, schedule->act, bytes);
  *schedule = (mrt_schedule){ 0 };
}
