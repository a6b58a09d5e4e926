/* comm.h -- what a CUDA device has for each communicator it computes with
 *
 * Values go through NCCL where all ranks have it and a GPU of their own, else
 * through pinned memory of the host and the communicator itself: a copy down, a
 * function of the host in the stream, a copy up.  The communicator is how ranks
 * agree which, and how they fail together.
 *
 * Whoever waits in the stream is let go in bounded time.  What failed is told in
 * the host's memory; a kernel behind each collective sets the run's fault
 * word then, so that no update takes data that never came.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_COMM_H
#define MRT_CUDA_COMM_H

#include "runtime/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pinned: what kernels and the host tell each other. */
typedef struct mrt_cuda_guard {
  volatile int refused; /* by the host: a collective has failed */
  /* Launches of NCCL's in this stream; collectives that all ranks share in
   * them, and a number made of what these were. */
  volatile uint64_t begun, ended, common, digest;
} mrt_cuda_guard;

enum { MRT_CUDA_GUARDED = 64 }; /* collectives in one launch at most */
typedef struct mrt_cuda_guarded {
  int count;
  uint64_t what[MRT_CUDA_GUARDED];
} mrt_cuda_guarded;

#ifndef __cplusplus
#include <stdatomic.h>

/* Pinned memory for a value of the largest collective so far. */
typedef struct mrt_cuda_staging {
  char *data;
  size_t nbytes;
  int uses;
  mrt_communicator *owner; /* in whose heap `block` is; NULL: CUDA's memory */
  void *block;
  size_t block_bytes;
} mrt_cuda_staging;

enum { MRT_CUDA_COMM_WELL, MRT_CUDA_COMM_FAILING, MRT_CUDA_COMM_FAILED };

typedef struct mrt_cuda_comm {
  struct mrt_cuda_comm *next;
  mrt_communicator *comm; /* NULL: closed */
  /* The same ranks once more, with a communicator of their own and of NCCL's,
   * in a stream of their own: neither waits for what the other has queued. */
  struct mrt_cuda_comm *_Atomic beside; /* NULL: not yet */
  struct mrt_cuda_comm *main;           /* of that one: who it stands beside */
  cudaStream_t queue;                   /* its own; NULL: that of the run */
  uint64_t bit;                         /* of mrt_cuda.lost and needs */
  mrt_cuda_guard *guard;
  mrt_cuda_staging *stage;
  struct mrt_nccl *nccl; /* NULL: through the host */
  _Atomic int state;
  mrt_error error; /* of one that has failed */
} mrt_cuda_comm;

/* The device's for `comm`, made at the first call, which all ranks make: a
 * collective, not while a recording is made. */
mrt_status mrt_cuda_comm_find(mrt_cuda *c, mrt_communicator *comm,
                              mrt_cuda_comm **cc, mrt_error *e);
/* That beside it, made at the first call as above.  `cc` has NCCL. */
mrt_status mrt_cuda_comm_beside(mrt_cuda *c, mrt_cuda_comm *cc,
                                mrt_cuda_comm **beside, mrt_error *e);
/* In any thread: all ranks fail, of both. */
void mrt_cuda_comm_abort(mrt_cuda_comm *cc, const char *why);
/* In any thread: it fails from now on, with the first message. */
void mrt_cuda_comm_fail(mrt_cuda *c, mrt_cuda_comm *cc, const mrt_error *e);
/* The message of a communicator that has failed and is one of `bits`, or
 * MRT_OK. */
mrt_status mrt_cuda_comm_check(const mrt_cuda *c, uint64_t bits, mrt_error *e);
/* With at least so many bytes, one use more. */
mrt_status mrt_cuda_comm_staging(mrt_cuda *c, mrt_cuda_comm *cc, size_t nbytes,
                                 mrt_cuda_staging **stage, mrt_error *e);
void mrt_cuda_staging_release(mrt_cuda_staging *stage);

/* Of mrt_remote. */
void mrt_cuda_stop(const mrt_device *device, mrt_run *run);
bool mrt_cuda_records_together(const mrt_device *device,
                               const mrt_communicator *comm);
void mrt_cuda_part(const mrt_device *device, mrt_communicator *comm);
void mrt_cuda_comms_close(mrt_cuda *c);
#endif

/* comm/guard.cu: a collective of NCCL begins; one has ended (`counts`: by NCCL).
 * Without `words` the run does not hear of it yet. */
void mrt_cuda_guard_begin(mrt_cuda_guard *guard, const mrt_cuda_guarded *all,
                          cudaStream_t queue);
void mrt_cuda_guard_end(mrt_cuda_guard *guard, bool counts,
                        mrt_run_words *words, int node, cudaStream_t queue);

#ifdef __cplusplus
}
#endif

#endif
