/* check.c -- is this a problem?
 *
 * Programs come from files too (`mrt bench recompute`) and from C: every index
 * is checked here, once, so that the solver behind it checks none.  Costs are
 * finite and not negative, a value is made before it is read, a place is taken
 * by a value of the same bytes.
 *
 * SPDX-License-Identifier: MIT */
#include "solve/recompute/solver.h"

#include <math.h>

static bool has(const mrt_lists *lists, int list, int item) {
  for (int i = lists->start[list]; i < lists->start[list + 1]; i++)
    if (lists->item[i] == item) return true;
  return false;
}

static mrt_status check_takes(mrt_error *e, const mrt_problem *p, int op) {
  for (int k = p->take_start[op]; k < p->take_start[op + 1]; k++) {
    mrt_take t = p->take[k];
    if (!has(&p->makes, op, t.out) || !has(&p->reads, op, t.in) ||
        p->bytes[t.out] != p->bytes[t.in])
      return mrt_fail(e, MRT_EVALUE,
                      "schedule: operator %d takes value %d for value %d: it "
                      "must read the one and make the other, of the same bytes",
                      op + 1, t.in + 1, t.out + 1);
  }
  return MRT_OK;
}

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
  return p->take_start ? check_takes(e, p, op) : MRT_OK;
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
