/* versions.c -- which old values are read after their update?
 *
 *   needs   a graph in program order
 *   gives   every reader of a variable's value stands before the update that
 *           overwrites it
 *   method  For each update, what still reads the old version (directly or
 *           through views) later in the order reads a copy made just before.
 *           A plan output that is an old version counts as read at the end.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

/* The value whose storage `v` shows. */
static mrt_value *root(mrt_value *v) {
  while (v->node && mrt_node_is_view(v->node)) v = v->node->in[0];
  return v;
}

typedef struct editing {
  mrt_graph *g;
  mrt_node **order;
  int count, room;
} editing;

static mrt_status put(editing *ed, mrt_node *n) {
  mrt_graph *g = ed->g;
  if (!MRT_PUSH_ROOM(&g->arena, ed->order, ed->count, ed->room))
    return mrt_nomem(&g->ctx->error);
  ed->order[ed->count++] = n;
  return MRT_OK;
}

/* The saved copy of `v`, made now if it does not exist; kept in v->other. */
static mrt_status saved(editing *ed, mrt_value *v, mrt_value **copy) {
  if (!v->other) {
    mrt_node *n;
    MRT_TRY(mrt_graph_unary(ed->g, MRT_OP_copy, v, &n));
    MRT_TRY(put(ed, n));
    v->other = n->out[0];
  }
  *copy = v->other;
  return MRT_OK;
}

/* The update at position `i` overwrites `old`: copy it for later readers. */
static mrt_status save_readers(editing *ed, int i, mrt_value *old) {
  mrt_graph *g = ed->g;
  for (int k = i + 1; k < g->node_count; k++) {
    mrt_node *n = g->nodes[k];
    if (mrt_node_is_view(n)) continue;
    for (int m = 0; m < n->nin; m++)
      if (root(n->in[m]) == old) MRT_TRY(saved(ed, n->in[m], &n->in[m]));
  }
  for (int k = 0; k < g->output_count; k++)
    if (root(g->outputs[k]) == old)
      MRT_TRY(saved(ed, g->outputs[k], &g->outputs[k]));
  for (int k = 0; k < g->value_count; k++) g->values[k]->other = NULL;
  return MRT_OK;
}

/* Later views of the old value may stand before the copy's place already or
 * not: those a copy reads must come first. */
static mrt_status views_first(editing *ed, int i, mrt_value *old) {
  mrt_graph *g = ed->g;
  for (int k = i + 1; k < g->node_count; k++) {
    mrt_node *n = g->nodes[k];
    if (!n || !mrt_node_is_view(n) || root(n->in[0]) != old) continue;
    MRT_TRY(put(ed, n));
    g->nodes[k] = NULL;
  }
  int kept = i + 1;
  for (int k = i + 1; k < g->node_count; k++)
    if (g->nodes[k]) g->nodes[kept++] = g->nodes[k];
  g->node_count = kept;
  return MRT_OK;
}

mrt_status mrt_pass_versions(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  editing ed = { .g = g };
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    for (int k = 0; mrt_node_is_update(n) && k < n->op->updates; k++) {
      mrt_value *old = root(n->in[k]);
      MRT_TRY(views_first(&ed, i, old));
      MRT_TRY(save_readers(&ed, i, old));
    }
    MRT_TRY(put(&ed, n));
  }
  mrt_graph_set_order(g, ed.order, ed.count);
  return MRT_OK;
}
