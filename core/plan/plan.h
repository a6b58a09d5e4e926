/* plan.h -- a finished plan: steps in order, buffers at offsets
 *
 * A plan is a pure function of the graph, the options and the device.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_PLAN_H
#define MRT_PLAN_PLAN_H

#include "graph/graph.h"
#include "mrt/inspect.h"
#include "mrt/policy.h"
#include "solve/recompute/schedule.h"

/* A piece of memory: one base value, or several that follow each other in
 * place, or a kernel's scratch. */
typedef struct mrt_buffer {
  mrt_value *value; /* the first that lives there; NULL: scratch */
  mrt_node *node;   /* whose result or scratch it is; NULL: a leaf */
  mrt_buffer_kind kind;
  int index;    /* among the plan's inputs, leaves or results */
  size_t bytes; /* rounded up to the device's alignment */
  size_t align; /* of the offset, where more than the device's is wanted */
  size_t offset;
  int first, last; /* steps, both included */
  int whole;       /* until this step a copy fills it; 0: none does */
} mrt_buffer;

/* Where an operand's bytes are. */
typedef enum mrt_binding_kind {
  MRT_IN_ARENA,        /* index: buffer */
  MRT_IN_VARIABLE,     /* index: of plan->leaves */
  MRT_IN_INPUT,        /* index: of the plan's inputs */
  MRT_IN_OUTPUT,       /* index: of plan->results */
  MRT_IN_SWAP_TIER,    /* index: buffer, in the space's part of the slow tier */
  MRT_IN_SWAP_LOCATION /* index: of plan->leaves, which lies in the slow tier */
} mrt_binding_kind;

typedef struct mrt_binding {
  void **pointer; /* to fill */
  mrt_binding_kind where;
  int index;
  int64_t bytes; /* offset from there */
} mrt_binding;

typedef struct mrt_step {
  mrt_node *node;
  const mrt_kernel *kernel;
  mrt_call call;
  double flops, traffic;
  double seconds; /* predicted */
  int transfer;   /* a copy that it starts or waits for, or -1 */
  int together;   /* steps from here on that one launch may do: 1 or more */
  size_t live;    /* bytes of the arena alive while it runs */
} mrt_step;

/* What passes change of a graph as it was traced: the order, inputs and
 * outputs, by value id.  Kept so that stages can be shown (stage.c). */
typedef struct mrt_traced {
  mrt_node **nodes;
  int *in, *outputs;
  int node_count, value_count, next_node;
} mrt_traced;

/* Layers in segments: what they hand on is kept, the rest computed again.  One
 * of the first three says where they end. */
typedef struct mrt_segments {
  int every, parts; /* layers a segment; segments */
  int64_t bytes;    /* made in a segment, about */
  int64_t peak;     /* live bytes, as the order is */
  double seconds;   /* of all runs */
} mrt_segments;

/* What the planner does of its own accord to meet a budget. */
typedef struct mrt_candidate {
  double lanes;     /* how often over copies of activations may fill the time;
                       0: none are swapped */
  size_t variables; /* bytes of variables, optimizer state first */
  int prefetch;       /* how many copies may be under way in a lane; 0: one */
  int64_t slack;    /* of the budget, that copies take beside what is solved */
  bool brief;       /* in an order of brief lives, not that of the least peak */
  bool rough;       /* a large graph is packed quickly: it may not be the one */
  bool segmented;   /* in these segments, not as the solver finds; */
  mrt_segments segments;
  bool thorough; /* the solver does not give up early */
  bool lowest;   /* with a policy too: in the order of the least peak */
  bool overlap;  /* collectives begin ahead */
  bool seeded;   /* the solver begins with memo.runs, in their order */
} mrt_candidate;
#define MRT_ALL_LANES 1e9

/* From so many nodes on, planning is to be quick rather than exhaustive. */
enum { MRT_PLAN_LARGE = 4000 };

enum { MRT_SEGMENTS = 4 }; /* ways to cut that are worth planning to the end */

/* What one plan finds out for others of the same trace. */
typedef struct mrt_memo {
  int *order;        /* of the order pass, in the graph's arena; NULL:
                               not yet, or the program's */
  size_t order_peak; /* its live bytes, all kept */
  size_t working_set, order_free_bound; /* its bounds */
  mrt_activation *answered;      /* by value id, what a policy answered; NULL */
  size_t kept;                   /* ditto */
  bool no_recompute;             /* ditto */
  mrt_computation *computations; /* what a precision policy answered; NULL */
  mrt_dtype keep;                /* ditto */
  bool delayed;                  /* scales are `scale`, whose program finds */
  mrt_tensor *scale, *amax;      /* `amax`; NULL: not made yet */
  bool *homes;             /* by value id, what a swap policy answered; NULL */
  size_t state, variables; /* bytes that could be swapped: of optimizer state,
                               of all variables */
  mrt_segments
      segments[MRT_SEGMENTS]; /* of the least live bytes in the order */
  int segments_count;         /* of brief lives, rising; 0: not tried */
  bool same_order;            /* that order is of the least peak too */
  int *runs, run_count;       /* ids of nodes as the least of these runs them,
                               clones by their originals' */
} mrt_memo;

/* A run as one launch, for one set of addresses. */
typedef struct mrt_recording {
  uint64_t key;
  void *recording;
} mrt_recording;
enum { MRT_RECORDINGS = 8 };

struct mrt_plan {
  mrt_graph graph;
  mrt_traced *traced; /* NULL: made for one evaluation */
  mrt_plan_options options;
  mrt_candidate candidate;
  mrt_memo memo;
  mrt_plan_info info;
  mrt_device_profile device; /* what it was made for */
  mrt_context *ctx;
  mrt_space *space;
  bool owns_space;

  mrt_step *steps; /* graph.node_count */
  int step_count;
  mrt_buffer *buffers;
  int buffer_count, buffer_room;
  size_t arena_bytes;
  bool swaps;        /* values are slow or away */
  int64_t *staged;   /* by step: of the arena for variables that visit it, as
                      planned before others come and go; NULL: none */
  size_t slow_bytes; /* of the space's part of the slow tier */
  mrt_transfer_info *transfers; /* graph.transfer_count */
  int overlap_count;              /* collectives that begin ahead */

  mrt_value **leaves; /* variables and constants */
  int leaf_count;
  mrt_type *input_types;
  mrt_value **results; /* bases of the outputs, each once */
  int result_count;
  int *output_result; /* output i is result output_result[i] */

  mrt_tensor **written; /* variables that are updated */
  int written_count;

  /* run/ */
  const mrt_call **calls; /* by step */
  bool agreed; /* the ranks have compared its collectives (run/agree.c) */
  mrt_binding *fixed, *moving; /* arena and variables; inputs and outputs */
  int fixed_count, moving_count;
  mrt_storage **result_storage; /* the last run's, reused if nobody has it */
  int first_update;             /* step, or step_count */
  uint64_t runs, seed_epoch;
  int64_t part_rows; /* of the part of a batch that a run is about; 0: all */
  uint64_t placed_generation; /* of the space when `fixed` was resolved, */
  uint64_t placed_moves;      /* and of the context */
  mrt_run run;
  double *times;     /* to fill with the seconds of each step; NULL: not now */
  mrt_range *ranges; /* to fill with what each step writes; NULL: not now */
  double (*clock)(void);
  uint64_t first_key; /* of random numbers when its trace began */
  /* on a device that queues (run/remote.c) */
  mrt_plan *next_flight;
  bool queued;                  /* its last run, whole */
  bool milestones;              /* and they are in it */
  int at;                       /* the step being queued */
  uint64_t places;              /* rises when fixed places move, */
  uint64_t recorded_generation; /* and what it was at these recordings */
  mrt_recording recordings[MRT_RECORDINGS];
  int recording_count;
};

struct mrt_space {
  mrt_context *ctx;
  int refs;
  void *data;
  size_t bytes; /* rounded */
  mrt_home *slow;
  uint64_t generation;
};

typedef mrt_status (*mrt_pass)(mrt_plan *plan);
#define PASS(name, doc)    mrt_status mrt_pass_##name(mrt_plan *plan);
#define REWRITE(name, doc) mrt_status mrt_pass_##name(mrt_plan *plan);
#include "passes.def"
#undef PASS
#undef REWRITE

/* Run all passes over plan->graph and fill plan->info.  The plan is then
 * ready for run/. */
mrt_status mrt_plan_make(mrt_plan *plan);
/* The same, the one way that the plan has. */
mrt_status mrt_plan_finish(mrt_plan *plan);
/* A budget: the quickest of several ways (budget.c). */
mrt_status mrt_plan_within_budget(mrt_plan *plan);
/* A policy: of two orders the one that needs less (budget.c). */
mrt_status mrt_plan_best_order(mrt_plan *plan);
/* Once it is made: the same with collectives beside its steps, where that is
 * quicker and takes no more (budget.c).  `before` is as it was before. */
mrt_status mrt_plan_overlapped(mrt_plan *plan, const mrt_plan *before);
/* May a collective begin ahead, and is it worth it? */
bool mrt_overlap_possible(const mrt_plan *plan);
/* Run the first `count` passes only. */
mrt_status mrt_plan_passes(mrt_plan *plan, int count);
/* Is the graph after the i-th stage the plan's?  It is from the recompute pass
 * on, which asks a policy: once only. */
bool mrt_stage_is_planned(int i);
/* Remember the captured graph, before any pass. */
mrt_status mrt_plan_keep_trace(mrt_plan *plan);
/* A graph as it was traced, from what passes have left of it.  `to` holds no
 * tensors: it does not outlive the plan. */
mrt_status mrt_graph_retrace(mrt_graph *to, const mrt_plan *plan);
/* Give back kernels' states. */
void mrt_plan_release_steps(mrt_plan *plan);
/* Give back kernels' states and the graph. */
void mrt_plan_unmake(mrt_plan *plan);

/* Seconds of steps as they are with collectives beside them. */
mrt_status mrt_plan_collective_time(mrt_plan *plan);
/* Part of the check: nothing touches what is done beside the steps. */
mrt_status mrt_check_copies(const mrt_plan *plan, mrt_arena *arena);

/* The new executing order, with nodes that have no step yet: they get one.
 * `nodes` lives in the graph's arena; all old nodes are among them.  Between
 * the order pass and the lifetime pass. */
mrt_status mrt_plan_insert(mrt_plan *plan, mrt_node **nodes, int count);

/* The uniform value of `v` (a constant, seen through views): true and *k. */
bool mrt_value_uniform(mrt_value *v, double *k);
/* A new buffer; its index, or -1 when memory is out. */
int mrt_plan_add_buffer(mrt_plan *plan, mrt_buffer buffer);
/* EBUDGET: the plan's budget is too little; `needed` bytes would do, 0 where
 * that is unknown. */
mrt_status mrt_plan_over(mrt_plan *plan, size_t needed);
/* Bytes of the peak outside the arena: variables, constants, outputs. */
size_t mrt_plan_rest(mrt_plan *plan);
/* A policy or a region says what is to be recomputed. */
bool mrt_plan_has_policy(const mrt_plan *plan);
/* Fill step i for its node: kernel, call, scratch.  Steps up to i then have
 * kernels' states to release. */
mrt_status mrt_step_make(mrt_plan *plan, int i);
/* The dtype a node computes in: f64 when it touches f64, else f32. */
mrt_dtype mrt_node_real(const mrt_node *n);
/* Is the arena where this buffer lives?  Outputs, leaves have other homes. */
static inline bool mrt_buffer_in_arena(const mrt_buffer *b) {
  return b->kind == MRT_BUFFER_ACTIVATION || b->kind == MRT_BUFFER_GRADIENT ||
         b->kind == MRT_BUFFER_WORKSPACE;
}
/* Or does what it holds lie behind the arena for a while? */
static inline bool mrt_buffer_is_swapped(const mrt_buffer *b) {
  return b->kind == MRT_BUFFER_SWAPPED && b->node;
}

#endif
