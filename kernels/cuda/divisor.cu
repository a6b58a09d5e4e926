/* divisor.cu -- integers are copied, a 0 is reported
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"

namespace {

template <typename T>
__global__ void __launch_bounds__(256)
    copy_divisor(const T *x, T *y, int64_t n, mrt_run_words *words, int node) {
  for (int64_t i = mrt_first(); i < n; i += mrt_stride()) {
    if (x[i] == 0) mrt_bad_id(words, node, 0, 0);
    y[i] = x[i];
  }
}

template <typename T> void launch_divisor(const mrt_call *c) {
  int64_t n = mrt_elements(&c->in[0]);
  MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, c->run->queue, copy_divisor<T>)
  ((const T *)c->in[0].data, (T *)c->out[0].data, n, c->run->words, c->node);
}

} // namespace

extern "C" void mrt_cuda_divisor(const mrt_call *c) {
  switch (mrt_dtypes[c->in[0].type.dtype].bytes) {
  case 8:
    launch_divisor<int64_t>(c);
    break;
  case 4:
    launch_divisor<int32_t>(c);
    break;
  default:
    launch_divisor<uint8_t>(c);
  }
}
