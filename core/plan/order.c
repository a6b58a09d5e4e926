/* order.c -- when does each node run?
 *
 *   needs   layout; program order with old values saved
 *   gives   the executing order
 *   method  Program order, with every update moved up to where its inputs
 *           exist, everybody has read the old version, and all index checks
 *           that do not depend on an update have been made: a parameter's
 *           gradient then dies right after it is born.  An update that stands
 *           before such a check waits for it, and so does what reads it.
 *   never   changes what a node reads
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

typedef struct ordering {
  mrt_graph *g;
  int *made_at;   /* by value id: position of its node; -1 for leaves */
  int *read_at;   /* by value id of a variable: last position that reads it */
  bool *tainted;  /* by value id: depends on an update */
  int last_check; /* the last index check that does not; -1: none */
} ordering;

static void note_reads(ordering *o, const mrt_node *n, int i) {
  for (int k = 0; k < n->nin; k++)
    if (n->in[k]->base->leaf == MRT_LEAF_VARIABLE)
      o->read_at[n->in[k]->base->id] = i;
}

static bool depends_on_update(const ordering *o, const mrt_node *n) {
  bool any = mrt_node_is_update(n);
  for (int k = 0; k < n->nin; k++)
    any |= o->tainted[mrt_value_root(n->in[k])->id];
  return any;
}

static void find_tainted(ordering *o) {
  o->last_check = -1;
  for (int i = 0; i < o->g->node_count; i++) {
    const mrt_node *n = o->g->nodes[i];
    bool tainted = depends_on_update(o, n);
    if ((n->op->traits & MRT_FAULTS) && !tainted) o->last_check = i;
    for (int k = 0; k < n->nout; k++) o->tainted[n->out[k]->id] = tainted;
  }
}

/* The first position where the update `n` may stand. */
static int ready(const ordering *o, const mrt_node *n) {
  int at = o->last_check + 1;
  for (int k = 0; k < n->nin; k++) {
    int made = o->made_at[mrt_value_root(n->in[k])->id];
    if (made + 1 > at) at = made + 1;
    if (k < n->op->updates) {
      int read = o->read_at[n->in[k]->base->id];
      if (read + 1 > at) at = read + 1;
    }
  }
  return at;
}

/* Before which position the node at `i` goes; `i` when it stays. */
static int target(const ordering *o, const mrt_node *n, int i) {
  if (i <= o->last_check)
    return o->tainted[n->out[0]->id] ? o->last_check + 1 : i;
  int at = mrt_node_is_update(n) ? ready(o, n) : i;
  return at < i ? at : i;
}

static mrt_status sort(mrt_graph *g, const int *key) {
  /* Counting sort by key, stable; what is moved goes before the node whose
   * position it takes. */
  int n = g->node_count;
  mrt_node **order = MRT_NEW(&g->arena, mrt_node *, n);
  int *start = MRT_NEW(&g->arena, int, 2 * n + 2);
  if (!order || !start) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < n; i++) start[key[i] + 1]++;
  for (int k = 0; k <= 2 * n; k++) start[k + 1] += start[k];
  for (int i = 0; i < n; i++) order[start[key[i]]++] = g->nodes[i];
  mrt_graph_set_order(g, order, n);
  return MRT_OK;
}

mrt_status mrt_pass_order(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  ordering o = { .g = g,
                 .made_at = MRT_NEW(&g->arena, int, g->value_count),
                 .read_at = MRT_NEW(&g->arena, int, g->value_count),
                 .tainted = MRT_NEW(&g->arena, bool, g->value_count) };
  int *key = MRT_NEW(&g->arena, int, g->node_count);
  if (!o.made_at || !o.read_at || !o.tainted || !key)
    return mrt_nomem(&plan->ctx->error);
  if (plan->options.keep_order) return MRT_OK;
  for (int i = 0; i < g->value_count; i++) o.made_at[i] = o.read_at[i] = -1;
  find_tainted(&o);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    int at = target(&o, n, i);
    /* even keys: moved here, before the node with the odd key */
    key[i] = at != i ? 2 * at : 2 * i + 1;
    for (int k = 0; k < n->nout; k++)
      o.made_at[n->out[k]->id] = at != i ? at - 1 : i;
    note_reads(&o, n, i);
  }
  return sort(g, key);
}
