/* make.c -- from tensors to a plan that can run
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "graph/batch_dependence.h"
#include "op/random.h"
#include "plan/planner.h"
#include "run/remote.h"
#include "run/space.h"
#include "tensor/trace.h"

#include <string.h>

/* What is to be planned. */
typedef struct plan_request {
  mrt_tensor *const *roots;
  int root_count;
  mrt_expr *const *updates;
  int update_count;
  mrt_tensor *const *inputs;
  int input_count;
} plan_request;

static mrt_status capture_once(mrt_context *ctx, mrt_graph *g,
                               const plan_request *r) {
  uint64_t first_id = ctx->trace ? ctx->trace->first_id : 0;
  return mrt_graph_capture(g, ctx, r->roots, r->root_count, r->updates,
                           r->update_count, first_id);
}

/* Pending values from before a trace are constants of its plan: they are
 * computed now. */
static mrt_status capture(mrt_context *ctx, mrt_graph *g,
                          const plan_request *r) {
  MRT_TRY(capture_once(ctx, g, r));
  if (!g->outside_count) return MRT_OK;
  mrt_trace *trace = ctx->trace;
  ctx->trace = NULL; /* for their own plan nothing is outside */
  mrt_status s = mrt_compute(ctx, g->outside, g->outside_count);
  ctx->trace = trace;
  if (s) return mrt_graph_free(g), s;
  mrt_graph before = *g;
  s = capture_once(ctx, g, r);
  mrt_graph_free(&before);
  return s;
}

/* What has a multiple of the batch's rows draws them as parts of the ranks'
 * whole batch; what has not draws the same on all. */
static void draw_as_rank(const mrt_graph *g, int64_t rows) {
  for (int i = 0; i < g->node_count && rows; i++) {
    const mrt_node *n = g->nodes[i];
    const mrt_type *t = &n->out[0]->type;
    mrt_draw d;
    if (!(n->op->traits & MRT_RANDOM) || mrt_node_is_update(n)) continue;
    memcpy(&d, n->options, sizeof d);
    if (t->rank > 0 && t->dims[0] % rows == 0)
      d.inner = mrt_type_count(t) / rows;
    memcpy(n->options, &d, sizeof d);
  }
}

static mrt_status note_inputs(mrt_plan *blank, mrt_graph *g,
                              const plan_request *r) {
  int n = r->input_count;
  blank->info.inputs_count = n;
  blank->input_types = MRT_NEW(&g->arena, mrt_type, n);
  if (!blank->input_types) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < n; i++) blank->input_types[i] = r->inputs[i]->type;
  for (int i = 0; i < g->value_count; i++) {
    const mrt_value *v = g->values[i];
    if (v->leaf == MRT_LEAF_INPUT &&
        (v->index >= n || r->inputs[v->index] != v->tensor))
      return mrt_fail(&g->ctx->error, MRT_ESTATE,
                      "a value of a finished trace (%s:%d); return it from the "
                      "compiled function to see it",
                      v->origin.file, v->origin.line);
  }
  return MRT_OK;
}

/* The graph, and in `blank` what it says of inputs and of this batch. */
static mrt_status describe(mrt_plan *blank, mrt_graph *g,
                           const plan_request *r) {
  const mrt_batch *part = blank->options.part;
  MRT_TRY(capture(blank->ctx, g, r));
  blank->part_rows = part ? part->part : 0;
  MRT_TRY(note_inputs(blank, g, r));
  if (part) return mrt_batch_resolve(part, g, r->update_count);
  draw_as_rank(g, blank->options.rows);
  return MRT_OK;
}

/* One evaluation: its graph is the plan's own. */
static mrt_status plan_once(mrt_plan *blank, const plan_request *r,
                            mrt_plan **out) {
  mrt_graph graph = { 0 };
  mrt_planner p = { .blank = blank };
  mrt_status s = describe(blank, &graph, r);
  if (!s && !(p.plan = mrt_plan_copy(blank))) s = MRT_ENOMEM;
  if (s) return mrt_graph_free(&graph), s;
  p.plan->graph = graph, p.memo_arena = &p.plan->graph.arena;
  s = mrt_planner_make(&p);
  *out = p.plan;
  return s;
}

/* A trace: its graph is kept, and planned as often as the planner wants. */
static mrt_status plan_trace(mrt_plan *blank, const plan_request *r,
                             mrt_plan **out) {
  const mrt_allocator *a = blank->ctx->allocator;
  mrt_graph *source = mrt_calloc(a, 1, sizeof *source);
  if (!source) return mrt_nomem(&blank->ctx->error);
  blank->source = source;
  mrt_planner p = { .blank = blank,
                    .source = source,
                    .memo_arena = &source->arena };
  mrt_status s = describe(blank, source, r);
  if (!s) s = mrt_planner_make(&p);
  *out = p.plan;
  return s;
}

static void free_source(const mrt_context *ctx, mrt_graph *source) {
  if (!source) return;
  mrt_graph_free(source);
  mrt_release(ctx->allocator, source, sizeof *source);
}

/* On failure nothing is left, unless it is EBUDGET with a plan to look at. */
static mrt_status make(mrt_plan *blank, const plan_request *r, mrt_space *space,
                       mrt_plan **out) {
  mrt_plan *plan = NULL;
  bool traced = blank->ctx->trace != NULL;
  mrt_status s = traced ? plan_trace(blank, r, &plan) //
                        : plan_once(blank, r, &plan);
  bool offered = s == MRT_EBUDGET && plan && plan->offered;
  mrt_status made = s && !offered ? s : mrt_runner_new(plan, space);
  if (!made) return *out = plan, s;
  mrt_plan_discard(plan);
  free_source(blank->ctx, blank->source);
  return made;
}

/* A budget is for all that the step takes of the device. */
static void leave_overhead(mrt_plan *plan) {
  size_t overhead = plan->device.overhead, *memory = &plan->options.memory;
  if (*memory) *memory = *memory > overhead ? *memory - overhead : 1;
}

static mrt_plan blank_of(mrt_context *ctx, const mrt_plan_options *options) {
  mrt_plan blank = { .ctx = ctx,
                     .device = ctx->profile,
                     .idle.device = ctx->device.state };
  if (ctx->trace) blank.first_key = ctx->trace->first_key;
  if (options) blank.options = *options;
  leave_overhead(&blank);
  blank.options.name = NULL; /* borrowed for the call only, as `measured` */
  return blank;
}

mrt_status mrt_plan_new(mrt_context *ctx, mrt_tensor *const *roots,
                        int root_count, mrt_expr *const *updates,
                        int update_count, mrt_tensor *const *inputs,
                        int input_count, const mrt_plan_options *options,
                        mrt_space *space, mrt_plan **out) {
  mrt_plan blank = blank_of(ctx, options), *plan = NULL;
  plan_request r = { roots,        root_count, updates,
                     update_count, inputs,     input_count };
  mrt_status s = MRT_OK;
  if (space)
    space->refs++;
  else
    s = mrt_space_brief(ctx, &space);
  if (s) return s;
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  s = make(&blank, &r, space, &plan);
  mrt_rounding_end(&host);
  if (!plan) return mrt_space_free(space), s;
  if (ctx->trace && ctx->trace->old) { /* it goes on where that is */
    plan->runner->seed_epoch = ctx->trace->old->runner->seed_epoch;
    plan->runner->runs = ctx->trace->old->runner->runs;
  }
  plan->options.part = NULL, plan->options.measured = NULL;
  plan->options.like = NULL;
  plan->options.measured_count = 0;
  if (options && options->name)
    plan->options.name = mrt_arena_strdup(&plan->graph.arena, options->name);
  mrt_context_ref(ctx);
  ctx->plans++;
  *out = plan;
  return s;
}

MRT_API void mrt_plan_free(mrt_plan *plan) {
  if (!plan) return;
  mrt_context *ctx = plan->ctx;
  mrt_remote_leave(plan);
  mrt_space_free(plan->runner->space);
  mrt_runner_free(plan);
  mrt_graph *source = plan->source;
  mrt_plan_discard(plan);
  free_source(ctx, source);
  mrt_context_unref(ctx);
}
