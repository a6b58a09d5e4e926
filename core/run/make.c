/* make.c -- from tensors to a plan that can run
 *
 * SPDX-License-Identifier: MIT */
#include "graph/batch.h"
#include "op/random.h"
#include "run/remote.h"

#include <string.h>

/* Pending values from before a trace are constants of its plan: they are
 * computed now. */
static mrt_status capture(mrt_plan *plan, mrt_tensor *const *roots,
                          int root_count, mrt_expr *const *updates,
                          int update_count) {
  mrt_context *ctx = plan->ctx;
  mrt_graph *g = &plan->graph;
  uint64_t first_id = ctx->trace ? ctx->trace->first_id : 0;
  MRT_TRY(mrt_graph_capture(g, ctx, roots, root_count, updates, update_count,
                            first_id));
  if (!g->outside_count) return MRT_OK;
  mrt_trace *trace = ctx->trace;
  ctx->trace = NULL; /* for their own plan nothing is outside */
  mrt_status s = mrt_compute(ctx, g->outside, g->outside_count);
  ctx->trace = trace;
  mrt_graph before = *g;
  if (!s)
    s = mrt_graph_capture(g, ctx, roots, root_count, updates, update_count,
                          first_id);
  mrt_graph_free(&before);
  return s;
}

/* What has a multiple of the batch's rows draws them as parts of the ranks'
 * whole batch; what has not draws the same on all. */
static void draw_as_rank(const mrt_plan *plan) {
  int64_t rows = plan->options.rows;
  for (int i = 0; i < plan->graph.node_count && rows; i++) {
    const mrt_node *n = plan->graph.nodes[i];
    const mrt_type *t = &n->out[0]->type;
    mrt_draw d;
    if (!(n->op->traits & MRT_RANDOM) || mrt_node_is_update(n)) continue;
    memcpy(&d, n->options, sizeof d);
    if (t->rank > 0 && t->dims[0] % rows == 0)
      d.inner = mrt_type_count(t) / rows;
    memcpy(n->options, &d, sizeof d);
  }
}

static mrt_status note_inputs(mrt_plan *plan, mrt_tensor *const *inputs,
                              int n) {
  plan->info.inputs_count = n;
  plan->input_types = MRT_NEW(&plan->graph.arena, mrt_type, n);
  if (!plan->input_types) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < n; i++) plan->input_types[i] = inputs[i]->type;
  const mrt_graph *g = &plan->graph;
  for (int i = 0; i < g->value_count; i++) {
    const mrt_value *v = g->values[i];
    if (v->leaf == MRT_LEAF_INPUT &&
        (v->index >= n || inputs[v->index] != v->tensor))
      return mrt_fail(&plan->ctx->error, MRT_ESTATE,
                      "a value of a finished trace (%s:%d); return it from the "
                      "compiled function to see it",
                      v->origin.file, v->origin.line);
  }
  return MRT_OK;
}

static mrt_status make(mrt_plan *plan, mrt_tensor *const *roots, int root_count,
                       mrt_expr *const *updates, int update_count,
                       mrt_tensor *const *inputs, int input_count) {
  MRT_TRY(capture(plan, roots, root_count, updates, update_count));
  const mrt_batch *part = plan->options.part;
  mrt_status s = note_inputs(plan, inputs, input_count);
  plan->part_rows = part ? part->part : 0;
  if (!s && part) s = mrt_batch_settle(part, &plan->graph, update_count);
  if (!s && !part) draw_as_rank(plan);
  if (!s && plan->ctx->trace) s = mrt_plan_keep_trace(plan);
  if (!s) s = mrt_plan_make(plan);
  if (!s) s = mrt_plan_bind(plan);
  if (!s) s = mrt_plan_group(plan);
  if (s) mrt_plan_unmake(plan);
  return s;
}

/* A budget is for all that the step takes of the device. */
static void leave_overhead(mrt_plan *plan) {
  size_t overhead = plan->device.overhead, *memory = &plan->options.memory;
  if (*memory) *memory = *memory > overhead ? *memory - overhead : 1;
}

mrt_status mrt_plan_new(mrt_context *ctx, mrt_tensor *const *roots,
                        int root_count, mrt_expr *const *updates,
                        int update_count, mrt_tensor *const *inputs,
                        int input_count, const mrt_plan_options *options,
                        mrt_space *space, mrt_plan **out) {
  mrt_plan *plan = mrt_calloc(ctx->allocator, 1, sizeof *plan);
  if (!plan) return mrt_nomem(&ctx->error);
  plan->ctx = ctx, plan->seed_epoch = ctx->seed_epoch;
  plan->device = ctx->profile, plan->run.device = ctx->device.state;
  plan->first_key = ctx->trace ? ctx->trace->first_key : 0;
  if (ctx->trace && ctx->trace->old) {
    plan->seed_epoch = ctx->trace->old->seed_epoch;
    plan->runs = ctx->trace->old->runs;
  }
  if (options) plan->options = *options;
  leave_overhead(plan);
  plan->options.name = NULL; /* borrowed for the call only, as `measured` */
  mrt_status s = MRT_OK;
  if (space)
    space->refs++;
  else
    s = mrt_space_new(ctx, &space);
  if (!s) {
    plan->space = space;
    s = make(plan, roots, root_count, updates, update_count, inputs,
             input_count);
    plan->options.part = NULL; /* so is this */
    if (s) mrt_space_free(space);
  }
  if (s) {
    mrt_release(ctx->allocator, plan, sizeof *plan);
    return s;
  }
  plan->options.measured = NULL, plan->options.measured_count = 0;
  if (options && options->name)
    plan->options.name = mrt_arena_strdup(&plan->graph.arena, options->name);
  mrt_context_ref(ctx);
  *out = plan;
  return MRT_OK;
}

MRT_API void mrt_plan_free(mrt_plan *plan) {
  if (!plan) return;
  mrt_context *ctx = plan->ctx;
  mrt_flight_leave(plan);
  for (int i = 0; i < plan->result_count; i++)
    mrt_storage_unref(plan->result_storage[i]);
  mrt_space_free(plan->space);
  mrt_plan_unmake(plan);
  mrt_release(ctx->allocator, plan, sizeof *plan);
  mrt_context_unref(ctx);
}
