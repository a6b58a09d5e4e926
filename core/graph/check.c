/* check.c -- is this a legal graph?
 *
 *   question  does every node read what is there when it runs?
 *   method    One walk in executing order: inputs come from leaves or earlier
 *             nodes, and of a variable only the newest version is read.
 *   why       Every rewrite and every order must keep this.  The check pass of
 *             a plan asks, so a pass that breaks it is found by any plan, not
 *             by wrong results.
 *   cost      O(nodes + reads)
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"

static mrt_status fail(const mrt_graph *g, int i, const char *what,
                       mrt_error *e) {
  const mrt_node *n = g->nodes[i];
  return mrt_fail(e, MRT_EPLAN, "graph check: node %d, %s (%s:%d): %s", i + 1,
                  n->label, n->origin.file, n->origin.line, what);
}

/* By value id: made[v] is 1 + the position that computes v, and overwritten[v],
 * of a variable, 1 + the last position that has written it; 0 before. */
static mrt_status walk(const mrt_graph *g, int *made, int *overwritten,
                       mrt_error *e) {
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    for (int k = 0; k < n->nin; k++) {
      const mrt_value *v = mrt_value_root(n->in[k]);
      if (v->node && !made[v->id])
        return fail(g, i, "reads what is computed later", e);
      if (v->base->leaf == MRT_LEAF_VARIABLE &&
          overwritten[v->base->id] != made[v->id])
        return fail(g, i, "reads an old version of a variable", e);
    }
    for (int k = 0; k < n->nout; k++) {
      made[n->out[k]->id] = i + 1;
      if (n->out[k]->base != n->out[k])
        overwritten[n->out[k]->base->id] = i + 1;
    }
  }
  return MRT_OK;
}

mrt_status mrt_graph_check(const mrt_graph *g, mrt_error *e) {
  mrt_arena arena;
  mrt_arena_init(&arena, g->ctx->allocator);
  int *made = MRT_NEW(&arena, int, g->value_count);
  int *overwritten = MRT_NEW(&arena, int, g->value_count);
  mrt_status s =
      made && overwritten ? walk(g, made, overwritten, e) : mrt_nomem(e);
  mrt_arena_free(&arena);
  return s;
}
