/* poison.h -- a debugging mode that makes memory mistakes visible
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_POISON_H
#define MRT_RUN_POISON_H

#include "run/runner.h"

/* Overwrite what dies at `step`; all of the arena for -1. */
mrt_status mrt_poison_dead(const mrt_plan *plan, int step);
/* A hash of what `step` must leave alone: equal before and after it. */
uint64_t mrt_poison_hash(const mrt_plan *plan, int step);
mrt_status mrt_poison_fail(const mrt_plan *plan, int step);

#endif
