/* plan.h -- a finished plan: steps in order, buffers at offsets
 *
 * A plan is a pure function of the captured graph, the options and the device:
 * the same three give the same plan, whatever the machine and its clock.  A
 * planner makes it (planner.h); from then on it does not change.  What a run
 * writes is its runner's (run/runner.h).
 *
 * Invariants of a finished plan, proved by check.c on every plan that is made
 *   - steps stand in executing order; a step reads what an earlier one wrote,
 *     an input, a variable or a constant;
 *   - two buffers whose lifetimes meet do not overlap, but where an output may
 *     take the place of an input that dies in the same step;
 *   - a variable's update comes after every reader of its old version, and no
 *     update is cloned;
 *   - arena_bytes is the highest end of a buffer, info.peak the sum of all that
 *     a run asks of the device.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_PLAN_PLAN_H
#define MRT_PLAN_PLAN_H

#include "device/tier.h"
#include "mrt/inspect.h"
#include "mrt/policy.h"
#include "rewrite/rewrite.h"
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
  int tier;     /* of what is swapped: which */
  size_t offset;
  int first, last; /* steps, both included */
  int whole;       /* until this step a copy fills it; 0: none does */
} mrt_buffer;

typedef struct mrt_step {
  mrt_node *node;
  const mrt_kernel *kernel;
  bool hosted;                /* that is the CPU's: the device has none */
  struct mrt_host_step *host; /* then, copies that it works on (host_step.h);
                                 NULL: none, it touches no bytes */
  mrt_call call;
  double flops, traffic;
  double seconds; /* predicted */
  int transfer;   /* a copy that it starts or waits for, or -1 */
  size_t live;    /* bytes of the arena alive while it runs */
} mrt_step;

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
  int prefetch;     /* how many copies may be under way in a lane; 0: one */
  int64_t slack;    /* of the budget, that copies take beside what is solved */
  bool brief;       /* in an order of brief lives, not that of the least peak */
  bool rough;       /* a large graph is packed quickly: it may not be the one */
  bool segmented;   /* in these segments, not as the solver finds; */
  mrt_segments segments;
  bool kept;       /* nothing is recomputed, unless a policy says so */
  bool thorough;   /* the solver does not give up early */
  bool unbudgeted; /* as without a budget */
  bool lowest;     /* with a policy too: in the order of the least peak */
  bool overlap;    /* collectives run beside the steps */
  bool least;      /* in the least bytes the solver finds quickly */
  bool seeded;     /* the solver begins with memo.runs, in their order */
  bool in_tier;    /* the host updates what is swapped, where it lies */
  bool frugal;     /* no pass takes memory for the sake of time alone */
} mrt_candidate;
#define MRT_ALL_LANES 1e9

/* From this many nodes on, planning is to be quick rather than exhaustive. */
enum { MRT_PLAN_LARGE = MRT_SCHEDULE_LARGE };

enum { MRT_SEGMENTS = 4 }; /* ways to cut that are worth planning to the end */

/* What planning a trace once finds out, for the other candidates and stages of
 * it: policies are asked once, and an order that is known is not searched for
 * again.  Arrays live in the source's arena. */
typedef struct mrt_memo {
  int *order;        /* of the order pass, by position; NULL: not yet, or the
                        program's */
  size_t order_peak; /* its live bytes, all kept */
  size_t working_set, order_free_bound; /* its bounds */
  size_t kept_peak;   /* live bytes of the least order found with all kept; 0:
                       none was looked for */
  size_t brief_arena; /* of a plan in an order of brief lives, where the same is
                         planned in the order of the least peak; 0 */
  mrt_activation *answered; /* by value id, what a policy answered; NULL */
  size_t kept;              /* ditto */
  bool no_recompute;        /* ditto */
  mrt_precision_memo precision;
  mrt_compress_memo compress;
  int *swapped; /* by value id, what a swap policy answered: MRT_SWAP_KEEP,
                   MRT_SWAP_ANY, or a tier; NULL */
  size_t state, variables; /* bytes that could be swapped: of optimizer state,
                              of all variables */
  mrt_segments
      segments[MRT_SEGMENTS]; /* of the least live bytes in the order */
  int segments_count;         /* of brief lives, ascending; 0: not tried */
  bool same_order;            /* that order is of the least peak too */
  int *runs, run_count; /* ids of nodes as the least of these runs them, clones
                           by their originals' */
  const mrt_plan *like; /* whose runs these are, if of other sizes */
  int offers;     /* values that could be computed again, as that is quick, */
  bool spent;     /* and are in the last plan */
  int64_t solved; /* live bytes that the solver came down to, where that
                           was above what was wanted */
} mrt_memo;

typedef struct mrt_runner mrt_runner; /* run/runner.h */

struct mrt_plan {
  mrt_context *ctx;

  /* What it is a function of.  Planned again with the same, it is the same. */
  mrt_graph *source; /* as it was captured, owned; NULL: of one evaluation,
                        whose graph it is */
  mrt_plan_options options;
  mrt_device_profile device;
  mrt_type *input_types;
  int64_t part_rows;  /* of the part of a batch that a run is about; 0: all */
  uint64_t first_key; /* of random numbers when its trace began */
  mrt_candidate candidate;
  mrt_memo memo;

  /* What it is. */
  mrt_graph graph; /* rewritten, in executing order */
  mrt_plan_info info;
  mrt_step *steps; /* graph.node_count */
  int step_count;
  mrt_buffer *buffers;
  int buffer_count, buffer_room;
  size_t arena_bytes;
  bool swaps;   /* values are swapped or evicted */
  bool offered; /* instead of one in the budget, which is too little */
  size_t swap_bytes[MRT_SWAP_TIERS]; /* of the space's part of each tier */
  mrt_tier_info tiers[MRT_SWAP_TIERS];
  mrt_transfer_info *transfers; /* graph.transfer_count */
  int overlap_count;            /* collectives that run beside the steps */
  mrt_value **leaves;           /* variables and constants */
  int leaf_count;
  mrt_value **results; /* bases of the outputs, each once */
  int result_count;
  int *output_result;   /* output i is result output_result[i] */
  mrt_tensor **written; /* variables that are updated */
  int written_count;
  int first_update; /* step, or step_count */

  mrt_run idle;       /* what kernels see while they are prepared: the device */
  mrt_runner *runner; /* NULL: it cannot run, or not yet */
};

struct mrt_space {
  mrt_context *ctx;
  int refs;
  void *data;
  size_t bytes; /* rounded */
  void *host;   /* memory of the host, for what the CPU computes; NULL */
  size_t host_bytes;
  mrt_swap_location *swap[MRT_TIER_SLOTS];
  uint64_t generation;
  bool brief; /* of one evaluation, not of a compiled step */
};

/* A plan that begins as `blank`, with a graph of its own that is empty; NULL:
 * no memory. */
mrt_plan *mrt_plan_copy(const mrt_plan *blank);
/* Free it, kernels' states and graph included, but not the source. */
void mrt_plan_discard(mrt_plan *plan); /* NULL is fine */

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
