/* swap_tier.c -- pinned memory of the host as the swap tier of a CUDA device
 *
 * One slab of exactly the planned size, grown outside of steps only: pinning
 * waits for the device.  A lane is a stream.  A copy begins when the kernels
 * queued before it are done; what is queued after `wait` begins when the copy
 * is done.  The host waits for nothing but `drain` and `resize`.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <errno.h>
#include <string.h>

/* Copies of a lane that are told apart; who waits for an older one waits for
 * the oldest of these, which is later. */
enum { RING = 64 };

typedef struct cuda_lane {
  cudaStream_t stream;
  cudaEvent_t ready, done[RING]; /* of copy n: done[n % RING] */
  uint64_t started, joined; /* copies; of these, what the queue waits for */
} cuda_lane;

typedef struct cuda_tier {
  mrt_tier tier;
  mrt_cuda *cuda;
  const mrt_allocator *allocator;
  char *data;
  size_t nbytes;
  cuda_lane lanes[2];
} cuda_tier;

static cudaError_t drain_lanes(cuda_tier *t) {
  cudaError_t code = cudaSetDevice(t->cuda->index);
  if (!code) code = cudaStreamSynchronize(t->cuda->queue);
  for (int l = 0; l < 2 && !code; l++) {
    code = cudaStreamSynchronize(t->lanes[l].stream);
    t->lanes[l].joined = t->lanes[l].started;
  }
  return code;
}

static mrt_status resize(mrt_tier *tier, size_t nbytes, mrt_error *e) {
  cuda_tier *t = (cuda_tier *)tier;
  void *fresh = NULL;
  if (nbytes == t->nbytes) return MRT_OK;
  MRT_CUDA_TRY(t->cuda, drain_lanes(t), e);
  if (nbytes &&
      cudaHostAlloc(&fresh, nbytes, cudaHostAllocDefault) != cudaSuccess) {
    cudaGetLastError();
    return mrt_fail(e, MRT_EDEVICE, "no %zu bytes of pinned memory to swap to",
                    nbytes);
  }
  size_t kept = nbytes < t->nbytes ? nbytes : t->nbytes;
  if (kept) memcpy(fresh, t->data, kept);
  cudaFreeHost(t->data);
  t->data = fresh, t->nbytes = nbytes;
  return MRT_OK;
}

/* Failures stay with the device, which is asked after each step. */
static uint64_t start(mrt_tier *tier, mrt_tier_lane which, void *data,
                      size_t offset, size_t nbytes) {
  cuda_tier *t = (cuda_tier *)tier;
  cuda_lane *l = &t->lanes[which];
  uint64_t number = l->started++;
  bool out = which == MRT_TIER_OUT;
  void *home = t->data + offset;
  mrt_error ignored;
  cudaError_t code = cudaEventRecord(l->ready, t->cuda->queue);
  if (!code) code = cudaStreamWaitEvent(l->stream, l->ready, 0);
  if (!code && nbytes)
    code = cudaMemcpyAsync(
        out ? home : data, out ? data : home, nbytes,
        out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, l->stream);
  if (!code) code = cudaEventRecord(l->done[number % RING], l->stream);
  mrt_cuda_check(t->cuda, code, &ignored);
  return number;
}

static int wait_for(mrt_tier *tier, mrt_tier_lane which, uint64_t number) {
  cuda_tier *t = (cuda_tier *)tier;
  cuda_lane *l = &t->lanes[which];
  mrt_error ignored;
  /* An event of a copy so old has been taken by a later one. */
  cudaError_t code =
      cudaStreamWaitEvent(t->cuda->queue, l->done[number % RING], 0);
  return mrt_cuda_check(t->cuda, code, &ignored) ? EIO : 0;
}

/* A lane without copies since the last time stays out: what is being recorded
 * must not wait for what was not. */
static void join(mrt_tier *tier) {
  cuda_tier *t = (cuda_tier *)tier;
  for (int i = 0; i < 2; i++) {
    cuda_lane *l = &t->lanes[i];
    if (l->started > l->joined)
      wait_for(tier, (mrt_tier_lane)i, l->started - 1);
    l->joined = l->started;
  }
}

static void drain(mrt_tier *tier) {
  cuda_tier *t = (cuda_tier *)tier;
  mrt_error ignored;
  mrt_cuda_check(t->cuda, drain_lanes(t), &ignored);
}

static void *memory(mrt_tier *tier, size_t offset) {
  return ((cuda_tier *)tier)->data + offset;
}

static void close_tier(mrt_tier *tier) {
  cuda_tier *t = (cuda_tier *)tier;
  drain(tier);
  for (int i = 0; i < 2; i++) {
    cuda_lane *l = &t->lanes[i];
    for (int k = 0; k < RING; k++)
      if (l->done[k]) cudaEventDestroy(l->done[k]);
    if (l->ready) cudaEventDestroy(l->ready);
    if (l->stream) cudaStreamDestroy(l->stream);
  }
  cudaFreeHost(t->data);
  mrt_release(t->allocator, t, sizeof *t);
}

static cudaError_t open_lane(cuda_lane *l) {
  cudaError_t code =
      cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking);
  if (!code) code = cudaEventCreateWithFlags(&l->ready, cudaEventDisableTiming);
  for (int k = 0; k < RING && !code; k++)
    code = cudaEventCreateWithFlags(&l->done[k], cudaEventDisableTiming);
  return code;
}

mrt_status mrt_cuda_open_tier(const mrt_device *device, const char *folder,
                              const mrt_allocator *a, mrt_tier **tier,
                              mrt_error *e) {
  cuda_tier *t = mrt_calloc(a, 1, sizeof *t);
  (void)folder;
  if (!t) return mrt_fail(e, MRT_ENOMEM, "out of memory");
  t->tier =
      (mrt_tier){ resize, start, wait_for, drain, join, close_tier, memory };
  t->cuda = mrt_cuda_of(device), t->allocator = a;
  cudaError_t code = open_lane(&t->lanes[0]);
  if (!code) code = open_lane(&t->lanes[1]);
  mrt_status s = mrt_cuda_check(t->cuda, code, e);
  if (s) return close_tier(&t->tier), s;
  *tier = &t->tier;
  return MRT_OK;
}
