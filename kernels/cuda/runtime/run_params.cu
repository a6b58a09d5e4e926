/* run_params.cu -- parameters of a run that the host sends with a launch
 *
 * Arguments are copied when a kernel is launched, so that nothing on the host
 * has to stay as it is until the queue comes to it.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "runtime/cuda.h"

namespace {

/* `seen` lies in the host's memory, where it can be read when the device has
 * failed. */
MRT_DEVICE void show(mrt_run_words *seen, int under_way) {
  *(volatile int *)&seen->under_way = under_way;
  __threadfence_system();
}

__global__ void put_words(mrt_run_words *to, mrt_run_words *seen,
                          mrt_run_words from) {
  show(seen, 1);
  from.fault = to->fault;
  from.bad_id = to->bad_id, from.bad_limit = to->bad_limit;
  *to = from;
}

__global__ void put_milestone(mrt_run_words *seen, int done) {
  show(seen, 1 + done);
}

__global__ void absolve_words(mrt_run_words *to) { to->fault = 0; }

struct small {
  unsigned char byte[64];
};

__global__ void put_small(unsigned char *to, small from, int nbytes) {
  if ((int)threadIdx.x < nbytes) to[threadIdx.x] = from.byte[threadIdx.x];
}

} // namespace

extern "C" void mrt_cuda_put_words(mrt_run_words *to, mrt_run_words *seen,
                                   const mrt_run *run, cudaStream_t queue) {
  mrt_run_words from = {};
  from.seed = run->seed, from.step = run->step;
  from.row = run->row, from.rows = run->rows, from.all_rows = run->all_rows;
  from.rank = run->rank, from.ranks = run->ranks;
  from.first_row = run->first_row;
  MRT_LAUNCH(1, 1, 0, queue, put_words)(to, seen, from);
}

extern "C" void mrt_cuda_put_milestone(mrt_run_words *seen, int done,
                                       cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, put_milestone)(seen, done);
}

extern "C" void mrt_cuda_clear_fault(mrt_run_words *to, cudaStream_t queue) {
  MRT_LAUNCH(1, 1, 0, queue, absolve_words)(to);
}

extern "C" void mrt_cuda_put_small(void *to, const void *from, size_t nbytes,
                                   cudaStream_t queue) {
  small bytes = {};
  for (size_t i = 0; i < nbytes; i++)
    bytes.byte[i] = static_cast<const unsigned char *>(from)[i];
  MRT_LAUNCH(1, 64, 0, queue, put_small)
  (static_cast<unsigned char *>(to), bytes, static_cast<int>(nbytes));
}
