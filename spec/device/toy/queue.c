/* queue.c -- the toy as a device that queues, with what every queue has
 *
 * Where MRT_TOY_QUEUE is set.  What is queued is done at once, which is as
 * early as a queue may; a bad index is what its kernels would leave in a run's
 * words, and they have none.  No recordings, no milestones.
 *
 * SPDX-License-Identifier: MIT */
#include "toy.h"

#include <string.h>

enum { RUNS = 256 };

static mrt_run_words words[RUNS];
static bool taken[RUNS];
static uint64_t fences;

static mrt_status wait(const mrt_device *device, mrt_error *e) {
  (void)device, (void)e;
  return MRT_OK;
}

static uint64_t fence(const mrt_device *device) {
  (void)device;
  return ++fences;
}

static mrt_status wait_fence(const mrt_device *device, uint64_t number,
                             mrt_error *e) {
  (void)device, (void)number, (void)e;
  return MRT_OK;
}

static mrt_status begin(const mrt_device *device, mrt_run *run, mrt_error *e) {
  int i = 0;
  (void)device, (void)e;
  while (taken[i]) i++; /* no spec has so many plans */
  if (!run->words) run->words = &words[i], taken[i] = true;
  run->words->fault = 0;
  return MRT_OK;
}

static mrt_status end(const mrt_device *device, mrt_run *run, mrt_error *e) {
  (void)device, (void)run, (void)e;
  return MRT_OK;
}

static void see(const mrt_device *device, mrt_run *run) {
  (void)device;
  run->fault = run->words->fault;
}

static mrt_status clear_fault(const mrt_device *device, mrt_run *run,
                              mrt_error *e) {
  (void)device, (void)e;
  run->words->fault = 0;
  return MRT_OK;
}

static void leave(const mrt_device *device, mrt_run *run) {
  (void)device;
  taken[run->words - words] = false;
  run->words = NULL;
}

const mrt_queue toy_queue = {
  .wait = wait,
  .fence = fence,
  .wait_fence = wait_fence,
  .begin = begin,
  .end = end,
  .see = see,
  .clear_fault = clear_fault,
  .leave = leave,
};
