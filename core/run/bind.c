/* bind.c -- which pointer of which call goes where
 *
 * Every operand's pointer is filled from a list: places in the arena and in
 * variables when these move, inputs and outputs before every run.  On a device
 * that records runs these do not move either: inputs lie in their slots behind
 * the arena, outputs in the runner's own storages.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

typedef struct binding {
  mrt_runner *runner;
  const mrt_plan *plan;
  int fixed_room, moving_room;
} binding;

static mrt_status add(binding *b, mrt_address place) {
  mrt_runner *r = b->runner;
  bool moving = !r->records &&
                (place.where == MRT_IN_INPUT || place.where == MRT_IN_OUTPUT);
  if (moving) {
    if (!MRT_PUSH_ROOM(&r->arena, r->moving, r->moving_count, b->moving_room))
      return mrt_nomem(&b->plan->ctx->error);
    r->moving[r->moving_count++] = place;
  } else {
    if (!MRT_PUSH_ROOM(&r->arena, r->fixed, r->fixed_count, b->fixed_room))
      return mrt_nomem(&b->plan->ctx->error);
    r->fixed[r->fixed_count++] = place;
  }
  return MRT_OK;
}

static mrt_status add_operand(binding *b, mrt_operand *o, const mrt_value *v) {
  static const mrt_address_kind homes[] = {
    [MRT_BUFFER_INPUT] = MRT_IN_INPUT,
    [MRT_BUFFER_VARIABLE] = MRT_IN_VARIABLE,
    [MRT_BUFFER_CONSTANT] = MRT_IN_VARIABLE,
    [MRT_BUFFER_OUTPUT] = MRT_IN_OUTPUT,
  };
  const mrt_buffer *s = &b->plan->buffers[v->base->buffer];
  bool slot = b->runner->records && s->kind == MRT_BUFFER_INPUT;
  mrt_address_kind where = mrt_buffer_in_arena(s) || slot  ? MRT_IN_ARENA
                           : s->kind != MRT_BUFFER_SWAPPED ? homes[s->kind]
                           : s->node                       ? MRT_IN_SWAP_TIER
                                     : MRT_IN_SWAP_LOCATION;
  bool buffer = where == MRT_IN_ARENA || where == MRT_IN_SWAP_TIER;
  return add(
      b, (mrt_address){ .pointer = &o->data,
                        .where = where,
                        .index = buffer ? v->base->buffer : s->index,
                        .bytes = v->offset *
                                 (int64_t)mrt_dtypes[v->type.dtype].bytes });
}

mrt_status mrt_runner_bind(const mrt_plan *plan) {
  binding b = { .runner = plan->runner, .plan = plan };
  for (int i = 0; i < plan->info.inputs_count; i++)
    b.runner->input_slot[i] = -1;
  for (int i = 0; i < plan->buffer_count; i++)
    if (plan->buffers[i].kind == MRT_BUFFER_INPUT)
      b.runner->input_slot[plan->buffers[i].index] = i;
  for (int i = 0; i < plan->step_count; i++) {
    const mrt_node *n = plan->steps[i].node;
    mrt_call *call = &plan->runner->calls[i];
    for (int k = 0; k < n->nin; k++)
      MRT_TRY(add_operand(&b, &call->in[k], n->in[k]));
    for (int k = 0; k < n->nout; k++)
      MRT_TRY(add_operand(&b, &call->out[k], n->out[k]));
    if (n->scratch_buffer >= 0)
      MRT_TRY(add(&b, (mrt_address){ .pointer = &call->scratch,
                                     .where = MRT_IN_ARENA,
                                     .index = n->scratch_buffer }));
  }
  return MRT_OK;
}
