/* place_collectives.c -- when do the ranks meet?
 *
 *   needs   any graph
 *   gives   gathers of buckets whose parts are read, which read as views of
 *           them; lazy gathers, and what only passes their results on, right
 *           before what reads these; lazy reductions, which take less than what
 *           they are of, where they are called, if anybody reads them; sequence
 *           numbers that rise along the program
 *   method  one walk in the program's order, with the deferred nodes put in
 *           when somebody asks for them.  All ranks run the same program, so
 *           all meet in the same order.  The passes before this one have seen
 *           variables, whole: their bits are those of one rank.
 *   never   moves a collective that the program calls
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/views.h"
#include "rewrite/rewrite.h"

/* ---- parts of buckets ---------------------------------------------------- */

/* The nodes that are made; gathers are the first of each bucket. */
typedef struct gathers {
  mrt_graph *g;
  mrt_node **nodes;
  int count, room;
} gathers;

static mrt_status put(gathers *w, int op, mrt_value *in, const void *options,
                      mrt_type type, mrt_origin at, mrt_value **out) {
  mrt_graph *g = w->g;
  mrt_node *n = mrt_graph_node(g, mrt_ops[op], 1, &in, options, 1, &type, at);
  if (!n || !MRT_PUSH_ROOM(&g->arena, w->nodes, w->count, w->room))
    return mrt_nomem(&g->ctx->error);
  w->nodes[w->count++] = n;
  return *out = n->out[0], MRT_OK;
}

/* What all ranks' buckets are together. */
static mrt_status gather(gathers *w, const mrt_variable *part,
                         mrt_value *bucket, const mrt_value *leaf,
                         mrt_value **out) {
  mrt_context *ctx = w->g->ctx;
  const mrt_communicator *comm = mrt_communicator_find(ctx, part->comm);
  if (!comm) return ctx->error.status;
  mrt_collective_options o = { .rank = comm->rank,
                               .size = comm->size,
                               .comm = part->comm,
                               .lazy = true,
                               .reshard_after_forward =
                                   part->reshard_after_forward };
  mrt_type type = bucket->type;
  type.dims[0] *= comm->size;
  return put(w, MRT_OP_allgather, bucket, &o, type, leaf->origin, out);
}

/* [ranks, outer, inner] as [outer, ranks, inner]. */
static mrt_status turn(gathers *w, const mrt_variable *part, mrt_value *leaf,
                       mrt_value **v) {
  const mrt_communicator *comm = mrt_communicator_find(w->g->ctx, part->comm);
  mrt_permute_options swap = { .dims = { .count = 3, .at = { 1, 0, 2 } } };
  mrt_shape_options shape = { .shape = { .count = 3 } };
  mrt_type from = { .dtype = leaf->type.dtype, .rank = 3 }, to = from;
  int64_t n = comm->size, outer = part->outer,
          inner = mrt_type_count(&leaf->type) / (n * outer);
  from.dims[0] = to.dims[1] = shape.shape.at[0] = n;
  from.dims[1] = to.dims[0] = shape.shape.at[1] = outer;
  from.dims[2] = to.dims[2] = shape.shape.at[2] = inner;
  MRT_TRY(put(w, MRT_OP_reshape, *v, &shape, from, leaf->origin, v));
  return put(w, MRT_OP_permute, *v, &swap, to, leaf->origin, v);
}

/* The part as a view of what all ranks' buckets are together. */
static mrt_status show_part(gathers *w, mrt_value *leaf, mrt_value *v) {
  const mrt_variable *part = leaf->tensor->variable;
  int64_t count = mrt_type_count(&leaf->type);
  mrt_slice_options own = {
    .dim = 0, .first = part->offset, .last = part->offset + count - 1, .step = 1
  };
  mrt_shape_options shape = { .shape = { .count = leaf->type.rank } };
  mrt_type flat = { .dtype = leaf->type.dtype, .rank = 1, .dims = { count } };
  for (int i = 0; i < leaf->type.rank; i++)
    shape.shape.at[i] = leaf->type.dims[i];
  MRT_TRY(put(w, MRT_OP_slice, v, &own, flat, leaf->origin, &v));
  if (part->outer > 1) MRT_TRY(turn(w, part, leaf, &v));
  MRT_TRY(put(w, MRT_OP_reshape, v, &shape, leaf->type, leaf->origin, &v));
  v->name = leaf->name;
  return leaf->other = v, MRT_OK;
}

static mrt_value *gathered(const gathers *w, const mrt_value *bucket) {
  for (int i = 0; i < w->count; i++)
    if (w->nodes[i]->in[0] == bucket) return w->nodes[i]->out[0];
  return NULL;
}

/* A bucket may be the piece of a variable, and lie in a bucket itself: that one
 * is gathered first. */
static mrt_status read_part(gathers *w, mrt_value *leaf) {
  const mrt_variable *part = leaf->tensor->variable;
  mrt_value *bucket, *all;
  if (leaf->other) return MRT_OK;
  MRT_TRY(mrt_graph_variable(w->g, part->bucket, &bucket));
  if (part->bucket->variable->bucket) {
    const mrt_variable *piece = part->bucket->variable;
    mrt_value *outer;
    MRT_TRY(mrt_graph_variable(w->g, piece->bucket, &outer));
    if (!gathered(w, outer)) MRT_TRY(gather(w, piece, outer, leaf, &all));
    if (!bucket->other) MRT_TRY(show_part(w, bucket, gathered(w, outer)));
    bucket = bucket->other;
  }
  if (!(all = gathered(w, bucket)))
    MRT_TRY(gather(w, part, bucket, leaf, &all));
  return show_part(w, leaf, all);
}

static mrt_status read_parts(mrt_graph *g) {
  gathers w = { .g = g };
  int values = g->value_count, nodes = g->node_count;
  for (int i = 0; i < values; i++) {
    mrt_value *v = g->values[i];
    bool part = v->leaf == MRT_LEAF_VARIABLE && v->tensor->variable->bucket;
    if (part) MRT_TRY(read_part(&w, v));
  }
  if (!w.count) return MRT_OK;
  mrt_node **order = MRT_NEW(&g->arena, mrt_node *, w.count + nodes);
  if (!order) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < w.count; i++) order[i] = w.nodes[i];
  for (int i = 0; i < nodes; i++) order[w.count + i] = g->nodes[i];
  mrt_graph_set_order(g, order, w.count + nodes);
  mrt_graph_substitute(g);
  return MRT_OK;
}

/* ---- when ---------------------------------------------------------------- */

typedef struct placing_walk {
  mrt_graph *g;
  mrt_node **order, **stack;
  int count, depth;
} placing_walk;

enum { DEFERRED = 1, PLACED = 2, READ = 3 };

static bool passes_on(const mrt_node *n) {
  return mrt_node_is_view(n) || n->op->number == MRT_OP_cast;
}

/* Lazy, or a view or cast of what is. */
static bool may_wait(const mrt_node *n) {
  if (mrt_is_lazy(n->op, n->options)) return true;
  const mrt_node *from = n->nin == 1 ? n->in[0]->node : NULL;
  return from && from->mark == DEFERRED && passes_on(n);
}

static bool is_gather(const mrt_node *n) {
  return n->op->number == MRT_OP_allgather;
}

/* READ: what is deferred, and its result is read in the end. */
static void find_read(mrt_graph *g) {
  for (int i = 0; i < g->output_count; i++) {
    mrt_node *from = g->outputs[i]->node;
    if (from && from->mark == DEFERRED) from->mark = READ;
  }
  for (int i = g->node_count; i-- > 0;) {
    const mrt_node *n = g->nodes[i];
    for (int k = 0; n->mark != DEFERRED && k < n->nin; k++) {
      mrt_node *from = n->in[k]->node;
      if (from && from->mark == DEFERRED) from->mark = READ;
    }
  }
}

/* Marks what is deferred; is there anything? */
static bool defer(mrt_graph *g) {
  bool any = false;
  for (int i = 0; i < g->node_count; i++) {
    g->nodes[i]->mark = 0;
    if (may_wait(g->nodes[i])) g->nodes[i]->mark = DEFERRED, any = true;
  }
  find_read(g);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (n->mark == READ)
      n->mark = 0;
    else
      continue;
    bool reduces = mrt_is_lazy(n->op, n->options) && !is_gather(n);
    if (!reduces && may_wait(n)) n->mark = DEFERRED;
  }
  return any;
}

/* The node after what is deferred of its inputs. */
static void place(placing_walk *w, mrt_node *n) {
  w->stack[w->depth++] = n;
  while (w->depth) {
    mrt_node *top = w->stack[w->depth - 1], *first = NULL;
    for (int i = 0; i < top->nin && !first; i++) {
      mrt_node *from = top->in[i]->node;
      if (from && from->mark == DEFERRED) first = from;
    }
    if (first) {
      first->mark = PLACED; /* on its way */
      w->stack[w->depth++] = first;
      continue;
    }
    w->depth--;
    top->mark = PLACED;
    w->order[w->count++] = top;
  }
}

static mrt_status number(mrt_graph *g) {
  uint64_t sequence = 0;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (!(n->op->traits & MRT_COLLECTIVE)) continue;
    mrt_collective_options *own = MRT_NEW(&g->arena, mrt_collective_options, 1);
    if (!own) return mrt_nomem(&g->ctx->error);
    *own = *(const mrt_collective_options *)n->options;
    own->sequence = ++sequence;
    own->ahead = false; /* perhaps in another plan of this trace */
    n->options = own;
  }
  return MRT_OK;
}

mrt_status mrt_pass_place_collectives(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  MRT_TRY(read_parts(g));
  placing_walk w = { .g = g,
                     .order = MRT_NEW(&g->arena, mrt_node *, g->node_count),
                     .stack =
                         MRT_NEW(&g->arena, mrt_node *, g->node_count + 1) };
  if (!w.order || !w.stack) return mrt_nomem(&g->ctx->error);
  if (!defer(g)) return MRT_OK;
  for (int i = 0; i < g->node_count; i++)
    if (!g->nodes[i]->mark) place(&w, g->nodes[i]);
  for (int i = 0; i < g->output_count; i++) {
    mrt_node *from = g->outputs[i]->node;
    if (from && from->mark == DEFERRED) place(&w, from);
  }
  mrt_graph_set_order(g, w.order, w.count);
  return number(g);
}
