/* schedule.h -- running a program of operators in less memory than it wants
 *
 * A problem is a program in plain numbers: operators in executing order, the
 * values they make and read.  A schedule is what happens instead: operators
 * run again, values leave and come back.  It knows nothing of graphs; the
 * recompute pass turns one into the other.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_SCHEDULE_H
#define MRT_PLAN_SCHEDULE_H

#include "base/error.h"
#include "base/memory.h"

/* Lists by number: those of i are item[start[i]] up to item[start[i + 1]]. */
typedef struct mrt_lists {
  int *start, *item;
} mrt_lists;

/* Value `in` may be overwritten by value `out` where it dies. */
typedef struct mrt_take {
  int out, in;
} mrt_take;

typedef struct mrt_problem {
  int ops, values;
  mrt_lists reads;  /* op -> values, each once; an op's are made before it */
  mrt_lists makes;  /* op -> values; every value is made by one op */
  double *cost;     /* by op: seconds, or any other unit, >= 0 */
  int64_t *scratch; /* by op: bytes it needs beside its values; NULL: none */
  int *until;       /* by op: it may run again only before this op's first run,
                 which overwrites what it reads beside values; 0: never again;
                 NULL: always */
  int64_t *bytes;   /* by value */
  bool *pinned;     /* by value: must be there at the end; NULL: none */
  int *take_start;  /* by op, into `take`; NULL: nothing in place */
  mrt_take *take;
  double swap_out, swap_in; /* seconds per byte; 0: nothing can be swapped */
} mrt_problem;

/* Everything is explicit: a value is there from the act that brings it to its
 * DROP.  A RUN whose outputs are partly there makes those again beside them,
 * and drops the copies at once. */
typedef enum mrt_act_kind {
  MRT_ACT_RUN,  /* op: its inputs are there; its outputs then are */
  MRT_ACT_DROP, /* value; right after a RUN that may take its place: in place.
                   Waits for its OUT, if that is not over */
  MRT_ACT_OUT,  /* value: a copy to the slow tier begins */
  MRT_ACT_IN    /* value: takes its bytes again, a copy back begins; who reads
                   it first waits for the end */
} mrt_act_kind;

typedef struct mrt_act {
  mrt_act_kind kind;
  int index;
} mrt_act;

typedef struct mrt_schedule {
  mrt_act *act;
  int count;
  int64_t peak;
  double cost;  /* of all runs, and of waiting for copies */
  double bound; /* no schedule with these first runs costs less */
} mrt_schedule;

/* What a value may do while nobody reads it, by value; a set. */
enum { MRT_MAY_KEEP = 1, MRT_MAY_RECOMPUTE = 2, MRT_MAY_SWAP = 4 };

/* The cheapest schedule found within `budget` bytes, by a fixed amount of
 * work.  `may` by value; NULL: keep or recompute.  EBUDGET when none is found;
 * out->peak is then the least peak that was. */
mrt_status mrt_schedule_solve(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p, const uint8_t *may,
                              int64_t budget, mrt_schedule *out);

/* Walk the schedule: fills peak and cost.  EPLAN, with the act, when it does
 * not do what the program does. */
mrt_status mrt_schedule_walk(mrt_arena *arena, mrt_error *e,
                             const mrt_problem *p, mrt_schedule *s);

#endif
