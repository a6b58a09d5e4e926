/* inspect.h -- what is in a plan, and how its runs go
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_INSPECT_H
#define MRT_INSPECT_H

#include "mrt.h"
#include "mrt/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the plan was made for; lives as long as the plan. */
MRT_API const mrt_device_profile *mrt_plan_get_device(const mrt_plan *plan);
/* The name of the i-th rewrite that has a switch; NULL past the last. */
MRT_API const char *mrt_plan_pass_name(int i);

/* One node of the plan in executing order. */
typedef struct mrt_step_info {
  const char *op;
  const char *file, *module; /* module: its path, or NULL */
  int line;
  int layer;            /* of the network, 1, 2, ..; 0: in none */
  bool backward;        /* made by mrt_grad */
  bool recomputed;      /* a second run of a forward node */
  bool hosted;          /* by the CPU: the device has no kernel for it, or */
  bool in_tier;         /* it updates what lies in the swap tier, there */
  const char *cost;     /* kind of work */
  mrt_dtype accumulate; /* what sums are rounded to after each term;
                           MRT_DTYPE_COUNT: they are not */
  double flops, bytes;
  double seconds; /* predicted */
  size_t live;    /* transient bytes alive while it runs, workspace included */
  int comm;       /* of a collective: its communicator's number; else -1 */
} mrt_step_info;
MRT_API mrt_step_info mrt_plan_get_step(const mrt_plan *plan, int i);

typedef enum mrt_buffer_kind {
  MRT_BUFFER_INPUT,
  MRT_BUFFER_VARIABLE,
  MRT_BUFFER_CONSTANT,
  MRT_BUFFER_ACTIVATION, /* forward */
  MRT_BUFFER_GRADIENT,   /* backward */
  MRT_BUFFER_WORKSPACE,
  MRT_BUFFER_OUTPUT,
  MRT_BUFFER_SWAPPED /* in the swap tier: a variable's home, or a value that
                       left the arena for a while */
} mrt_buffer_kind;

/* One block of memory of the plan: a value and what shares its place. */
typedef struct mrt_buffer_info {
  mrt_buffer_kind kind;
  const char *op, *name;     /* name may be NULL */
  const char *cost;          /* kind of work of the operator; NULL: a leaf */
  const char *file, *module; /* module may be NULL */
  int line;
  mrt_type type;
  size_t bytes, offset; /* offset in the arena (transient kinds) */
  int tier;             /* of what is swapped; else -1 */
  int first, last;      /* steps, both included */
  uint64_t id;          /* of a variable or constant: the same in other plans */
  bool here; /* a variable or constant that is in memory at this moment */
} mrt_buffer_info;
MRT_API int mrt_plan_buffer_count(const mrt_plan *plan);
MRT_API mrt_buffer_info mrt_plan_get_buffer(const mrt_plan *plan, int i);

/* What a step touches: what it reads, what it writes, then its workspace. */
typedef struct mrt_operand_info {
  int value;         /* which block of memory; -1 past the last operand */
  bool written;      /* or else read */
  bool overwritable; /* the operator could leave its result in this input */
} mrt_operand_info;
MRT_API mrt_operand_info mrt_plan_get_operand(const mrt_plan *plan, int step,
                                              int i);

/* A copy between the arena and the swap tier, beside the steps between. */
typedef struct mrt_transfer_info {
  bool out;              /* or else in */
  int resident, swapped; /* buffers: in the arena, in the swap tier */
  size_t bytes;
  int start, wait; /* steps */
  int tier;        /* that it goes to, or comes from */
  double seconds;  /* predicted: of the copy alone, */
  double beside;   /* of the steps between, */
  double stall;    /* and spent waiting for it */
} mrt_transfer_info;
/* Which block of memory output i has, from 0 without a gap: the same for outputs
 * that the plan has found to be one value; -1 past the last. */
MRT_API int mrt_plan_output_block(const mrt_plan *plan, int i);
/* What the plan takes of the device's i-th swap tier, quickest first. */
typedef struct mrt_tier_info {
  char name[32];
  size_t bytes, capacity;       /* capacity 0: unknown */
  size_t copied_out, copied_in; /* in a run */
} mrt_tier_info;
MRT_API int mrt_plan_tier_count(const mrt_plan *plan);
MRT_API mrt_tier_info mrt_plan_get_tier(const mrt_plan *plan, int i);
MRT_API int mrt_plan_transfer_count(const mrt_plan *plan);
MRT_API mrt_transfer_info mrt_plan_get_transfer(const mrt_plan *plan, int i);
/* Seconds that one run will wait for copies, with other figures than the
 * plan's own where they are given: seconds of each step without waiting, rates
 * of copies.  Fills stalls[], by transfer, unless it is NULL. */
MRT_API mrt_status mrt_plan_transfer_time(const mrt_plan *plan,
                                          const double *seconds,
                                          const mrt_swap_rates *rates,
                                          double *stalls, double *total);
/* Seconds that the last run spent waiting for copies. */
MRT_API double mrt_plan_stalled(const mrt_plan *plan);
/* Print the planned graph, one node a line, into a new string from the
 * context's allocator; free it with mrt_text_free. */
MRT_API mrt_status mrt_plan_print(const mrt_plan *plan, char **text);
MRT_API void mrt_text_free(mrt_context *ctx, char *text);

/* ---- a plan's graph, stage by stage -------------------------------------- */

/* The stages in order: "differentiated" (as traced, gradients included), each
 * pass that follows, "planned".  NULL past the last. */
MRT_API const char *mrt_stage_name(int i);
/* The graph of a traced plan after its i-th stage: it is planned again up to
 * there.  Borrows the plan; free the stage first. */
typedef struct mrt_stage mrt_stage;
MRT_API mrt_status mrt_stage_new(const mrt_plan *plan, int i, mrt_stage **out);
MRT_API void mrt_stage_free(mrt_stage *stage); /* NULL is fine */

/* Nodes stand in the order of the program or, after the pass `order`, in
 * executing order. */
typedef struct mrt_node_info {
  const char *op, *file, *module; /* module may be NULL */
  int line;
  bool backward, recomputed; /* as in mrt_step_info */
  int nin, nout, updates;    /* inputs, outputs; how many of the first inputs
                                the first outputs overwrite */
} mrt_node_info;
MRT_API int mrt_stage_node_count(const mrt_stage *stage);
MRT_API mrt_node_info mrt_stage_get_node(const mrt_stage *stage, int i);
/* Which value: inputs first, then outputs; -1 past the last.  A value keeps
 * its number from stage to stage. */
MRT_API int mrt_stage_get_operand(const mrt_stage *stage, int node, int i);

/* The value that is the plan's i-th output; -1 past the last. */
MRT_API int mrt_stage_get_output(const mrt_stage *stage, int i);

typedef struct mrt_graph_value_info {
  mrt_buffer_kind kind;
  const char *name; /* may be NULL */
  mrt_type type;
  size_t bytes;
  int block;     /* of memory, for mrt_plan_get_buffer; -1: none, or not yet */
  int original;  /* of what is recomputed: the value made first; else -1 */
  int64_t outer; /* of a rank's piece, [:, rank, :] of [outer, ranks, inner]; 0:
                    it is whole */
} mrt_graph_value_info;
MRT_API int mrt_stage_value_count(const mrt_stage *stage);
MRT_API mrt_graph_value_info mrt_stage_get_value(const mrt_stage *stage, int i);
/* As mrt_plan_print. */
MRT_API mrt_status mrt_stage_print(const mrt_stage *stage, char **text);

/* Keys of what is measured beside nodes; the nodes' own are those of
 * mrt_plan_step_key. */
enum {
  MRT_MEASURED_CALL,    /* a run beside its nodes */
  MRT_MEASURED_LATENCY, /* a copy to or from the swap tier beside its bytes */
  MRT_MEASURED_OUT,     /* a byte out; with both lanes busy */
  MRT_MEASURED_OUT_SHARED,
  MRT_MEASURED_IN, /* a byte in */
  MRT_MEASURED_IN_SHARED
};
/* Seconds that each node of this key took. */
struct mrt_measured {
  uint64_t key;
  double seconds;
};

/* The sizes of elements: exponents[i] counts those from 2^e on, below 2^(e + 1),
 * for e = MRT_LEAST_EXPONENT + i; the first and the last all beyond. */
enum { MRT_LEAST_EXPONENT = -150, MRT_EXPONENTS = 280 };
typedef struct mrt_range {
  int64_t count, zeros, nans, infinities;
  double largest; /* finite |x| */
  int64_t exponents[MRT_EXPONENTS];
} mrt_range;

/* Run the plan once and add what each node writes to ranges[nodes].  Variables
 * and random numbers are afterwards as they were, as with mrt_plan_measure. */
MRT_API mrt_status mrt_plan_watch(mrt_plan *plan, mrt_tensor *const *in,
                                  int nin, mrt_range *ranges);

/* Run the plan once and then `rounds` times with a clock at every node: fills
 * seconds[nodes] and *total, of a run, with medians.  `part` is NULL for a plan
 * of a whole batch.  `clock` tells seconds; NULL: the device's, of real time.
 * Variables and random numbers are afterwards as they were, whatever is
 * returned; that takes a copy of what the plan updates. */
MRT_API mrt_status mrt_plan_measure(mrt_plan *plan, const mrt_part *part,
                                    mrt_tensor *const *in, int nin, int rounds,
                                    double (*clock)(void), double *seconds,
                                    double *total);
/* Nodes of one key do the same work: operator, types and options are equal. */
MRT_API uint64_t mrt_plan_step_key(const mrt_plan *plan, int i);
/* How much faster than plain products in f32 a node's flop are done at best: its
 * device's rate of large products in what it multiplies, over the rate in f32,
 * and 2.25 times that for convolutions in Winograd's way.  0: it is not the
 * device's work (views, copies beside the steps, what the CPU computes for the
 * device). */
MRT_API double mrt_plan_step_speed(const mrt_plan *plan, int i);

#ifdef __cplusplus
}
#endif
#endif
