/* stage.c -- the graph of a plan after any pass
 *
 *   question  what did each pass leave of the program?
 *   method    The plan keeps the order and the inputs that were traced, a few
 *             bytes a node; passes change these, never what a node computes.
 *             A stage is a copy of that graph, planned again up to a pass:
 *             planning is a pure function, so ids are the plan's.  The passes
 *             that place values leave the plan's own graph.
 *   cost      planning once more, for who asks
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

struct mrt_stage {
  const mrt_plan *of; /* `own`, or the finished plan itself */
  mrt_plan own;
};

mrt_status mrt_plan_keep_trace(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  mrt_traced *t = MRT_NEW(&g->arena, mrt_traced, 1);
  int inputs = 0;
  for (int i = 0; i < g->node_count; i++) inputs += g->nodes[i]->nin;
  if (!t) return mrt_nomem(&plan->ctx->error);
  t->nodes = MRT_NEW(&g->arena, mrt_node *, g->node_count);
  t->in = MRT_NEW(&g->arena, int, inputs);
  t->outputs = MRT_NEW(&g->arena, int, g->output_count);
  if (!t->nodes || !t->in || !t->outputs) return mrt_nomem(&plan->ctx->error);
  t->node_count = g->node_count, t->value_count = g->value_count;
  t->next_node = g->next_node;
  inputs = 0;
  for (int i = 0; i < g->node_count; i++) {
    t->nodes[i] = g->nodes[i];
    for (int k = 0; k < g->nodes[i]->nin; k++)
      t->in[inputs++] = g->nodes[i]->in[k]->id;
  }
  for (int i = 0; i < g->output_count; i++) t->outputs[i] = g->outputs[i]->id;
  plan->traced = t;
  return MRT_OK;
}

/* ---- the traced graph, once more ----------------------------------------- */

/* Leaves' tensors stay the plan's: a stage does not outlive it. */
static mrt_status copy_values(mrt_graph *to, const mrt_graph *from, int count) {
  for (int i = 0; i < count; i++) {
    const mrt_value *v = from->values[i];
    mrt_value *copy = mrt_graph_value(to, &v->type, v->origin);
    if (!copy) return mrt_nomem(&to->ctx->error);
    copy->name = v->name;
    copy->leaf = v->leaf, copy->tensor = v->tensor;
    if (v->leaf) copy->index = v->index;
  }
  return MRT_OK;
}

static mrt_status copy_node(mrt_graph *to, const mrt_node *n, const int *in) {
  mrt_node *copy = MRT_NEW(&to->arena, mrt_node, 1);
  if (!copy) return mrt_nomem(&to->ctx->error);
  *copy = *n;
  copy->dead = false, copy->scratch_buffer = -1, copy->mark = 0;
  copy->in = MRT_NEW(&to->arena, mrt_value *, n->nin);
  copy->out = MRT_NEW(&to->arena, mrt_value *, n->nout);
  if (!copy->in || !copy->out) return mrt_nomem(&to->ctx->error);
  for (int k = 0; k < n->nin; k++) copy->in[k] = to->values[in[k]];
  for (int k = 0; k < n->nout; k++) {
    mrt_value *v = to->values[n->out[k]->id];
    v->node = copy, v->index = k;
    copy->out[k] = v;
  }
  return mrt_graph_append(to, copy);
}

mrt_status mrt_graph_retrace(mrt_graph *to, const mrt_plan *plan) {
  const mrt_traced *t = plan->traced;
  const int *in = t->in;
  MRT_TRY(copy_values(to, &plan->graph, t->value_count));
  for (int i = 0; i < t->node_count; i++) {
    MRT_TRY(copy_node(to, t->nodes[i], in));
    in += t->nodes[i]->nin;
  }
  to->next_node = t->next_node;
  to->output_count = plan->graph.output_count;
  to->outputs = MRT_NEW(&to->arena, mrt_value *, to->output_count);
  if (!to->outputs) return mrt_nomem(&to->ctx->error);
  for (int i = 0; i < to->output_count; i++)
    to->outputs[i] = to->values[t->outputs[i]];
  return MRT_OK;
}

MRT_API mrt_status mrt_stage_new(const mrt_plan *plan, int i, mrt_stage **out) {
  mrt_context *ctx = plan->ctx;
  if (!mrt_stage_name(i))
    return mrt_fail(&ctx->error, MRT_EVALUE, "stage %d: there is none", i);
  if (!plan->traced)
    return mrt_fail(&ctx->error, MRT_ESTATE, "a plan of no trace");
  mrt_stage *stage = mrt_calloc(ctx->allocator, 1, sizeof *stage);
  if (!stage) return mrt_nomem(&ctx->error);
  mrt_plan *own = &stage->own;
  *own = (mrt_plan){ .ctx = ctx,
                     .options = plan->options,
                     .device = plan->device,
                     .traced = plan->traced,
                     .candidate = plan->candidate,
                     .memo = plan->memo,
                     .part_rows = plan->part_rows };
  own->graph.ctx = ctx;
  mrt_arena_init(&own->graph.arena, ctx->allocator);
  bool finished = mrt_stage_is_planned(i);
  stage->of = finished ? plan : own;
  mrt_status s = MRT_OK;
  if (!finished) s = mrt_graph_retrace(&own->graph, plan);
  if (!s && !finished) s = mrt_plan_passes(own, i);
  if (s)
    mrt_stage_free(stage);
  else
    *out = stage;
  return s;
}

MRT_API void mrt_stage_free(mrt_stage *stage) {
  if (!stage) return;
  const mrt_allocator *a = stage->own.ctx->allocator;
  mrt_plan_unmake(&stage->own);
  mrt_release(a, stage, sizeof *stage);
}

/* ---- what it says -------------------------------------------------------- */

MRT_API int mrt_stage_node_count(const mrt_stage *stage) {
  return stage->of->graph.node_count;
}

MRT_API mrt_node_info mrt_stage_get_node(const mrt_stage *stage, int i) {
  const mrt_graph *g = &stage->of->graph;
  if (i < 0 || i >= g->node_count)
    return (mrt_node_info){ .op = "", .file = "?" };
  const mrt_node *n = g->nodes[i];
  return (mrt_node_info){
    .op = n->label,
    .file = n->origin.file,
    .line = n->origin.line,
    .backward = n->origin.backward,
    .recomputed = n->recomputed,
    .nin = n->nin,
    .nout = n->nout,
    .updates = mrt_node_is_update(n) ? n->op->updates : 0,
  };
}

/* After the layout pass a view is no node: what it shows is read. */
MRT_API int mrt_stage_get_operand(const mrt_stage *stage, int node, int i) {
  const mrt_graph *g = &stage->of->graph;
  if (node < 0 || node >= g->node_count || i < 0) return -1;
  const mrt_node *n = g->nodes[node];
  if (i < n->nin) return n->in[i]->base->id;
  i -= n->nin;
  return i < n->nout ? n->out[i]->id : -1;
}

MRT_API int mrt_stage_get_output(const mrt_stage *stage, int i) {
  const mrt_graph *g = &stage->of->graph;
  return i >= 0 && i < g->output_count ? g->outputs[i]->id : -1;
}

MRT_API int mrt_stage_value_count(const mrt_stage *stage) {
  return stage->of->graph.value_count;
}

MRT_API mrt_graph_value_info mrt_stage_get_value(const mrt_stage *stage,
                                                 int i) {
  static const mrt_buffer_kind kinds[] = {
    [MRT_LEAF_INPUT] = MRT_BUFFER_INPUT,
    [MRT_LEAF_VARIABLE] = MRT_BUFFER_VARIABLE,
    [MRT_LEAF_CONSTANT] = MRT_BUFFER_CONSTANT,
  };
  const mrt_graph *g = &stage->of->graph;
  if (i < 0 || i >= g->value_count)
    return (mrt_graph_value_info){ .block = -1, .original = -1 };
  const mrt_value *v = g->values[i];
  const mrt_node *again = v->node ? v->node->original : NULL;
  return (mrt_graph_value_info){
    .kind = v->leaf              ? kinds[v->leaf]
            : v->origin.backward ? MRT_BUFFER_GRADIENT
                                 : MRT_BUFFER_ACTIVATION,
    .name = v->name,
    .type = v->type,
    .bytes = mrt_type_bytes(&v->type),
    .block = v->base->buffer,
    .original = again ? again->out[v->index]->id : -1,
  };
}

MRT_API mrt_status mrt_stage_print(const mrt_stage *stage, char **text) {
  return mrt_plan_print(stage->of, text);
}
