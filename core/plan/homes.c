/* homes.c -- which variables live in the slow tier?
 *
 *   needs   the executing order
 *   gives   the leaves that the swap policy wants there; how much of the arena
 *           their visits take, which a budget must leave free
 *   never   changes the graph: swap.c does, once it is certain what runs when
 *
 * SPDX-License-Identifier: MIT */
#include "plan/swap.h"

/* Mark what is read on the way to a result or a gradient; by value id. */
static void find_weights(const mrt_graph *g, bool *needed) {
  for (int i = 0; i < g->output_count; i++)
    needed[g->outputs[i]->base->id] = true;
  for (int i = g->node_count; i-- > 0;) {
    const mrt_node *n = g->nodes[i];
    bool matters = n->origin.backward;
    for (int k = 0; k < n->nout; k++) matters |= needed[n->out[k]->base->id];
    if (mrt_node_is_update(n)) continue;
    for (int k = 0; matters && k < n->nin; k++)
      needed[n->in[k]->base->id] = true;
  }
}

static void find_uses(const mrt_graph *g, int *first, int *last) {
  for (int i = 0; i < g->value_count; i++) first[i] = last[i] = -1;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++) {
      int id = g->nodes[i]->in[k]->base->id;
      if (first[id] < 0) first[id] = i;
      last[id] = i;
    }
}

static mrt_status ask(mrt_plan *plan, mrt_arena *arena, bool *any) {
  const mrt_graph *g = &plan->graph;
  const mrt_swap_policy *policy = plan->options.swap;
  bool *weight = MRT_NEW(arena, bool, g->value_count);
  int *first = MRT_NEW(arena, int, g->value_count);
  int *last = MRT_NEW(arena, int, g->value_count);
  if (!weight || !first || !last) return mrt_nomem(&g->ctx->error);
  find_weights(g, weight);
  find_uses(g, first, last);
  for (int i = 0; i < g->value_count; i++) {
    mrt_value *v = g->values[i];
    if (v->leaf != MRT_LEAF_VARIABLE || first[i] < 0) continue;
    mrt_variable_info info = { .name = v->name,
                               .file = v->origin.file,
                               .line = v->origin.line,
                               .type = v->type,
                               .bytes = mrt_type_bytes(&v->type),
                               .weight = weight[i],
                               .first = first[i],
                               .last = last[i] };
    MRT_TRY(policy->choose(policy->user, &info, &v->slow));
    *any |= v->slow;
  }
  return MRT_OK;
}

mrt_status mrt_pass_homes(mrt_plan *plan) {
  const mrt_device_profile *d = &plan->device;
  mrt_arena arena;
  bool any = false;
  if (!plan->options.swap) return MRT_OK;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = ask(plan, &arena, &any);
  mrt_arena_free(&arena);
  if (s || !any) return s;
  if (!(d->slow_read > 0 && d->slow_write > 0))
    return mrt_fail(&plan->ctx->error, MRT_EVALUE,
                    "nothing can be swapped: device '%s' has no slow tier",
                    d->name);
  plan->swaps = true;
  return mrt_swap_staged(plan);
}
