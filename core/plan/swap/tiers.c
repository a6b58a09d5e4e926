/* tiers.c -- which swap tier does each value go to?
 *
 *   needs   stays, with the time at which they begin and end
 *   gives   a tier for every value that is swapped, where no policy has said it
 *   method  Tier by tier, the quickest first.  A value gains from a tier the
 *           seconds that its copies take less there than in the next; those
 *           that have no steps to hide behind count in full, hidden ones
 *           little.  What gains most per byte goes first, as long as there is
 *           room: variables for good, activations while they wait.
 *           Plans of micro-batches share a tier: policies give half of it to
 *           their variables, the other half is for what waits.
 *   holds   what is counted is at most the capacity of each tier; what packing
 *           takes beyond it place.c moves on
 *   cost    O(values * (log values + steps))
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "plan/cost.h"
#include "plan/swap/swap.h"
#include "tensor/swap_tier.h"

#include <math.h>
#include <stdlib.h>

/* What a second of hidden copying counts, as in recompute/with_swap.c. */
static const double hidden = 0.05;

typedef struct filling {
  mrt_plan *plan;
  int tier;
  int64_t homes; /* bytes of variables */
  int64_t *live; /* of activations, by step */
} filling;

size_t mrt_swap_capacity(const mrt_plan *plan, int tier) {
  double bytes = mrt_device_tier(&plan->device, tier).capacity;
  return bytes > 0 && bytes < 0x1p60 ? (size_t)bytes : 0;
}

mrt_status mrt_swap_full(mrt_plan *plan, const mrt_value *v, int tier) {
  mrt_tier_profile t = mrt_device_tier(&plan->device, tier);
  if (plan->options.memory && !plan->options.swap)
    return mrt_plan_over(plan, 0); /* another candidate may do */
  return mrt_fail(&plan->ctx->error, MRT_EVALUE,
                  "swap tier '%s' is full: it holds %.0f bytes, and '%s' (%zu "
                  "bytes, %s:%d) no longer fits",
                  t.name, t.capacity, v->name ? v->name : "a value",
                  mrt_type_bytes(&v->type), v->origin.file, v->origin.line);
}

/* Seconds that count of copies both ways, of which so many are hidden. */
static double cost_in(const mrt_plan *plan, const mrt_tenant *n, int tier) {
  mrt_swap_rates r = mrt_tier_rates(plan, tier);
  size_t bytes = mrt_type_bytes(&n->home->type);
  double seconds = n->outs * mrt_copy_seconds(&r, true, bytes) +
                   n->ins * mrt_copy_seconds(&r, false, bytes);
  double beside = fmin(n->beside, seconds);
  return seconds - (1 - hidden) * beside;
}

static int by_gain(const void *x, const void *y) {
  const mrt_tenant *a = x, *b = y;
  if (a->gain != b->gain) return a->gain < b->gain ? 1 : -1;
  return (a->home->id > b->home->id) - (a->home->id < b->home->id);
}

static int64_t most(const filling *f, int first, int last) {
  int64_t most = 0;
  for (int i = first; i <= last; i++)
    if (f->live[i] > most) most = f->live[i];
  return most;
}

static void take(filling *f, const mrt_tenant *n) {
  int64_t bytes = (int64_t)mrt_swap_tier_round(mrt_type_bytes(&n->home->type));
  n->home->tier = f->tier;
  if (n->home->swapped) f->homes += bytes;
  for (int i = n->first; i <= n->last && !n->home->swapped; i++)
    f->live[i] += bytes;
}

static bool has_room(const filling *f, const mrt_tenant *n) {
  size_t capacity = mrt_swap_capacity(f->plan, f->tier);
  int last = f->plan->graph.node_count - 1;
  bool stays = n->home->swapped;
  int64_t bytes = (int64_t)mrt_swap_tier_round(mrt_type_bytes(&n->home->type));
  if (f->plan->options.part && !stays && capacity)
    return most(f, n->first, n->last) + bytes <= (int64_t)capacity / 2;
  int64_t others =
      f->homes + (stays ? most(f, 0, last) : most(f, n->first, n->last));
  return !capacity || others + bytes <= (int64_t)capacity;
}

/* Fill a tier from list[0..*count); those that go on are left there. */
static mrt_status fill(filling *f, mrt_tenant *list, int *count, bool last) {
  int left = 0;
  for (int i = 0; i < *count; i++) /* what a policy has said comes first */
    if (list[i].home->settled && list[i].home->tier == f->tier) {
      if (!has_room(f, &list[i]))
        return mrt_swap_full(f->plan, list[i].home, f->tier);
      take(f, &list[i]);
    }
  for (int i = 0; i < *count; i++) {
    mrt_tenant n = list[i];
    if (n.home->settled && n.home->tier <= f->tier) continue;
    if (!n.home->settled && has_room(f, &n))
      take(f, &n);
    else if (last)
      return mrt_swap_full(f->plan, n.home, f->tier);
    else
      list[left++] = n;
  }
  *count = left;
  return MRT_OK;
}

mrt_status mrt_swap_assign(mrt_plan *plan, mrt_arena *arena, mrt_tenant *list,
                           int count) {
  int tiers = mrt_device_tier_count(&plan->device);
  for (int t = 0; t < tiers && count; t++) {
    filling f = { .plan = plan, .tier = t };
    f.live = MRT_NEW(arena, int64_t, plan->graph.node_count + 1);
    if (!f.live) return mrt_nomem(&plan->ctx->error);
    for (int i = 0; i < count; i++) {
      mrt_tenant *n = &list[i];
      int next = t + 1 < tiers ? t + 1 : t;
      n->gain = (cost_in(plan, n, next) - cost_in(plan, n, t)) /
                (double)(mrt_type_bytes(&n->home->type) + 1);
    }
    qsort(list, (size_t)count, sizeof *list, by_gain);
    MRT_TRY(fill(&f, list, &count, t + 1 == tiers));
  }
  return MRT_OK;
}
