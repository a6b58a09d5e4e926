/* watch.h -- looking at the data of a run
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_WATCH_H
#define MRT_RUN_WATCH_H

#include "run/runner.h"

typedef struct mrt_unusual {
  bool nan, infinity;
} mrt_unusual;

/* What a step is about to read has. */
mrt_unusual mrt_watch_inputs(const mrt_plan *plan, const mrt_step *s);
/* EDATA: a variable, input or constant that it is about to read has a NaN. */
mrt_status mrt_watch_leaves(const mrt_plan *plan, const mrt_step *s);
/* EDATA: the step has made what it did not read. */
mrt_status mrt_watch_outputs(const mrt_plan *plan, const mrt_step *s,
                             mrt_unusual before);
/* Add what a step has written. */
void mrt_watch_range(const mrt_plan *plan, const mrt_step *s, mrt_range *r);

#endif
