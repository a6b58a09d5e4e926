/* order.h -- orders of a dag for the least peak of live bytes
 *
 *   choose.c        which of the ways below, for how long; the answer
 *   candidates.c    orders to begin with: as written, as needed, forwards,
 *                   backwards, greedy
 *   local_search.c  moves at the peak until none helps
 *   anneal.c        random moves
 *   exact_window.c  the best order of a few nodes that stand together
 *   bounds.c        what every order needs
 *   live_profile.c  live bytes over an order
 *   heap.c          a priority queue
 *   program.c       the dag of a problem on plain arrays
 *
 * Finding the least peak is NP-complete (Sethi 1975 for registers); work is
 * counted, never timed, so the same dag has the same order everywhere.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_ORDER_ORDER_H
#define MRT_SOLVE_ORDER_ORDER_H

#include "solve/order/dag.h"

/* The dag of a problem's operators, in `arena`; with a last node that reads
 * what is pinned. */
mrt_status mrt_order_dag(mrt_dag *dag, mrt_arena *arena, const mrt_problem *p);

/* A priority queue: least key first, then least tie, then least item. */
typedef struct mrt_order_entry {
  int64_t key;
  int tie, item;
} mrt_order_entry;
typedef struct mrt_order_heap {
  mrt_order_entry *at;
  int count, room;
} mrt_order_heap;
bool mrt_order_heap_push(mrt_order_heap *h, mrt_arena *arena,
                         mrt_order_entry e);
mrt_order_entry mrt_order_heap_pop(mrt_order_heap *h);

/* Orders to choose from; each fills order[nodes]. */
mrt_status mrt_order_program(const mrt_dag *dag, mrt_arena *a, int *order);
mrt_status mrt_order_hoisted(const mrt_dag *dag, mrt_arena *a, int *order);
mrt_status mrt_order_needed(const mrt_dag *dag, mrt_arena *a, int *order);
mrt_status mrt_order_forward(const mrt_dag *dag, mrt_arena *a, int *order);
mrt_status mrt_order_backward(const mrt_dag *dag, mrt_arena *a, int *order);
mrt_status mrt_order_greedy(const mrt_dag *dag, mrt_arena *a, int *order);

/* Lower the peak by moves around it until none helps, `floor` is reached or
 * `work` (about one per edge looked at) is spent.  The peak reached. */
mrt_status mrt_order_improve(mrt_live_profile *p, mrt_arena *a, int64_t floor,
                             int64_t work, int64_t *peak);

/* Lower the peak by random moves, `seed` says which, until `floor` is reached
 * or `work` (about one per position looked at) is spent.  *peak, of the
 * profile's order at first, and best[nodes] become those of the best order
 * met; the profile is left anywhere. */
mrt_status mrt_order_anneal(mrt_live_profile *p, mrt_arena *a, int64_t floor,
                            uint64_t seed, int64_t work, int64_t *peak,
                            int *best);

enum { MRT_ORDER_EXACT_NODES = 62 };
typedef struct mrt_order_exact mrt_order_exact;
/* Room for searches that look at up to `states` sets of nodes. */
mrt_order_exact *mrt_order_exact_new(const mrt_dag *dag, mrt_arena *a,
                                     int states);
typedef enum mrt_order_found {
  MRT_ORDER_UNKNOWN, /* too many sets to tell */
  MRT_ORDER_BEST,    /* proved: there is no better order */
  MRT_ORDER_BETTER   /* the best there is: the profile has changed */
} mrt_order_found;
/* Rearrange positions [from, to], at most MRT_ORDER_EXACT_NODES, with the least
 * peak if that is below *peak, and set it.  *work goes down by what was
 * looked at. */
mrt_order_found mrt_order_exact_window(mrt_order_exact *x, mrt_live_profile *p,
                                       int from, int to, int64_t *peak,
                                       int64_t *work);

/* Fills best[nodes] and its peak.  `floor` is what any order needs.  An effort
 * above 1 searches that many times as long; of 0: as long as the bytes above
 * `floor` are worth it; below 0: compares the orders it begins with. */
typedef mrt_status mrt_order_chooser(const mrt_dag *dag,
                                     const mrt_allocator *allocator,
                                     int64_t floor, int effort, int *best,
                                     int64_t *peak);
mrt_order_chooser mrt_order_choose; /* the least peak that is found */
mrt_order_chooser mrt_order_brief;  /* the least bytes times steps */
mrt_order_chooser mrt_order_refine; /* program order, with less at its peaks */

/* What every order needs at some node: *working counts the node's own inputs,
 * outputs and scratch, *any all that must be alive while it runs. */
mrt_status mrt_dag_bounds(const mrt_dag *dag, const mrt_allocator *allocator,
                          const int *order, int64_t *working, int64_t *any);

#endif
