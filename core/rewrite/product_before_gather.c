/* product_before_gather.c -- is a product needed for every row looked up?
 *
 *   needs   a captured graph
 *   gives   embedding(linear(table, w, bias), ids) in place of
 *           linear(embedding(table, ids), w, bias), where the table has fewer
 *           rows than there are ids
 *   method  One walk in order.  Views between the two that leave the last
 *           dimension alone become views of the ids.
 *   never   changes a bit: a row of a product is the same function of its row,
 *           whatever the others are
 *
 * SPDX-License-Identifier: MIT */
#include "op/views.h"
#include "rewrite/rewrite.h"

#include <string.h>

enum { MAX_VIEWS = 8 };

typedef struct gather_lookup {
  mrt_node *embedding;
  mrt_node *views[MAX_VIEWS]; /* from the product down to the embedding */
  int count;
} gather_lookup;

static bool moves_rows(const mrt_node *n) {
  return n->nin > 0 &&
         mrt_moves_rows(n->op, n->options, &n->in[0]->type, &n->out[0]->type);
}

static bool find(const mrt_node *n, gather_lookup *l) {
  if (n->op->number != MRT_OP_linear) return false;
  mrt_node *from = n->in[0]->node;
  for (l->count = 0; from && moves_rows(from); from = from->in[0]->node) {
    if (l->count == MAX_VIEWS) return false;
    l->views[l->count++] = from;
  }
  if (!from || from->op->number != MRT_OP_embedding) return false;
  l->embedding = from;
  return from->in[0]->type.dims[0] < mrt_type_count(&from->in[1]->type);
}

static mrt_status append(mrt_graph *g, const mrt_op *op, int nin,
                         mrt_value *const *in, const void *options,
                         const mrt_type *type, mrt_origin origin,
                         mrt_node **node) {
  *node = mrt_graph_node(g, op, nin, in, options, 1, type, origin);
  if (!*node) return mrt_nomem(&g->ctx->error);
  return mrt_graph_append(g, *node);
}

/* The ids as the views leave their rows. */
static mrt_status view_ids(mrt_graph *g, const gather_lookup *l,
                           mrt_value **ids) {
  for (int i = l->count; i-- > 0;) {
    mrt_node *n = l->views[i], *view;
    mrt_type t = n->out[0]->type;
    t.dtype = (*ids)->type.dtype, t.dims[--t.rank] = 0;
    mrt_shape_options o = { .shape.count = t.rank };
    memcpy(o.shape.at, t.dims, (size_t)t.rank * sizeof *t.dims);
    const void *options = n->op->number == MRT_OP_reshape ? &o : n->options;
    MRT_TRY(append(g, n->op, 1, ids, options, &t, n->origin, &view));
    *ids = view->out[0];
  }
  return MRT_OK;
}

static mrt_status rewrite(mrt_graph *g, mrt_node *n, const gather_lookup *l) {
  mrt_value *in[3] = { l->embedding->in[0] }, *y = n->out[0];
  memcpy(in + 1, n->in + 1, (size_t)(n->nin - 1) * sizeof *in);
  mrt_value *rows[2] = { NULL, l->embedding->in[1] };
  mrt_type t = { y->type.dtype,
                 2,
                 { in[0]->type.dims[0], in[1]->type.dims[0] } };
  mrt_node *product, *again;
  MRT_TRY(append(g, n->op, n->nin, in, n->options, &t, n->origin, &product));
  MRT_TRY(view_ids(g, l, &rows[1]));
  rows[0] = product->out[0];
  MRT_TRY(append(g, l->embedding->op, 2, rows, l->embedding->options, &y->type,
                 l->embedding->origin, &again));
  again->out[0] = y, y->node = again, y->index = 0;
  return MRT_OK;
}

mrt_status mrt_pass_product_before_gather(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    gather_lookup l;
    if (find(nodes[i], &l))
      MRT_TRY(rewrite(g, nodes[i], &l));
    else
      MRT_TRY(mrt_graph_append(g, nodes[i]));
  }
  return MRT_OK;
}
