/* solver.h -- what the parts of the solver share
 *
 *   schedule.c          the stages in turn, the answer
 *   check.c             is this a problem?
 *   starts.c            lines to search from, and the best kept
 *   sequence.c          a schedule as a line of runs, with its memory
 *   sequence_blocks.c   the order of its runs, and their bytes
 *   sequence_program.c  the line of a program; a line's acts
 *   evict.c             dropping one value for a while, with all that follows
 *   segment.c           segments run again
 *   repair.c            dropping values until the budget holds
 *   least.c             as few bytes as can be found
 *   search.c            taking runs out and repairing, again and again
 *   bound.c             prices of bytes, and a cost no schedule is below
 *   simulate.c          a schedule followed act by act
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_RECOMPUTE_SOLVER_H
#define MRT_SOLVE_RECOMPUTE_SOLVER_H

#include "solve/recompute/sequence.h"

enum {
  MRT_SCHEDULE_STARTS = 11,
  MRT_SCHEDULE_RUNS = 12, /* runs at most, as a multiple of operators */
  /* What is touched: of a run, a gap, an access. */
  MRT_SCHEDULE_START_WORK = 70000000,   /* of one start, at most */
  MRT_SCHEDULE_STARTS_WORK = 180000000, /* no start begins after; more in a
                                           small program while none does */
  MRT_SCHEDULE_SEARCH_WORK = 80000000,
  MRT_SCHEDULE_LEAST_WORK = 30000000,
  MRT_SCHEDULE_LITTLE_WORK = 5000000 /* is always worth it: some 12 ms */
};

/* A value that lives past a run, to be made again at `at`, at `next` (which
 * reads it) or before. */
typedef struct mrt_schedule_evict {
  int value, op, from, next, at;
  double score;
} mrt_schedule_evict;

typedef struct mrt_schedule_solver {
  mrt_sequence line;
  int64_t budget;
  mrt_solve_hint hint;
  int64_t work; /* line.worked at which searches end */
  double price; /* of a byte above the budget during one run */
  int window;   /* repair the worst of this many runs above the budget */
  int batch;    /* values dropped there at once */
  mrt_schedule_evict *choice; /* of values across a run */
  int choices;
  double learn; /* how fast the price follows what is paid */
  double noise; /* of choices, 0: none */
  uint64_t random;
  int *op, ops;       /* what a split runs again */
  int *mark, stamp;   /* by op: in this split */
  int *over, overs;   /* runs above the budget, in order */
  double *excess;     /* by place in `over`: bytes above, summed up to there */
  int *across;        /* gaps across a run */
  int *again, agains; /* runs that are not first ones */
  int *tabu, round;   /* by value: not dropped until this round */
  int most;           /* runs in a line, about: at most `ops` more */
  int *best, bests;   /* operators of the best line */
  double best_cost, best_price;
  double bound;       /* a cost that none is below */
  double goal;        /* a cost at which to stop */
  double search_work; /* for all searches */
  bool hard;          /* the bound is far from what was found first */
  bool only_fit;      /* any schedule will do */
  bool strict;        /* what cannot be is not raised to what can */
  int64_t least;      /* the least peak found */
} mrt_schedule_solver;

/* EVALUE for a problem that is none. */
mrt_status mrt_schedule_check(mrt_arena *arena, mrt_error *e,
                              const mrt_problem *p);
double mrt_schedule_random(mrt_schedule_solver *s); /* 0 .. 1 */

/* Start number 0, 1, .. from the line as it is; did it come within the
 * budget?  From MRT_SCHEDULE_STARTS on they are noisy repetitions. */
bool mrt_schedule_start(mrt_schedule_solver *s, int number);
/* A byte above the budget during one run, to begin with: little. */
double mrt_schedule_first_price(const mrt_schedule_solver *s);
/* From the runs that are given, to the least bytes that a little work finds;
 * none are less than `set`. */
void mrt_schedule_descend(mrt_schedule_solver *s, int64_t set);
/* Keep the line if none was cheaper; make it the program as it is, or the
 * cheapest one kept. */
void mrt_schedule_keep(mrt_schedule_solver *s);
void mrt_schedule_clear(mrt_schedule_solver *s);
void mrt_schedule_restore(mrt_schedule_solver *s);

/* What dropping `value` before the run `next`, which reads it, costs: the runs
 * that make it again, and the price of what they keep longer.  Fills s->op.
 * Above `limit`, or impossible: infinite. */
double mrt_sequence_split_cost(mrt_schedule_solver *s, int value, int next,
                               double limit);
/* How far above the budget the run before `next` would be that makes `value`
 * again. */
int64_t mrt_sequence_split_spill(mrt_schedule_solver *s, int value, int next);
/* Do what was last found: the runs, and those that become needless. */
void mrt_sequence_split_do(mrt_schedule_solver *s, int next);
/* Take out a run, and those that only served it. */
void mrt_sequence_run_remove(mrt_schedule_solver *s, int run);
/* Take out a run, and those that only served it, when the bytes it freed are
 * worth less than it costs.  Above the budget nothing new is let in when
 * `strict`. */
bool mrt_sequence_run_drop(mrt_schedule_solver *s, int run, bool strict);

/* From the program as it is: run segments of it again. */
void mrt_mincut(mrt_schedule_solver *s);

/* Drop values until the budget holds; false when that fails, or costs as much
 * as `limit`. */
bool mrt_schedule_repair(mrt_schedule_solver *s, double limit);
/* Take out all runs again that the budget allows. */
void mrt_schedule_clean(mrt_schedule_solver *s);
/* Try to come down to `goal`, within that work; did the cost fall? */
bool mrt_schedule_search(mrt_schedule_solver *s, double goal, int64_t work);

/* No schedule takes less: the most that one operator needs, beside what cannot
 * be made again; from the line of the program as it is. */
mrt_status mrt_schedule_set(const mrt_sequence *line, int64_t *set);
/* What any schedule costs more than the program, at least, from the line of
 * the program as it is; `known` is what one does. */
mrt_status mrt_schedule_bound(const mrt_sequence *line, int64_t budget,
                              double known, double *extra);

#endif
