/* nccl_inside.h -- what the files about NCCL share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_TEAM_NCCL_INSIDE_H
#define MRT_CUDA_TEAM_NCCL_INSIDE_H

#include "comm/comm.h"

#include <nccl.h>
#include <pthread.h>

/* Beyond NCCL's own: our deadline has passed. */
#define MRT_NCCL_LATE ((ncclResult_t)1000)

/* clang-format off */
#define MRT_NCCL_FUNCTIONS(F)                                                  \
  F(get_version, "ncclGetVersion") F(unique_id, "ncclGetUniqueId")             \
  F(init, "ncclCommInitRankConfig") F(destroy, "ncclCommDestroy")              \
  F(abort, "ncclCommAbort") F(async_error, "ncclCommGetAsyncError")            \
  F(error_string, "ncclGetErrorString") F(last_error, "ncclGetLastError")      \
  F(begin_group, "ncclGroupStart") F(end_group, "ncclGroupEnd")                \
  F(allreduce, "ncclAllReduce") F(reduce_scatter, "ncclReduceScatter")         \
  F(allgather, "ncclAllGather") F(broadcast, "ncclBroadcast")                  \
  F(send, "ncclSend") F(recv, "ncclRecv")                                      \
  F(enroll, "ncclCommRegister") F(deregister, "ncclCommDeregister")
/* clang-format on */

typedef struct mrt_nccl_library {
  void *library;
  int version;
  ncclResult_t (*get_version)(int *);
  ncclResult_t (*unique_id)(ncclUniqueId *);
  ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
  ncclResult_t (*destroy)(ncclComm_t);
  ncclResult_t (*abort)(ncclComm_t);
  ncclResult_t (*async_error)(ncclComm_t, ncclResult_t *);
  const char *(*error_string)(ncclResult_t);
  const char *(*last_error)(ncclComm_t);
  ncclResult_t (*begin_group)(void);
  ncclResult_t (*end_group)(void);
  ncclResult_t (*allreduce)(const void *, void *, size_t, ncclDataType_t,
                            ncclRedOp_t, ncclComm_t, cudaStream_t);
  ncclResult_t (*reduce_scatter)(const void *, void *, size_t, ncclDataType_t,
                                 ncclRedOp_t, ncclComm_t, cudaStream_t);
  ncclResult_t (*allgather)(const void *, void *, size_t, ncclDataType_t,
                            ncclComm_t, cudaStream_t);
  ncclResult_t (*broadcast)(const void *, void *, size_t, ncclDataType_t, int,
                            ncclComm_t, cudaStream_t);
  ncclResult_t (*send)(const void *, size_t, ncclDataType_t, int, ncclComm_t,
                       cudaStream_t);
  ncclResult_t (*recv)(void *, size_t, ncclDataType_t, int, ncclComm_t,
                       cudaStream_t);
  ncclResult_t (*enroll)(ncclComm_t, void *, size_t, void **);
  ncclResult_t (*deregister)(ncclComm_t, void *);
} mrt_nccl_library;

/* Memory that NCCL has been told of. */
typedef struct mrt_nccl_block {
  void *data, *handle;
} mrt_nccl_block;

typedef struct mrt_nccl {
  mrt_nccl_library lib;
  mrt_cuda *cuda;
  mrt_cuda_comm *cc;
  ncclComm_t comm;
  /* the thread that starts it: what it is given, what it says, and that it is
   * over */
  ncclUniqueId id;
  int size, rank;
  ncclResult_t started;
  _Atomic int over;
  mrt_nccl_block *blocks;
  int block_count, block_room;
  mrt_collective last; /* that was queued, for messages */
  /* the thread that watches */
  pthread_t watch;
  pthread_mutex_t lock; /* of all below, and `last` */
  pthread_cond_t left;
  bool watched, leaving;
  bool closed;  /* `comm` is not to be used any more */
  bool within;  /* a call waits in NCCL, maybe for other ranks, */
  double since; /* since then */
  /* the thread that ends it */
  ncclResult_t (*end)(ncclComm_t);
  _Atomic int ended;
  bool kept;             /* a thread still has this struct */
  struct mrt_nccl *next; /* another that is ending */
} mrt_nccl;

double mrt_nccl_clock(void);
void mrt_nccl_sleep(double seconds);
void mrt_nccl_explain(const mrt_nccl *n, const mrt_cuda_comm *t,
                      ncclResult_t code, char why[160]);

/* comm/nccl_watch.c: looks that nobody waits in the stream for ever. */
mrt_status mrt_nccl_watch(mrt_nccl *n, mrt_error *e);
void mrt_nccl_unwatch(mrt_nccl *n);
/* Aborts or destroys `comm`, in a thread of its own, since that may take as long
 * as there are recordings that use it; false: it is not over, and has `n`. */
bool mrt_nccl_end(mrt_nccl *n, ncclResult_t (*end)(ncclComm_t), double seconds);

#endif
