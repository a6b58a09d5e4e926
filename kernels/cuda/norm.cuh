/* norm.cuh -- what layer_norm, rms_norm and their gradients share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_NORM_CUH
#define MRT_CUDA_NORM_CUH

#include "cuda.cuh"
#include "op/norm.h"

namespace {

struct cuda_norm_shape {
  int64_t rows, n;
};

cuda_norm_shape shape_of(const mrt_call *c) {
  return { mrt_rows(&c->in[0]), mrt_cols(&c->in[0]) };
}

/* Divided, not multiplied by 1 / n: the mean of equal numbers is exact. */
template <typename R> MRT_DEVICE R mean_of(R sum, int64_t n) {
  return n ? sum / (R)n : sum;
}

/* Whether an operand is there. */
template <typename T> MRT_DEVICE bool is_there(T *x) { return x != NULL; }
template <typename R> MRT_DEVICE bool is_there(const mrt_any<R> &x) {
  return x.data != NULL;
}
/* A pack of weights that may be absent. */
template <int V, typename X, typename R>
MRT_DEVICE void get_weights(X w, int64_t first, int64_t n, R *v) {
  if (is_there(w)) mrt_get_pack<V>(w, first, n, (R)0, v);
}
template <typename T> using any_weights = mrt_mixed<mrt_real<T>>;

} // namespace

#endif
