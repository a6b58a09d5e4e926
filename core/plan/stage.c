/* stage.c -- the graph of a plan after any pass
 *
 *   question  what did each pass leave of the program?
 *   method    The plan keeps the graph that was captured.  A stage is a copy of
 *             that, planned again up to a pass: planning is a pure function,
 *             so ids are the plan's.  From the first pass that asks a policy
 *             on, a stage is the plan's own graph.
 *   cost      planning once more, for who asks
 *
 * SPDX-License-Identifier: MIT */
#include "plan/planner.h"

struct mrt_stage {
  const mrt_plan *of; /* `own`, or the finished plan itself */
  mrt_plan *own;      /* planned again so far; NULL */
  mrt_plan blank;     /* what it began as */
};

static mrt_status plan_again(mrt_stage *stage, const mrt_plan *plan, int i) {
  mrt_planner p = { .blank = &stage->blank,
                    .source = plan->source,
                    .memo = plan->memo };
  MRT_TRY(mrt_planner_begin(&p, plan->candidate, &p));
  stage->own = p.plan, stage->of = p.plan;
  p.memo_arena = &p.plan->graph.arena;
  return mrt_planner_run(&p, i);
}

MRT_API mrt_status mrt_stage_new(const mrt_plan *plan, int i, mrt_stage **out) {
  mrt_context *ctx = plan->ctx;
  if (!mrt_stage_name(i))
    return mrt_fail(&ctx->error, MRT_EVALUE, "stage %d: there is none", i);
  if (!plan->source)
    return mrt_fail(&ctx->error, MRT_ESTATE, "a plan of no trace");
  mrt_stage *stage = mrt_calloc(ctx->allocator, 1, sizeof *stage);
  if (!stage) return mrt_nomem(&ctx->error);
  stage->blank = (mrt_plan){ .ctx = ctx,
                             .options = plan->options,
                             .device = plan->device,
                             .part_rows = plan->part_rows };
  stage->of = plan;
  mrt_status s = mrt_stage_is_planned(i) ? MRT_OK : plan_again(stage, plan, i);
  if (s)
    mrt_stage_free(stage);
  else
    *out = stage;
  return s;
}

MRT_API void mrt_stage_free(mrt_stage *stage) {
  if (!stage) return;
  const mrt_allocator *a = stage->blank.ctx->allocator;
  mrt_plan_discard(stage->own);
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
    .module = n->origin.module,
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
    .outer = v->outer,
  };
}

MRT_API mrt_status mrt_stage_print(const mrt_stage *stage, char **text) {
  return mrt_plan_print(stage->of, text);
}
