/* rank_threads.c -- ranks that are threads of this process
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/tensor.h"

/* Used, and closed, in several threads: malloc's memory. */
MRT_API mrt_status mrt_communicator_threads(mrt_context *ctx, int size,
                                            double timeout,
                                            mrt_communicator **out) {
  MRT_TRY(mrt_threads_new(&mrt_malloc_allocator, size, out, &ctx->error));
  for (int i = 0; i < size && timeout > 0; i++) out[i]->timeout = timeout;
  return MRT_OK;
}
