/* check.c -- failures and waiting: what all else of the device calls
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* ---- messages ------------------------------------------------------------ */

/* Set once, to the same for all who load the plug-in. */
static mrt_status (*core_fail)(mrt_error *, mrt_status, const char *, ...);

void mrt_cuda_set_fail(mrt_status (*fail)(mrt_error *, mrt_status, const char *,
                                          ...)) {
  core_fail = fail;
}

/* For what the plug-in shares with the core (base/, tensor/). */
mrt_status mrt_fail(mrt_error *e, mrt_status code, const char *fmt, ...) {
  char text[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return core_fail ? core_fail(e, code, "%s", text) : code;
}

mrt_status mrt_nomem(mrt_error *e) {
  return mrt_fail(e, MRT_ENOMEM, "out of memory");
}

mrt_status mrt_cuda_check(mrt_cuda *c, cudaError_t code, mrt_error *e) {
  if (!c->failed && code != cudaSuccess) c->failed = code;
  if (!c->failed) return MRT_OK;
  return mrt_fail(e, MRT_EDEVICE, "cuda:%d failed: %s", c->index,
                  c->why[0] ? c->why : cudaGetErrorString(c->failed));
}

/* ---- waiting ------------------------------------------------------------- */

/* Until `ask` says that it is done.  Where NCCL is in the stream it may never
 * be: then somebody else says so. */
static cudaError_t await(const mrt_cuda *c, cudaError_t (*ask)(void *),
                         void *of) {
  cudaError_t code;
  for (int turn = 0; (code = ask(of)) == cudaErrorNotReady; turn++) {
    if (__atomic_load_n(&c->stuck, __ATOMIC_SEQ_CST))
      return cudaErrorLaunchFailure;
    long ns = turn < 100 ? 0 : turn < 1000 ? 20000 : 200000;
    if (ns) nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
  }
  return code;
}

static cudaError_t ask_stream(void *stream) { return cudaStreamQuery(stream); }
static cudaError_t ask_event(void *event) { return cudaEventQuery(event); }

cudaError_t mrt_cuda_wait(const mrt_cuda *c, cudaStream_t stream) {
  return c->watched ? await(c, ask_stream, stream)
                    : cudaStreamSynchronize(stream);
}

cudaError_t mrt_cuda_wait_event(const mrt_cuda *c, cudaEvent_t event) {
  return c->watched ? await(c, ask_event, event) : cudaEventSynchronize(event);
}
