/* tier_updates.c -- updates that the host makes where the variables lie
 *
 *   needs   which variables are swapped, and the executing order
 *   gives   updates whose kernel is the CPU's and which write in the swap tier:
 *           what they write is not copied to the device for them, nor back;
 *           the gradient is, and what they write that stays there
 *   method  An update qualifies if the tier of some variable that it writes is
 *           the host's memory, and of each such one it is the only writer and
 *           the last use: no copy of it is then under way.  As many as that
 *           tier has room for.  Updates have the CPU's bits on every device,
 *           so no bit changes.
 *   never   chooses: the budget search does, by predicted time, or the script
 *   from    Ren et al., "ZeRO-Offload", USENIX ATC 2021
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "plan/cost.h"
#include "plan/host_step.h"
#include "plan/swap/swap.h"
#include "tensor/swap_tier.h"

typedef struct tier_updating {
  mrt_planner *p;
  int *last; /* by value id: the last node that reads it, -1: it is a result */
  int *writers; /* how many nodes write it */
  int tier;     /* the one in the host's memory, */
  size_t room;  /* and what it still has for variables */
} tier_updating;

/* Which of the profile's tiers is the device's own? */
static int own_tier(const mrt_plan *plan) {
  int tiers = mrt_device_tier_count(&plan->device);
  for (int i = 0; i < tiers; i++)
    if (!mrt_device_tier(&plan->device, i).folder[0]) return i;
  return -1;
}

bool mrt_may_update_in_tier(const mrt_planner *p) {
  const mrt_device *d = &p->plan->ctx->device;
  bool memory = d->tier_in_memory || !d->open_tier;
  return d->remote && memory && p->plan->options.in_tier >= 0 &&
         own_tier(p->plan) >= 0;
}

static mrt_status look(tier_updating *t, mrt_arena *arena) {
  const mrt_graph *g = &t->p->plan->graph;
  t->last = MRT_NEW(arena, int, g->value_count);
  t->writers = MRT_NEW(arena, int, g->value_count);
  if (!t->last || !t->writers) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    bool updates = mrt_node_is_update(n);
    for (int k = 0; k < n->nin; k++) {
      t->last[n->in[k]->base->id] = i;
      t->writers[n->in[k]->base->id] += updates && k < n->op->updates;
    }
  }
  for (int i = 0; i < g->output_count; i++)
    t->last[g->outputs[i]->base->id] = -1;
  return MRT_OK;
}

static size_t bytes_of(const mrt_value *home) {
  return mrt_swap_tier_round(mrt_type_bytes(&home->type));
}

/* Room in the tier, beside what a policy has said. */
static size_t room_of(const tier_updating *t) {
  const mrt_graph *g = &t->p->plan->graph;
  size_t capacity = mrt_swap_capacity(t->p->plan, t->tier), taken = 0;
  for (int i = 0; i < g->value_count; i++) {
    const mrt_value *v = g->values[i];
    if (v->swapped && v->settled && v->tier == t->tier) taken += bytes_of(v);
  }
  if (!capacity) return SIZE_MAX;
  return taken < capacity ? capacity - taken : 0;
}

static bool reads_elsewhere(const mrt_node *n, const mrt_value *home) {
  for (int k = n->op->updates; k < n->nin; k++)
    if (n->in[k]->base == home) return true;
  return false;
}

static bool qualifies(const tier_updating *t, int i) {
  const mrt_graph *g = &t->p->plan->graph;
  const mrt_node *n = g->nodes[i];
  const mrt_device *cpu = &g->ctx->cpu;
  size_t bytes = 0;
  bool any = false;
  if (!mrt_node_is_update(n) || n->op->traits & MRT_COLLECTIVE) return false;
  if (n->scratch_buffer >= 0) return false;
  if (!cpu->kernel(cpu, n->op->number, mrt_node_real(n))) return false;
  for (int k = 0; k < n->op->updates; k++) {
    const mrt_value *home = n->in[k]->base;
    if (!home->swapped) continue;
    if (home->settled && home->tier != t->tier) return false;
    if (t->writers[home->id] != 1 || t->last[home->id] != i) return false;
    if (reads_elsewhere(n, home)) return false;
    if (!home->settled) bytes += bytes_of(home);
    any = true;
  }
  return any && bytes <= t->room;
}

/* Its step anew, by the CPU. */
static mrt_status move(tier_updating *t, int i) {
  mrt_plan *plan = t->p->plan;
  mrt_node *n = plan->graph.nodes[i];
  mrt_step *s = &plan->steps[i];
  if (s->call.state && s->kernel->release) s->kernel->release(s->call.state);
  *s = (mrt_step){ 0 };
  n->in_tier = true;
  for (int k = 0; k < n->op->updates; k++) {
    mrt_value *home = n->in[k]->base;
    if (!home->swapped || home->settled) continue;
    home->settled = true, home->tier = t->tier;
    t->room -= bytes_of(home);
  }
  return mrt_step_make(plan, i);
}

mrt_status mrt_update_in_tier(mrt_planner *p, mrt_arena *arena) {
  const mrt_plan *plan = p->plan;
  tier_updating t = { .p = p };
  bool wanted = plan->options.in_tier > 0 || plan->candidate.in_tier;
  if (!wanted || !mrt_may_update_in_tier(p)) return MRT_OK;
  t.tier = own_tier(plan);
  t.room = room_of(&t);
  MRT_TRY(look(&t, arena));
  for (int i = 0; i < plan->graph.node_count; i++)
    if (qualifies(&t, i)) MRT_TRY(move(&t, i));
  return MRT_OK;
}
