/* recompute.h -- from a planned order to one that keeps less
 *
 * The recompute pass sees the ordered graph as a dag (order.h); the stages
 * between are plain data: activations with choices, a schedule of acts, clones.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_RECOMPUTE_RECOMPUTE_H
#define MRT_PLAN_RECOMPUTE_RECOMPUTE_H

#include "op/collective.h"
#include "plan/cost.h"
#include "plan/dag.h"

/* The dag of an ordered graph, and what may be done about its buffers. */
typedef struct mrt_recompute {
  mrt_planner *planner;
  mrt_plan *plan; /* the planner's */
  mrt_arena *arena;
  mrt_dag dag;
  mrt_value **value;   /* by buffer of the dag */
  mrt_problem problem; /* shares the dag's lists */
  mrt_checkpoint asked;
  bool *forward;      /* by node: of the forward pass */
  int *buffer_of;     /* by activation: its buffer */
  int *activation_of; /* by buffer: its activation, or -1 */
  int *segment;       /* by node of the backward pass: that it belongs to */
} mrt_recompute;

/* The problem in which some activations may wait in the swap tier. */
typedef struct mrt_with_swap {
  mrt_problem problem;
  int *node;   /* by its operators: the dag's node, or -1: a copy */
  int *copied; /* by its operators: the buffer that a copy brings, or -1 */
  int count;   /* of copies */
} mrt_with_swap;

/* Of a lazy gather, and of casts and copies of what it gives: its options; else
 * NULL. */
const mrt_collective_options *mrt_gathered(const mrt_node *n);
/* The problem of running this plan's graph in less memory. */
mrt_status mrt_recompute_make(mrt_recompute *k, mrt_planner *p,
                              mrt_arena *arena);
/* List the activations, as a policy is asked about them. */
mrt_status mrt_recompute_activations(mrt_recompute *k);
/* Fill the segments of activations, where they are 0, and k->segment. */
mrt_status mrt_recompute_segment_of(mrt_recompute *k);
/* Which layer does each forward node belong to?  As the program said, or from
 * the graph: layers end where few values cross and begin anew with the next
 * matrix product.  layer[] is by node, 1 and up. */
mrt_status mrt_recompute_layers(const mrt_recompute *k, int *layer, int *count);
/* Turn OPEN choices into KEEP or RECOMPUTE so that what is kept for the
 * backward pass takes at most `kept` bytes, for the least extra time. */
mrt_status mrt_recompute_keep_budget(mrt_recompute *k, size_t kept);
/* Turn OPEN choices into RECOMPUTE that cost next to nothing, all together no
 * more than that share of the step's time; *count: how many. */
mrt_status mrt_recompute_spend(mrt_recompute *k, double share, int *count);
/* The schedule that the choices describe; what is OPEN is kept. */
mrt_status mrt_recompute_policy_schedule(mrt_recompute *k, mrt_schedule *s);
/* Of many ways to cut the layers into segments those of the least live bytes,
 * MRT_SEGMENTS at most. */
mrt_status mrt_recompute_segment_search(mrt_recompute *k, mrt_segments *cuts,
                                        int *count);
mrt_status mrt_recompute_segment_schedule(mrt_recompute *k,
                                          const mrt_segments *cut,
                                          mrt_schedule *out);
/* Let activations wait in the swap tier whose copies fill the time of the
 * forward and the backward pass `lanes` times; MRT_ALL_LANES: all that may. */
mrt_status mrt_with_swap_make(mrt_with_swap *w, mrt_recompute *k, double lanes);
/* Its operators where every copy comes back right before it is read. */
mrt_status mrt_with_swap_runs(const mrt_with_swap *w, mrt_arena *arena,
                              mrt_solve_hint *hint, mrt_error *e);
/* Turn a schedule of that problem into one of the dag, with IN acts. */
mrt_status mrt_with_swap_schedule(const mrt_with_swap *w, mrt_recompute *k,
                                  mrt_schedule *s);
/* Bytes of the arena that the schedule's values take when they are placed; no
 * lower height than `enough` is looked for. */
mrt_status mrt_recompute_arena_of(mrt_arena *arena, mrt_error *e,
                                  const mrt_problem *p, const mrt_schedule *s,
                                  int64_t enough, int effort, int64_t *height);
/* Rewrite the plan's graph and steps as the schedule runs them. */
mrt_status mrt_recompute_apply(mrt_recompute *k, const mrt_schedule *s);

#endif
