/* team.h -- ranks for the specs of collectives: threads or forked processes
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEAM_H
#define TEAM_H

#include "base/sanitizers.h"
#include "shm_process.h"

#include <stdio.h>

/* Sanitizers are slow: the same calls, fewer or of fewer numbers. */
#if defined(MRT_SANITIZES_ADDRESSES) || defined(MRT_SANITIZES_THREADS)
enum { TEAM_SLOW = 1 };
#else
enum { TEAM_SLOW = 0 };
#endif

/* What a rank does; returns what was wrong. */
typedef int team_work(mrt_communicator *comm, void *argument);

typedef int team_run(int size, team_work *work, void *argument);

/* All that was wrong on `size` ranks. */
int team_threads(int size, team_work *work, void *argument);
/* `argument` is in memory that the processes share (team_share). */
int team_processes(int size, team_work *work, void *argument);
/* Ranks joined by connections: processes, or threads where those alone are
 * wanted; they exchange by pairs, or round the ring. */
int team_pairwise(int size, team_work *work, void *argument);
int team_ring(int size, team_work *work, void *argument);
/* Sockets that join each two ranks: those of rank r from fds[r] on. */
enum { TEAM_MOST = 8 };
typedef int team_sockets[TEAM_MOST][2 * TEAM_MOST];
int team_join(team_sockets fds, int size);
/* Closes those of the others; -1: all. */
void team_leave(team_sockets fds, int size, int rank);
mrt_status team_meet(const int *fds, int rank, int size, const char *algorithm,
                     double timeout, mrt_communicator **comm, mrt_error *e);
void *team_share(size_t nbytes); /* zeroed; never freed */

/* 1 and a line of print when `wrong`. */
int team_wrong(const mrt_communicator *comm, int wrong, const char *what);
/* Runs the call; 1 when it fails. */
int team_do(mrt_communicator *comm, mrt_collective c);

int cases(void);               /* what is computed */
int agreement(team_run *team); /* mismatches, parts, many calls */
int beside(team_run *team);    /* done by a thread of its own */
int heap(void);                /* memory that others see */
int faults(void);
int faults_of_messages(void);
int bench(void);

#endif
