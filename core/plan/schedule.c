/* schedule.c -- the problem checked, the stages in turn, the answer
 *
 * SPDX-License-Identifier: MIT */
#include "plan/schedule_solver.h"

#include <math.h>

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

mrt_status mrt_solver_new(mrt_solver *s) {
  const mrt_problem *p = s->line.p;
  mrt_arena *arena = s->line.arena;
  s->op = MRT_NEW(arena, int, p->ops + 1);
  s->mark = MRT_NEW(arena, int, p->ops + 1);
  s->over = MRT_NEW(arena, int, p->ops + 1);
  s->excess = MRT_NEW(arena, double, p->ops + 2);
  s->tabu = MRT_NEW(arena, int, p->values + 1);
  s->round = 1;
  if (!s->op || !s->mark || !s->over || !s->excess || !s->tabu)
    return MRT_ENOMEM;
  return MRT_OK;
}

double mrt_solver_random(mrt_solver *s) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(s->random >> 11) / 9007199254740992.0;
}

static mrt_status solve(mrt_solver *s, mrt_schedule *out) {
  mrt_line *l = &s->line;
  s->work = 200000000;
  double excess = mrt_line_excess(l, 0, l->p->ops, 0, 0) -
                  mrt_line_excess(l, 0, l->p->ops, 0, s->budget);
  s->price = excess > 0 ? 0.1 * l->cost / excess : 0;
  if (mrt_repair(s, INFINITY)) mrt_clean(s);
  if (l->failed) return MRT_ENOMEM;
  out->bound = 0;
  for (int op = 0; op < l->p->ops; op++) out->bound += l->p->cost[op];
  return mrt_line_acts(l, l->arena, out);
}

mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_schedule *out) {
  mrt_solver s = { .budget = budget };
  *out = (mrt_schedule){ 0 };
  MRT_TRY(mrt_schedule_check(arena, e, p));
  mrt_status status = mrt_line_new(arena, p, may, &s.line);
  if (!status) status = mrt_solver_new(&s);
  if (!status) status = solve(&s, out);
  if (status) return mrt_nomem(e);
  if (out->peak > budget)
    return mrt_fail(e, MRT_EBUDGET,
                    "schedule: %lld bytes are the least found, %lld are given",
                    (long long)out->peak, (long long)budget);
  return MRT_OK;
}
