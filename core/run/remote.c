/* remote.c -- runs on a device that queues its work
 *
 * A run is queued and left; the host goes on.  An index out of range makes the
 * updates that follow do nothing, and is told when somebody next waits for the
 * device, or runs the plan again.  Each run ends with a fence, so that its
 * results are read while the next one is computed.  How a run becomes one launch
 * is in record.c.
 *
 *   in_flight  plans whose last run may not have ended
 *
 * Invariants
 *   - a plan is in flight from the end of its queueing until somebody has
 *     waited for the device and told what the run has met;
 *   - when the device has failed, what plans in flight update is torn
 *     (specs of devices that queue).
 *
 * SPDX-License-Identifier: MIT */
#include "run/remote.h"

static const mrt_queue *queue_of(const mrt_plan *plan) {
  return plan->ctx->device.queue;
}

/* ---- in flight ----------------------------------------------------------- */

static void leave_in_flight(const mrt_plan *plan) {
  const mrt_plan **at = &plan->ctx->in_flight;
  while (*at && *at != plan) at = &(*at)->runner->next_in_flight;
  if (*at) *at = plan->runner->next_in_flight;
  plan->runner->next_in_flight = NULL;
}

/* Have its runs met a fault, as far as can be seen? */
static bool faulty(const mrt_plan *plan) {
  queue_of(plan)->see(&plan->ctx->device, &plan->runner->run);
  return plan->runner->run.fault != 0;
}

mrt_status mrt_remote_fault(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  if (!faulty(plan)) return MRT_OK;
  MRT_TRY(queue_of(plan)->wait(&ctx->device, &ctx->error));
  faulty(plan); /* all of it is here now */
  mrt_status s = mrt_plan_fault(plan);
  if (s != MRT_ERANK) mrt_plan_abandon(plan, 0);
  mrt_plan_undo_count(plan);
  mrt_error told = ctx->error;
  MRT_TRY(queue_of(plan)->clear_fault(&ctx->device, &plan->runner->run,
                                      &ctx->error));
  plan->runner->run.fault = 0;
  ctx->error = told;
  return s;
}

/* How many steps of its last run were done when the device failed; -1: it was
 * not under way, or nobody knows. */
static int reached(const mrt_plan *plan) {
  bool told = plan->runner->milestones && plan->runner->run.words &&
              queue_of(plan)->reached;
  return told ? queue_of(plan)->reached(&plan->ctx->device, &plan->runner->run)
              : -1;
}

/* The plan whose run that was; else `plan`, and -1 for *done. */
static const mrt_plan *stopped_in(const mrt_plan *plan, int *done) {
  const mrt_plan *p = plan;
  if ((*done = reached(p)) >= 0) return p;
  for (p = plan->ctx->in_flight; p; p = p->runner->next_in_flight)
    if ((*done = reached(p)) >= 0) return p;
  return plan;
}

/* The device has failed: what the plan updates is nobody knows what. */
static mrt_status tell_failure(const mrt_plan *plan) {
  mrt_error *e = &plan->ctx->error, told = *e;
  int done;
  mrt_plan_tear(plan);
  plan = stopped_in(plan, &done);
  if (!plan->step_count) return told.status;
  int last = done < 0 ? plan->runner->at : mrt_milestone_after(plan, done) - 1;
  const mrt_node *n = plan->steps[last].node;
  const char *where = plan->runner->queued ? "in the run that ends with" : "at";
  if (done >= 0) where = done >= last ? "at" : "at the latest at";
  if (done <= 0 || done >= last)
    return mrt_fail(e, told.status, "%s %s (%s:%d): %s", where, n->label,
                    n->origin.file, n->origin.line, told.message);
  const mrt_node *before = plan->steps[done - 1].node;
  return mrt_fail(e, told.status, "after %s (%s:%d), %s %s (%s:%d): %s",
                  before->label, before->origin.file, before->origin.line,
                  where, n->label, n->origin.file, n->origin.line,
                  told.message);
}

mrt_status mrt_runs_drain(mrt_context *ctx) {
  const mrt_queue *q = ctx->device.queue;
  mrt_status first = MRT_OK;
  mrt_error told;
  if (!q || !ctx->in_flight) return MRT_OK;
  bool failed = q->wait(&ctx->device, &ctx->error) != MRT_OK;
  while (ctx->in_flight) {
    const mrt_plan *plan = ctx->in_flight;
    mrt_status s = failed ? tell_failure(plan) : mrt_remote_fault(plan);
    leave_in_flight(plan);
    if (s && !first) first = s, told = ctx->error;
  }
  if (first) ctx->error = told;
  return first;
}

mrt_status mrt_runs_wait_fence(mrt_context *ctx, uint64_t fence) {
  const mrt_queue *q = ctx->device.queue;
  if (!q || !ctx->in_flight) return MRT_OK;
  if (q->wait_fence(&ctx->device, fence, &ctx->error))
    return mrt_runs_drain(ctx);
  for (const mrt_plan *plan = ctx->in_flight; plan;
       plan = plan->runner->next_in_flight)
    if (faulty(plan)) return mrt_runs_drain(ctx);
  return MRT_OK;
}

/* From here on, results can be read while what follows is computed.  Variables
 * may be written again. */
static void set_fence(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  uint64_t here = queue_of(plan)->fence(&plan->ctx->device);
  for (int i = 0; i < plan->result_count; i++)
    if (r->result_storage[i]) r->result_storage[i]->fence = here;
  for (int i = 0; i < plan->written_count; i++)
    if (plan->written[i]->storage) plan->written[i]->storage->fence = 0;
}

mrt_status mrt_remote_stopped(const mrt_plan *plan, mrt_status s) {
  int done = -1;
  if (s == MRT_EDEVICE && queue_of(plan)) stopped_in(plan, &done);
  return done >= 0 ? tell_failure(plan) : s;
}

mrt_status mrt_remote_begin(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  mrt_context *ctx = plan->ctx;
  if (r->run.words) MRT_TRY(mrt_remote_fault(plan));
  mrt_status s = queue_of(plan)->begin(&ctx->device, &r->run, &ctx->error);
  if (s) return mrt_remote_stopped(plan, s);
  r->queued = false, r->at = 0;
  return s;
}

mrt_status mrt_remote_end(const mrt_plan *plan, mrt_status status) {
  mrt_context *ctx = plan->ctx;
  const mrt_queue *q = queue_of(plan);
  if (!status) status = mrt_device_works(&ctx->device, &ctx->error);
  if (!status) status = q->end(&ctx->device, &plan->runner->run, &ctx->error);
  if (status == MRT_EDEVICE) return tell_failure(plan);
  set_fence(plan);
  plan->runner->queued = true;
  leave_in_flight(plan);
  plan->runner->next_in_flight = ctx->in_flight;
  ctx->in_flight = plan;
  return status;
}

void mrt_remote_leave(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  mrt_context *ctx = plan->ctx;
  const mrt_queue *q = queue_of(plan);
  mrt_error ignored;
  if (!q) return;
  if (r->run.words) q->wait(&ctx->device, &ignored);
  leave_in_flight(plan);
  mrt_replay_forget(plan);
  if (r->run.words) q->leave(&ctx->device, &r->run);
}
