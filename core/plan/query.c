/* query.c -- what several passes ask of a plan
 *
 * Answers are found anew from the graph at each call; they call no pass.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/planner.h"
#include "plan/recompute/recompute.h"

size_t mrt_plan_slots(const mrt_plan *plan) {
  const mrt_queue *q = plan->ctx->device.queue;
  const mrt_graph *g = &plan->graph;
  bool records = plan->device.records || (q && q->record);
  size_t bytes = 0;
  for (int i = 0; records && i < g->value_count; i++)
    if (g->values[i]->leaf == MRT_LEAF_INPUT)
      bytes += mrt_round_up(plan->ctx, mrt_type_bytes(&g->values[i]->type));
  return bytes;
}

size_t mrt_plan_rest(mrt_plan *plan) {
  const mrt_graph *g = &plan->graph;
  size_t bytes = mrt_plan_slots(plan);
  for (int i = 0; i < g->value_count; i++) g->values[i]->uses = 0;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++) g->nodes[i]->in[k]->base->uses++;
  for (int i = 0; i < g->output_count; i++) g->outputs[i]->uses = -1;
  for (int i = 0; i < g->value_count; i++) {
    const mrt_value *v = g->values[i];
    bool kept = (v->leaf == MRT_LEAF_VARIABLE && !v->swapped) ||
                v->leaf == MRT_LEAF_CONSTANT;
    if ((kept && v->uses > 0) || v->uses < 0)
      bytes += mrt_round_up(plan->ctx, mrt_type_bytes(&v->type));
  }
  return bytes;
}

mrt_status mrt_plan_over(mrt_plan *plan, size_t needed) {
  mrt_error *e = &plan->ctx->error;
  mrt_fail(e, MRT_EBUDGET, "memory = %zu bytes is too little",
           plan->options.memory + plan->device.overhead);
  e->needed = needed ? needed + plan->device.overhead : 0;
  return MRT_EBUDGET;
}

const mrt_collective_options *mrt_gathered(const mrt_node *n) {
  while (n && !mrt_is_lazy(n->op, n->options)) {
    bool passes = n->op->number == MRT_OP_cast || n->op->number == MRT_OP_copy;
    n = passes ? mrt_value_root(n->in[0])->node : NULL;
  }
  return n && n->op->number == MRT_OP_allgather ? n->options : NULL;
}

int mrt_plan_effort(const mrt_plan *plan) {
  const mrt_plan_options *o = &plan->options;
  if (o->effort == 0 && o->glance) return -1;
  return o->effort == 0 && o->memory ? 1 : o->effort;
}

bool mrt_plan_has_policy(const mrt_plan *plan) {
  for (int i = 0; i < plan->graph.node_count; i++) {
    const mrt_node *n = plan->graph.nodes[i];
    const mrt_collective_options *o = mrt_gathered(n);
    if (n->origin.region || (o && o->reshard_after_forward)) return true;
  }
  return plan->options.checkpoint != NULL;
}
