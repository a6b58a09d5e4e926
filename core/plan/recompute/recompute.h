/* recompute.h -- from a planned order to one that keeps less
 *
 * The recompute pass sees the ordered graph as a flow (order.h); the stages
 * between are plain data: activations with choices, a schedule of acts, clones.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_RECOMPUTE_RECOMPUTE_H
#define MRT_PLAN_RECOMPUTE_RECOMPUTE_H

#include "op/collective.h"
#include "plan/cost.h"
#include "solve/order/order.h"

/* The flow of an ordered graph, and what may be done about its blocks. */
typedef struct mrt_keeping {
  mrt_plan *plan;
  mrt_arena *arena;
  mrt_flow flow;
  mrt_problem problem; /* shares the flow's lists */
  mrt_checkpoint asked;
  bool *forward;      /* by node: of the forward pass */
  int *block_of;      /* by activation: its block */
  int *activation_of; /* by block: its activation, or -1 */
  int *segment;       /* by node of the backward pass: that it belongs to */
} mrt_keeping;

/* The problem in which some activations may wait in the slow tier. */
typedef struct mrt_swappable {
  mrt_problem problem;
  int *node;   /* by its operators: the flow's node, or -1: a copy */
  int *copied; /* by its operators: the block that a copy brings, or -1 */
  int count;   /* of copies */
} mrt_swappable;

/* Of a lazy gather, and of casts and copies of what it gives: its options; else
 * NULL. */
const mrt_collective_options *mrt_gathered(const mrt_node *n);
/* The problem of running this plan's graph in less memory. */
mrt_status mrt_keeping_make(mrt_keeping *k, mrt_plan *plan, mrt_arena *arena);
/* List the activations, as a policy is asked about them. */
mrt_status mrt_activations_list(mrt_keeping *k);
/* Fill the segments of activations, where they are 0, and k->segment. */
mrt_status mrt_activations_segment(mrt_keeping *k);
/* Which layer does each forward node belong to?  As the program said, or from
 * the graph: layers end where few values cross and begin anew with the next
 * matrix product.  layer[] is by node, 1 and up. */
mrt_status mrt_layers_find(const mrt_keeping *k, int *layer, int *count);
/* Turn OPEN choices into KEEP or RECOMPUTE so that what is kept for the
 * backward pass takes at most `kept` bytes, for the least extra time. */
mrt_status mrt_keep_within(mrt_keeping *k, size_t kept);
/* The schedule that the choices describe; nothing is OPEN. */
mrt_status mrt_schedule_chosen(mrt_keeping *k, mrt_schedule *s);
/* Of many ways to cut the layers into segments those of the least live bytes,
 * MRT_SEGMENTS at most. */
mrt_status mrt_segments_rank(mrt_keeping *k, mrt_segments *cuts, int *count);
mrt_status mrt_schedule_segments(mrt_keeping *k, const mrt_segments *cut,
                                 mrt_schedule *out);
/* Let activations wait in the slow tier whose copies fill the time of the
 * forward and the backward pass `lanes` times; MRT_ALL_LANES: all that may. */
mrt_status mrt_swappable_make(mrt_swappable *w, mrt_keeping *k, double lanes);
/* Turn a schedule of that problem into one of the flow, with IN acts. */
mrt_status mrt_swappable_schedule(const mrt_swappable *w, mrt_keeping *k,
                                  mrt_schedule *s);
/* Bytes of the arena that the schedule's values take when they are placed; no
 * lower height than `enough` is looked for. */
mrt_status mrt_schedule_height(mrt_arena *arena, mrt_error *e,
                               const mrt_problem *p, const mrt_schedule *s,
                               int64_t enough, int64_t *height);
/* Rewrite the plan's graph and steps as the schedule runs them. */
mrt_status mrt_schedule_apply(mrt_keeping *k, const mrt_schedule *s);

#endif
