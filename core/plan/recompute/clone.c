/* clone.c -- a schedule becomes the order of a graph with clones
 *
 *   needs   the dag's graph and steps, a schedule of its nodes
 *   gives   nodes and steps as the schedule runs them: the first run of a node
 *           is the node, every further one a clone with values of its own
 *   method  One walk with the value that is there now for every buffer.  What
 *           reads a buffer reads that; views of it are laid over it anew.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

#include <string.h>

typedef struct cloning {
  mrt_recompute *k;
  mrt_graph *g;
  mrt_value **now; /* by id of a base: the value that stands for it */
  int bases;       /* ids before cloning */
  bool *there;     /* by buffer */
  bool *ran;       /* by node of the dag */
  mrt_value **in;  /* what the nodes read in the dag, one after the other */
  int *in_start;   /* by node of the dag */
  mrt_node **nodes;
  mrt_step *steps;
  int count;
} cloning;

/* What to read now instead of `v`: v itself, or the same view of a clone. */
static mrt_value *present(cloning *c, mrt_value *v) {
  mrt_value *base = c->now[v->base->id];
  int fetch = base->evicted ? base->fetch : 0;
  if (base == v->base && !fetch) return v;
  if (v == v->base && !fetch) return base;
  mrt_value *view = mrt_graph_value(c->g, &v->type, v->origin);
  if (!view) return NULL;
  view->base = base, view->offset = v->offset, view->fetch = fetch;
  memcpy(view->strides, v->strides, sizeof view->strides);
  return view;
}

static mrt_node *clone(cloning *c, const mrt_node *n) {
  mrt_type *types = MRT_NEW(c->k->arena, mrt_type, n->nout);
  if (!types) return NULL;
  for (int i = 0; i < n->nout; i++) types[i] = n->out[i]->type;
  mrt_node *again = mrt_graph_node(c->g, n->op, n->nin, n->in, n->options,
                                   n->nout, types, n->origin);
  if (!again) return NULL;
  again->label = n->label, again->recomputed = true, again->original = n;
  for (int i = 0; i < n->nout; i++) again->out[i]->name = n->out[i]->name;
  return again;
}

/* The outputs that were not there are from now on this run's. */
static void bring(cloning *c, int i, const mrt_node *n) {
  const mrt_dag *f = &c->k->dag;
  for (int b = f->made[i]; b < f->made[i + 1]; b++) {
    bool again =
        c->k->value[b]->evicted && c->ran[i]; /* that comes by a copy */
    if (c->there[b] || again) continue;
    c->there[b] = true;
    c->now[c->k->value[b]->id] = n->out[c->k->value[b]->index];
  }
}

static mrt_status run(cloning *c, int i) {
  mrt_plan *plan = c->k->plan;
  mrt_node *n = plan->graph.nodes[i];
  if (c->ran[i])
    n = clone(c, n);
  else
    c->steps[c->count] = plan->steps[i];
  if (!n) return mrt_nomem(&plan->ctx->error);
  for (int r = 0; r < n->nin; r++) {
    n->in[r] = present(c, c->in[c->in_start[i] + r]);
    if (!n->in[r]) return mrt_nomem(&plan->ctx->error);
  }
  bring(c, i, n);
  c->ran[i] = true;
  c->nodes[c->count++] = n;
  return MRT_OK;
}

static mrt_status save_inputs(cloning *c) {
  const mrt_graph *g = c->g;
  int total = 0;
  for (int i = 0; i < g->node_count; i++) total += g->nodes[i]->nin;
  c->in = MRT_NEW(c->k->arena, mrt_value *, total);
  c->in_start = MRT_NEW(c->k->arena, int, g->node_count);
  if (!c->in || !c->in_start) return mrt_nomem(&g->ctx->error);
  for (int i = 0, n = 0; i < g->node_count; i++) {
    c->in_start[i] = n;
    for (int r = 0; r < g->nodes[i]->nin; r++) c->in[n++] = g->nodes[i]->in[r];
  }
  return MRT_OK;
}

/* The plan takes over nodes and steps; clones' steps are made. */
static mrt_status take_over(cloning *c) {
  mrt_plan *plan = c->k->plan;
  mrt_graph_set_order(c->g, c->nodes, c->count);
  plan->steps = c->steps, plan->step_count = c->count;
  for (int i = 0; i < c->count; i++) {
    mrt_node *n = c->nodes[i];
    if (!c->steps[i].node) MRT_TRY(mrt_step_make(plan, i));
    c->steps[i].call.node = i;
    if (n->scratch_buffer < 0) continue;
    mrt_buffer *s = &plan->buffers[n->scratch_buffer];
    s->first = s->last = i;
  }
  return MRT_OK;
}

static mrt_status start(cloning *c, mrt_recompute *k, const mrt_schedule *s) {
  *c = (cloning){ .k = k,
                  .g = &k->plan->graph,
                  .bases = k->plan->graph.value_count,
                  .now = MRT_NEW(k->arena, mrt_value *,
                                 k->plan->graph.value_count),
                  .there = MRT_NEW(k->arena, bool, k->dag.buffers),
                  .ran = MRT_NEW(k->arena, bool, k->dag.real),
                  .nodes = MRT_NEW(&k->plan->graph.arena, mrt_node *, s->count),
                  .steps = MRT_NEW(&k->plan->graph.arena, mrt_step, s->count) };
  if (!c->now || !c->there || !c->ran || !c->nodes || !c->steps)
    return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < c->bases; i++) c->now[i] = c->g->values[i];
  return save_inputs(c);
}

mrt_status mrt_recompute_apply(mrt_recompute *k, const mrt_schedule *s) {
  cloning c;
  MRT_TRY(start(&c, k, s));
  for (int a = 0; a < s->count; a++) {
    const mrt_act *act = &s->act[a];
    if (act->kind == MRT_ACT_RUN) MRT_TRY(run(&c, act->index));
    if (act->kind == MRT_ACT_DROP) c.there[act->index] = false;
    if (act->kind == MRT_ACT_IN) {
      c.there[act->index] = true;
      k->value[act->index]->fetch++;
    }
  }
  return take_over(&c);
}
