/* swap_variables.c -- which variables live in the swap tier?
 *
 *   needs   the executing order
 *   gives   the leaves that the swap policy wants there; how much of the arena
 *           they take while they are there, which a budget must leave free
 *   never   changes the graph: swap.c does, once it is certain what runs when
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "plan/swap/swap.h"

#include <stdlib.h>

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

/* By value id. */
typedef struct uses {
  bool *weight;
  int *first, *last; /* steps */
} uses;

static mrt_status look(const mrt_graph *g, mrt_arena *arena, uses *u) {
  u->weight = MRT_NEW(arena, bool, g->value_count);
  u->first = MRT_NEW(arena, int, g->value_count);
  u->last = MRT_NEW(arena, int, g->value_count);
  if (!u->weight || !u->first || !u->last) return mrt_nomem(&g->ctx->error);
  find_weights(g, u->weight);
  find_uses(g, u->first, u->last);
  return MRT_OK;
}

static void obey(mrt_value *v, int answer) {
  v->swapped = answer != MRT_SWAP_KEEP;
  v->settled = answer >= 0;
  if (v->settled) v->tier = answer;
}

/* Asked once for all plans of a trace. */
static mrt_status ask(mrt_planner *p, const uses *u) {
  mrt_graph *g = &p->plan->graph;
  const mrt_swap_policy *policy = p->plan->options.swap;
  int *memo = p->memo.swapped;
  int *swapped = memo ? memo : MRT_NEW(p->memo_arena, int, g->value_count);
  if (!swapped) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->value_count; i++) {
    mrt_value *v = g->values[i];
    if (v->leaf != MRT_LEAF_VARIABLE || u->first[i] < 0) continue;
    if (memo) {
      obey(v, swapped[i]);
      continue;
    }
    mrt_variable_info info = { .name = v->name,
                               .file = v->origin.file,
                               .line = v->origin.line,
                               .type = v->type,
                               .bytes = mrt_type_bytes(&v->type),
                               .id = v->tensor ? v->tensor->id : 0,
                               .weight = u->weight[i],
                               .first = u->first[i],
                               .last = u->last[i] };
    swapped[i] = MRT_SWAP_KEEP;
    MRT_TRY(policy->choose(policy->user, &info, &swapped[i]));
    obey(v, swapped[i]);
  }
  p->memo.swapped = swapped;
  return MRT_OK;
}

/* ---- the planner's own choice -------------------------------------------- */

typedef struct movable {
  mrt_value *value;
  bool weight;
  size_t bytes;
} movable;

/* Optimizer state first, then the largest: fewest copies. */
static int by_turn(const void *x, const void *y) {
  const movable *a = x, *b = y;
  if (a->weight != b->weight) return a->weight - b->weight;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a->value->id > b->value->id) - (a->value->id < b->value->id);
}

/* As many as the candidate wants; what there is to choose from is noted. */
static mrt_status choose(mrt_planner *p, mrt_arena *arena, const uses *u) {
  const mrt_plan *plan = p->plan;
  const mrt_graph *g = &plan->graph;
  mrt_memo *memo = &p->memo;
  movable *list = MRT_NEW(arena, movable, g->value_count);
  int count = 0;
  size_t sum = 0;
  if (!list) return mrt_nomem(&g->ctx->error);
  memo->state = memo->variables = 0;
  for (int i = 0; i < g->value_count; i++) {
    mrt_value *v = g->values[i];
    size_t bytes = mrt_type_bytes(&v->type);
    if (v->leaf != MRT_LEAF_VARIABLE || u->first[i] < 0 ||
        bytes < MRT_TIER_ALIGN)
      continue;
    list[count++] = (movable){ v, u->weight[i], bytes };
    memo->variables += bytes;
    if (!u->weight[i]) memo->state += bytes;
  }
  qsort(list, (size_t)count, sizeof *list, by_turn);
  for (int i = 0; i < count && sum < plan->candidate.variables; i++) {
    list[i].value->swapped = true;
    sum += list[i].bytes;
  }
  return MRT_OK;
}

static bool any_slow(const mrt_graph *g) {
  for (int i = 0; i < g->value_count; i++)
    if (g->values[i]->swapped) return true;
  return false;
}

static mrt_status decide(mrt_planner *p, mrt_arena *arena) {
  uses u;
  MRT_TRY(look(&p->plan->graph, arena, &u));
  MRT_TRY(p->plan->options.swap ? ask(p, &u) : choose(p, arena, &u));
  return mrt_update_in_tier(p, arena);
}

mrt_status mrt_pass_swap_variables(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  const mrt_device_profile *d = &plan->device;
  mrt_arena arena;
  if (!plan->options.swap && !plan->options.memory) return MRT_OK;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = decide(p, &arena);
  mrt_arena_free(&arena);
  if (s || !any_slow(&plan->graph)) return s;
  if (!(d->swap_read > 0 && d->swap_write > 0))
    return mrt_fail(&plan->ctx->error, MRT_EVALUE,
                    "nothing can be swapped: device '%s' has no swap tier",
                    d->name);
  plan->swaps = true;
  return mrt_swap_staged(p);
}
