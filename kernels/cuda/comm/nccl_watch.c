/* nccl_watch.c -- a thread that looks after communicators that use NCCL
 *
 * Kernels note when a collective begins and ends.  Where one does not end while
 * a rank has died, or failed, or is late, or began another one, the
 * communicator fails on all ranks, and NCCL is made to let go of the stream.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "comm/nccl_comm.h"

#ifdef MRT_NCCL_LIBRARY
#include "comm/nccl_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Seconds. */
#define TICK  0.05
#define GRACE 0.5 /* for a collective to end of which a rank has died since */
#define ABORT 10.0

enum { SURE = 3 }; /* looks that find a rank apart */

typedef struct watching {
  uint64_t begun;        /* when last looked at, */
  double since, trouble; /* and since when; since when there is trouble */
  int apart;
} watching;

/* ---- ending -------------------------------------------------------------- */

static void *end_comm(void *argument) {
  mrt_nccl *n = argument;
  n->end(n->comm);
  atomic_store(&n->ended, 1);
  return NULL;
}

bool mrt_nccl_end(mrt_nccl *n, ncclResult_t (*end)(ncclComm_t),
                  double seconds) {
  pthread_t thread;
  double until = mrt_nccl_clock() + seconds;
  n->end = end;
  if (pthread_create(&thread, NULL, end_comm, n) != 0) return false;
  pthread_detach(thread);
  while (!atomic_load(&n->ended) && mrt_nccl_clock() < until)
    mrt_nccl_sleep(1e-3);
  return atomic_load(&n->ended) != 0;
}

/* NCCL may wait for recordings that have its kernels; what counts is that these
 * end.  If not, who waits for the stream goes on without it. */
static void let_go(mrt_nccl *n) {
  mrt_cuda *c = n->cuda;
  const mrt_cuda_guard *guard = n->cc->guard;
  if (mrt_nccl_end(n, n->lib.abort, ABORT) || guard->begun == guard->ended)
    return;
  snprintf(c->why, sizeof c->why, "NCCL did not stop within %g s", ABORT);
  __atomic_store_n(&c->stuck, 1, __ATOMIC_SEQ_CST);
}

static void fail(mrt_nccl *n, const mrt_error *e) {
  mrt_cuda_comm *t = n->cc;
  mrt_cuda_comm_fail(n->cuda, t, e);
  mrt_cuda_comm_abort(t, e->message);
  pthread_mutex_lock(&n->lock);
  n->closed = true;
  pthread_mutex_unlock(&n->lock);
  let_go(n);
}

/* ---- looking ------------------------------------------------------------- */

typedef struct watch_text {
  char s[160];
} watch_text;

/* "allreduce sum f32[12] (a.lua:3)": what was queued last, near where it is. */
static watch_text at_what(mrt_nccl *n) {
  watch_text s;
  pthread_mutex_lock(&n->lock);
  mrt_collective c = n->last;
  pthread_mutex_unlock(&n->lock);
  bool reduces =
      c.kind == MRT_COLLECT_allreduce || c.kind == MRT_COLLECT_reduce_scatter;
  snprintf(s.s, sizeof s.s, "%s%s%s %s[%lld] (%.60s:%d)",
           mrt_collective_name(c.kind), reduces ? " " : "",
           reduces ? mrt_reduction_name(c.reduction) : "",
           mrt_dtype_name(c.dtype), (long long)c.count, c.file ? c.file : "?",
           c.line);
  return s;
}

static mrt_status check_time(mrt_nccl *n, const watching *w, int behind,
                             mrt_error *e) {
  double timeout = n->cc->comm->timeout;
  unsigned long long number = w->begun;
  if (mrt_nccl_clock() - w->since < timeout) return MRT_OK;
  if (behind >= 0)
    return mrt_fail(e, MRT_ERANK,
                    "rank %d did not come to collective #%llu of the GPU, %s, "
                    "within %g s",
                    behind, number, at_what(n).s, timeout);
  return mrt_fail(e, MRT_ERANK,
                  "collective #%llu of the GPU, %s, did not end within %g s",
                  number, at_what(n).s, timeout);
}

static mrt_status check_nccl(mrt_nccl *n, mrt_error *e) {
  ncclResult_t code = ncclSuccess;
  char why[160];
  pthread_mutex_lock(&n->lock);
  if (!n->closed && n->lib.async_error(n->comm, &code))
    code = ncclInternalError;
  bool bad = code != ncclSuccess && code != ncclInProgress;
  if (bad) mrt_nccl_explain(n, n->cc, code, why);
  pthread_mutex_unlock(&n->lock);
  return bad ? mrt_fail(e, MRT_ERANK, "%s", why) : MRT_OK;
}

/* When the call began that is in NCCL now; 0: none is. */
static double since_within(mrt_nccl *n) {
  pthread_mutex_lock(&n->lock);
  double since = n->within ? n->since : 0;
  pthread_mutex_unlock(&n->lock);
  return since;
}

/* A failure when the communicator has to be ended. */
static mrt_status look(mrt_nccl *n, watching *w, mrt_error *e) {
  const mrt_cuda_guard *guard = n->cc->guard;
  mrt_communicator *comm = n->cc->comm;
  mrt_progress progress = { .begun = guard->common, .digest = guard->digest };
  uint64_t begun = guard->begun;
  double within = since_within(n);
  bool busy = guard->ended != begun || within > 0;
  double now = mrt_nccl_clock();
  int behind = -1, apart = -1;
  if (begun != w->begun || !busy) w->since = now;
  if (within > w->since) w->since = within;
  w->begun = begun;
  if (atomic_load(&n->cc->state) == MRT_CUDA_COMM_FAILED)
    return *e = n->cc->error, e->status;
  MRT_TRY(check_nccl(n, e));
  mrt_status s =
      comm->health ? comm->health(comm, &progress, &behind, &apart, e) : MRT_OK;
  if (!s || !busy) w->trouble = now;
  if (s) return now - w->trouble > GRACE ? s : MRT_OK;
  if (apart >= 0 && ++w->apart >= SURE)
    return mrt_fail(e, MRT_ERANK,
                    "ranks %d and %d ask for different collectives, #%llu of "
                    "the GPU or before; on rank %d: %s",
                    comm->rank, apart, (unsigned long long)progress.begun,
                    comm->rank, at_what(n).s);
  if (apart < 0 && behind < 0) w->apart = 0;
  return busy ? check_time(n, w, behind, e) : MRT_OK;
}

static void *watch(void *argument) {
  mrt_nccl *n = argument;
  watching w = { .since = mrt_nccl_clock(), .trouble = mrt_nccl_clock() };
  mrt_error e = { 0 };
  mrt_status s = MRT_OK;
  pthread_mutex_lock(&n->lock);
  while (!n->leaving && !s) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(TICK * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&n->left, &n->lock, &until);
    if (n->leaving) break;
    pthread_mutex_unlock(&n->lock);
    s = look(n, &w, &e);
    e.status = s;
    if (s) fail(n, &e);
    pthread_mutex_lock(&n->lock);
  }
  pthread_mutex_unlock(&n->lock);
  return NULL;
}

mrt_status mrt_nccl_watch(mrt_nccl *n, mrt_error *e) {
  pthread_mutex_init(&n->lock, NULL);
  pthread_cond_init(&n->left, NULL);
  n->watched = pthread_create(&n->watch, NULL, watch, n) == 0;
  if (n->watched) return MRT_OK;
  return mrt_fail(e, MRT_ERANK, "no thread to look after NCCL");
}

void mrt_nccl_unwatch(mrt_nccl *n) {
  if (!n->watched) return;
  pthread_mutex_lock(&n->lock);
  n->leaving = true;
  pthread_cond_signal(&n->left);
  pthread_mutex_unlock(&n->lock);
  pthread_join(n->watch, NULL);
  pthread_cond_destroy(&n->left);
  pthread_mutex_destroy(&n->lock);
}
#endif
