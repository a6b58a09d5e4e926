/* cuda.h -- what the C files of the CUDA device share
 *
 * One context of the library is one device with up to six streams: kernels,
 * results that are read, uploads, copies out, copies in, collectives beside.
 * Each mrt_device has its own.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CUDA_H
#define MRT_CUDA_CUDA_H

#include "device/device.h"

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MRT_CUDA_RUNS = 1024,      /* plans that have words, at one time */
  MRT_CUDA_FENCES = 16,      /* that are told apart */
  MRT_CUDA_STAGES = 4,       /* pieces on their way to the device, */
  MRT_CUDA_STAGED = 1 << 20, /* of so many bytes */
  MRT_CUDA_SMALL = 64 /* bytes that are written by a kernel's arguments */
};

/* Memory that was had by itself, not from the pool: an arena. */
typedef struct mrt_cuda_block {
  void *data;
  size_t nbytes;
} mrt_cuda_block;

typedef struct mrt_cuda {
  int index;
  cudaStream_t queue, reads; /* reads: of results, beside the queue */
  cudaEvent_t
      fences[MRT_CUDA_FENCES]; /* of fence n: fences[n % MRT_CUDA_FENCES] */
  uint64_t last_fence;
  char *staged; /* pinned: [MRT_CUDA_STAGES][MRT_CUDA_STAGED] */
  cudaEvent_t passed[MRT_CUDA_STAGES]; /* the piece has been copied */
  uint64_t pieces;                     /* begun so far */
  cudaError_t failed;                  /* the first failure; it stays */
  char why[240];                       /* of it; "": what CUDA says */
  mrt_run_words *words, *seen; /* [MRT_CUDA_RUNS]: there, and their copy here */
  bool taken[MRT_CUDA_RUNS];
  size_t overhead; /* bytes of the device that context and libraries took */
  /* switches.c: products by kernels of ours; the library's first algorithm,
   * untimed; attention by kernels without matrix units; by none of warpgroups;
   * each node of a run is waited for, and none is recorded */
  bool no_lt, no_trials, plain_attention, no_groups, waits;
  unsigned groups_tried, groups_right; /* bits of attention_trial.c */
  bool groups_refused;                 /* that was told */
  struct mrt_lt_library *lt_library;   /* gemm/cublaslt.c */
  struct mrt_dnns *dnn;                /* dnn/dnn.c; NULL: not used */
  struct mrt_cuda_comm *comms; /* comm/comm.c: of communicators in use */
  cudaStream_t beside;         /* of lazy collectives, by NCCL */
  cudaEvent_t fork;            /* they begin after what is in the queue now */
  struct mrt_nccl *ending;     /* NCCL has not let go of these yet */
  struct mrt_cuda_meeting *under_way; /* of these: nobody has waited for them */
  uint64_t lost;                 /* bits of those that have failed; atomic */
  uint64_t needs[MRT_CUDA_RUNS]; /* communicators, of each run's words */
  bool replays;       /* recordings were launched since NCCL was last called */
  int watched;        /* communicators that compute by NCCL */
  int stuck;          /* NCCL does not let go of the queue; atomic */
  cudaMemPool_t pool; /* of tensors */
  struct mrt_cuda_uploads *uploads; /* runtime/upload.c; NULL: not yet */
  bool no_uploads;                  /* they cannot be had */
  mrt_cuda_block *blocks;
  int block_count, block_room;
  int sms, arch; /* arch: 90 for sm_90 */
  size_t capacity;
  char isa[16], libraries[128];
} mrt_cuda;

static inline mrt_cuda *mrt_cuda_of(const mrt_device *device) {
  return (mrt_cuda *)device->state;
}

/* The calling thread's device is that of its last call, whichever that was. */
static inline mrt_cuda *mrt_cuda_use(const mrt_device *device) {
  mrt_cuda *c = mrt_cuda_of(device);
  cudaSetDevice(c->index);
  return c;
}

/* ---- check.c ------------------------------------------------------------- */

/* How the core writes messages: before anything else here is called. */
void mrt_cuda_set_fail(mrt_status (*fail)(mrt_error *, mrt_status, const char *,
                                          ...));
/* The first failure is kept, and makes EDEVICE from then on. */
mrt_status mrt_cuda_check(mrt_cuda *c, cudaError_t code, mrt_error *e);
#define MRT_CUDA_TRY(c, call, e) MRT_TRY(mrt_cuda_check(c, call, e))

/* Until all that was given to the stream is done. */
cudaError_t mrt_cuda_wait(const mrt_cuda *c, cudaStream_t stream);
cudaError_t mrt_cuda_wait_event(const mrt_cuda *c, cudaEvent_t event);

/* memory.c: the pool of tensors, in the order of the stream; NULL: there is no
 * more, or the device has failed. */
cudaError_t mrt_cuda_open_pool(mrt_cuda *c);
void *mrt_cuda_from_pool(mrt_cuda *c, size_t nbytes, cudaStream_t stream);

/* upload.c: of mrt_remote. */
void *mrt_cuda_alloc_apart(const mrt_device *device, size_t nbytes);
mrt_status mrt_cuda_write_apart(const mrt_device *device, void *to,
                                const void *from, size_t nbytes, mrt_error *e);
void mrt_cuda_close_uploads(mrt_cuda *c);

/* The parts of a device: switches.c, memory.c, device.c, swap_tier.c, table.c,
 * declared_profile.c. */
void mrt_cuda_read_switches(mrt_cuda *c);
void mrt_cuda_fill_memory(mrt_device *device);
void mrt_cuda_fill_queue(mrt_device *device);
mrt_status mrt_cuda_open_tier(const mrt_device *device, const char *folder,
                              const mrt_allocator *a, mrt_tier **tier,
                              mrt_error *e);
const mrt_kernel *mrt_cuda_kernel(const mrt_device *device, int op,
                                  mrt_dtype dtype);
void mrt_cuda_describe(const mrt_device *device, mrt_device_profile *to);

/* runtime/run_params.cu */
void mrt_cuda_put_words(mrt_run_words *to, mrt_run_words *seen,
                        const mrt_run *run, cudaStream_t queue);
void mrt_cuda_put_milestone(mrt_run_words *seen, int done, cudaStream_t queue);
void mrt_cuda_clear_fault(mrt_run_words *to, cudaStream_t queue);
void mrt_cuda_put_small(void *to, const void *from, size_t nbytes,
                        cudaStream_t queue);

#ifdef __cplusplus
}
#endif

#endif
