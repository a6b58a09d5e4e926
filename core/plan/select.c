/* select.c -- which kernel runs each node, and what scratch does it need?
 *
 *   needs   every value's layout
 *   gives   steps: node, kernel and a call that lacks only its pointers; a
 *           buffer for each kernel's scratch
 *   why     before the order: scratch counts among the bytes that an order is
 *           chosen for, and kernels size it by the layouts of their operands
 *   holds   steps[i] is of nodes[i]; a step that has moved keeps its call and
 *           scratch; step_count is how many have a state to release
 *   never   lets a kernel allocate: what it needs is declared here
 *
 * SPDX-License-Identifier: MIT */
#include "op/fused.h"
#include "plan/cost.h"
#include "plan/host_step.h"

#include <string.h>

int mrt_plan_add_buffer(mrt_plan *plan, mrt_buffer buffer) {
  if (!MRT_PUSH_ROOM(&plan->graph.arena, plan->buffers, plan->buffer_count,
                     plan->buffer_room))
    return -1;
  buffer.bytes = mrt_round_up(plan->ctx, buffer.bytes);
  plan->buffers[plan->buffer_count] = buffer;
  return plan->buffer_count++;
}

static void describe(mrt_operand *o, const mrt_value *v) {
  o->type = v->type;
  memcpy(o->strides, v->strides, sizeof o->strides);
}

MRT_API bool mrt_context_has_kernel(const mrt_context *ctx, const mrt_op *op) {
  const mrt_device *d = &ctx->device;
  return (op->traits & MRT_VIEW) || (d->kernel(d, op->number, MRT_f32) &&
                                     d->kernel(d, op->number, MRT_f64));
}

mrt_status mrt_step_make(mrt_plan *plan, int i) {
  mrt_graph *g = &plan->graph;
  mrt_node *n = g->nodes[i];
  mrt_step *s = &plan->steps[i];
  const mrt_device *d = &plan->ctx->device;
  s->node = n;
  const mrt_device *by = d;
  s->kernel = mrt_node_kernel(plan->ctx, n, &s->hosted);
  if (s->hosted) by = &plan->ctx->cpu;
  s->flops = mrt_node_flops(n), s->traffic = mrt_node_bytes(n);
  s->seconds = mrt_node_seconds(plan, n);
  s->call = (mrt_call){ .options = n->options,
                        .nin = n->nin,
                        .nout = n->nout - n->joined,
                        .in = MRT_NEW(&g->arena, mrt_operand, n->nin),
                        .out = MRT_NEW(&g->arena, mrt_operand, n->nout),
                        .run = &plan->idle,
                        .threads = by->threads,
                        .workers = by->workers,
                        .dots = by->dots,
                        .tiles = by->tiles,
                        .winograd = by->winograd,
                        .node = i,
                        .file = n->origin.file,
                        .line = n->origin.line };
  if (!s->call.in || !s->call.out) return mrt_nomem(&plan->ctx->error);
  for (int k = 0; k < n->nin; k++) describe(&s->call.in[k], n->in[k]);
  for (int k = 0; k < n->nout; k++) describe(&s->call.out[k], n->out[k]);
  if (s->kernel->prepare) s->call.state = s->kernel->prepare(&s->call);
  if (plan->step_count <= i) plan->step_count = i + 1; /* has a state */
  MRT_TRY(mrt_device_works(d, &plan->ctx->error));
  size_t scratch = s->kernel->scratch ? s->kernel->scratch(&s->call) : 0;
  bool staged =
      s->hosted && d->remote && !(n->op->traits & (MRT_SWAPS | MRT_WAITS));
  if (staged) return mrt_host_step_make(plan, s, scratch);
  if (scratch == 0) return MRT_OK;
  n->scratch_buffer =
      mrt_plan_add_buffer(plan, (mrt_buffer){ .node = n,
                                              .kind = MRT_BUFFER_WORKSPACE,
                                              .bytes = scratch,
                                              .first = i,
                                              .last = i });
  return n->scratch_buffer < 0 ? mrt_nomem(&plan->ctx->error) : MRT_OK;
}

mrt_status mrt_pass_select(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  mrt_graph *g = &plan->graph;
  plan->steps = MRT_NEW(&g->arena, mrt_step, g->node_count);
  if (!plan->steps) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < g->node_count; i++) MRT_TRY(mrt_step_make(plan, i));
  return MRT_OK;
}

mrt_status mrt_plan_insert(mrt_plan *plan, mrt_node **nodes, int count) {
  mrt_graph *g = &plan->graph;
  mrt_step *steps = MRT_NEW(&g->arena, mrt_step, count);
  if (!steps) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < count; i++) nodes[i]->mark = -1;
  for (int i = 0; i < g->node_count; i++) g->nodes[i]->mark = i;
  for (int i = 0; i < count; i++)
    if (nodes[i]->mark >= 0) steps[i] = plan->steps[nodes[i]->mark];
  mrt_graph_set_order(g, nodes, count);
  plan->steps = steps, plan->step_count = count;
  for (int i = 0; i < count; i++) {
    if (!steps[i].node) MRT_TRY(mrt_step_make(plan, i));
    steps[i].call.node = i;
    if (nodes[i]->scratch_buffer < 0) continue;
    mrt_buffer *s = &plan->buffers[nodes[i]->scratch_buffer];
    s->first = s->last = i;
  }
  return MRT_OK;
}
