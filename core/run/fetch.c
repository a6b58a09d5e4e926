/* fetch.c -- before a run, every variable comes where the plan wants it
 *
 * Room in the swap tier is found first, then what is to be read or written
 * comes to memory; what is to be swapped leaves it in start.c.
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "run/run.h"
#include "run/space.h"
#include "tensor/swap_tier.h"

/* Bytes of homes in the plan's tier that are not there. */
static size_t missing_in(const mrt_plan *plan, int tier, int slot) {
  size_t missing = 0;
  for (int i = 0; i < plan->leaf_count; i++) {
    const mrt_value *v = plan->leaves[i];
    const mrt_storage *s = v->tensor->storage;
    bool there = s && s->location && s->location->slot == slot;
    if (v->swapped && v->tier == tier && !there)
      missing += mrt_swap_tier_round(mrt_type_bytes(&v->type));
  }
  return missing;
}

/* All room first: a full disk is found while nothing has happened. */
mrt_status mrt_plan_reserve_swap(const mrt_plan *plan) {
  for (int i = 0; i < mrt_plan_tier_count(plan); i++) {
    int *slot = &plan->runner->slots[i];
    if (!plan->tiers[i].bytes) continue;
    MRT_TRY(mrt_swap_slot_of(plan->ctx,
                             mrt_device_tier(&plan->device, i).folder, slot));
    MRT_TRY(mrt_space_reserve_swap(plan->runner->space, *slot,
                                   plan->swap_bytes[i]));
    MRT_TRY(
        mrt_swap_tier_reserve(plan->ctx, *slot, missing_in(plan, i, *slot)));
  }
  return MRT_OK;
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
