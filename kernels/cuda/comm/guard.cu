/* guard.cu -- around collectives: how far the stream is, and whether it may go on
 *
 * One thread each, in the order of the stream, so that plain code counts.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/comm.h"
#include "cuda.cuh"

namespace {

__global__ void begin(mrt_note *note, mrt_noted all) {
  uint64_t digest = note->digest;
  for (int i = 0; i < all.count; i++)
    digest = (digest ^ all.what[i]) * UINT64_C(0x9e3779b97f4a7c15);
  note->digest = digest;
  __threadfence_system();
  note->common = note->common + static_cast<uint64_t>(all.count);
  note->begun = note->begun + 1;
  __threadfence_system();
}

/* No index is out of range of less than none: that tells the two faults apart.
 */
__global__ void end(mrt_note *note, bool counts, mrt_run_words *words,
                    int node) {
  if (counts) note->ended = note->begun;
  __threadfence_system();
  if (!note->refused || !words || words->fault) return;
  words->fault = node + 1;
  words->bad_limit = -1;
}

} // namespace

extern "C" void mrt_note_begin(mrt_note *note, const mrt_noted *all,
                               cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, begin)(note, *all);
}

extern "C" void mrt_note_end(mrt_note *note, bool counts, mrt_run_words *words,
                             int node, cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, end)(note, counts, words, node);
}
