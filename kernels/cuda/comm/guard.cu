/* guard.cu -- around collectives: how far the stream is, may it go on?
 *
 * One thread each, in the order of the stream, so that plain code counts.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/comm.h"
#include "cuda.cuh"

namespace {

__global__ void begin(mrt_cuda_guard *guard, mrt_cuda_guarded all) {
  uint64_t digest = guard->digest;
  for (int i = 0; i < all.count; i++)
    digest = (digest ^ all.what[i]) * UINT64_C(0x9e3779b97f4a7c15);
  guard->digest = digest;
  __threadfence_system();
  guard->common = guard->common + static_cast<uint64_t>(all.count);
  guard->begun = guard->begun + 1;
  __threadfence_system();
}

/* No index is out of range of less than none: that tells the two faults apart.
 */
__global__ void end(mrt_cuda_guard *guard, bool counts, mrt_run_words *words,
                    int node) {
  if (counts) guard->ended = guard->begun;
  __threadfence_system();
  if (!guard->refused || !words || words->fault) return;
  words->fault = node + 1;
  words->bad_limit = -1;
}

} // namespace

extern "C" void mrt_cuda_guard_begin(mrt_cuda_guard *guard,
                                     const mrt_cuda_guarded *all,
                                     cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, begin)(guard, *all);
}

extern "C" void mrt_cuda_guard_end(mrt_cuda_guard *guard, bool counts,
                                   mrt_run_words *words, int node,
                                   cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, end)(guard, counts, words, node);
}
