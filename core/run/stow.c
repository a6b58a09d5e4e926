/* stow.c -- before a run, every variable goes where the plan wants it
 *
 * Variables that the plan swaps start one by one and go home before the next
 * is made, so that together they never need to fit in memory.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"
#include "run/space.h"
#include "tensor/slow.h"

/* All room first: a full disk is found while nothing has happened. */
static mrt_status reserve(mrt_plan *plan) {
  size_t missing = 0;
  for (int i = 0; i < plan->leaf_count; i++) {
    const mrt_value *v = plan->leaves[i];
    const mrt_storage *s = v->tensor->storage;
    if (v->slow && !(s && s->home))
      missing += mrt_slow_round(mrt_type_bytes(&v->type));
  }
  MRT_TRY(mrt_space_reserve_slow(plan->space, plan->slow_bytes));
  return mrt_slow_reserve(plan->ctx, missing);
}

mrt_status mrt_plan_stow(mrt_plan *plan) {
  if (!plan->graph.transfer_count) return MRT_OK;
  MRT_TRY(reserve(plan));
  for (int i = 0; i < plan->leaf_count; i++) {
    mrt_tensor *t = plan->leaves[i]->tensor;
    if (!plan->leaves[i]->slow) continue;
    if (!t->storage) MRT_TRY(mrt_variables_start(plan->ctx, &t, 1));
    MRT_TRY(mrt_storage_stow(t->storage));
  }
  return MRT_OK;
}

static bool written(const mrt_plan *plan, const mrt_tensor *t) {
  for (int i = 0; i < plan->written_count; i++)
    if (plan->written[i] == t) return true;
  return false;
}

mrt_status mrt_plan_fetch(mrt_plan *plan) {
  for (int i = 0; i < plan->leaf_count; i++) {
    mrt_tensor *t = plan->leaves[i]->tensor;
    if (plan->leaves[i]->slow || !t->storage->home) continue;
    if (written(plan, t))
      MRT_TRY(mrt_storage_move_in(t->storage));
    else
      MRT_TRY(mrt_storage_fetch(t->storage));
  }
  return MRT_OK;
}
