/* host_step.c -- steps that the CPU computes for a device without the kernel
 *
 * The copies come in the order of what the device has queued, so the host waits
 * for it before and the device goes on after.  A kernel of the host must not
 * begin from what an index out of range has left: what the queue has met is
 * asked for first, and told at once.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/host_step.h"
#include "run/remote.h"

static void *in_tier(const mrt_plan *plan, const mrt_operand *o) {
  mrt_tier *tier = plan->runner->run.tier;
  return tier->memory(tier, (size_t)(uintptr_t)o->data);
}

static char *staged(const mrt_plan *plan, const struct mrt_host_step *h,
                    const mrt_span *s) {
  if (s->shared >= 0) s = &h->in[s->shared];
  return (char *)plan->runner->space->host + s->offset;
}

static mrt_status copy_in(const mrt_plan *plan, const mrt_step *s) {
  const mrt_call *call = mrt_runner_call(plan, s);
  const struct mrt_host_step *h = s->host;
  mrt_call *host = mrt_runner_staged(plan, s);
  for (int k = 0; k < call->nin; k++) {
    const mrt_span *span = &h->in[k];
    if (span->in_tier) {
      host->in[k].data = in_tier(plan, &call->in[k]);
      continue;
    }
    char *here = staged(plan, h, span);
    host->in[k].data = here - span->low;
    if (span->shared >= 0 || !span->bytes) continue;
    MRT_TRY(mrt_device_read(&plan->ctx->device, here,
                            (char *)call->in[k].data + span->low, span->bytes,
                            0, &plan->ctx->error));
  }
  for (int k = 0; k < call->nout; k++)
    host->out[k].data = h->out[k].in_tier
                            ? host->in[h->out[k].shared].data
                            : staged(plan, h, &h->out[k]) - h->out[k].low;
  host->scratch = (char *)plan->runner->space->host + h->scratch;
  return MRT_OK;
}

static mrt_status copy_out(const mrt_plan *plan, const mrt_step *s) {
  const mrt_call *call = mrt_runner_call(plan, s);
  const struct mrt_host_step *h = s->host;
  for (int k = 0; k < call->nout; k++) {
    const mrt_span *span = &h->out[k];
    if (!span->bytes || span->in_tier) continue;
    MRT_TRY(mrt_device_write(
        &plan->ctx->device, (char *)call->out[k].data + span->low,
        staged(plan, h, span), span->bytes, &plan->ctx->error));
  }
  return MRT_OK;
}

/* What the queue has met so far. */
static mrt_status look_back(const mrt_plan *plan) {
  const mrt_device *d = &plan->ctx->device;
  if (!d->queue) return MRT_OK;
  MRT_TRY(d->queue->end(d, &plan->runner->run, &plan->ctx->error));
  MRT_TRY(d->queue->wait(d, &plan->ctx->error));
  return mrt_remote_fault(plan);
}

/* Where nothing is queued the run is told, as on the CPU, before its first
 * update; a device that queues would go on, so here it ends. */
static mrt_status tell(const mrt_plan *plan, int i) {
  if (!plan->ctx->device.queue || !plan->runner->run.fault) return MRT_OK;
  mrt_status s = mrt_plan_fault(plan);
  mrt_plan_abandon(plan, i + 1);
  plan->runner->run.fault = 0;
  return s;
}

static mrt_status run_staged(const mrt_plan *plan, int i) {
  const mrt_step *s = &plan->steps[i];
  MRT_TRY(look_back(plan));
  MRT_TRY(copy_in(plan, s));
  s->kernel->run(mrt_runner_staged(plan, s));
  if (plan->runner->run.refused)
    return MRT_OK; /* who runs the steps tells it */
  MRT_TRY(tell(plan, i));
  return copy_out(plan, s);
}

mrt_status mrt_step_run(const mrt_plan *plan, int i) {
  const mrt_step *s = &plan->steps[i];
  plan->runner->at = i;
  if (s->host) return run_staged(plan, i);
  s->kernel->run(&plan->runner->calls[i]);
  return MRT_OK;
}
