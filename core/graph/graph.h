/* graph.h -- what is planned: nodes in executing order and their values
 *
 * A graph is captured from lazy tensors, rewritten by passes, planned and run.
 * It lives in one arena.
 *
 * A value is what a node computes, or a leaf: an input of the plan, a
 * variable, or a constant.  An updating node's outputs are new versions of the
 * variables it writes.
 *
 * Invariants (mrt_graph_check proves the first two of every plan)
 *   - nodes stand in executing order: a node's inputs are leaves or come from
 *     earlier nodes;
 *   - nobody reads a version of a variable once a later one is written;
 *   - the types of a node's outputs are what its row infers from its inputs and
 *     options, but for narrow floats (rewrite/precision.c);
 *   - ids of nodes and values are never given twice, also to those that passes
 *     make; they are no positions.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_GRAPH_H
#define MRT_GRAPH_GRAPH_H

#include "op/op.h"
#include "tensor/tensor.h"

typedef enum mrt_leaf {
  MRT_LEAF_NONE,
  MRT_LEAF_INPUT,
  MRT_LEAF_VARIABLE,
  MRT_LEAF_CONSTANT
} mrt_leaf;

typedef struct mrt_value {
  int id;
  mrt_type type;
  struct mrt_node *node; /* NULL: a leaf */
  int index;             /* which output; which input of the plan */
  mrt_leaf leaf;
  mrt_tensor *tensor; /* leaf VARIABLE, CONSTANT: held by the graph */
  mrt_origin origin;
  const char *name;
  bool wide;     /* a leaf that is read for what is never rounded */
  int64_t outer; /* of a piece that ranks share what it is of in: how many such
                    lie before its elements (rewrite/partition.h); 0: whole */

  /* Layout, after the layout pass: element (i, j, ..) lies at
   * base's storage + offset + sum of index * stride, in elements. */
  struct mrt_value *base; /* itself when it owns its storage */
  int64_t offset;
  int64_t strides[MRT_MAX_RANK];

  bool swapped; /* of a base: it lies in the swap tier */
  int tier;     /* of a base that does, or is evicted: which of them; */
  bool settled; /* a policy has said so */
  bool evicted; /* of a base: it is to go there between its uses */
  int fetch;    /* of a base: how often it is fetched, where that is planned; of
                   what shows it: which fetch it reads, 0: before it goes */
  int buffer;   /* of a base: its place in memory (plan/plan.h), or -1 */
  int uses;     /* scratch of passes: how many inputs and outputs it is */
  void *other;  /* scratch of one pass */
} mrt_value;

typedef struct mrt_node {
  int id; /* unique, not a position */
  const mrt_op *op;
  void *options;
  int nin, nout;
  mrt_value **in, **out;
  mrt_origin origin;
  const char *label; /* what to call it: the operator, or what was fused */
  bool recomputed;   /* a clone: the forward node runs again */
  const struct mrt_node *original; /* of a clone */
  bool dead;                       /* removed by the next mrt_graph_sweep */
  bool in_tier; /* an update that the host makes where the variables are that
                   it writes: in the swap tier */
  bool joined;  /* its last result is no operand: the others are parts of it */
  int scratch_buffer; /* or -1 */
  int mark;           /* scratch of one pass */
} mrt_node;

typedef struct mrt_graph {
  mrt_context *ctx;
  mrt_arena arena;
  mrt_arena temporary; /* what lives no longer than the pass that runs */
  mrt_node **nodes;
  int node_count, node_room, next_node;
  mrt_value **values;
  int value_count, value_room;
  mrt_value **outputs;
  int output_count;
  mrt_tensor **held; /* leaves' tensors, dropped with the graph */
  int held_count, held_room;
  int transfer_count;   /* copies between tiers, numbered */
  mrt_tensor **outside; /* of capture: pending tensors made before first_id */
  int outside_count, outside_room;
} mrt_graph;

/* ---- making -------------------------------------------------------------- */

/* Capture what computes `roots` and all `updates` (expressions that write
 * variables).  If that needs pending tensors made before `first_id`, nothing
 * is captured but these, in g->outside: compute them and capture again. */
mrt_status mrt_graph_capture(mrt_graph *g, mrt_context *ctx,
                             mrt_tensor *const *roots, int root_count,
                             mrt_expr *const *updates, int update_count,
                             uint64_t first_id);
void mrt_graph_free(mrt_graph *g);
/* Fill the empty graph `to` with the values, nodes, outputs and ids of `from`,
 * which must live on: options and leaves' tensors are shared. */
mrt_status mrt_graph_copy(mrt_graph *to, const mrt_graph *from);

/* A new value without a node: a leaf to be described.  NULL: no memory. */
mrt_value *mrt_graph_value(mrt_graph *g, const mrt_type *type,
                           mrt_origin origin);
/* The leaf that a variable is, whether the graph has read it so far or not. */
mrt_status mrt_graph_variable(mrt_graph *g, mrt_tensor *t, mrt_value **out);
/* A node not yet in the order; its outputs are new values.  NULL: no memory. */
mrt_node *mrt_graph_node(mrt_graph *g, const mrt_op *op, int nin,
                         mrt_value *const *in, const void *options, int nout,
                         const mrt_type *types, mrt_origin origin);
/* The one output of op(in) with default options, inferred; ready to be put
 * into an order. */
mrt_status mrt_graph_unary(mrt_graph *g, int op, mrt_value *in,
                           mrt_node **node);
/* `v` in another dtype, appended to the order; it has v's name. */
mrt_status mrt_graph_cast(mrt_graph *g, mrt_value *v, mrt_dtype dtype,
                          mrt_origin origin, mrt_value **out);
/* Replace the order; `nodes` lives in the graph's arena. */
void mrt_graph_set_order(mrt_graph *g, mrt_node **nodes, int count);
/* The order as it is, for the time of this pass, whose own begins empty; NULL:
 * no memory. */
mrt_node **mrt_graph_take_order(mrt_graph *g);
/* Append to the order. */
mrt_status mrt_graph_append(mrt_graph *g, mrt_node *node);

/* ---- walking and changing ------------------------------------------------ */

/* Set every value's `uses`. */
void mrt_graph_count_uses(mrt_graph *g);
/* Read `to` wherever `other` says so: every input and output v with v->other
 * set becomes (mrt_value *)v->other, followed to its end.  Clears `other`. */
void mrt_graph_substitute(mrt_graph *g);
/* What to read instead of `v`, while a pass sets `other`. */
mrt_value *mrt_value_instead(mrt_value *v);
/* Drop dead nodes from the order. */
void mrt_graph_sweep(mrt_graph *g);
bool mrt_node_is_view(const mrt_node *n);
bool mrt_node_is_update(const mrt_node *n);
/* What rows see of a node, for costs. */
typedef struct mrt_node_types {
  mrt_signature s;
  const mrt_type *in[8], *out[8];
} mrt_node_types;
void mrt_node_types_init(mrt_node_types *t, const mrt_node *n);
double mrt_node_flops(const mrt_node *n);
double mrt_node_bytes(const mrt_node *n); /* read and written */
/* The value whose storage `v` shows, through views. */
mrt_value *mrt_value_root(mrt_value *v);
bool mrt_value_contiguous(const mrt_value *v);
/* The uniform value of `v` (a constant, seen through views): true and *k. */
bool mrt_value_uniform(mrt_value *v, double *k);
/* The dtype a node computes in: f64 when it touches f64, else f32. */
mrt_dtype mrt_node_real(const mrt_node *n);

/* ---- legality and printing ----------------------------------------------- */

/* Inputs come before uses, and what reads a variable's old version before the
 * update that overwrites it.  EPLAN with the node. */
mrt_status mrt_graph_check(const mrt_graph *g, mrt_error *e);

/* Text that grows; `failed` sticks. */
typedef struct mrt_string {
  const mrt_allocator *allocator;
  char *text;
  size_t used, room;
  bool failed;
} mrt_string;
void mrt_string_add(mrt_string *s, const char *fmt, ...) MRT_PRINTF(2, 3);
void mrt_string_free(mrt_string *s);
/* One node a line: `%7 f32[4,4] = matmul(%3, %5)   -- train.lua:12`. */
void mrt_graph_print(const mrt_graph *g, mrt_string *s);

#endif
