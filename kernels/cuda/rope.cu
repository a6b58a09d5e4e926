/* rope.cu -- rotary position embedding
 *
 * The sine and cosine of each pair at each position are made once and serve all
 * heads of all batches, or with positions for each sample all of its heads.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/rope.h"

namespace {

/* x is [.., T, H, D], y the same without gaps; 2 half of D turn. */
struct cuda_rope_layout {
  int rank;
  int64_t dims[MRT_MAX_RANK], strides[MRT_MAX_RANK];
  int64_t rows, T, half, D;
  int64_t turns; /* rows that differ in position */
  bool interleaved;
};

/* Where angles come from; pointers may be NULL. */
struct cuda_rope_angles {
  const void *frequencies, *positions;
  int dtype, id_dtype;
};

static cuda_rope_layout layout_of(const mrt_call *c) {
  const mrt_rope_options *o = (const mrt_rope_options *)c->options;
  const mrt_operand *x = &c->in[0];
  cuda_rope_layout l = {};
  l.rank = x->type.rank;
  for (int i = 0; i < l.rank; i++)
    l.dims[i] = x->type.dims[i], l.strides[i] = x->strides[i];
  l.rows = mrt_rows(x), l.T = l.dims[l.rank - 3];
  l.half = o->width / 2, l.D = l.dims[l.rank - 1];
  l.interleaved = o->interleaved;
  mrt_dtype second = c->in[c->nin > 1].type.dtype;
  int p = mrt_rope_positions(c->nin, second);
  bool own = p && c->in[p].type.rank == 2;
  l.turns = own ? l.dims[0] * l.T : l.T;
  return l;
}

static cuda_rope_angles angles_of(const mrt_call *c) {
  cuda_rope_angles a = {};
  mrt_dtype second = c->in[c->nin > 1].type.dtype;
  int f = mrt_rope_frequencies(c->nin, second);
  int p = mrt_rope_positions(c->nin, second);
  if (f) a.frequencies = c->in[f].data, a.dtype = c->in[f].type.dtype;
  if (p) a.positions = c->in[p].data, a.id_dtype = c->in[p].type.dtype;
  return a;
}

/* The angle of pair i at position p. */
MRT_DEVICE double angle_at(mrt_rope_options o, cuda_rope_angles a, double p,
                           int64_t i) {
  if (!a.frequencies)
    return p * pow(o.base, -2.0 * (double)i / (double)o.width);
  if (a.dtype == MRT_f64) return p * ((const double *)a.frequencies)[i];
  return (double)((float)p * ((const float *)a.frequencies)[i]);
}

/* waves[t][0] are cosines, [1] sines, of `half` pairs */
template <typename R>
__global__ void make_waves(mrt_rope_options o, cuda_rope_angles from,
                           int64_t turns, int64_t half, R *waves) {
  for (int64_t j = mrt_first(); j < turns * half; j += mrt_stride()) {
    int64_t t = j / half, i = j % half, p = o.offset + t;
    if (from.positions) p = mrt_id(from.positions, from.id_dtype, t);
    double a = angle_at(o, from, (double)p, i);
    waves[2 * t * half + i] = (R)(o.scale * cos(a));
    waves[(2 * t + 1) * half + i] =
        (R)(o.scale * (o.inverse ? -sin(a) : sin(a)));
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

/* What lies behind the pairs, V elements from `i` on. */
template <typename T, int V>
MRT_DEVICE void copy_rest(mrt_place<T> x, mrt_place<T> y, int64_t at,
                          int64_t stride, int64_t to, int64_t i, int64_t D) {
  mrt_real<T> v[V];
  if (i >= D) return;
  int64_t end = stride == 1 ? at + D : D;
  if (stride == 1)
    mrt_get_pack<V>(x, at + i, end, (mrt_real<T>)0, v);
  else
    get_strided<T, V>(x, at, stride, i, end, v);
  mrt_put_pack<V>(y, to + i, to + D, v);
}

/* A thread turns V pairs of a row, or copies V elements of its rest. */
template <typename T>
__global__ void rotate(mrt_place<T> x, mrt_place<T> y, const mrt_real<T> *waves,
                       cuda_rope_layout l) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t pairs = (l.half + V - 1) / V, last = l.strides[l.rank - 1];
  int64_t chunks = pairs + (l.D - 2 * l.half + V - 1) / V, n = l.half;
  for (int64_t j = mrt_first(); j < l.rows * chunks; j += mrt_stride()) {
    int64_t row = j / chunks, i = j % chunks * V, at = 0, rest = row;
    int64_t t = row / l.dims[l.rank - 2] % l.turns, to = row * l.D;
    for (int k = l.rank - 2; k >= 0; k--) {
      int64_t place = rest % l.dims[k];
      rest /= l.dims[k];
      at += place * l.strides[k];
    }
    if (j % chunks >= pairs) {
      copy_rest<T, V>(x, y, at, last, to, 2 * n + i - pairs * V, l.D);
      continue;
    }
    R v[2][V], cosine[V], sine[V];
    int64_t a = l.interleaved ? 2 * i : i;
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
    mrt_put_pack<V>(y, to + a, to + a_end, v[0]);
    mrt_put_pack<V>(y, to + b, to + 2 * n, v[1]);
  }
}

template <typename T> static void run(const mrt_call *c) {
  typedef mrt_real<T> R;
  const mrt_rope_options *o = (const mrt_rope_options *)c->options;
  cuda_rope_layout l = layout_of(c);
  R *waves = (R *)c->scratch;
  constexpr int V = mrt_at_once<T>;
  if (l.rows * l.D == 0) return;
  MRT_LAUNCH(mrt_blocks(l.turns * l.half, 128), 128, 0, c->run->queue,
             make_waves<R>)
  (*o, angles_of(c), l.turns, l.half, waves);
  int64_t chunks = (l.half + V - 1) / V + (l.D - 2 * l.half + V - 1) / V;
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
  return (size_t)(2 * l.turns * l.half) * bytes;
}
