/* remote.h -- runs on a device that queues its work
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_REMOTE_H
#define MRT_RUN_REMOTE_H

#include "run/run.h"

/* exec.c: the message of plan->run.fault; what is torn by it. */
mrt_status mrt_plan_fault(mrt_plan *plan);
void mrt_plan_tear(mrt_plan *plan);

/* Around what a run queues.  `begin` tells what the run before has met. */
mrt_status mrt_flight_begin(mrt_plan *plan);
mrt_status mrt_flight_end(mrt_plan *plan, mrt_status status);
/* Before a plan is freed. */
void mrt_flight_leave(mrt_plan *plan);

/* Queue the run as one launch, recorded from what `queue` does. */
mrt_status mrt_replay(mrt_plan *plan, mrt_status (*queue)(mrt_plan *plan));
void mrt_replay_forget(mrt_plan *plan);

#endif
