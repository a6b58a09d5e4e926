/* copy_before_update.c -- which old values are read after their update?
 *
 *   needs   a graph in program order
 *   gives   every reader of a variable's value stands before the update that
 *           overwrites it
 *   method  One walk in order.  What reads an old version (directly or through
 *           views) after its update reads a copy made just before that update,
 *           and views of it move there too.  A plan output that is an old
 *           version counts as read at the end.
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/rewrite.h"

/* A node that moves to just before an update. */
typedef struct moved {
  mrt_node *node;
  struct moved *next;
} moved;

typedef struct editing {
  mrt_graph *g;
  int *overwritten;      /* by value id: 1 + position of its update; 0: never */
  moved **first, **last; /* by position of an update: what comes before it */
} editing;

/* 1 + the position of the update that has overwritten what `v` shows. */
static int overwritten(const editing *ed, mrt_value *v) {
  return ed->overwritten[mrt_value_root(v)->id];
}

static mrt_status move(editing *ed, int update, mrt_node *n) {
  moved *m = MRT_NEW(&ed->g->temporary, moved, 1);
  if (!m) return mrt_nomem(&ed->g->ctx->error);
  m->node = n;
  if (ed->last[update])
    ed->last[update]->next = m;
  else
    ed->first[update] = m;
  ed->last[update] = m;
  return MRT_OK;
}

/* *v is read now: if it has been overwritten, read the copy, which v->other
 * remembers, instead. */
static mrt_status read_saved(editing *ed, mrt_value **v) {
  int update = overwritten(ed, *v) - 1;
  if (update < 0) return MRT_OK;
  if (!(*v)->other) {
    mrt_node *n;
    MRT_TRY(mrt_graph_unary(ed->g, MRT_OP_copy, *v, &n));
    MRT_TRY(move(ed, update, n));
    (*v)->other = n->out[0];
  }
  *v = (*v)->other;
  return MRT_OK;
}

static mrt_status visit(editing *ed, int i) {
  mrt_node *n = ed->g->nodes[i];
  if (mrt_node_is_view(n)) {
    int update = overwritten(ed, n->in[0]) - 1;
    if (update < 0) return MRT_OK;
    ed->g->nodes[i] = NULL;
    return move(ed, update, n);
  }
  for (int k = 0; k < n->nin; k++) MRT_TRY(read_saved(ed, &n->in[k]));
  for (int k = 0; mrt_node_is_update(n) && k < n->op->updates; k++)
    ed->overwritten[mrt_value_root(n->in[k])->id] = i + 1;
  return MRT_OK;
}

static mrt_status put_in_order(editing *ed) {
  mrt_graph *g = ed->g;
  int count = g->node_count;
  mrt_node **before = mrt_graph_take_order(g);
  if (!before) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    for (const moved *m = ed->first[i]; m; m = m->next)
      MRT_TRY(mrt_graph_append(g, m->node));
    if (before[i]) MRT_TRY(mrt_graph_append(g, before[i]));
  }
  return MRT_OK;
}

mrt_status mrt_pass_copy_before_update(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  /* Copies are new values, but nothing overwrites them. */
  editing ed = { .g = g,
                 .overwritten = MRT_NEW(&g->temporary, int, 2 * g->value_count),
                 .first = MRT_NEW(&g->temporary, moved *, g->node_count),
                 .last = MRT_NEW(&g->temporary, moved *, g->node_count) };
  if (!ed.overwritten || !ed.first || !ed.last)
    return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->node_count; i++) MRT_TRY(visit(&ed, i));
  for (int i = 0; i < g->output_count; i++)
    MRT_TRY(read_saved(&ed, &g->outputs[i]));
  for (int i = 0; i < g->value_count; i++) g->values[i]->other = NULL;
  return put_in_order(&ed);
}
