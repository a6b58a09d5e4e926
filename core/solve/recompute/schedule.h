/* schedule.h -- running a program of operators in less memory than it wants
 *
 * A problem is a program in plain numbers: operators in executing order, the
 * values they make and read.  A schedule is what happens instead: operators
 * run again, values leave and come back.  It knows nothing of graphs; the
 * recompute pass turns one into the other.  Its types are in mrt.h.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_RECOMPUTE_SCHEDULE_H
#define MRT_SOLVE_RECOMPUTE_SCHEDULE_H

#include "base/error.h"
#include "base/memory.h"
#include "mrt/solve.h"

/* From this many operators on, a schedule is to be found quickly rather than by
 * every means. */
enum { MRT_SCHEDULE_LARGE = 4000 };

/* What is known to whoever asks for a schedule. */
typedef struct mrt_solve_hint {
  const int *op; /* operators as some schedule runs them, to begin with, */
  int count;     /* first runs in order; 0: begin with the program */
  bool quick;    /* give up early where nothing is found, */
  bool glance;   /* earlier still */
  bool least;    /* in the least bytes, whatever it costs and the budget is */
  bool raise;    /* what cannot be is raised to what can */
  double worth;  /* touches (solver.h) that a unit of cost less is worth; 0: as
                    many as there are */
} mrt_solve_hint;

/* The cheapest schedule found whose live values take at most `budget` bytes, by
 * a fixed amount of work.  `may` by value; NULL: keep or recompute.  EBUDGET
 * when none is found; out->peak is then the least peak that was. */
mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_solve_hint hint,
                              mrt_schedule *out);

/* Walk the schedule: fills peak and cost.  EPLAN, with the act, when it does
 * not do what the program does. */
mrt_status mrt_schedule_simulate(mrt_arena *arena, mrt_error *e,
                                 const mrt_problem *p, mrt_schedule *s);

#endif
