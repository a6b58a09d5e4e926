/* record.c -- a run as one launch
 *
 * At its second run a plan is recorded, for all runs after it: its inputs are
 * copied to slots first, its results lie where they always do (prepare.c).
 *
 * Where the device says so, a recording of a collective is a collective itself:
 * all ranks make it, in the same run, and all replay it, or nobody does.  Which
 * run that is all know: ranks run a list of collectives equally often, and at
 * its 2nd, 4th, 8th .. run they ask each other whether they can, or have to do
 * it again, and afterwards whether it worked.  A rank that has lost its
 * recording in between queues its steps until then.
 *
 * Invariants
 *   - a recording is forgotten when something it uses has moved;
 *   - a plan that could not be recorded, here or on a rank that it has to be
 *     recorded with, is queued step by step, each time.
 *
 * SPDX-License-Identifier: MIT */
#include "run/remote.h"

#include <stdio.h>

static const mrt_queue *queue_of(const mrt_plan *plan) {
  return plan->ctx->device.queue;
}

void mrt_replay_forget(const mrt_plan *plan) {
  mrt_runner *r = plan->runner;
  if (r->recording) queue_of(plan)->forget(&plan->ctx->device, r->recording);
  r->recording = NULL;
}

/* The first run is queued as it is: kernels are loaded at their first launch.
 * What the host computes is in no recording, nor what it copies to a file. */
static bool may_record(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  bool all = r->loaded && r->records && !r->unrecorded;
  for (int i = 0; i < plan->graph.transfer_count && all; i++)
    all = plan->runner->slots[plan->transfers[i].tier] == 0;
  for (int i = 0; i < plan->step_count && all; i++)
    all = !plan->steps[i].hosted;
  return all;
}

/* Of the first plan the user is told why. */
static void give_up(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  const char *name = plan->options.name ? plan->options.name : "a plan";
  plan->runner->unrecorded = true;
  if (ctx->unrecorded++) return;
  snprintf(ctx->notice, sizeof ctx->notice,
           "%.60s is queued step by step in each run, with the same results, "
           "since its steps cannot be recorded as one launch: %.200s",
           name, ctx->error.message);
}

/* Record the run, as which it is not done yet.  Where that does not work out
 * there is no recording and all is as before: then, *run is what is to be done
 * about it, nothing or the run's own failure. */
static mrt_status record(const mrt_plan *plan, mrt_status *run) {
  mrt_context *ctx = plan->ctx;
  mrt_runner *r = plan->runner;
  const mrt_queue *q = queue_of(plan);
  bool begun = false;
  *run = MRT_OK;
  MRT_TRY(q->record(&ctx->device, &begun, &ctx->error));
  if (!begun) return give_up(plan), MRT_OK;
  *run = mrt_queue_all(plan);
  mrt_error told = ctx->error;
  MRT_TRY(q->recorded(&ctx->device, &r->recording, &ctx->error));
  r->recorded_places = r->places;
  if (!r->recording) give_up(plan);
  if (*run == MRT_EDEVICE && r->unrecorded) *run = MRT_OK; /* it works again */
  if (*run) mrt_replay_forget(plan), ctx->error = told;
  return MRT_OK;
}

/* ---- with other ranks ---------------------------------------------------- */

/* What a rank says: it cannot; it can, and has to record now; or above that, it
 * has what was recorded at that turn. */
enum { CANNOT, ANEW };

static mrt_status tell_others(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  mrt_runner *r = plan->runner;
  mrt_status run = MRT_OK;
  if (!r->recording) MRT_TRY(record(plan, &run));
  uint64_t word = r->recording ? ANEW : CANNOT;
  mrt_error told = ctx->error;
  MRT_TRY(mrt_plan_ask_ranks(plan, &word));
  if (word == CANNOT && r->recording) {
    mrt_fail(&ctx->error, MRT_ERANK, "another rank cannot");
    give_up(plan);
  }
  if (word == CANNOT) mrt_replay_forget(plan);
  if (run) ctx->error = told;
  return run;
}

mrt_status mrt_record_with_ranks(const mrt_plan *plan, bool looks) {
  mrt_runner *r = plan->runner;
  uint64_t turn = mrt_plan_ranks_turn(plan);
  if (!turn) return MRT_OK;
  if (r->recorded_places != r->places) mrt_replay_forget(plan);
  uint64_t word = looks || !may_record(plan) ? CANNOT
                  : r->recording             ? r->recorded_turn
                                             : ANEW;
  MRT_TRY(mrt_plan_ask_ranks(plan, &word));
  if (word > ANEW) return MRT_OK;
  mrt_replay_forget(plan);
  if (word == CANNOT) return MRT_OK;
  r->recorded_turn = turn;
  return tell_others(plan);
}

/* ---- a run --------------------------------------------------------------- */

mrt_status mrt_replay(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  mrt_runner *r = plan->runner;
  if (r->recorded_places != r->places) mrt_replay_forget(plan);
  if (!r->recording && may_record(plan) && !mrt_plan_asks_ranks(plan)) {
    mrt_status s;
    MRT_TRY(record(plan, &s));
    MRT_TRY(s);
  }
  if (!r->recording) return mrt_queue_all(plan);
  r->at = plan->step_count - 1;
  return queue_of(plan)->replay(&ctx->device, r->recording, &ctx->error);
}
