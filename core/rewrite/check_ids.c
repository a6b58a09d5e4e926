/* check_ids.c -- who looks whether ids are in range?
 *
 *   needs   a graph without what nobody reads
 *   gives   for each gradient of a lookup, or update by rows, whose lookup is not
 *           in the graph, as its result is not needed, a lookup of the same ids in a table of as
 *           many rows without columns: it moves nothing, and reports a bad id
 *           before anything is written
 *   why     gradients and updates clamp ids, and rely on the lookup
 *   method  One walk for lookups, by ids and rows; one for what relies on them.
 *   never   changes a result
 *
 * SPDX-License-Identifier: MIT */
#include "op/embedding_bag.h"
#include "op/make.h"
#include "op/update.h"
#include "rewrite/rewrite.h"

#include <string.h>

/* A lookup: of these ids, which may show others' elements, below so many. */
typedef struct id_check {
  const mrt_value *ids, *offsets;
  int64_t rows;
} id_check;

typedef struct id_checking {
  mrt_graph *g;
  id_check *list;
  int count;
} id_checking;

static bool is_there(const id_checking *c, const id_check *k) {
  for (int i = 0; i < c->count; i++)
    if (c->list[i].ids == k->ids && c->list[i].rows == k->rows &&
        (c->list[i].offsets == k->offsets || !k->offsets))
      return true;
  return false;
}

static void note(id_checking *c, const id_check *k) {
  if (!is_there(c, k)) c->list[c->count++] = *k;
}

static id_check check_of(mrt_value *ids, mrt_value *offsets, int64_t rows) {
  return (id_check){ mrt_value_root(ids),
                     offsets ? mrt_value_root(offsets) : NULL, rows };
}

static void note_lookup(id_checking *c, const mrt_node *n) {
  bool bag = n->op->number == MRT_OP_embedding_bag;
  if (!bag && n->op->number != MRT_OP_embedding) return;
  id_check k = check_of(n->in[1], bag && n->nin > 2 ? n->in[2] : NULL,
                        n->in[0]->type.dims[0]);
  note(c, &k);
}

/* op(a table [rows, 0], ids[, offsets]) */
static mrt_status look(id_checking *c, const mrt_node *n, int op,
                       mrt_value *ids, mrt_value *offsets, int64_t rows) {
  mrt_graph *g = c->g;
  mrt_type table = { MRT_f32, 2, { rows, 0 } };
  mrt_type y = offsets ? offsets->type : ids->type;
  mrt_full_options full = { .shape = { 2, { rows, 0 } }, .dtype = MRT_f32 };
  mrt_bag_options bag = { MRT_BAG_SUM };
  y.dtype = MRT_f32;
  if (op == MRT_OP_embedding || offsets) y.rank++;
  y.dims[y.rank - 1] = 0;
  mrt_node *none = mrt_graph_node(g, mrt_ops[MRT_OP_full], 0, NULL, &full, 1,
                                  &table, n->origin);
  if (!none) return mrt_nomem(&g->ctx->error);
  MRT_TRY(mrt_graph_append(g, none));
  mrt_value *in[] = { none->out[0], ids, offsets };
  mrt_node *lookup = mrt_graph_node(
      g, mrt_ops[op], offsets ? 3 : 2, in,
      op == MRT_OP_embedding ? NULL : (const void *)&bag, 1, &y, n->origin);
  if (!lookup) return mrt_nomem(&g->ctx->error);
  return mrt_graph_append(g, lookup);
}

static mrt_status want(id_checking *c, const mrt_node *n, mrt_value *ids,
                       mrt_value *offsets, int64_t rows) {
  id_check k = check_of(ids, offsets, rows);
  if (is_there(c, &k)) return MRT_OK;
  note(c, &k);
  MRT_TRY(look(c, n, MRT_OP_embedding, ids, NULL, rows));
  if (!offsets) return MRT_OK;
  return look(c, n, MRT_OP_embedding_bag, ids, offsets, rows);
}

/* Options of an update by rows end with its lists. */
static mrt_status want_lists(id_checking *c, const mrt_node *n) {
  mrt_row_lists lists;
  int at = n->op->updates;
  memcpy(&lists, (const char *)n->options + n->op->options_size - sizeof lists,
         sizeof lists);
  for (int i = 0; i < lists.kinds.count; i++) {
    int inputs = mrt_row_list_inputs(lists.kinds.at[i]);
    MRT_TRY(want(c, n, n->in[at], inputs > 2 ? n->in[at + 2] : NULL,
                 n->in[0]->type.dims[0]));
    at += inputs;
  }
  return MRT_OK;
}

static mrt_status visit(id_checking *c, const mrt_node *n) {
  int op = n->op->number;
  int64_t rows = n->nout ? n->out[0]->type.dims[0] : 0;
  if (op == MRT_OP_embedding_grad) return want(c, n, n->in[0], NULL, rows);
  if (op == MRT_OP_embedding_bag_grad)
    return want(c, n, n->in[1], n->nin > 2 ? n->in[2] : NULL, rows);
  bool lists = op == MRT_OP_descend_rows || op == MRT_OP_sgd_rows ||
               op == MRT_OP_rmsprop_rows || op == MRT_OP_adamw_rows;
  return lists ? want_lists(c, n) : MRT_OK;
}

mrt_status mrt_pass_check_ids(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  id_checking c = { g, NULL, 0 };
  c.list = MRT_NEW(&g->temporary, id_check, (1 + MRT_ROW_LISTS) * count);
  if (!nodes || !c.list) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) note_lookup(&c, nodes[i]);
  for (int i = 0; i < count; i++) {
    MRT_TRY(visit(&c, nodes[i]));
    MRT_TRY(mrt_graph_append(g, nodes[i]));
  }
  return MRT_OK;
}
