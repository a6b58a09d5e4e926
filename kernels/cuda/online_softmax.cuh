/* online_softmax.cuh -- the sum of exp(x - maximum) over what was seen so far
 *
 * From Milakov & Gimelshein, arXiv:1805.02867.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ONLINE_SOFTMAX_CUH
#define MRT_CUDA_ONLINE_SOFTMAX_CUH

#include "cuda.cuh"

/* While all is -infinity the sum is taken against 0, which keeps NaNs. */
template <typename R> MRT_DEVICE R mrt_shift_of(R max) {
  return max == -(R)INFINITY ? 0 : max;
}

template <typename R, int V>
MRT_DEVICE void mrt_add_exps(const R *v, R *max, R *sum) {
  R top = *max;
  MRT_UNROLL
  for (int k = 0; k < V; k++) top = mrt_larger::of(top, v[k]);
  if (top > *max) {
    *sum = *max == -(R)INFINITY ? *sum : *sum * exp(*max - top);
    *max = top;
  }
  R shift = mrt_shift_of(top);
  MRT_UNROLL
  for (int k = 0; k < V; k++) *sum += exp(v[k] - shift);
}

/* The whole team's. */
template <typename R> MRT_DEVICE void mrt_online_merge(R *max, R *sum) {
  R top = mrt_team_max(*max);
  if (*max > -(R)INFINITY) *sum *= exp(*max - top);
  *max = top;
  *sum = mrt_team_sum(*sum);
}

#endif
