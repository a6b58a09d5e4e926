/* start.c -- giving variables their storage, with their initial values
 *
 * All variables that are needed start in one plan.  Initial values may read
 * variables that have not started either; these come first, from a list of
 * batches, so that a chain of any length does not recurse.  Those that the plan
 * swaps start one by one and leave memory before the next is made, so that
 * together they never need to fit in it.
 *
 * Invariants
 *   - a variable that starts keeps its bits from then on, whichever plan or
 *     evaluation started it;
 *   - no two variables share a storage: where one result is the initial value
 *     of several, the others get copies (spec/tensor/lazy_spec.lua).
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"
#include "tensor/swap_tier.h"

#include <string.h>

typedef struct start_batch {
  struct start_batch *next; /* starts after this one */
  mrt_tensor **variables;
  int n;
} start_batch;

/* A batch of what `plan` reads and has no storage; NULL when there is none. */
static mrt_status missing(mrt_arena *arena, const mrt_plan *plan,
                          start_batch **found) {
  int n = 0;
  *found = NULL;
  for (int i = 0; i < plan->leaf_count; i++)
    n += !plan->leaves[i]->tensor->storage;
  if (n == 0) return MRT_OK;
  start_batch *b = MRT_NEW(arena, start_batch, 1);
  if (!b || !(b->variables = MRT_NEW(arena, mrt_tensor *, n)))
    return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < plan->leaf_count; i++)
    if (!plan->leaves[i]->tensor->storage)
      b->variables[b->n++] = plan->leaves[i]->tensor;
  *found = b;
  return MRT_OK;
}

/* The variable takes the result as its storage; where another variable has
 * taken it already, a copy. */
static mrt_status take(mrt_context *ctx, mrt_tensor *variable,
                       mrt_storage *result) {
  mrt_storage *own = result;
  if (result->refs > 1) {
    MRT_TRY(mrt_storage_new(ctx, mrt_type_bytes(&variable->type), &own));
    mrt_status status = mrt_device_copy(&ctx->device, own->data, result->data,
                                        own->nbytes, &ctx->error);
    if (status) return mrt_storage_unref(own), status;
  }
  mrt_tensor_resolve(variable, own);
  if (own != result) mrt_storage_unref(own);
  mrt_variable_started(variable->variable);
  return MRT_OK;
}

static mrt_status compute(const mrt_plan *plan, const start_batch *b) {
  MRT_TRY(mrt_plan_walk(plan, NULL, NULL));
  MRT_TRY(mrt_runs_drain(plan->ctx));
  for (int i = 0; i < b->n; i++)
    MRT_TRY(take(plan->ctx, b->variables[i],
                 plan->runner->result_storage[plan->output_result[i]]));
  return MRT_OK;
}

/* Start this batch, or say which must start before. */
static mrt_status start(mrt_context *ctx, mrt_arena *arena, start_batch *b,
                        start_batch **before) {
  int n = 0;
  for (int i = 0; i < b->n; i++)
    if (!b->variables[i]->storage) b->variables[n++] = b->variables[i];
  b->n = n, *before = NULL;
  if (n == 0) return MRT_OK;
  mrt_tensor **init = MRT_NEW(arena, mrt_tensor *, n);
  if (!init) return mrt_nomem(&ctx->error);
  mrt_plan *plan = NULL;
  mrt_status s = MRT_OK;
  int made = 0;
  while (made < n && !s)
    if (!(s = mrt_variable_initial(b->variables[made], &init[made]))) made++;
  if (!s) s = mrt_plan_new(ctx, init, n, NULL, 0, NULL, 0, NULL, NULL, &plan);
  if (!s) s = missing(arena, plan, before);
  if (!s && !*before) s = compute(plan, b);
  mrt_plan_free(plan);
  while (made > 0) {
    mrt_drop(init[--made]);
    mrt_variable_begun(b->variables[made]);
  }
  return s;
}

static mrt_status start_all(mrt_context *ctx, mrt_arena *arena,
                            start_batch *list) {
  while (list) {
    start_batch *before;
    MRT_TRY(start(ctx, arena, list, &before));
    if (before)
      before->next = list, list = before;
    else
      list = list->next;
  }
  return MRT_OK;
}

mrt_status mrt_variables_start(mrt_context *ctx, mrt_tensor **variables,
                               int n) {
  mrt_arena arena;
  start_batch all = { .variables = variables, .n = n };
  mrt_arena_init(&arena, ctx->allocator);
  mrt_status s = start_all(ctx, &arena, &all);
  mrt_arena_free(&arena);
  return s;
}

mrt_status mrt_plan_evict(const mrt_plan *plan) {
  if (!plan->swaps) return MRT_OK;
  MRT_TRY(mrt_plan_reserve_swap(plan));
  for (int i = 0; i < plan->leaf_count; i++) {
    mrt_tensor *t = plan->leaves[i]->tensor;
    if (!plan->leaves[i]->swapped) continue;
    if (!t->storage) MRT_TRY(mrt_variables_start(plan->ctx, &t, 1));
    MRT_TRY(mrt_storage_evict(t->storage,
                              plan->runner->slots[plan->leaves[i]->tier]));
  }
  return MRT_OK;
}

mrt_status mrt_plan_begin_variables(const mrt_plan *plan) {
  mrt_arena arena;
  start_batch *list;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = missing(&arena, plan, &list);
  if (list) plan->runner->placed_generation = 0; /* their places change */
  if (!s) s = start_all(plan->ctx, &arena, list);
  mrt_arena_free(&arena);
  return s;
}

MRT_API mrt_status mrt_plan_start(mrt_plan *plan) {
  MRT_TRY(mrt_plan_evict(plan));
  return mrt_plan_begin_variables(plan);
}
