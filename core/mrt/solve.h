/* solve.h -- packing, orders and recomputation on plain arrays
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_H
#define MRT_SOLVE_H

#include "mrt/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- packing ------------------------------------------------------------- */

/* A piece of memory with a known lifetime. */
typedef struct mrt_pack_buffer {
  size_t size;
  int64_t first, last; /* when it lives, both included */
  size_t alignment;    /* of the offset; 0 is 1 */
  size_t offset;       /* filled */
} mrt_pack_buffer;

typedef struct mrt_pack_result {
  size_t height;  /* what all of them need */
  size_t bound;   /* the largest sum of sizes alive at once */
  uint64_t nodes; /* placements tried by the exact search */
  bool proven;    /* no packing is lower */
} mrt_pack_result;

/* Fill the items' offsets so that no two that live at once overlap, as low as
 * is found with a fixed amount of work: the same items, in any order, have
 * the same height everywhere.  Stops early at a height within `capacity`;
 * 0 asks for the lowest.  A height above `capacity` is no failure: compare. */
MRT_API mrt_status mrt_pack(mrt_context *ctx, mrt_pack_buffer *items, int n,
                            size_t capacity, mrt_pack_result *result);

/* ---- recomputation ------------------------------------------------------- */

/* Lists by number: those of i are item[start[i]] up to, not
 * with, item[start[i + 1]]. */
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

/* Live bytes of an order: a value lives from the operator that makes it to the
 * last that reads it, or to the end where it is pinned. */
typedef struct mrt_order_result {
  int64_t peak;    /* of the order found */
  int64_t program; /* of the operators as they stand in the problem */
  int64_t bound;   /* no order needs less */
} mrt_order_result;

/* Fill order[ops] with the operators in the order of the least peak found, by a
 * fixed amount of work: the same problem has the same order everywhere, proven
 * the least where peak == bound.  `effort` 1 .. MRT_MOST_EFFORT searches that
 * many times longer.  Costs, `until` and swapping do not matter here.  EVALUE
 * for a problem that is none. */
MRT_API mrt_status mrt_order_find(mrt_context *ctx, const mrt_problem *p,
                                  int effort, int *order,
                                  mrt_order_result *result);

/* Everything is explicit: a value is there from the act that brings it to its
 * DROP.  A RUN whose outputs are partly there makes those again beside them,
 * and drops the copies at once. */
typedef enum mrt_act_kind {
  MRT_ACT_RUN,  /* op: its inputs are there; its outputs then are */
  MRT_ACT_DROP, /* value; right after a RUN that may take its place: in place.
                   Waits for its OUT, if that is not over */
  MRT_ACT_OUT,  /* value: a copy to the swap tier begins */
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

/* The cheapest schedule of `p` found within `budget` bytes, by a fixed amount
 * of work: the same problem has the same schedule everywhere.  `may` by value;
 * NULL: keep or recompute.  Free it with mrt_schedule_free.  EBUDGET when none
 * is found: schedule->peak is then the least peak that was, and there are no
 * acts.  EVALUE for a problem that is none. */
MRT_API mrt_status mrt_schedule_find(mrt_context *ctx, const mrt_problem *p,
                                     const uint8_t *may, int64_t budget,
                                     mrt_schedule *schedule);
MRT_API void mrt_schedule_free(mrt_context *ctx, mrt_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
