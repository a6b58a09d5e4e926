/* workers.h -- the threads that kernels divide their work among
 *
 * A kernel divides its work into parts, as many as its call has threads, and
 * has each done once, by whoever comes first: the caller or a worker.  So the
 * bits depend on the number of parts alone, and the work gets done however many
 * workers there are: fewer than parts where the process may use fewer cores or
 * gets no more threads, none in the child of a fork.  Who waits looks for less
 * than half a millisecond, then sleeps: beside other work that costs it little, and
 * idle workers cost nothing.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_WORKERS_H
#define MRT_CPU_WORKERS_H

#include "base/memory.h"
#include "device/kernel.h"

typedef struct mrt_workers mrt_workers;

/* Part `part` of `parts`; `shared` is what the parts have in common. */
typedef void mrt_part(const mrt_call *call, const void *shared, int part,
                      int parts);

/* For jobs of at most `parts` parts, with at most so many workers beside the
 * caller.  They begin with the first job.  NULL: no memory. */
mrt_workers *mrt_cpu_workers_new(const mrt_allocator *a, int parts,
                                 int workers);
/* Ends them, idle as they must be. */
void mrt_cpu_workers_free(mrt_workers *w);

/* Calls `run` for each part, in several threads and any order, and returns
 * when all have been done.  What comes from inside a part, or while another
 * thread's job is under way, is done by the caller alone. */
void mrt_cpu_workers_run(mrt_workers *w, int parts, mrt_part *run,
                         const mrt_call *call, const void *shared);

#endif
