/* compute.c -- the data of lazy tensors, by a plan made for them and run once
 *
 * Whoever needs data inside the core comes here: evaluation, assignments, the
 * planner for what a trace has met outside.  Variables without a storage start
 * (start.c), all else is computed in one plan.  Afterwards inputs that nobody
 * waits for any more give their data back.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

/* ---- a plan, run once ------------------------------------------------------ */

static void resolve_all(const mrt_plan *plan, mrt_tensor *const *roots, int n) {
  for (int i = 0; i < n; i++)
    mrt_tensor_resolve(roots[i],
                       plan->runner->result_storage[plan->output_result[i]]);
  for (int i = 0; i < n; i++) mrt_settle(roots[i]);
}

enum {
  NOT_YET = -2, /* runner->at before a run has got its memory */
  FEW = 4       /* tensors that are tried one by one */
};

/* *ran: steps have run, updates perhaps among them, whatever is returned. */
static mrt_status compute(mrt_context *ctx, mrt_tensor *const *roots, int n,
                          mrt_expr *const *updates, int update_count,
                          bool *ran) {
  mrt_plan *plan;
  *ran = false;
  MRT_TRY(mrt_plan_new(ctx, roots, n, updates, update_count, NULL, 0, NULL,
                       NULL, &plan));
  for (int i = 0; i < n; i++) mrt_hold(roots[i]);
  plan->runner->at = NOT_YET;
  mrt_status s = mrt_plan_walk(plan, NULL, NULL);
  *ran = plan->runner->at != NOT_YET;
  if (!s) s = mrt_runs_drain(ctx);
  if (!s) resolve_all(plan, roots, n);
  for (int i = 0; i < n; i++) mrt_drop(roots[i]);
  mrt_plan_free(plan);
  return s;
}

/* The roots, and behind them what is kept. */
static mrt_status list_all(mrt_context *ctx, mrt_arena *arena,
                           mrt_tensor *const *roots, int n,
                           mrt_expr *const *updates, int update_count,
                           mrt_readers *all) {
  for (int i = 0; i < n; i++) {
    if (!MRT_PUSH_ROOM(arena, all->at, all->count, all->room))
      return mrt_nomem(&ctx->error);
    all->at[all->count++] = roots[i];
  }
  return mrt_keep_find(ctx, arena, roots, n, updates, update_count, all);
}

/* With what is kept where that finds room, else without; nothing that has begun
 * is done twice. */
mrt_status mrt_compute_once(mrt_context *ctx, mrt_tensor *const *roots, int n,
                            mrt_expr *const *updates, int update_count) {
  mrt_arena arena;
  mrt_readers all = { 0 };
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = list_all(ctx, &arena, roots, n, updates, update_count, &all);
  bool ran = false;
  if (!s) s = compute(ctx, all.at, all.count, updates, update_count, &ran);
  if ((s == MRT_EBUDGET || s == MRT_ENOMEM) && !ran && all.count > n)
    s = compute(ctx, roots, n, updates, update_count, &ran);
  mrt_arena_free(&arena);
  return s;
}

/* ---- computing ----------------------------------------------------------- */

/* Is what is pending here made by one operator, or by operators that read only
 * what is there?  Then nothing is shared that a plan would compute once. */
static bool are_apart(mrt_tensor *const *t, int n) {
  const mrt_expr *one = NULL;
  bool same = true, read = true;
  for (int i = 0; i < n; i++) {
    const mrt_expr *x = t[i]->expr;
    if (t[i]->storage) continue;
    if (t[i]->variable || !x) return false;
    same &= !one || one == x, one = x;
    for (int k = 0; k < x->nin; k++) read &= x->in[k]->storage != NULL;
  }
  return same || read;
}

/* A few tensors without a plan; false: some are left. */
static bool compute_few(mrt_context *ctx, mrt_tensor *const *t, int n) {
  bool done = true;
  for (int i = 0; i < n && done; i++)
    done = t[i]->storage || mrt_compute_direct(ctx, t[i]);
  return done;
}

mrt_status mrt_compute(mrt_context *ctx, mrt_tensor *const *t, int n) {
  int first = 0, last = n; /* variables from the front, others from the back */
  int pending = 0;
  for (int i = 0; i < n; i++) pending += !t[i]->storage;
  if (pending == 0) return MRT_OK;
  if (pending == 1 || (pending <= FEW && are_apart(t, n)))
    if (compute_few(ctx, t, n)) return MRT_OK;
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
  if (!s && last < n) s = mrt_compute_once(ctx, list + last, n - last, NULL, 0);
  mrt_release(ctx->allocator, list, bytes);
  return s;
}

mrt_status mrt_readers_compute(mrt_context *ctx, mrt_tensor *const *variables,
                               int n) {
  mrt_arena arena;
  mrt_readers list = { 0 };
  if (n == 0) return MRT_OK;
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = mrt_readers_collect(&arena, variables, n, NULL, &list);
  if (!s) s = mrt_compute(ctx, list.at, list.count);
  mrt_arena_free(&arena);
  for (int i = 0; i < n && !s; i++)
    mrt_shards_drop_copies(variables[i]->variable);
  return s;
}
