/* eval.c -- computing lazy tensors, updating variables
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/views.h"
#include "run/run.h"
#include "tensor/slow.h"

#include <string.h>

/* ---- after a run --------------------------------------------------------- */

/* Nobody waits for what `x` computes: it need not keep its inputs alive. */
static bool settled(const mrt_expr *x) {
  for (int i = 0; i < x->nout; i++) {
    const mrt_tensor *t = x->out[i];
    if (t && !t->storage && (t->handles || t->pending)) return false;
  }
  return true;
}

/* Release what `t` was waiting for, and what that was waiting for, and so on.
 * Without memory for the walk, inputs merely stay alive longer. */
static void let_go(mrt_context *ctx, mrt_tensor *t) {
  mrt_arena arena;
  mrt_expr **stack = NULL;
  int depth = 0, room = 0;
  mrt_arena_init(&arena, ctx->allocator);
  if (t->expr && !t->expr->computed && settled(t->expr) &&
      MRT_PUSH_ROOM(&arena, stack, depth, room))
    stack[depth++] = t->expr;
  while (depth) {
    mrt_expr *x = stack[--depth];
    mrt_expr_computed(x);
    for (int i = 0; i < x->nin; i++) {
      mrt_expr *from = x->in[i]->expr;
      if (!from || from->computed || x->in[i]->storage || !settled(from))
        continue;
      if (!MRT_PUSH_ROOM(&arena, stack, depth, room)) break;
      stack[depth++] = from;
    }
  }
  mrt_arena_free(&arena);
}

static void settle_all(mrt_plan *plan, mrt_tensor *const *roots, int n) {
  for (int i = 0; i < n; i++)
    mrt_tensor_settle(roots[i], plan->result_storage[plan->output_result[i]]);
  for (int i = 0; i < n; i++) {
    let_go(plan->ctx, roots[i]);
    mrt_tensor_trim(roots[i]);
  }
}

/* Compute roots and perform updates, all in one plan. */
static mrt_status run_once(mrt_context *ctx, mrt_tensor *const *roots, int n,
                           mrt_expr *const *updates, int update_count) {
  mrt_plan *plan;
  MRT_TRY(mrt_plan_new(ctx, roots, n, updates, update_count, NULL, 0, NULL,
                       NULL, &plan));
  for (int i = 0; i < n; i++) mrt_hold(roots[i]);
  mrt_status s = mrt_plan_walk(plan, NULL, NULL);
  if (!s) s = mrt_flight_land(ctx);
  if (!s) settle_all(plan, roots, n);
  for (int i = 0; i < n; i++) mrt_drop(roots[i]);
  mrt_plan_free(plan);
  return s;
}

/* ---- computing ----------------------------------------------------------- */

mrt_status mrt_compute(mrt_context *ctx, mrt_tensor *const *t, int n) {
  int first = 0, last = n; /* variables from the front, others from the back */
  bool all = true;
  for (int i = 0; i < n; i++) all &= t[i]->storage != NULL;
  if (all) return MRT_OK;
  size_t bytes = (size_t)n * sizeof *t;
  mrt_tensor **list = mrt_calloc(ctx->allocator, 1, bytes);
  if (!list) return mrt_nomem(&ctx->error);
  for (int i = 0; i < n; i++) {
    if (t[i]->storage) continue;
    if (t[i]->variable)
      list[first++] = t[i];
    else
      list[--last] = t[i];
  }
  mrt_status s = first ? mrt_variables_start(ctx, list, first) : MRT_OK;
  if (!s && last < n) s = run_once(ctx, list + last, n - last, NULL, 0);
  mrt_release(ctx->allocator, list, bytes);
  return s;
}

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

MRT_API mrt_status mrt_read(mrt_context *ctx, mrt_tensor *const *t, int n) {
  uint64_t mark = n ? UINT64_MAX : 0, last = 0;
  MRT_TRY(mrt_eval(ctx, t, n));
  for (int i = 0; i < n; i++) {
    uint64_t own = t[i]->storage->mark;
    if (own < mark) mark = own;
    if (own > last) last = own;
  }
  MRT_TRY(mark ? mrt_flight_reach(ctx, last) : mrt_flight_land(ctx));
  for (int i = 0; i < n; i++) MRT_TRY(mrt_storage_read(t[i]->storage));
  return MRT_OK;
}

MRT_API mrt_status mrt_communicate(mrt_context *ctx) {
  if (ctx->trace || !ctx->called_count) return MRT_OK;
  mrt_status s = mrt_eval(ctx, ctx->called, ctx->called_count);
  if (s != MRT_ENOMEM) mrt_calls_drop(ctx, 0);
  return s;
}

MRT_API void mrt_communicate_not(mrt_context *ctx) { mrt_calls_drop(ctx, 0); }

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
  if (!s) s = run_once(ctx, list.at, list.count, &x, 1);
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
    return mrt_part_assign(variable, value, when);
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
