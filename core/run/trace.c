/* trace.c -- recording a function once
 *
 * A trace is begun, sections are recorded one after the other, each becomes a
 * plan, and the trace ends.  What is made meanwhile are ordinary tensors; the
 * trace knows which updates it has seen and which version of a variable is the
 * newest (tensor/trace.h).
 *
 * Invariants
 *   - after the end no variable shows a version of the trace, and who kept a
 *     handle on one cannot compute through it: its expression is stale;
 *   - an error between begin and end leaves nothing open: layers, regions and
 *     random keys are those after the trace (spec/compile/compile_spec.lua);
 *   - a function that is traced anew in the place of an old plan draws the same
 *     random numbers.
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/trace.h"
#include "op/op.h"
#include "run/run.h"

MRT_API bool mrt_tracing(const mrt_context *ctx) { return ctx->trace != NULL; }

MRT_API bool mrt_trace_has(const mrt_context *ctx, const mrt_tensor *t) {
  return ctx->trace && t->ctx == ctx && t->id >= ctx->trace->first_id;
}

/* ---- traces -------------------------------------------------------------- */

MRT_API mrt_status mrt_trace_begin(mrt_context *ctx) {
  if (ctx->trace)
    return mrt_fail(&ctx->error, MRT_ESTATE,
                    "a compiled function cannot be traced inside another");
  mrt_trace *trace = mrt_calloc(ctx->allocator, 1, sizeof *trace);
  if (!trace) return mrt_nomem(&ctx->error);
  mrt_arena_init(&trace->arena, ctx->allocator);
  trace->first_id = ctx->next_id;
  trace->first_key = trace->last_key = ctx->random.next;
  ctx->trace = trace;
  mrt_origins_close(&ctx->origins);
  return MRT_OK;
}

MRT_API mrt_status mrt_trace_begin_anew(mrt_context *ctx, const mrt_plan *old) {
  MRT_TRY(mrt_trace_begin(ctx));
  ctx->trace->old = old;
  ctx->trace->first_key = ctx->random.next = old->first_key;
  return MRT_OK;
}

static mrt_status want_trace(mrt_context *ctx) {
  if (ctx->trace) return MRT_OK;
  return mrt_fail(&ctx->error, MRT_ESTATE, "no trace has begun");
}

MRT_API mrt_status mrt_trace_input(mrt_context *ctx, const mrt_type *type,
                                   mrt_tensor **out) {
  MRT_TRY(want_trace(ctx));
  MRT_TRY(mrt_type_check(type, "input", &ctx->error));
  mrt_trace *trace = ctx->trace;
  mrt_section *now = &trace->now;
  mrt_tensor *t = NULL;
  if (MRT_PUSH_ROOM(&trace->arena, now->inputs, now->input_count,
                    now->input_room))
    t = mrt_tensor_new(ctx, type);
  if (!t) return mrt_nomem(&ctx->error);
  now->inputs[now->input_count++] = t;
  t->input = now->input_count;
  mrt_tensor_ref(t);
  *out = t;
  return MRT_OK;
}

/* Variables read as they do outside again. */
static void forget_versions(mrt_trace *trace) {
  for (int i = 0; i < trace->variable_count; i++) {
    mrt_variable *v = trace->variables[i]->variable;
    mrt_tensor *traced = v->traced;
    v->traced = NULL;
    mrt_drop(traced);
  }
}

/* ---- sections ------------------------------------------------------------ */

/* Who kept a handle on a traced version cannot compute through it. */
static void poison_trace(const mrt_section *s) {
  for (int i = 0; i < s->update_count; i++) s->updates[i]->stale = true;
}

static void drop_section(mrt_section *s) {
  for (int i = 0; i < s->update_count; i++) mrt_drop(s->results[i]);
  for (int i = 0; i < s->input_count; i++) mrt_drop(s->inputs[i]);
}

static mrt_status copy_inputs(mrt_trace *trace, const mrt_section *from,
                              mrt_section *to) {
  to->inputs = MRT_NEW(&trace->arena, mrt_tensor *, from->input_count);
  if (!to->inputs) return MRT_ENOMEM;
  for (int i = 0; i < from->input_count; i++)
    mrt_hold(to->inputs[i] = from->inputs[i]);
  to->input_count = to->input_room = from->input_count;
  return MRT_OK;
}

static void count_keys(mrt_context *ctx) {
  mrt_trace *trace = ctx->trace;
  if (ctx->random.next > trace->last_key) trace->last_key = ctx->random.next;
}

MRT_API mrt_status mrt_trace_section(mrt_context *ctx, int like) {
  MRT_TRY(want_trace(ctx));
  mrt_trace *trace = ctx->trace;
  mrt_section next = { 0 }, *was = MRT_NEW(&trace->arena, mrt_section, 1);
  if (like >= trace->section_count)
    return mrt_fail(&ctx->error, MRT_ESTATE, "no such section of a trace");
  if (!was ||
      !MRT_PUSH_ROOM(&trace->arena, trace->sections, trace->section_count,
                     trace->section_room) ||
      (like >= 0 && copy_inputs(trace, trace->sections[like], &next)))
    return mrt_nomem(&ctx->error);
  *was = trace->now;
  trace->sections[trace->section_count++] = was;
  trace->now = next;
  forget_versions(trace);
  mrt_origins_close(&ctx->origins);
  count_keys(ctx);
  ctx->random.next = trace->first_key;
  return MRT_OK;
}

MRT_API uint64_t mrt_trace_keys(mrt_context *ctx, uint64_t first) {
  mrt_trace *trace = ctx->trace;
  if (!trace) return 0;
  count_keys(ctx);
  if (first) ctx->random.next = trace->first_key = first;
  return trace->first_key;
}

MRT_API uint64_t mrt_trace_draw(mrt_context *ctx) {
  return ctx->trace ? (uint32_t)ctx->random.next++ : 0;
}

MRT_API mrt_status mrt_trace_read(mrt_context *ctx, mrt_tensor *variable,
                                  mrt_tensor *value) {
  MRT_TRY(want_trace(ctx));
  mrt_trace *trace = ctx->trace;
  mrt_variable *v = variable->variable;
  if (!v || value->ctx != ctx || variable->ctx != ctx ||
      !mrt_type_equal(&value->type, &variable->type))
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s read as %s",
                    mrt_show(&variable->type).s, mrt_show(&value->type).s);
  if (!v->traced) {
    if (!MRT_PUSH_ROOM(&trace->arena, trace->variables, trace->variable_count,
                       trace->variable_room))
      return mrt_nomem(&ctx->error);
    mrt_hold(variable);
    trace->variables[trace->variable_count++] = variable;
  }
  mrt_hold(value);
  mrt_drop(v->traced);
  v->traced = value;
  return MRT_OK;
}

/* An input, or what is computed of one, may be narrower than what it is read
 * for. */
static bool may_replace(const mrt_tensor *leaf, const mrt_type *type) {
  mrt_type own = leaf->type;
  bool made = leaf->input || leaf->expr;
  if (made && type->dtype == MRT_f32 && mrt_is_narrow(own.dtype))
    own.dtype = MRT_f32;
  return (leaf->variable || made) && mrt_type_equal(&own, type);
}

MRT_API mrt_status mrt_trace_replace(mrt_context *ctx, mrt_tensor *t,
                                     mrt_tensor *leaf) {
  MRT_TRY(want_trace(ctx));
  mrt_trace *trace = ctx->trace;
  if (t->instead && !leaf) return t->instead = NULL, MRT_OK;
  if (!leaf || !may_replace(leaf, &t->type) || t->storage || t->variable ||
      t->input)
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s instead of %s",
                    leaf ? mrt_show(&leaf->type).s : "nothing",
                    mrt_show(&t->type).s);
  if (!MRT_PUSH_ROOM(&trace->arena, trace->replaced, trace->replaced_count,
                     trace->replaced_room))
    return mrt_nomem(&ctx->error);
  mrt_hold(t);
  trace->replaced[trace->replaced_count++] = t;
  t->instead = leaf;
  return MRT_OK;
}

/* ---- the end ------------------------------------------------------------- */

MRT_API void mrt_trace_abort(mrt_context *ctx) {
  mrt_trace *trace = ctx->trace;
  if (!trace) return;
  count_keys(ctx);
  ctx->random.next = trace->last_key;
  ctx->trace = NULL;
  mrt_origins_close(&ctx->origins);
  forget_versions(trace);
  poison_trace(&trace->now);
  for (int i = 0; i < trace->section_count; i++)
    poison_trace(trace->sections[i]);
  for (int i = 0; i < trace->replaced_count; i++) {
    trace->replaced[i]->instead = NULL;
    mrt_drop(trace->replaced[i]);
  }
  drop_section(&trace->now);
  for (int i = 0; i < trace->section_count; i++)
    drop_section(trace->sections[i]);
  for (int i = 0; i < trace->variable_count; i++) mrt_drop(trace->variables[i]);
  mrt_arena_free(&trace->arena);
  mrt_release(ctx->allocator, trace, sizeof *trace);
}

MRT_API mrt_status mrt_trace_plan(mrt_context *ctx, mrt_tensor *const *outputs,
                                  int n, const mrt_plan_options *options,
                                  mrt_space *space, mrt_plan **plan) {
  MRT_TRY(want_trace(ctx));
  mrt_trace *trace = ctx->trace;
  const mrt_section *now = &trace->now;
  mrt_tensor **roots = MRT_NEW(&trace->arena, mrt_tensor *, n);
  if (!roots) return mrt_nomem(&ctx->error);
  for (int i = 0; i < n; i++) {
    roots[i] = mrt_tensor_current(outputs[i]);
    if (roots[i]->ctx != ctx)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "output %d belongs to another context", i + 1);
  }
  return mrt_plan_new(ctx, roots, n, now->updates, now->update_count,
                      now->inputs, now->input_count, options, space, plan);
}

MRT_API mrt_status mrt_trace_end(mrt_context *ctx, mrt_tensor *const *outputs,
                                 int noutputs, const mrt_plan_options *options,
                                 mrt_space *space, mrt_plan **plan) {
  MRT_TRY(want_trace(ctx));
  mrt_status s = mrt_trace_plan(ctx, outputs, noutputs, options, space, plan);
  mrt_trace_abort(ctx);
  return s;
}
