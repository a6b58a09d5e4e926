/* nccl_comm.h -- collectives by NCCL, where it is installed
 *
 * The library is opened when a communicator of several ranks is first used on a
 * device, and is never needed: without it, and for what it cannot do, values go
 * through the host.  All ranks decide alike.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_NCCL_H
#define MRT_CUDA_NCCL_H

#include "comm/comm.h"

/* Decides with the other ranks whether the communicator has NCCL, and starts
 * it. */
mrt_status mrt_nccl_open(mrt_cuda *c, mrt_cuda_comm *cc, mrt_error *e);
void mrt_nccl_close(mrt_cuda *c, mrt_cuda_comm *cc);
/* At the end: until NCCL has let go of those that are closed. */
void mrt_nccl_end_all(mrt_cuda *c);
/* Whether it does this one; the same on all ranks. */
bool mrt_nccl_takes(const mrt_cuda_comm *cc, const mrt_collective *asked);
/* Queue them.  Failures are the communicator's. */
void mrt_nccl_queue(mrt_cuda *c, mrt_cuda_comm *cc, const mrt_collective *asked,
                    int count, const mrt_call *call);
/* Memory that the device has given, and takes back. */
void mrt_nccl_forget(mrt_cuda *c, void *data);

#endif
