/* memory.c -- the memory of a CUDA device
 *
 * Large blocks come by plain allocation; small ones, results and inputs, from
 * the stream-ordered pool of the driver, so that no step waits for them.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/nccl_comm.h"

#include <stdlib.h>

enum { POOLED = 4 << 20 }; /* bytes: below, a block comes from the pool */

/* Where one cannot be kept in mind nothing is lost but speed. */
static void keep_block(mrt_cuda *c, void *data, size_t nbytes) {
  if (c->block_count == c->block_room) {
    int room = c->block_room ? 2 * c->block_room : 16;
    void *more = realloc(c->blocks, (size_t)room * sizeof *c->blocks);
    if (!more) return;
    c->blocks = more, c->block_room = room;
  }
  c->blocks[c->block_count++] = (mrt_cuda_block){ data, nbytes };
}

static void forget_block(mrt_cuda *c, void *data) {
  if (c->watched) mrt_cuda_wait(c, c->queue);
  mrt_nccl_forget(c, data);
  for (int i = 0; i < c->block_count; i++)
    if (c->blocks[i].data == data) c->blocks[i--] = c->blocks[--c->block_count];
}

/* Not to have the memory is no failure of the device. */
static void *allocate(const mrt_device *device, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  void *data = NULL;
  size_t bytes = nbytes ? nbytes : device->align;
  if (c->failed) return NULL;
  cudaError_t code = nbytes < POOLED ? cudaMallocAsync(&data, bytes, c->queue)
                                     : cudaMalloc(&data, bytes);
  if (code == cudaSuccess && nbytes >= POOLED) keep_block(c, data, bytes);
  if (code == cudaSuccess) return data;
  cudaGetLastError();
  if (code != cudaErrorMemoryAllocation) c->failed = code;
  return NULL;
}

static void release(const mrt_device *device, void *data, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (nbytes < POOLED) {
    cudaFreeAsync(data, c->queue);
    return;
  }
  forget_block(c, data);
  cudaFree(data);
}

static size_t available(const mrt_device *device) {
  size_t free_bytes = 0, total = 0;
  mrt_cuda_use(device);
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return 0;
  return free_bytes;
}

static size_t taken(const mrt_device *device) {
  size_t free_bytes = 0, total = 0;
  mrt_cuda_use(device);
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return 0;
  return total - free_bytes;
}

void mrt_cuda_fill_memory(mrt_device *device) {
  device->alloc = allocate, device->free = release;
  device->available = available, device->taken = taken;
}
