/* team.h -- ranks for the specs of collectives: threads or forked processes
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEAM_H
#define TEAM_H

#include "transports.h"

#include <stdio.h>

/* What a rank does; returns what was wrong. */
typedef int team_work(mrt_communicator *comm, void *argument);

/* All that was wrong on `size` ranks. */
int team_threads(int size, team_work *work, void *argument);
/* `argument` is in memory that the processes share (team_share). */
int team_processes(int size, team_work *work, void *argument);
void *team_share(size_t nbytes); /* zeroed; never freed */

/* 1 and a line of print when `wrong`. */
int team_wrong(const mrt_communicator *comm, int wrong, const char *what);
/* Runs the call; 1 when it fails. */
int team_do(mrt_communicator *comm, mrt_collective c);

int cases(void);               /* what is computed */
int agreement(bool processes); /* mismatches, parts, many calls */
int heap(void);                /* memory that others see */
int faults(void);
int bench(void);

#endif
