/* meetings.c -- when do the ranks meet?
 *
 *   needs   any graph
 *   gives   lazy collectives, and what only passes their results on, right
 *           before what reads these; turns that rise along the program
 *   method  one walk in the program's order, with the deferred nodes put in
 *           when somebody asks for them.  All ranks run the same program, so
 *           all meet in the same order.
 *   never   moves a collective that the program calls
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/plan.h"

typedef struct walk {
  mrt_graph *g;
  mrt_node **order, **stack;
  int count, depth;
} walk;

enum { DEFERRED = 1, PLACED = 2 };

static bool passes_on(const mrt_node *n) {
  return mrt_node_is_view(n) || n->op->number == MRT_OP_cast;
}

/* Lazy, or a view or cast of what is. */
static bool may_wait(const mrt_node *n) {
  if (mrt_is_lazy(n->op, n->options)) return true;
  const mrt_node *from = n->nin == 1 ? n->in[0]->node : NULL;
  return from && from->mark == DEFERRED && passes_on(n);
}

/* The node after what is deferred of its inputs. */
static void place(walk *w, mrt_node *n) {
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
  uint64_t turn = 0;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    if (!(n->op->traits & MRT_COLLECTIVE)) continue;
    mrt_collective_options *own = MRT_NEW(&g->arena, mrt_collective_options, 1);
    if (!own) return mrt_nomem(&g->ctx->error);
    *own = *(const mrt_collective_options *)n->options;
    own->turn = ++turn;
    n->options = own;
  }
  return MRT_OK;
}

mrt_status mrt_pass_meetings(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  walk w = { .g = g,
             .order = MRT_NEW(&g->arena, mrt_node *, g->node_count),
             .stack = MRT_NEW(&g->arena, mrt_node *, g->node_count + 1) };
  bool any = false;
  if (!w.order || !w.stack) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    g->nodes[i]->mark = 0;
    if (may_wait(g->nodes[i])) g->nodes[i]->mark = DEFERRED, any = true;
  }
  if (!any) return MRT_OK;
  for (int i = 0; i < g->node_count; i++)
    if (!g->nodes[i]->mark) place(&w, g->nodes[i]);
  for (int i = 0; i < g->output_count; i++) {
    mrt_node *from = g->outputs[i]->node;
    if (from && from->mark == DEFERRED) place(&w, from);
  }
  mrt_graph_set_order(g, w.order, w.count);
  return number(g);
}
