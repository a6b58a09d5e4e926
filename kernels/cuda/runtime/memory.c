/* memory.c -- the memory of a CUDA device
 *
 * Tensors come from the stream-ordered pool of the driver: nobody waits for the
 * device to have one or to give it back.  What lies where it is for long, an
 * arena, is allocated by itself, which NCCL can register; to give that back
 * waits for all that is under way.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/nccl_comm.h"

#include <stdlib.h>

/* What the pool keeps of what was given back: this part of the device. */
enum { KEPT_PART = 8 };

/* Reuse makes no stream wait for another: an upload would wait for the queue. */
cudaError_t mrt_cuda_open_pool(mrt_cuda *c) {
  uint64_t kept = c->capacity / KEPT_PART;
  int no = 0;
  cudaError_t code = cudaDeviceGetDefaultMemPool(&c->pool, c->index);
  if (!code)
    code = cudaMemPoolSetAttribute(c->pool, cudaMemPoolAttrReleaseThreshold,
                                   &kept);
  if (!code)
    code = cudaMemPoolSetAttribute(
        c->pool, cudaMemPoolReuseAllowInternalDependencies, &no);
  return code;
}

/* What was given back and is not used any more goes from the pool to the
 * device. */
static void empty_pool(const mrt_cuda *c) {
  cudaGetLastError();
  if (mrt_cuda_wait(c, c->queue) == cudaSuccess) cudaMemPoolTrimTo(c->pool, 0);
}

/* Bytes that the pool has of the device and nobody has of the pool. */
static size_t idle_in_pool(const mrt_cuda *c) {
  uint64_t had = 0, used = 0;
  if (cudaMemPoolGetAttribute(c->pool, cudaMemPoolAttrReservedMemCurrent,
                              &had) ||
      cudaMemPoolGetAttribute(c->pool, cudaMemPoolAttrUsedMemCurrent, &used))
    return 0;
  return had > used ? had - used : 0;
}

/* Not to have the memory is no failure of the device. */
static void *given(mrt_cuda *c, cudaError_t code, void *data) {
  if (code == cudaSuccess) return data;
  cudaGetLastError();
  if (code != cudaErrorMemoryAllocation) c->failed = code;
  return NULL;
}

void *mrt_cuda_from_pool(mrt_cuda *c, size_t nbytes, cudaStream_t stream) {
  void *data = NULL;
  cudaError_t code = cudaMallocFromPoolAsync(&data, nbytes, c->pool, stream);
  if (code == cudaErrorMemoryAllocation) {
    empty_pool(c);
    code = cudaMallocFromPoolAsync(&data, nbytes, c->pool, stream);
  }
  return given(c, code, data);
}

static void *allocate(const mrt_device *device, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  if (c->failed) return NULL;
  return mrt_cuda_from_pool(c, nbytes ? nbytes : device->align, c->queue);
}

/* ---- blocks -------------------------------------------------------------- */

static bool keep_block(mrt_cuda *c, void *data, size_t nbytes) {
  if (c->block_count == c->block_room) {
    int room = c->block_room ? 2 * c->block_room : 16;
    void *more = realloc(c->blocks, (size_t)room * sizeof *c->blocks);
    if (!more) return false;
    c->blocks = more, c->block_room = room;
  }
  c->blocks[c->block_count++] = (mrt_cuda_block){ data, nbytes };
  return true;
}

/* Was it one? */
static bool forget_block(mrt_cuda *c, void *data) {
  int i = 0;
  while (i < c->block_count && c->blocks[i].data != data) i++;
  if (i == c->block_count) return false;
  if (c->watched) mrt_cuda_wait(c, c->queue);
  mrt_nccl_forget(c, data);
  c->blocks[i] = c->blocks[--c->block_count];
  return true;
}

static void *reserve(const mrt_device *device, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  void *data = NULL;
  if (c->failed) return NULL;
  cudaError_t code = cudaMalloc(&data, nbytes);
  if (code == cudaErrorMemoryAllocation) {
    empty_pool(c);
    code = cudaMalloc(&data, nbytes);
  }
  data = given(c, code, data);
  if (!data || keep_block(c, data, nbytes)) return data;
  cudaFree(data);
  return NULL;
}

static void release(const mrt_device *device, void *data, size_t nbytes) {
  mrt_cuda *c = mrt_cuda_use(device);
  (void)nbytes;
  if (forget_block(c, data))
    cudaFree(data);
  else
    cudaFreeAsync(data, c->queue);
}

/* ---- asked --------------------------------------------------------------- */

static size_t available(const mrt_device *device) {
  size_t free_bytes = 0, total = 0;
  const mrt_cuda *c = mrt_cuda_use(device);
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return 0;
  return free_bytes + idle_in_pool(c);
}

static size_t taken(const mrt_device *device) {
  size_t free_bytes = 0, total = 0;
  const mrt_cuda *c = mrt_cuda_use(device);
  if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return 0;
  return total - free_bytes - idle_in_pool(c);
}

void mrt_cuda_fill_memory(mrt_device *device) {
  device->alloc = allocate, device->free = release;
  device->reserve = reserve;
  device->available = available, device->taken = taken;
}
