/* comm_thread.c -- collectives that overlap the computation
 *
 * One thread does what it is given in that order, whichever communicators it is
 * about, so all ranks begin collectives in the same order.  What comes after
 * one that failed is not begun.  The thread allocates nothing, blocks all
 * signals and writes its own error only.  A forked child has no such thread: it
 * does without.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sched_getaffinity */
#include "device/communicator.h"

#include "base/rounding.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 64 };

typedef struct comm_job {
  mrt_communicator *comm;
  mrt_collective c;
  int node;
} comm_job;

struct mrt_comm_thread {
  const mrt_allocator *allocator;
  pthread_t thread;
  pid_t process;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  comm_job ring[DEPTH];    /* job n in ring[n % DEPTH] */
  uint64_t started, ended; /* ended <= started <= ended + DEPTH */
  mrt_error error;         /* of the first that failed since drain */
  int failed;              /* its node */
  bool closing;
};

static void *serve(void *user) {
  mrt_comm_thread *b = user;
  mrt_error e;
  mrt_rounding_default();
  pthread_mutex_lock(&b->lock);
  while (true) {
    while (b->started == b->ended && !b->closing)
      pthread_cond_wait(&b->changed, &b->lock);
    if (b->started == b->ended) break;
    comm_job j = b->ring[b->ended % DEPTH];
    bool skip = b->error.status || b->closing;
    pthread_mutex_unlock(&b->lock);
    mrt_status s = skip ? MRT_OK : mrt_collect(j.comm, &j.c, &e);
    pthread_mutex_lock(&b->lock);
    if (s) b->error = e, b->error.status = s, b->failed = j.node;
    b->ended++;
    pthread_cond_broadcast(&b->changed);
  }
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

void mrt_comm_thread_begin(mrt_comm_thread *b, mrt_communicator *comm,
                           const mrt_collective *c, int node) {
  pthread_mutex_lock(&b->lock);
  while (b->started - b->ended == DEPTH)
    pthread_cond_wait(&b->changed, &b->lock);
  b->ring[b->started++ % DEPTH] = (comm_job){ comm, *c, node };
  pthread_cond_broadcast(&b->changed);
  pthread_mutex_unlock(&b->lock);
}

/* Is what fills `out` under way?  NULL: is anything? */
static bool under_way(const mrt_comm_thread *b, const void *out) {
  for (uint64_t i = b->ended; i < b->started; i++)
    if (!out || b->ring[i % DEPTH].c.out == out) return true;
  return false;
}

mrt_status mrt_comm_thread_end(mrt_comm_thread *b, const void *out, int *node,
                               mrt_error *e) {
  pthread_mutex_lock(&b->lock);
  while (under_way(b, out) && !b->error.status)
    pthread_cond_wait(&b->changed, &b->lock);
  mrt_status s = b->error.status;
  if (s) *e = b->error, *node = b->failed;
  pthread_mutex_unlock(&b->lock);
  return s;
}

void mrt_comm_thread_drain(mrt_comm_thread *b) {
  pthread_mutex_lock(&b->lock);
  if (b->started > b->ended + 1) b->started = b->ended + 1;
  while (b->ended < b->started) pthread_cond_wait(&b->changed, &b->lock);
  b->error.status = MRT_OK;
  pthread_mutex_unlock(&b->lock);
}

bool mrt_comm_thread_pays(const mrt_communicator *comm) {
  cpu_set_t own;
  if (!comm->here) return true;
  bool known = sched_getaffinity(0, sizeof own, &own) == 0;
  return known && CPU_COUNT(&own) >= 2 * comm->here;
}

bool mrt_comm_thread_is_here(const mrt_comm_thread *b) {
  return b && b->process == getpid();
}

mrt_status mrt_comm_thread_new(const mrt_allocator *allocator,
                               mrt_comm_thread **out, mrt_error *e) {
  sigset_t all, before;
  mrt_comm_thread *b = mrt_calloc(allocator, 1, sizeof *b);
  if (!b) return mrt_nomem(e);
  b->allocator = allocator, b->process = getpid();
  pthread_mutex_init(&b->lock, NULL);
  pthread_cond_init(&b->changed, NULL);
  sigfillset(&all); /* signals are for the threads of the program */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&b->thread, NULL, serve, b);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!code) return *out = b, MRT_OK;
  mrt_release(allocator, b, sizeof *b);
  return mrt_fail(e, MRT_EDEVICE, "no thread for collectives: %s",
                  strerror(code));
}

void mrt_comm_thread_close(mrt_comm_thread *b) {
  if (!b) return;
  if (mrt_comm_thread_is_here(b)) {
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
  }
  mrt_release(b->allocator, b, sizeof *b);
}
