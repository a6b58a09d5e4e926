/* bind.c -- which pointer of which call goes where
 *
 * Every operand's pointer is filled from a list: places in the arena and in
 * variables when these move, inputs and outputs before every run.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

typedef struct binding {
  mrt_plan *plan;
  int fixed_room, moving_room;
} binding;

static mrt_status add(binding *b, mrt_place place) {
  mrt_plan *plan = b->plan;
  mrt_arena *arena = &plan->graph.arena;
  bool moving = place.where == MRT_IN_INPUT || place.where == MRT_IN_OUTPUT;
  if (moving) {
    if (!MRT_PUSH_ROOM(arena, plan->moving, plan->moving_count, b->moving_room))
      return mrt_nomem(&plan->ctx->error);
    plan->moving[plan->moving_count++] = place;
  } else {
    if (!MRT_PUSH_ROOM(arena, plan->fixed, plan->fixed_count, b->fixed_room))
      return mrt_nomem(&plan->ctx->error);
    plan->fixed[plan->fixed_count++] = place;
  }
  return MRT_OK;
}

static int index_in(mrt_value *const *list, int n, const mrt_value *v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return i;
  return -1;
}

static mrt_status add_operand(binding *b, mrt_operand *o, const mrt_value *v) {
  mrt_plan *plan = b->plan;
  const mrt_value *base = v->base;
  const mrt_slot *s = &plan->slots[base->slot];
  mrt_place place = { .pointer = &o->data,
                      .where = MRT_IN_ARENA,
                      .index = base->slot,
                      .bytes = v->offset *
                               (int64_t)mrt_dtypes[v->type.dtype].bytes };
  if (s->kind == MRT_VALUE_INPUT)
    place.where = MRT_IN_INPUT, place.index = base->index;
  else if (s->kind == MRT_VALUE_OUTPUT)
    place.where = MRT_IN_OUTPUT,
    place.index = index_in(plan->results, plan->result_count, base);
  else if (base->leaf != MRT_LEAF_NONE)
    place.where = MRT_IN_VARIABLE,
    place.index = index_in(plan->leaves, plan->leaf_count, base);
  return add(b, place);
}

mrt_status mrt_plan_bind(mrt_plan *plan) {
  binding b = { .plan = plan };
  for (int i = 0; i < plan->step_count; i++) {
    mrt_step *s = &plan->steps[i];
    mrt_node *n = s->node;
    for (int k = 0; k < n->nin; k++)
      MRT_TRY(add_operand(&b, &s->call.in[k], n->in[k]));
    for (int k = 0; k < n->nout; k++)
      MRT_TRY(add_operand(&b, &s->call.out[k], n->out[k]));
    if (n->scratch_slot >= 0)
      MRT_TRY(add(&b, (mrt_place){ .pointer = &s->call.scratch,
                                   .where = MRT_IN_ARENA,
                                   .index = n->scratch_slot }));
  }
  plan->result_storage =
      MRT_NEW(&plan->graph.arena, mrt_storage *, plan->result_count);
  return plan->result_storage ? MRT_OK : mrt_nomem(&plan->ctx->error);
}
