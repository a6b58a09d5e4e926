/* emulate_async.h -- copies to shared memory and products of warpgroups
 *
 * What kernels/cuda/wgmma.cuh asks of the emulator: cp.async, fence.proxy.async
 * and wgmma of Hopper, by the rules of the PTX ISA, the breaking of which breaks
 * the device (emulate_async.cc).
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_ASYNC_H
#define MRT_EMULATE_ASYNC_H

#include <stdint.h>

/* Dynamic shared memory has addresses, too, and no better aligned than it is
 * declared. */
uint32_t mrt_emulate_shared_address(const void *at);

/* 16 bytes, from NULL zeros; until they are waited for they are NaN. */
void mrt_emulate_copy_async(uint32_t to, const void *from);
void mrt_emulate_copies_commit(void);
void mrt_emulate_copies_wait(int newest);
void mrt_emulate_proxy_fence(void);

/* d [64, columns] (+)= a [64, 16] b [16, columns], this thread's fragments. */
struct mrt_emulate_product {
  float *d;
  const uint32_t *a_registers; /* NULL: there is a descriptor */
  uint64_t a, b;               /* descriptors */
  int columns;
  bool turned, adds; /* b is "MN-major"; d is added to */
  float (*widen)(uint16_t bits);
};
void mrt_emulate_wgmma(const mrt_emulate_product &p);
void mrt_emulate_wgmma_fence(void);
void mrt_emulate_wgmma_commit(void);
void mrt_emulate_wgmma_wait(int newest);

#endif
