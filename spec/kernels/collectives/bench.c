/* bench.c -- allreduce of two processes beside memcpy by both at once; barriers
 *
 * An allreduce of n bytes on two ranks has each read n bytes and write n, as
 * memcpy of n bytes does, so the two rates should be near each other.  Ways
 * take turns, so that what else the machine does troubles all; the least and
 * the middle time are printed.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "team.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMES = 15 };
typedef enum way { COPY, APART, IN_PLACE, STAGED, WAYS } way;
static const char *const names[WAYS] = { "memcpy, both at once", "zero copy",
                                         "zero copy, in place", "staged" };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void meet(mrt_communicator *comm) {
  team_do(comm, (mrt_collective){ .kind = MRT_COLLECT_barrier });
}

static double once(mrt_communicator *comm, way way, size_t nbytes,
                   char *const heap[2], char *const own[2]) {
  char *in = way == STAGED ? own[0] : heap[0];
  char *out = way == STAGED ? own[1] : way == IN_PLACE ? heap[0] : heap[1];
  mrt_collective c = {
    .dtype = MRT_f32, .count = (int64_t)nbytes / 4, .in = in, .out = out
  };
  meet(comm);
  double start = now();
  if (way == COPY)
    memcpy(own[1], own[0], nbytes), meet(comm);
  else
    team_do(comm, c);
  return now() - start;
}

static void allreduces(mrt_communicator *comm, size_t nbytes) {
  double times[WAYS][TIMES];
  char *heap[2], *own[2];
  for (int i = 0; i < 2; i++) {
    heap[i] = comm->alloc(comm, nbytes), own[i] = malloc(nbytes);
    memset(heap[i], 0, nbytes), memset(own[i], 0, nbytes);
  }
  for (int t = 0; t < TIMES; t++)
    for (int way = 0; way < WAYS; way++)
      times[way][t] = once(comm, way, nbytes, heap, own);
  for (int way = 0; way < WAYS && comm->rank == 0; way++) {
    qsort(times[way], TIMES, sizeof(double), ascending);
    printf("%3zu MiB  %-22s %6.2f GB/s at best, %6.2f in the middle\n",
           nbytes >> 20, names[way], 1e-9 * (double)nbytes / times[way][0],
           1e-9 * (double)nbytes / times[way][TIMES / 2]);
  }
  for (int i = 0; i < 2; i++) comm->free(comm, heap[i], nbytes), free(own[i]);
}

/* Rounds of a thousand calls of `c`. */
static void rounds(mrt_communicator *comm, mrt_collective c, const char *what) {
  enum { ROUNDS = 30, CALLS = 1000 };
  double times[ROUNDS];
  clock_t used = clock();
  for (int t = 0; t < ROUNDS; t++) {
    double start = now();
    for (int i = 0; i < CALLS; i++) team_do(comm, c);
    times[t] = (now() - start) / CALLS * 1e6;
  }
  double cpu = (double)(clock() - used) / CLOCKS_PER_SEC;
  qsort(times, ROUNDS, sizeof *times, ascending);
  if (comm->rank == 0)
    printf("%d ranks  %-22s %6.2f us at best, %6.2f in the middle; %.2f us of "
           "a core each\n",
           comm->size, what, times[0], times[ROUNDS / 2],
           cpu / (ROUNDS * CALLS) * 1e6);
}

static int measure(mrt_communicator *comm, void *argument) {
  char x[4096] = { 0 };
  (void)argument;
  mrt_collective c = { .kind = MRT_COLLECT_barrier };
  rounds(comm, c, "barrier");
  c = (mrt_collective){ .dtype = MRT_f32, .count = 1, .in = x, .out = x };
  rounds(comm, c, "allreduce of 4 bytes");
  c.count = 1024;
  rounds(comm, c, "allreduce of 4 KiB");
  if (comm->size == 2)
    for (size_t mib = 1; mib <= 64; mib *= 4) allreduces(comm, mib << 20);
  return 0;
}

int bench(void) {
  return team_processes(2, measure, NULL) + team_processes(4, measure, NULL);
}
