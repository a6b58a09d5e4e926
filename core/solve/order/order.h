/* order.h -- what an order of the nodes must respect, and what it costs
 *
 * The order pass and the bounds look at a graph through a flow: precedence
 * edges and the blocks of memory in plain arrays of numbers.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SOLVE_ORDER_ORDER_H
#define MRT_SOLVE_ORDER_ORDER_H

#include "plan/plan.h"
#include "solve/recompute/schedule.h"

/* Nodes are numbered in program order; number `real`, where there is one, is
 * a barrier without memory: index checks come before it, updates after.
 * Blocks are the base values that live in the arena, numbered by maker. */
typedef struct mrt_flow {
  int real, nodes, blocks;
  mrt_lists before, after;  /* by node: direct predecessors, successors */
  mrt_lists reads, readers; /* node -> blocks, block -> nodes; each once */
  int *made;                /* node i makes blocks made[i] .. made[i + 1] */
  int *maker;               /* by block */
  mrt_value **value;        /* by block */
  int64_t *bytes;           /* by block, rounded */
  int64_t *scratch;         /* by node */
  int *take_start;          /* by node, into `take`; as lifetime.c tries them */
  mrt_take *take;
  bool *update; /* by node */
} mrt_flow;

/* All of it in `arena`. */
mrt_status mrt_flow_make(mrt_flow *f, const mrt_plan *plan, mrt_arena *arena,
                         bool barrier);

/* Live bytes over an order, or over a part of it. */
typedef struct mrt_profile {
  const mrt_flow *flow;
  int *order;           /* position -> node */
  int *last;            /* block -> last position that reads it; -1: none */
  int64_t *start, *use; /* by position: live before it, and during it */
  int64_t *tried;       /* of the last sweep, by position less `from`: use */
  int *left;            /* by block: scratch of sweeps, 0 between them */
} mrt_profile;

mrt_status mrt_profile_make(mrt_profile *p, const mrt_flow *f,
                            mrt_arena *arena);
/* Bytes in use while `node` runs, given `live` before and the reads still to
 * come of each block. */
int64_t mrt_flow_use(const mrt_flow *f, int node, int64_t live, int *left);
/* The peak when positions [from, to] run `nodes`.  With `keep` that becomes
 * the order, and the profile is brought up to date. */
int64_t mrt_profile_sweep(mrt_profile *p, int from, int to, const int *nodes,
                          bool keep);

/* A priority queue: least key first, then least tie, then least item. */
typedef struct mrt_entry {
  int64_t key;
  int tie, item;
} mrt_entry;
typedef struct mrt_heap {
  mrt_entry *at;
  int count, room;
} mrt_heap;
bool mrt_heap_push(mrt_heap *h, mrt_arena *arena, mrt_entry e);
mrt_entry mrt_heap_pop(mrt_heap *h);

/* Orders to choose from; each fills order[nodes]. */
mrt_status mrt_order_program(const mrt_flow *f, mrt_arena *a, int *order);
mrt_status mrt_order_hoisted(const mrt_flow *f, mrt_arena *a, int *order);
mrt_status mrt_order_forward(const mrt_flow *f, mrt_arena *a, int *order);
mrt_status mrt_order_backward(const mrt_flow *f, mrt_arena *a, int *order);
mrt_status mrt_order_greedy(const mrt_flow *f, mrt_arena *a, int *order);

/* Lower the peak by moves around it until none helps, `floor` is reached or
 * `work` (about one per edge looked at) is spent.  The peak reached. */
mrt_status mrt_order_improve(mrt_profile *p, mrt_arena *a, int64_t floor,
                             int64_t work, int64_t *peak);

/* Lower the peak by random moves, `seed` says which, until `floor` is reached
 * or `work` (about one per position looked at) is spent.  *peak, of the
 * profile's order at first, and best[nodes] become those of the best order
 * met; the profile is left anywhere. */
mrt_status mrt_order_anneal(mrt_profile *p, mrt_arena *a, int64_t floor,
                            uint64_t seed, int64_t work, int64_t *peak,
                            int *best);

enum { MRT_EXACT_NODES = 62 };
typedef struct mrt_exact mrt_exact;
/* Room for searches that look at up to `states` sets of nodes. */
mrt_exact *mrt_exact_make(const mrt_flow *f, mrt_arena *a, int states);
typedef enum mrt_found {
  MRT_FOUND_NOTHING, /* too many sets to tell */
  MRT_FOUND_NONE,    /* proved: there is no better order */
  MRT_FOUND_BETTER   /* the best there is: the profile has changed */
} mrt_found;
/* Rearrange positions [from, to], at most MRT_EXACT_NODES, with the least
 * peak if that is below *peak, and set it.  *work goes down by what was
 * looked at. */
mrt_found mrt_exact_window(mrt_exact *x, mrt_profile *p, int from, int to,
                           int64_t *peak, int64_t *work);

/* Fills best[nodes] and its peak.  `floor` is what any order needs; an effort
 * above 1 searches so much longer. */
typedef mrt_status mrt_chooser(const mrt_flow *f,
                               const mrt_allocator *allocator, int64_t floor,
                               int effort, int *best, int64_t *peak);
mrt_chooser mrt_order_choose; /* the least peak that is found */
mrt_chooser mrt_order_brief;  /* the least bytes times steps */
mrt_chooser mrt_order_again;  /* program order, with less at its peaks */

/* What every order needs at some node: *working counts the node's own inputs,
 * outputs and scratch, *any all that must be alive while it runs. */
mrt_status mrt_flow_bounds(const mrt_flow *f, const mrt_context *ctx,
                           const int *order, int64_t *working, int64_t *any);

#endif
