/* trace.c -- recording a function once
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

MRT_API bool mrt_tracing(const mrt_context *ctx) { return ctx->trace != NULL; }

/* ---- layers and regions -------------------------------------------------- */

MRT_API bool mrt_layer_begin(mrt_context *ctx) {
  if (ctx->origin.layer) return false;
  ctx->origin.layer = ++ctx->layers;
  return true;
}

MRT_API void mrt_layer_end(mrt_context *ctx) { ctx->origin.layer = 0; }

MRT_API int mrt_region_begin(mrt_context *ctx) {
  int outer = ctx->origin.region;
  ctx->origin.region = ++ctx->regions;
  return outer;
}

MRT_API void mrt_region_end(mrt_context *ctx, int outer) {
  ctx->origin.region = outer;
}

/* Whatever an error left open ends with the trace. */
static void leave_all(mrt_context *ctx) {
  ctx->origin.layer = ctx->origin.region = 0;
  ctx->layers = ctx->regions = 0;
}

/* ---- traces ---------------------------------------------------------------- */

MRT_API mrt_status mrt_trace_begin(mrt_context *ctx) {
  if (ctx->trace)
    return mrt_fail(&ctx->error, MRT_ESTATE,
                    "a compiled function cannot be traced inside another");
  mrt_trace *trace = mrt_calloc(ctx->allocator, 1, sizeof *trace);
  if (!trace) return mrt_nomem(&ctx->error);
  mrt_arena_init(&trace->arena, ctx->allocator);
  trace->first_id = ctx->next_id, trace->first_key = ctx->next_key;
  ctx->trace = trace;
  leave_all(ctx);
  return MRT_OK;
}

MRT_API mrt_status mrt_trace_again(mrt_context *ctx, const mrt_plan *old) {
  uint64_t next = ctx->next_key;
  MRT_TRY(mrt_trace_begin(ctx));
  ctx->trace->last_key = next, ctx->trace->old = old;
  ctx->trace->first_key = ctx->next_key = old->first_key;
  return MRT_OK;
}

MRT_API mrt_status mrt_trace_input(mrt_context *ctx, const mrt_type *type,
                                   mrt_tensor **out) {
  mrt_trace *trace = ctx->trace;
  if (!trace) return mrt_fail(&ctx->error, MRT_ESTATE, "no trace has begun");
  MRT_TRY(mrt_type_check(type, "input", &ctx->error));
  mrt_tensor *t = NULL;
  if (MRT_PUSH_ROOM(&trace->arena, trace->inputs, trace->input_count,
                    trace->input_room))
    t = mrt_tensor_new(ctx, type);
  if (!t) return mrt_nomem(&ctx->error);
  trace->inputs[trace->input_count++] = t;
  t->input = trace->input_count;
  mrt_tensor_ref(t);
  *out = t;
  return MRT_OK;
}

MRT_API void mrt_trace_abort(mrt_context *ctx) {
  mrt_trace *trace = ctx->trace;
  if (!trace) return;
  ctx->trace = NULL;
  leave_all(ctx);
  if (trace->last_key > ctx->next_key) ctx->next_key = trace->last_key;
  for (int i = 0; i < trace->variable_count; i++) {
    mrt_variable *v = trace->variables[i]->variable;
    mrt_tensor *traced = v->traced;
    v->traced = NULL;
    mrt_drop(traced);
  }
  /* Who kept a handle on a traced version cannot compute through it. */
  for (int i = 0; i < trace->update_count; i++) trace->updates[i]->stale = true;
  for (int i = 0; i < trace->update_count; i++) mrt_drop(trace->results[i]);
  for (int i = 0; i < trace->variable_count; i++) mrt_drop(trace->variables[i]);
  for (int i = 0; i < trace->input_count; i++) mrt_drop(trace->inputs[i]);
  mrt_arena_free(&trace->arena);
  mrt_release(ctx->allocator, trace, sizeof *trace);
}

static mrt_status end(mrt_context *ctx, mrt_tensor *const *outputs, int n,
                      const mrt_plan_options *options, mrt_space *space,
                      mrt_plan **plan) {
  mrt_trace *trace = ctx->trace;
  mrt_tensor **roots = MRT_NEW(&trace->arena, mrt_tensor *, n);
  if (!roots) return mrt_nomem(&ctx->error);
  for (int i = 0; i < n; i++) {
    roots[i] = mrt_tensor_current(outputs[i]);
    if (roots[i]->ctx != ctx)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "output %d belongs to another context", i + 1);
  }
  return mrt_plan_new(ctx, roots, n, trace->updates, trace->update_count,
                      trace->inputs, trace->input_count, options, space, plan);
}

MRT_API mrt_status mrt_trace_end(mrt_context *ctx, mrt_tensor *const *outputs,
                                 int noutputs, const mrt_plan_options *options,
                                 mrt_space *space, mrt_plan **plan) {
  if (!ctx->trace)
    return mrt_fail(&ctx->error, MRT_ESTATE, "no trace has begun");
  mrt_status s = end(ctx, outputs, noutputs, options, space, plan);
  mrt_trace_abort(ctx);
  return s;
}
