/* eval.c -- what users ask for: data, updates, assignments
 *
 * Outside a trace everything is computed when it is asked for, in a plan made
 * for that (compute.c).  In a trace updates and assignments are recorded and
 * the variables' newest versions read from then on.
 *
 * Invariants
 *   - what is pending on a variable's old value is computed in the plan that
 *     changes it, so laziness stays invisible (spec/tensor/lazy_spec.lua);
 *   - an update happens whole or not at all: recording takes all memory first;
 *   - a torn variable is read by nobody; a whole assignment mends it
 *     (spec/communicator/communicator_spec.lua, spec/run/swap_faults.c).
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/views.h"
#include "run/run.h"
#include "tensor/swap_tier.h"
#include "tensor/trace.h"

#include <string.h>

/* ---- what users ask for -------------------------------------------------- */

MRT_API mrt_status mrt_eval(mrt_context *ctx, mrt_tensor *const *t, int n) {
  for (int i = 0; i < n; i++) {
    if (t[i]->ctx != ctx)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "eval: tensor %d belongs to another context", i + 1);
    if (ctx->trace && (!t[i]->storage || t[i]->variable))
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "a tensor has no numbers inside a compiled function; "
                      "return it instead");
    if (t[i]->variable && t[i]->variable->torn)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "variable '%s' is torn: a step broke off while it was "
                      "being updated; assign it or load a snapshot",
                      t[i]->name ? t[i]->name : "?");
  }
  MRT_TRY(mrt_compute(ctx, t, n));
  for (int i = 0; i < n; i++) MRT_TRY(mrt_storage_fetch(t[i]->storage));
  return MRT_OK;
}

MRT_API mrt_status mrt_tensors_read(mrt_context *ctx, mrt_tensor *const *t,
                                    int n) {
  uint64_t fence = n ? UINT64_MAX : 0, last = 0;
  MRT_TRY(mrt_eval(ctx, t, n));
  for (int i = 0; i < n; i++) {
    uint64_t own = t[i]->storage->fence;
    if (own < fence) fence = own;
    if (own > last) last = own;
  }
  MRT_TRY(fence ? mrt_runs_wait_fence(ctx, last) : mrt_runs_drain(ctx));
  for (int i = 0; i < n; i++) MRT_TRY(mrt_storage_read(t[i]->storage));
  return MRT_OK;
}

MRT_API mrt_status mrt_communicate(mrt_context *ctx) {
  if (ctx->trace || !ctx->ranks.pending_count) return MRT_OK;
  mrt_status s = mrt_eval(ctx, ctx->ranks.pending, ctx->ranks.pending_count);
  if (s != MRT_ENOMEM) mrt_calls_drop(ctx, 0);
  return s;
}

MRT_API void mrt_communicate_cancel(mrt_context *ctx) {
  mrt_calls_drop(ctx, 0);
}

/* ---- updates ------------------------------------------------------------- */

/* The variables' new versions, one reference each. */
static mrt_status make_versions(mrt_context *ctx, mrt_expr *x,
                                mrt_tensor **versions) {
  for (int i = 0; i < x->updates; i++) {
    versions[i] = mrt_expr_output(ctx, x, i);
    if (versions[i]) continue;
    while (i > 0) mrt_drop(versions[--i]);
    return mrt_nomem(&ctx->error);
  }
  return MRT_OK;
}

/* All that can fail comes first: a variable has the new version or not. */
static mrt_status record(mrt_context *ctx, mrt_expr *x, mrt_tensor *result,
                         mrt_tensor *const *given) {
  mrt_trace *trace = ctx->trace;
  mrt_arena *arena = &trace->arena;
  mrt_tensor *versions[MRT_MAX_OUT];
  mrt_section *now = &trace->now;
  if (!MRT_PUSH_ROOM(arena, now->updates, now->update_count,
                     now->update_room) ||
      !MRT_PUSH_ROOM(arena, now->results, now->update_count, now->result_room))
    return mrt_nomem(&ctx->error);
  for (int i = 0; i < x->updates; i++) {
    if (given[i]->variable->traced) continue;
    if (!MRT_PUSH_ROOM(arena, trace->variables, trace->variable_count,
                       trace->variable_room))
      return mrt_nomem(&ctx->error);
    mrt_hold(given[i]);
    trace->variables[trace->variable_count++] = given[i];
  }
  MRT_TRY(make_versions(ctx, x, versions));
  for (int i = 0; i < x->updates; i++) {
    mrt_variable *v = given[i]->variable;
    mrt_drop(v->traced);
    v->traced = versions[i];
  }
  mrt_hold(result);
  now->updates[now->update_count] = x;
  now->results[now->update_count++] = result;
  return MRT_OK;
}

/* Pending results that read the old value are computed in the same plan. */
static mrt_status perform(mrt_context *ctx, mrt_expr *x) {
  mrt_arena arena;
  mrt_readers list = { 0 };
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = mrt_readers_collect(&arena, x->in, x->updates, x, &list);
  if (!s) s = mrt_compute_once(ctx, list.at, list.count, &x, 1);
  mrt_arena_free(&arena);
  return s;
}

static mrt_status check_variables(mrt_context *ctx, const mrt_op *op,
                                  mrt_tensor *const *in, int nin) {
  if (!(op->traits & MRT_UPDATES) || nin < op->updates)
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s: does not update variables",
                    op->name);
  for (int i = 0; i < op->updates; i++) {
    if (!in[i]->variable)
      return mrt_fail(&ctx->error, MRT_EVALUE,
                      "%s: input %d, %s, is no variable; make one with "
                      "mrt.parameter or mrt.variable",
                      op->name, i + 1, mrt_show(&in[i]->type).s);
    if (in[i]->variable->bucket)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "%s: the numbers of '%s' are shared among ranks; only "
                      "optimizers that know how, and assignments, write them",
                      op->name, in[i]->name ? in[i]->name : "?");
    for (int k = 0; k < i; k++)
      if (in[k] == in[i])
        return mrt_fail(&ctx->error, MRT_EVALUE,
                        "%s: inputs %d and %d are the same variable", op->name,
                        k + 1, i + 1);
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_update(mrt_context *ctx, const mrt_op *op,
                              mrt_tensor *const *in, int nin,
                              const void *options) {
  MRT_TRY(check_variables(ctx, op, in, nin));
  mrt_expr *x;
  MRT_TRY(mrt_apply_expr(ctx, op, in, nin, options, MRT_NEWEST, &x, NULL));
  mrt_tensor *result = mrt_expr_output(ctx, x, 0);
  if (!result) return mrt_expr_free(ctx, x), mrt_nomem(&ctx->error);
  mrt_status s = ctx->trace ? record(ctx, x, result, in) : perform(ctx, x);
  mrt_drop(result);
  return s;
}

MRT_API mrt_status mrt_assign(mrt_context *ctx, mrt_tensor *variable,
                              mrt_tensor *value, mrt_tensor *when) {
  mrt_tensor *in[3] = { variable, value, when };
  if (variable->variable && variable->variable->bucket)
    return mrt_shard_assign(variable, value, when);
  bool torn = variable->variable && variable->variable->torn;
  /* A whole assignment mends what was torn. */
  if (torn && !when && !ctx->trace) variable->variable->torn = false;
  mrt_status s =
      mrt_update(ctx, mrt_ops[MRT_OP_assign], in, when ? 3 : 2, NULL);
  if (s && torn) variable->variable->torn = true;
  return s;
}

MRT_API mrt_status mrt_custom(mrt_context *ctx, mrt_tensor *y,
                              mrt_tensor *const *xs, int nx,
                              mrt_backward backward, void (*release)(void *),
                              void *user, mrt_tensor **out) {
  size_t bytes = (size_t)(nx + 1) * sizeof *xs;
  mrt_tensor **in = mrt_calloc(ctx->allocator, 1, bytes);
  mrt_expr *x = NULL;
  mrt_status s = in ? MRT_OK : mrt_nomem(&ctx->error);
  if (!s) {
    mrt_custom_options o = { .backward = backward,
                             .release = release,
                             .user = user };
    in[0] = y;
    if (nx) memcpy(in + 1, xs, (size_t)nx * sizeof *xs);
    s = mrt_apply_expr(ctx, mrt_ops[MRT_OP_custom], in, nx + 1, &o, MRT_NEWEST,
                       &x, NULL);
    mrt_release(ctx->allocator, in, bytes);
  }
  mrt_tensor *t = s ? NULL : mrt_expr_output(ctx, x, 0);
  if (!t) {
    if (x) mrt_expr_free(ctx, x), s = mrt_nomem(&ctx->error);
    if (release) release(user);
    return s;
  }
  x->release = release, x->user = user;
  t->handles++;
  *out = t;
  return MRT_OK;
}
