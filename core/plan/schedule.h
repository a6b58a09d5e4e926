/* schedule.h -- running a program of operators in less memory than it wants
 *
 * A problem is a program in plain numbers: operators in executing order, the
 * values they make and read.  A schedule is what happens instead: operators
 * run again, values leave and come back.  It knows nothing of graphs; the
 * recompute pass turns one into the other.  Its types are in mrt.h.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_SCHEDULE_H
#define MRT_PLAN_SCHEDULE_H

#include "base/error.h"
#include "base/memory.h"

/* The cheapest schedule found whose values, placed, take at most `budget`
 * bytes (if only their live sum does, it comes back all the same), by a fixed
 * amount of work.  `may` by value; NULL: keep or recompute.  EBUDGET when none is found;
 * out->peak is then the least peak that was. */
mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_schedule *out);

/* Walk the schedule: fills peak and cost.  EPLAN, with the act, when it does
 * not do what the program does. */
mrt_status mrt_schedule_walk(mrt_arena *arena, mrt_error *e,
                             const mrt_problem *p, mrt_schedule *s);

#endif
