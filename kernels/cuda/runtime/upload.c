/* upload.c -- what the host gives in memory of its own goes beside the queue
 *
 * A batch of inputs is in memory that nothing queued uses.  So that memory is
 * had, and filled, in the order of a stream of its own, by way of a few pinned
 * pieces, and only what is queued afterwards waits for it: neither does the copy
 * wait for the step that is running, nor the host for either.
 *
 *     host      memcpy 0 | memcpy 1 | queue the step ..
 *     uploads            | copy 0 ---- | copy 1 ---- |
 *     queue     the step before ---------------------- | this step
 *
 * The memory is given back in the order of the queue; the pool has it again for
 * this stream when that is done, never by making the stream wait
 * (mrt_cuda_open_pool in memory.c).  How far the host may be ahead is bounded,
 * in bytes.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
  PIECES = 4,
  PIECE = 4 << 20, /* bytes */
  TURNS = 64       /* uploads that the queue may be behind, at most, and */
};
static const size_t AHEAD = 256 << 20; /* bytes of these, or two uploads */

typedef struct mrt_cuda_uploads {
  cudaStream_t stream;
  char *staged;               /* pinned: [PIECES][PIECE] */
  cudaEvent_t passed[PIECES]; /* the piece has been copied */
  uint64_t pieces;            /* begun so far */
  cudaEvent_t done;           /* what the stream was given so far */
  /* Of upload n, n % TURNS: where the queue was then, and bytes. */
  cudaEvent_t turn[TURNS];
  size_t nbytes[TURNS];
  uint64_t begun, over; /* uploads; of these, what the queue has come to */
  size_t ahead;         /* bytes of the others */
} uploads;

static cudaError_t start(uploads *u) {
  const unsigned quiet = cudaEventDisableTiming | cudaEventBlockingSync;
  cudaError_t code =
      cudaStreamCreateWithFlags(&u->stream, cudaStreamNonBlocking);
  if (!code) code = cudaEventCreateWithFlags(&u->done, quiet);
  for (int i = 0; i < PIECES && !code; i++)
    code = cudaEventCreateWithFlags(&u->passed[i], quiet);
  for (int i = 0; i < TURNS && !code; i++)
    code = cudaEventCreateWithFlags(&u->turn[i], quiet);
  if (!code)
    code = cudaHostAlloc((void **)&u->staged, (size_t)PIECES * PIECE,
                         cudaHostAllocDefault);
  return code;
}

static void end(uploads *u) {
  if (u->stream) cudaStreamDestroy(u->stream);
  if (u->done) cudaEventDestroy(u->done);
  for (int i = 0; i < PIECES; i++)
    if (u->passed[i]) cudaEventDestroy(u->passed[i]);
  for (int i = 0; i < TURNS; i++)
    if (u->turn[i]) cudaEventDestroy(u->turn[i]);
  cudaFreeHost(u->staged);
  free(u);
}

/* NULL: it cannot be had, and uploads are queued like all else. */
static uploads *find(mrt_cuda *c) {
  if (c->uploads || c->no_uploads) return c->uploads;
  uploads *u = calloc(1, sizeof *u);
  if (u && start(u) != cudaSuccess) {
    cudaGetLastError();
    end(u);
    u = NULL;
  }
  c->no_uploads = !u;
  return c->uploads = u;
}

void mrt_cuda_close_uploads(mrt_cuda *c) {
  if (c->uploads) end(c->uploads);
  c->uploads = NULL;
}

/* What is queued from here on comes after all that the stream was given. */
static cudaError_t join(const mrt_cuda *c, const uploads *u) {
  cudaError_t code = cudaEventRecord(u->done, u->stream);
  return code ? code : cudaStreamWaitEvent(c->queue, u->done, 0);
}

/* Memory that was given back comes free as the queue goes on, so the host must
 * not run away from it. */
static cudaError_t take_turn(const mrt_cuda *c, uploads *u, size_t nbytes) {
  cudaError_t code = cudaSuccess;
  size_t most = AHEAD > 2 * nbytes ? AHEAD : 2 * nbytes;
  while (u->over < u->begun && !code) {
    bool full = u->begun - u->over == TURNS || u->ahead + nbytes > most;
    cudaEvent_t oldest = u->turn[u->over % TURNS];
    code = full ? mrt_cuda_wait_event(c, oldest) : cudaEventQuery(oldest);
    if (code == cudaErrorNotReady) {
      cudaGetLastError(), code = cudaSuccess;
      break;
    }
    u->ahead -= u->nbytes[u->over++ % TURNS];
  }
  if (!code) code = cudaEventRecord(u->turn[u->begun % TURNS], c->queue);
  if (code) return code;
  u->ahead += u->nbytes[u->begun++ % TURNS] = nbytes;
  return cudaSuccess;
}

void *mrt_cuda_alloc_apart(const mrt_device *device, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  uploads *u = c->failed ? NULL : find(c);
  if (!u) return device->alloc(device, nbytes);
  cudaError_t code = take_turn(c, u, nbytes);
  void *data = code ? NULL : mrt_cuda_from_pool(c, nbytes, u->stream);
  if (data) code = join(c, u);
  if (!code) return data;
  if (!c->failed) c->failed = code;
  return NULL;
}

static cudaError_t copy(const mrt_cuda *c, uploads *u, char *to,
                        const char *from, size_t nbytes) {
  cudaError_t code = cudaSuccess;
  while (nbytes > 0 && !code) {
    uint64_t i = u->pieces++ % PIECES;
    size_t n = nbytes < PIECE ? nbytes : PIECE;
    char *room = u->staged + i * PIECE;
    if ((code = mrt_cuda_wait_event(c, u->passed[i]))) break;
    memcpy(room, from, n);
    code = cudaMemcpyAsync(to, room, n, cudaMemcpyHostToDevice, u->stream);
    if (!code) code = cudaEventRecord(u->passed[i], u->stream);
    to += n, from += n, nbytes -= n;
  }
  return code ? code : join(c, u);
}

mrt_status mrt_cuda_write_apart(const mrt_device *device, void *to,
                                const void *from, size_t nbytes, mrt_error *e) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (!c->uploads) return device->remote->write(device, to, from, nbytes, e);
  return mrt_cuda_check(c, copy(c, c->uploads, to, from, nbytes), e);
}
