/* runner.c -- a plan's runner comes and goes
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

#include <string.h>

/* The call of a step once more, with operands of its own to fill in: also of the
 * result that its others are parts of (mrt_node.joined), which no kernel sees. */
static mrt_status copy_call(mrt_runner *r, mrt_call *to, const mrt_step *step) {
  const mrt_call *from = &step->call;
  int nin = from->nin, nout = step->node->nout;
  *to = *from, to->run = &r->run;
  to->in = MRT_NEW(&r->arena, mrt_operand, nin);
  to->out = MRT_NEW(&r->arena, mrt_operand, nout);
  if (!to->in || !to->out) return MRT_ENOMEM;
  for (int k = 0; k < nin; k++) to->in[k] = from->in[k];
  for (int k = 0; k < nout; k++) to->out[k] = from->out[k];
  return MRT_OK;
}

static mrt_status copy_calls(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  r->calls = MRT_NEW(&r->arena, mrt_call, plan->step_count);
  r->staged = MRT_NEW(&r->arena, mrt_call, plan->step_count);
  if (!r->calls || !r->staged) return MRT_ENOMEM;
  for (int i = 0; i < plan->step_count; i++) {
    const mrt_step *s = &plan->steps[i];
    MRT_TRY(copy_call(r, &r->calls[i], s));
    if (s->host) MRT_TRY(copy_call(r, &r->staged[i], s));
  }
  return MRT_OK;
}

static mrt_status make_arrays(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  MRT_TRY(copy_calls(plan));
  r->result_storage = MRT_NEW(&r->arena, mrt_storage *, plan->result_count);
  r->held = MRT_NEW(&r->arena, mrt_storage *, plan->result_count);
  r->input_slot = MRT_NEW(&r->arena, int, plan->info.inputs_count);
  r->run.copies = MRT_NEW(&r->arena, uint64_t, plan->graph.transfer_count);
  bool all = r->result_storage && r->held && r->input_slot && r->run.copies;
  return all ? MRT_OK : MRT_ENOMEM;
}

mrt_status mrt_runner_new(mrt_plan *plan, mrt_space *space) {
  mrt_context *ctx = plan->ctx;
  mrt_runner *r = mrt_calloc(ctx->allocator, 1, sizeof *r);
  if (!r) return mrt_nomem(&ctx->error);
  plan->runner = r;
  r->space = space, r->run.device = ctx->device.state;
  r->records = ctx->device.queue && ctx->device.queue->record;
  r->seed_epoch = ctx->random.begun;
  mrt_arena_init(&r->arena, ctx->allocator);
  mrt_status s = make_arrays(plan);
  if (s) s = mrt_nomem(&ctx->error);
  if (!s) s = mrt_runner_bind(plan);
  if (!s) s = mrt_runner_group(plan);
  if (s) mrt_runner_free(plan);
  return s;
}

void mrt_runner_free(mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  if (!r) return;
  for (int i = 0; r->result_storage && i < plan->result_count; i++)
    mrt_storage_unref(r->result_storage[i]);
  mrt_arena_free(&r->arena);
  mrt_release(plan->ctx->allocator, r, sizeof *r);
  plan->runner = NULL;
}
