/* fetch.c -- before a run, every variable comes where the plan wants it
 *
 * Room in the swap tier is found first, then what is to be read or written
 * comes to memory; what is to be swapped leaves it in start.c.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"
#include "run/space.h"
#include "tensor/swap_tier.h"

/* All room first: a full disk is found while nothing has happened. */
mrt_status mrt_plan_reserve_swap(const mrt_plan *plan) {
  size_t missing = 0;
  for (int i = 0; i < plan->leaf_count; i++) {
    const mrt_value *v = plan->leaves[i];
    const mrt_storage *s = v->tensor->storage;
    if (v->swapped && !(s && s->location))
      missing += mrt_swap_tier_round(mrt_type_bytes(&v->type));
  }
  MRT_TRY(mrt_space_reserve_swap(plan->runner->space, plan->swap_bytes));
  return mrt_swap_tier_reserve(plan->ctx, missing);
}

static bool written(const mrt_plan *plan, const mrt_tensor *t) {
  for (int i = 0; i < plan->written_count; i++)
    if (plan->written[i] == t) return true;
  return false;
}

mrt_status mrt_plan_fetch(const mrt_plan *plan) {
  for (int i = 0; i < plan->leaf_count; i++) {
    mrt_tensor *t = plan->leaves[i]->tensor;
    if (plan->leaves[i]->swapped || !t->storage->location) continue;
    if (written(plan, t))
      MRT_TRY(mrt_storage_make_resident(t->storage));
    else
      MRT_TRY(mrt_storage_fetch(t->storage));
  }
  return MRT_OK;
}
