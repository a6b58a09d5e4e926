/* rope.cu -- rotary position embedding
 *
 * The sine and cosine of each pair at each position are made once, from angles
 * in double, and serve all heads of all batches.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/rope.h"

namespace {

/* x is [.., T, H, 2 half], y the same without gaps. */
struct cuda_rope_layout {
  int rank;
  int64_t dims[MRT_MAX_RANK], strides[MRT_MAX_RANK];
  int64_t rows, T, half;
  bool interleaved;
};

static cuda_rope_layout layout_of(const mrt_call *c) {
  const mrt_rope_options *o = (const mrt_rope_options *)c->options;
  const mrt_operand *x = &c->in[0];
  cuda_rope_layout l = {};
  l.rank = x->type.rank;
  for (int i = 0; i < l.rank; i++)
    l.dims[i] = x->type.dims[i], l.strides[i] = x->strides[i];
  l.rows = mrt_rows(x), l.T = l.dims[l.rank - 3];
  l.half = l.dims[l.rank - 1] / 2;
  l.interleaved = o->interleaved;
  return l;
}

/* waves[t][0] are cosines, [1] sines, of `half` pairs */
template <typename R>
__global__ void make_waves(mrt_rope_options o, int64_t T, int64_t half,
                           R *waves) {
  for (int64_t j = mrt_first(); j < T * half; j += mrt_stride()) {
    int64_t t = j / half, i = j % half;
    double position = (double)(o.offset + t) * (o.inverse ? -1 : 1);
    double turn = pow(o.base, -2.0 * (double)i / (double)(2 * half));
    double a = position * turn;
    waves[2 * t * half + i] = (R)cos(a);
    waves[(2 * t + 1) * half + i] = (R)sin(a);
  }
}

/* V elements from `at` on; those from `end` on are 0. */
template <typename T, int V>
MRT_DEVICE void get_strided(mrt_place<T> x, int64_t at, int64_t stride,
                            int64_t i, int64_t end, mrt_real<T> *v) {
  if (stride == 1) {
    mrt_get_pack<V>(x, at + i, at + end, (mrt_real<T>)0, v);
    return;
  }
  MRT_UNROLL
  for (int k = 0; k < V; k++)
    v[k] = i + k < end ? mrt_get<mrt_real<T>>(x, at + (i + k) * stride) : 0;
}

/* A thread turns V pairs of a row. */
template <typename T>
__global__ void rotate(mrt_place<T> x, mrt_place<T> y, const mrt_real<T> *waves,
                       cuda_rope_layout l) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t chunks = (l.half + V - 1) / V, last = l.strides[l.rank - 1];
  for (int64_t j = mrt_first(); j < l.rows * chunks; j += mrt_stride()) {
    int64_t row = j / chunks, i = j % chunks * V, at = 0, rest = row, t = 0;
    for (int k = l.rank - 2; k >= 0; k--) {
      int64_t place = rest % l.dims[k];
      rest /= l.dims[k];
      at += place * l.strides[k];
      if (k == l.rank - 3) t = place;
    }
    R v[2][V], cosine[V], sine[V];
    int64_t n = l.half, a = l.interleaved ? 2 * i : i;
    int64_t b = l.interleaved ? 2 * i + V : i + n;
    int64_t a_end = l.interleaved ? 2 * n : n;
    get_strided<T, V>(x, at, last, a, a_end, v[0]);
    get_strided<T, V>(x, at, last, b, 2 * n, v[1]);
    mrt_get_pack<V>(waves, 2 * t * n + i, (2 * t + 1) * n, (R)0, cosine);
    mrt_get_pack<V>(waves, (2 * t + 1) * n + i, (2 * t + 2) * n, (R)0, sine);
    R y0[V], y1[V];
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      R x0 = l.interleaved ? v[2 * k / V][2 * k % V] : v[0][k];
      R x1 = l.interleaved ? v[2 * k / V][2 * k % V + 1] : v[1][k];
      y0[k] = x0 * cosine[k] - x1 * sine[k];
      y1[k] = x0 * sine[k] + x1 * cosine[k];
    }
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      int late = (V + k) / 2;
      v[0][k] = l.interleaved ? (k % 2 ? y1[k / 2] : y0[k / 2]) : y0[k];
      v[1][k] = l.interleaved ? (k % 2 ? y1[late] : y0[late]) : y1[k];
    }
    int64_t to = row * 2 * n;
    mrt_put_pack<V>(y, to + a, to + a_end, v[0]);
    mrt_put_pack<V>(y, to + b, to + 2 * n, v[1]);
  }
}

template <typename T> static void run(const mrt_call *c) {
  typedef mrt_real<T> R;
  const mrt_rope_options *o = (const mrt_rope_options *)c->options;
  cuda_rope_layout l = layout_of(c);
  R *waves = (R *)c->scratch;
  if (l.rows * l.half == 0) return;
  MRT_LAUNCH(mrt_blocks(l.T * l.half, 128), 128, 0, c->run->queue,
             make_waves<R>)
  (*o, l.T, l.half, waves);
  int64_t chunks = (l.half + mrt_at_once<T> - 1) / mrt_at_once<T>;
  MRT_LAUNCH(mrt_blocks(l.rows * chunks, 256), 256, 0, c->run->queue, rotate<T>)
  (mrt_at<T>(&c->in[0]), mrt_at<T>(&c->out[0]), waves, l);
}

} // namespace

extern "C" void mrt_cuda_rope(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->out[0]), T, run<T>(c));
}

/* The waves. */
extern "C" size_t mrt_cuda_rope_scratch(const mrt_call *c) {
  cuda_rope_layout l = layout_of(c);
  size_t bytes = c->in[0].type.dtype == MRT_f64 ? 8 : 4;
  return (size_t)(2 * l.T * l.half) * bytes;
}
