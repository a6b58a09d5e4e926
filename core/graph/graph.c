/* graph.c -- making, walking and changing graphs
 *
 * All of a graph lies in its arena, so nothing is freed one by one: a node that
 * goes is marked dead, and mrt_graph_sweep closes the gap.  A pass says `read
 * that instead` by value->other; mrt_graph_substitute does so for all readers
 * and outputs at once.
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"
#include "op/cast.h"

#include <string.h>

void mrt_graph_free(mrt_graph *g) {
  for (int i = 0; i < g->held_count; i++) {
    mrt_tensor_release(g->held[i]);
    mrt_drop(g->held[i]);
  }
  g->held_count = 0;
  mrt_arena_free(&g->temporary);
  mrt_arena_free(&g->arena);
}

mrt_value *mrt_graph_value(mrt_graph *g, const mrt_type *type,
                           mrt_origin origin) {
  if (!MRT_PUSH_ROOM(&g->arena, g->values, g->value_count, g->value_room))
    return NULL;
  mrt_value *v = MRT_NEW(&g->arena, mrt_value, 1);
  if (!v) return NULL;
  v->id = g->value_count, v->type = *type, v->origin = origin;
  v->buffer = -1, v->base = v;
  mrt_type_strides(type, v->strides);
  return g->values[g->value_count++] = v;
}

mrt_node *mrt_graph_node(mrt_graph *g, const mrt_op *op, int nin,
                         mrt_value *const *in, const void *options, int nout,
                         const mrt_type *types, mrt_origin origin) {
  mrt_node *n = MRT_NEW(&g->arena, mrt_node, 1);
  if (!n) return NULL;
  n->id = g->next_node++;
  n->op = op, n->nin = nin, n->nout = nout, n->origin = origin;
  n->label = op->name, n->scratch_buffer = -1;
  n->in = MRT_NEW(&g->arena, mrt_value *, nin);
  n->out = MRT_NEW(&g->arena, mrt_value *, nout);
  n->options = mrt_arena_alloc(&g->arena, 1, op->options_size);
  if (!n->in || !n->out || !n->options) return NULL;
  if (nin) memcpy(n->in, in, (size_t)nin * sizeof *in);
  if (options && op->options_size)
    memcpy(n->options, options, op->options_size);
  for (int i = 0; i < nout; i++) {
    mrt_value *v = mrt_graph_value(g, &types[i], origin);
    if (!v) return NULL;
    v->node = n, v->index = i;
    n->out[i] = v;
  }
  return n;
}

static mrt_value *find_leaf(const mrt_graph *g, const mrt_tensor *t) {
  for (int i = 0; i < g->value_count; i++)
    if (g->values[i]->leaf == MRT_LEAF_VARIABLE && g->values[i]->tensor == t)
      return g->values[i];
  return NULL;
}

mrt_status mrt_graph_variable(mrt_graph *g, mrt_tensor *t, mrt_value **out) {
  mrt_value *v = *out = find_leaf(g, t);
  if (v) return MRT_OK;
  if (!MRT_PUSH_ROOM(&g->arena, g->held, g->held_count, g->held_room) ||
      !(v = mrt_graph_value(g, &t->type, t->origin)) ||
      (t->name && !(v->name = mrt_arena_strdup(&g->arena, t->name))))
    return mrt_nomem(&g->ctx->error);
  v->leaf = MRT_LEAF_VARIABLE, v->tensor = t, v->index = -1;
  mrt_hold(t);
  mrt_tensor_await(t);
  g->held[g->held_count++] = t;
  return *out = v, MRT_OK;
}

mrt_status mrt_graph_unary(mrt_graph *g, int op, mrt_value *in,
                           mrt_node **node) {
  *node =
      mrt_graph_node(g, mrt_ops[op], 1, &in, NULL, 1, &in->type, in->origin);
  return *node ? MRT_OK : mrt_nomem(&g->ctx->error);
}

void mrt_graph_set_order(mrt_graph *g, mrt_node **nodes, int count) {
  g->nodes = nodes, g->node_count = g->node_room = count;
}

mrt_node **mrt_graph_take_order(mrt_graph *g) {
  mrt_node **order = MRT_NEW(&g->temporary, mrt_node *, g->node_count);
  if (!order) return NULL;
  if (g->node_count)
    memcpy(order, g->nodes, (size_t)g->node_count * sizeof *order);
  g->node_count = 0;
  return order;
}

mrt_status mrt_graph_append(mrt_graph *g, mrt_node *node) {
  if (!MRT_PUSH_ROOM(&g->arena, g->nodes, g->node_count, g->node_room))
    return mrt_nomem(&g->ctx->error);
  g->nodes[g->node_count++] = node;
  return MRT_OK;
}

mrt_status mrt_graph_cast(mrt_graph *g, mrt_value *v, mrt_dtype dtype,
                          mrt_origin origin, mrt_value **out) {
  mrt_cast_options o = { .dtype = dtype };
  mrt_type t = v->type;
  t.dtype = dtype;
  mrt_node *n =
      mrt_graph_node(g, mrt_ops[MRT_OP_cast], 1, &v, &o, 1, &t, origin);
  if (!n) return mrt_nomem(&g->ctx->error);
  *out = n->out[0];
  (*out)->name = v->name;
  return mrt_graph_append(g, n);
}

void mrt_graph_count_uses(mrt_graph *g) {
  for (int i = 0; i < g->value_count; i++) g->values[i]->uses = 0;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++) g->nodes[i]->in[k]->uses++;
  for (int i = 0; i < g->output_count; i++) g->outputs[i]->uses++;
}

mrt_value *mrt_value_instead(mrt_value *v) {
  while (v->other) v = v->other;
  return v;
}

void mrt_graph_substitute(mrt_graph *g) {
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++)
      g->nodes[i]->in[k] = mrt_value_instead(g->nodes[i]->in[k]);
  for (int i = 0; i < g->output_count; i++)
    g->outputs[i] = mrt_value_instead(g->outputs[i]);
  for (int i = 0; i < g->value_count; i++) g->values[i]->other = NULL;
}

void mrt_graph_sweep(mrt_graph *g) {
  int kept = 0;
  for (int i = 0; i < g->node_count; i++)
    if (!g->nodes[i]->dead) g->nodes[kept++] = g->nodes[i];
  g->node_count = kept;
}

bool mrt_node_is_view(const mrt_node *n) {
  return (n->op->traits & MRT_VIEW) != 0;
}
bool mrt_node_is_update(const mrt_node *n) {
  return (n->op->traits & MRT_UPDATES) != 0;
}

void mrt_node_types_init(mrt_node_types *t, const mrt_node *n) {
  t->s = (mrt_signature){ n->op, n->options, n->nin, n->nout - n->joined,
                          t->in, t->out };
  if (t->s.nin > MRT_COUNT(t->in)) t->s.nin = MRT_COUNT(t->in);
  if (t->s.nout > MRT_COUNT(t->out)) t->s.nout = MRT_COUNT(t->out);
  for (int i = 0; i < t->s.nin; i++) t->in[i] = &n->in[i]->type;
  for (int i = 0; i < t->s.nout; i++) t->out[i] = &n->out[i]->type;
}

double mrt_node_flops(const mrt_node *n) {
  mrt_node_types t;
  if (!n->op->flops) return 0;
  mrt_node_types_init(&t, n);
  return n->op->flops(&t.s);
}

/* What a view shows of its base is read, each byte once. */
static double bytes_read(const mrt_value *v) {
  size_t shown = mrt_type_bytes(&v->type);
  size_t there = v->base ? mrt_type_bytes(&v->base->type) : shown;
  return (double)(shown < there ? shown : there);
}

double mrt_node_bytes(const mrt_node *n) {
  mrt_node_types t;
  if (n->op->bytes) return mrt_node_types_init(&t, n), n->op->bytes(&t.s);
  double bytes = 0;
  for (int i = 0; i < n->nin; i++) bytes += bytes_read(n->in[i]);
  for (int i = 0; i < n->nout - n->joined; i++)
    bytes += (double)mrt_type_bytes(&n->out[i]->type);
  return bytes;
}

mrt_value *mrt_value_root(mrt_value *v) {
  while (v->node && mrt_node_is_view(v->node)) v = v->node->in[0];
  /* A view of what was computed again has no node. */
  return v->node || !v->base ? v : v->base;
}

bool mrt_value_contiguous(const mrt_value *v) {
  int64_t step = 1;
  for (int i = v->type.rank - 1; i >= 0; i--) {
    if (v->type.dims[i] == 0) return true;
    if (v->type.dims[i] != 1 && v->strides[i] != step) return false;
    step *= v->type.dims[i];
  }
  return true;
}
