/* workers.c -- the threads that kernels divide their work among: each part is
 * done once, whoever comes late, sleeps, is missing or asks for the same
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/workers.h"
#include "base/sanitizers.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PARTS = 16 };

static int wrong;

static void want(bool right, const char *what) {
  if (!right) printf("wrong: %s\n", what), wrong++;
}

/* What the parts of a job share. */
typedef struct job {
  int *done; /* [PARTS], by part */
  int parts;
  int work; /* turns of each part, some more than others */
  mrt_workers *inside;
} job;

static void sleep_for(double seconds) {
  struct timespec t = { (time_t)seconds,
                        (long)((seconds - (double)(time_t)seconds) * 1e9) };
  nanosleep(&t, NULL);
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count(const mrt_call *call, const void *shared, int part,
                  int parts) {
  const job *j = shared;
  (void)call;
  for (volatile int i = 0; i < j->work * (part % 3); i++) {
  }
  if (parts == j->parts) j->done[part]++;
}

static void count_inside(const mrt_call *call, const void *shared, int part,
                         int parts) {
  const job *j = shared;
  int done[PARTS] = { 0 };
  mrt_cpu_workers_run(j->inside, 4, count, NULL,
                      &(job){ done, 4, j->work, NULL });
  for (int i = 0; i < 4; i++)
    if (done[i] != 1) return;
  count(call, shared, part, parts);
}

static bool run(mrt_workers *w, mrt_part *how, int parts, int work) {
  int done[PARTS] = { 0 }, all = 0;
  mrt_cpu_workers_run(w, parts, how, NULL, &(job){ done, parts, work, w });
  for (int i = 0; i < PARTS; i++) all += done[i] == (i < parts);
  return all == PARTS;
}

/* Jobs of all sizes, right after each other and after the workers slept. */
static void try_jobs(int workers) {
  mrt_workers *w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, workers);
  unsigned seed = 1;
  int good = 0, jobs = 20000;
  for (int i = 0; i < jobs; i++) {
    seed = seed * 1664525 + 1013904223;
    good += run(w, count, 1 + (int)(seed >> 16) % PARTS, (int)(seed >> 28));
    if (i % 1000 == 0) sleep_for(1e-3);
  }
  want(good == jobs, "every part of every job is done once");
  want(run(w, count_inside, 8, 100), "a job inside a job");
  mrt_cpu_workers_free(w);
}

static void *run_many(void *w) {
  intptr_t good = 0;
  for (int i = 0; i < 2000; i++) good += run(w, count, 1 + i % PARTS, 10);
  return (void *)good;
}

static void try_callers(void) {
  mrt_workers *w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, 3);
  pthread_t other;
  void *theirs;
  if (pthread_create(&other, NULL, run_many, w)) return;
  intptr_t good = (intptr_t)run_many(w);
  pthread_join(other, &theirs);
  want(good + (intptr_t)theirs == 4000, "two callers at a time");
  mrt_cpu_workers_free(w);
}

static void try_idle(void) {
  mrt_workers *w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, 4);
  want(run(w, count, 4, 10), "a job before they idle");
  sleep_for(0.01);
  double before = cpu_seconds();
  sleep_for(0.2);
  want(cpu_seconds() - before < 0.01, "idle workers take no time");
  mrt_cpu_workers_free(w);
}

/* The thread sanitizer has no threads after a fork of several. */
#ifndef SPEC_THREADS_ONLY
static void try_fork(void) {
  mrt_workers *w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, 3);
  want(run(w, count, 4, 10), "a job before the fork");
  pid_t child = fork();
  if (child == 0) {
    bool good = run(w, count, 4, 10);
    mrt_cpu_workers_free(w);
    w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, 3);
    good = good && run(w, count, 4, 10);
    mrt_cpu_workers_free(w);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  want(child > 0 && waitpid(child, &status, 0) == child && status == 0,
       "the child of a fork does its work, and has workers of its own");
  want(run(w, count, 4, 10), "a job after the fork");
  mrt_cpu_workers_free(w);
}

/* Where the process gets no more threads, the caller does all.  (The address
 * sanitizer ends a process that gets no memory.) */
#ifndef MRT_SANITIZES_ADDRESSES
static void try_no_threads(void) {
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = { 1, 1 };
    mrt_workers *w = mrt_cpu_workers_new(&mrt_malloc_allocator, PARTS, 3);
    setrlimit(RLIMIT_AS, &none);
    _exit(w && run(w, count, 8, 10) ? 0 : 1);
  }
  int status = -1;
  want(child > 0 && waitpid(child, &status, 0) == child && status == 0,
       "a job where no thread can begin");
}
#endif
#endif

int main(void) {
  for (int workers = 0; workers <= 5; workers += workers ? 2 : 1)
    try_jobs(workers);
  try_callers();
  try_idle();
#ifndef SPEC_THREADS_ONLY
  try_fork();
#ifndef MRT_SANITIZES_ADDRESSES
  try_no_threads();
#endif
#endif
  mrt_cpu_workers_free(NULL);
  if (!wrong) printf("workers: all jobs done\n");
  return wrong != 0;
}
