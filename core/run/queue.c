/* queue.c -- what a device that queues its work is given in one run
 *
 * Its failures come late, from somewhere in what it was given.  So that the
 * nodes can be named that it may have failed in, it notes how far it is, at
 * milestones: the first after each so many predicted seconds.
 *
 * SPDX-License-Identifier: MIT */
#include "run/remote.h"

#include <math.h>

/* A milestone takes what a launch takes: they are less than 1 % of a run. */
enum { LAUNCHES_APART = 100 };
#define SHORTEST_LAUNCH 1e-6 /* seconds: some profiles say 0 */

int mrt_milestone_after(const mrt_plan *plan, int done) {
  double launch = fmax(plan->device.launch, SHORTEST_LAUNCH);
  double seconds = 0, apart = LAUNCHES_APART * launch;
  while (done < plan->step_count && seconds <= apart)
    for (int n = plan->runner->together[done]; n > 0; n--)
      seconds += plan->steps[done++].seconds;
  return done;
}

/* Step i and those that are done with it. */
static mrt_status run_group(const mrt_plan *plan, int i) {
  const mrt_step *s = &plan->steps[i];
  plan->runner->at = i;
  int n = plan->runner->together[i];
  if (n == 1) return mrt_step_run(plan, i);
  s->kernel->together(plan->runner->call_list + i, n);
  return MRT_OK;
}

static mrt_status queue_steps(const mrt_plan *plan) {
  const mrt_device *d = &plan->ctx->device;
  mrt_error *e = &plan->ctx->error;
  int milestone = mrt_milestone_after(plan, 0);
  for (int i = 0; i < plan->step_count;) {
    MRT_TRY(run_group(plan, i));
    MRT_TRY(mrt_device_works(d, e));
    if (plan->runner->run.lost) return mrt_plan_lost(plan);
    if (plan->runner->run.refused) return mrt_plan_refused(plan);
    i += plan->runner->together[i];
    if (i < milestone || i == plan->step_count) continue;
    if (d->queue->milestone)
      MRT_TRY(d->queue->milestone(d, &plan->runner->run, i, e));
    milestone = mrt_milestone_after(plan, i);
  }
  if (plan->graph.transfer_count)
    plan->ctx->swap.row.tier.join(&plan->ctx->swap.row.tier);
  return MRT_OK;
}

mrt_status mrt_queue_all(const mrt_plan *plan) {
  const mrt_device *d = &plan->ctx->device;
  mrt_status s = queue_steps(plan);
  if (s && d->queue->stop) d->queue->stop(d, &plan->runner->run);
  return s;
}
