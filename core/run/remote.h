/* remote.h -- runs on a device that queues its work
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_REMOTE_H
#define MRT_RUN_REMOTE_H

#include "run/run.h"

/* failed.c: the message of plan->runner->run.fault; what is torn by it. */
mrt_status mrt_plan_fault(const mrt_plan *plan);
/* Only the message. */
mrt_status mrt_plan_bad_index(const mrt_plan *plan);
/* ctx->error says what plan->runner->run.refused did; where that was, too. */
mrt_status mrt_plan_refused(const mrt_plan *plan);
/* plan->runner->run.lost: a copy between tiers has failed. */
mrt_status mrt_plan_lost(const mrt_plan *plan);
/* ctx->error says how the device failed: at which step, and what is torn.  Of
 * what was queued that shows when it has ended. */
mrt_status mrt_plan_failed(const mrt_plan *plan);
/* The step broke off past its first update. */
void mrt_plan_tear(const mrt_plan *plan);
/* The run was none: who counts writes of what it updates sees more than one. */
void mrt_plan_undo_count(const mrt_plan *plan);
/* The run ended with ctx->error, and does not come to its collectives from step
 * `from` on: the other ranks, which would wait in vain or update alone, are told
 * why, and fail. */
void mrt_plan_abandon(const mrt_plan *plan, int from);

/* What its run has met, as far as that can be seen; it is forgotten then. */
mrt_status mrt_remote_fault(const mrt_plan *plan);
/* `status`, with which what comes before a run broke off: where the device has
 * failed in a run that it was given, which. */
mrt_status mrt_remote_stopped(const mrt_plan *plan, mrt_status status);
/* Around what a run queues.  `begin` tells what the run before has met. */
mrt_status mrt_remote_begin(const mrt_plan *plan);
mrt_status mrt_remote_end(const mrt_plan *plan, mrt_status status);
/* Before a plan is freed. */
void mrt_remote_leave(const mrt_plan *plan);

/* Queue the run, step by step (queue.c). */
mrt_status mrt_queue_all(const mrt_plan *plan);
/* Queue it as one launch, recorded from that (record.c). */
mrt_status mrt_replay(const mrt_plan *plan);
void mrt_replay_forget(const mrt_plan *plan);
/* Before that: with other ranks, where they record together and it is time;
 * `looks`: this run's steps are taken one by one. */
mrt_status mrt_record_with_ranks(const mrt_plan *plan, bool looks);

/* How many steps are done at the first milestone after `done` of them are. */
int mrt_milestone_after(const mrt_plan *plan, int done);

#endif
