/* device.c -- a CUDA device: its queue, runs, recordings
 *
 * Nothing here waits for the device but what says so in its name (wait, sync,
 * read): a step is queued, recorded at its second run, and replayed.  The first
 * failure of any call is kept (mrt_cuda_check) and is every later call's answer,
 * since a device that has failed once computes nothing more; but a recording
 * that does not work out has computed nothing, and is done without (give_up).
 * MRT_CUDA_GRAPHS=off records nothing.  A run's words
 * (fault, step, seed) lie in the device's memory, where kernels read them: a
 * recording is never made again because they change.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/comm.h"
#include "jit/compile.h"
#include "jit/jit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- fences -------------------------------------------------------------- */

static uint64_t set_fence(const mrt_device *device) {
  mrt_cuda *c = mrt_cuda_use(device);
  uint64_t n = c->last_fence + 1;
  cudaError_t code = cudaEventRecord(c->fences[n % MRT_CUDA_FENCES], c->queue);
  if (code == cudaSuccess) return c->last_fence = n;
  if (!c->failed) c->failed = code;
  return 0;
}

/* The event of an older fence tells of a later one by now. */
static mrt_status wait_fence(const mrt_device *device, uint64_t fence,
                             mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  return mrt_cuda_check(
      c, mrt_cuda_wait_event(c, c->fences[fence % MRT_CUDA_FENCES]), e);
}

/* ---- copies -------------------------------------------------------------- */

/* By way of pinned memory, so that a few of them need not wait for the step that
 * is running; what is large and new goes beside it (upload.c). */
static mrt_status put_staged(mrt_cuda *c, char *to, const char *from,
                             size_t nbytes, mrt_error *e) {
  while (nbytes > 0) {
    uint64_t i = c->pieces++ % MRT_CUDA_STAGES;
    size_t n = nbytes < MRT_CUDA_STAGED ? nbytes : MRT_CUDA_STAGED;
    char *room = c->staged + i * MRT_CUDA_STAGED;
    MRT_CUDA_TRY(c, mrt_cuda_wait_event(c, c->passed[i]), e);
    memcpy(room, from, n);
    MRT_CUDA_TRY(
        c, cudaMemcpyAsync(to, room, n, cudaMemcpyHostToDevice, c->queue), e);
    MRT_CUDA_TRY(c, cudaEventRecord(c->passed[i], c->queue), e);
    to += n, from += n, nbytes -= n;
  }
  return MRT_OK;
}

static mrt_status put(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (nbytes <= MRT_CUDA_SMALL) {
    if (nbytes) mrt_cuda_put_small(to, from, nbytes, c->queue);
    return mrt_cuda_check(c, cudaGetLastError(), e);
  }
  return put_staged(c, to, from, nbytes, e);
}

static mrt_status get(const mrt_device *device, void *to, const void *from,
                      size_t nbytes, uint64_t fence, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  cudaStream_t stream = fence ? c->reads : c->queue;
  if (fence) MRT_TRY(wait_fence(device, fence, e));
  if (nbytes)
    MRT_CUDA_TRY(
        c, cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToHost, stream),
        e);
  return mrt_cuda_check(c, mrt_cuda_wait(c, stream), e);
}

static mrt_status copy(const mrt_device *device, void *to, const void *from,
                       size_t nbytes, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (!nbytes) return MRT_OK;
  return mrt_cuda_check(
      c, cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, c->queue),
      e);
}

static mrt_status fill(const mrt_device *device, void *to, int byte,
                       size_t nbytes, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (!nbytes) return MRT_OK;
  return mrt_cuda_check(c, cudaMemsetAsync(to, byte, nbytes, c->queue), e);
}

static mrt_status wait(const mrt_device *device, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  return mrt_cuda_check(c, mrt_cuda_wait(c, c->queue), e);
}

static mrt_status check(const mrt_device *device, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_of(device);
  char why[MRT_JIT_WHY];
  if (mrt_jit_failed(why)) return mrt_fail(e, MRT_EDEVICE, "%s", why);
  if (c->waits) MRT_TRY(mrt_cuda_check(c, mrt_cuda_wait(c, c->queue), e));
  return mrt_cuda_check(c, cudaPeekAtLastError(), e);
}

/* ---- runs ---------------------------------------------------------------- */

static int slot_of(const mrt_cuda *c, const mrt_run *run) {
  return (int)(run->words - c->words);
}

static mrt_status take_words(mrt_cuda *c, mrt_run *run, mrt_error *e) {
  int i = 0;
  while (i < MRT_CUDA_RUNS && c->taken[i]) i++;
  if (i == MRT_CUDA_RUNS)
    return mrt_fail(e, MRT_ENOMEM, "cuda:%d: %d plans at a time are the most",
                    c->index, MRT_CUDA_RUNS);
  MRT_CUDA_TRY(c, cudaMemsetAsync(&c->words[i], 0, sizeof *c->words, c->queue),
               e);
  c->taken[i] = true, run->words = &c->words[i], c->needs[i] = 0;
  memset(&c->seen[i], 0, sizeof *c->seen);
  return MRT_OK;
}

static mrt_status begin(const mrt_device *device, mrt_run *run, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (!run->words) MRT_TRY(take_words(c, run, e));
  MRT_TRY(mrt_cuda_comm_check(c, c->needs[slot_of(c, run)], e));
  run->queue = c->queue;
  mrt_cuda_put_words(run->words, &c->seen[slot_of(c, run)], run, c->queue);
  return check(device, e);
}

static mrt_status end(const mrt_device *device, mrt_run *run, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  return mrt_cuda_check(c,
                        cudaMemcpyAsync(&c->seen[slot_of(c, run)], run->words,
                                        sizeof *run->words,
                                        cudaMemcpyDeviceToHost, c->queue),
                        e);
}

static void see(const mrt_device *device, mrt_run *run) {
  const mrt_cuda *c = mrt_cuda_use(device);
  const volatile mrt_run_words *seen = &c->seen[slot_of(c, run)];
  run->fault = seen->fault;
  run->bad_id = seen->bad_id, run->bad_limit = seen->bad_limit;
  if (!run->fault || run->bad_limit >= 0) return;
  run->refused = run->fault;
  mrt_cuda_comm_check(c, c->needs[slot_of(c, run)], run->error);
}

static mrt_status milestone(const mrt_device *device, const mrt_run *run,
                            int done, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  mrt_cuda_put_milestone(&c->seen[slot_of(c, run)], done, c->queue);
  return check(device, e);
}

/* Where the queue still works it was a call that failed, not what it ran; where
 * each node is waited for, it was the last one. */
static int reached(const mrt_device *device, const mrt_run *run) {
  const mrt_cuda *c = mrt_cuda_use(device);
  const volatile mrt_run_words *seen = &c->seen[slot_of(c, run)];
  if (c->waits || mrt_cuda_wait(c, c->queue) == cudaSuccess) return -1;
  return seen->under_way - 1;
}

static mrt_status clear_fault(const mrt_device *device, mrt_run *run,
                              mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  MRT_TRY(wait(device, e));
  mrt_cuda_clear_fault(run->words, c->queue);
  c->seen[slot_of(c, run)].fault = 0;
  return check(device, e);
}

static void leave(const mrt_device *device, mrt_run *run) {
  mrt_cuda *c = mrt_cuda_of(device);
  c->taken[slot_of(c, run)] = false;
  run->words = NULL;
}

/* ---- recordings ---------------------------------------------------------- */

/* Codes of captures: what was captured is lost, the device is as it was. */
static bool is_of_capture(cudaError_t code) {
  return code >= cudaErrorStreamCaptureUnsupported &&
         code <= cudaErrorCapturedEvent;
}

/* There is no recording, and *e says why.  EDEVICE if the device has failed, or
 * its queue still captures. */
static mrt_status give_up(mrt_cuda *c, const char *what, cudaError_t code,
                          mrt_error *e) {
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaGetLastError();
  if (is_of_capture(c->failed)) code = c->failed, c->failed = cudaSuccess;
  cudaError_t now = cudaStreamIsCapturing(c->queue, &capture);
  if (!now && capture != cudaStreamCaptureStatusNone) now = code;
  if (!now) now = cudaStreamQuery(c->queue);
  if (now == cudaErrorNotReady) cudaGetLastError(), now = cudaSuccess;
  MRT_CUDA_TRY(c, now, e);
  mrt_fail(e, MRT_EDEVICE, "cuda:%d: %s: %s", c->index, what,
           cudaGetErrorString(code));
  return MRT_OK;
}

static mrt_status record(const mrt_device *device, bool *begun, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  MRT_TRY(mrt_cuda_check(c, cudaSuccess, e));
  cudaError_t code =
      cudaStreamBeginCapture(c->queue, cudaStreamCaptureModeThreadLocal);
  *begun = code == cudaSuccess;
  return *begun ? MRT_OK : give_up(c, "cudaStreamBeginCapture", code, e);
}

static mrt_status recorded(const mrt_device *device, void **recording,
                           mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  const char *what = "cudaStreamEndCapture";
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  *recording = NULL;
  cudaError_t code = cudaStreamEndCapture(c->queue, &graph);
  if (!code) {
    what = "cudaGraphInstantiate";
    code = cudaGraphInstantiate(&exec, graph, 0);
  }
  if (graph) cudaGraphDestroy(graph);
  if (code || is_of_capture(c->failed)) {
    if (exec && !code) cudaGraphExecDestroy(exec);
    return give_up(c, what, code, e);
  }
  *recording = exec;
  return mrt_cuda_check(c, cudaSuccess, e);
}

static mrt_status replay(const mrt_device *device, void *recording,
                         mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  c->replays = true;
  return mrt_cuda_check(c, cudaGraphLaunch(recording, c->queue), e);
}

static void forget(const mrt_device *device, void *recording) {
  (void)device;
  cudaGraphExecDestroy(recording);
}

static const mrt_remote remote = {
  .write = put,
  .read = get,
  .copy = copy,
  .fill = fill,
  .alloc_apart = mrt_cuda_alloc_apart,
  .write_apart = mrt_cuda_write_apart,
};

#define STEP_BY_STEP                                                           \
  .wait = wait, .fence = set_fence, .wait_fence = wait_fence, .begin = begin,  \
  .end = end, .stop = mrt_cuda_stop, .see = see, .milestone = milestone,       \
  .reached = reached, .clear_fault = clear_fault, .leave = leave,              \
  .part = mrt_cuda_part, .together = mrt_cuda_records_together

static const mrt_queue plain = { STEP_BY_STEP };
static const mrt_queue queue = {
  STEP_BY_STEP,     .record = record, .recorded = recorded,
  .replay = replay, .forget = forget,
};

void mrt_cuda_fill_queue(mrt_device *device) {
  const char *graphs = getenv("MRT_CUDA_GRAPHS");
  bool off = graphs && strcmp(graphs, "off") == 0;
  if (mrt_cuda_of(device)->waits) off = true;
  device->clock = clock_seconds;
  device->remote = &remote, device->queue = off ? &plain : &queue;
  device->check = check;
}
