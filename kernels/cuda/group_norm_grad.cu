/* group_norm_grad.cu -- the gradients of group_norm and batch_norm
 *
 * Sums of dy and dy (x - mean) for each channel of a part; of these those of
 * the groups, and of the channels over all samples; then dx.
 *
 * SPDX-License-Identifier: MIT */
#include "group_norm.cuh"

namespace {

/* Sums of dy and of dy (x - mean). */
struct cuda_group_sums {
  double dy, product;
  __device__ __forceinline__ void join(const cuda_group_sums &o) {
    dy += o.dy;
    product += o.product;
  }
  __device__ __forceinline__ cuda_group_sums below(int by) const {
    return { __shfl_down_sync(0xffffffff, dy, by),
             __shfl_down_sync(0xffffffff, product, by) };
  }
};

/* w may be NULL, then there are no dw and db. */
template <typename T> struct group_gradient {
  typedef mrt_real<T> R;
  mrt_place<T> x, dy, dx;
  const R *mean, *rstd, *w;
  R *dw, *db;
  double2 *partial, *total; /* total: [samples, groups], means over the group */
  cuda_group_shape s;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) sum_parts(group_gradient<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    cuda_group_piece p = piece_of(s, b, V);
    R center[V], dy[V] = { 0 }, product[V] = { 0 };
    MRT_UNROLL
    for (int k = 0; k < V; k++)
      center[k] =
          a.mean[p.sample * s.groups + at_most(p.channel + k, s.n - 1) / own];
    for (int64_t r = p.first + threadIdx.y; r < p.end && p.channel < s.n;
         r += blockDim.y) {
      R u[V], v[V];
      mrt_get_pack<V>(a.x, r * s.n + p.channel, (r + 1) * s.n, (R)0, u);
      mrt_get_pack<V>(a.dy, r * s.n + p.channel, (r + 1) * s.n, (R)0, v);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        dy[k] += v[k];
        product[k] += v[k] * (u[k] - center[k]);
      }
    }
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      cuda_group_sums all =
          join_deep(cuda_group_sums{ (double)dy[k], (double)product[k] });
      if (threadIdx.y == 0 && p.channel + k < s.n)
        a.partial[(p.sample * s.parts + p.part) * s.n + p.channel + k] =
            make_double2(all.dy, all.product);
    }
  }
}

/* A warp for the parts and channels of each group. */
template <typename T> __global__ void sum_groups(group_gradient<T> a) {
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t g = mrt_first_row(); g < s.samples * s.groups;
       g += mrt_row_stride()) {
    int64_t sample = g / s.groups, channel = g % s.groups * own;
    double count = (double)(s.rows * own);
    cuda_group_sums all = { 0, 0 };
    for (int64_t i = threadIdx.x; i < s.parts * own; i += 32) {
      int64_t c = channel + i % own;
      double2 v = a.partial[(sample * s.parts + i / own) * s.n + c];
      double w = a.w ? (double)a.w[c] : 1;
      all.join({ w * v.x, w * v.y });
    }
    all = join_warp(all);
    if (count == 0) count = 1;
    if (threadIdx.x == 0)
      a.total[g] = make_double2(all.dy / count, all.product / count);
  }
}

/* And of the samples and parts of each channel: dw, db. */
template <typename T> __global__ void sum_channels(group_gradient<T> a) {
  typedef mrt_real<T> R;
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t c = mrt_first_row(); c < s.n; c += mrt_row_stride()) {
    cuda_group_sums all = { 0, 0 };
    for (int64_t i = threadIdx.x; i < s.samples * s.parts; i += 32) {
      double2 v = a.partial[i * s.n + c];
      double rstd = (double)a.rstd[i / s.parts * s.groups + c / own];
      all.join({ v.x, v.y * rstd });
    }
    all = join_warp(all);
    if (threadIdx.x) continue;
    a.dw[c] = (R)all.product;
    a.db[c] = (R)all.dy;
  }
}

/* dx = scale dy - middle - (x - mean) along */
template <typename T>
__global__ void __launch_bounds__(THREADS) turn(group_gradient<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    cuda_group_piece p = piece_of(s, b, V);
    R center[V], by[V], middle[V], along[V];
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      int64_t c = at_most(p.channel + k, s.n - 1);
      int64_t g = p.sample * s.groups + c / own;
      double rstd = (double)a.rstd[g];
      center[k] = a.mean[g];
      by[k] = (R)(a.w ? rstd * (double)a.w[c] : rstd);
      middle[k] = (R)(rstd * a.total[g].x);
      along[k] = (R)(rstd * rstd * rstd * a.total[g].y);
    }
    if (p.channel >= s.n) continue;
    for (int64_t r = p.first + threadIdx.y; r < p.end; r += blockDim.y) {
      R u[V], v[V];
      mrt_get_pack<V>(a.x, r * s.n + p.channel, (r + 1) * s.n, (R)0, u);
      mrt_get_pack<V>(a.dy, r * s.n + p.channel, (r + 1) * s.n, (R)0, v);
      MRT_UNROLL
      for (int k = 0; k < V; k++)
        v[k] = by[k] * v[k] - middle[k] - (u[k] - center[k]) * along[k];
      mrt_put_pack<V>(a.dx, r * s.n + p.channel, (r + 1) * s.n, v);
    }
  }
}

/* ---- launching ----------------------------------------------------------- */

template <typename T> static void backward(const mrt_call *c, int64_t groups) {
  typedef mrt_real<T> R;
  cuda_group_shape s = shape_of(c, groups, mrt_at_once<T>);
  bool has_w = c->nin > 4;
  group_gradient<T> a = { mrt_at<T>(&c->in[0]),
                          mrt_at<T>(&c->in[3]),
                          mrt_at<T>(&c->out[0]),
                          (const R *)c->in[1].data,
                          (const R *)c->in[2].data,
                          has_w ? (const R *)c->in[4].data : NULL,
                          has_w ? (R *)c->out[1].data : NULL,
                          has_w ? (R *)c->out[2].data : NULL,
                          (double2 *)c->scratch,
                          (double2 *)c->scratch + s.samples * s.parts * s.n,
                          s };
  pieces(c, sum_parts<T>, a);
  if (has_w) warps(c, sum_channels<T>, a, s.n);
  warps(c, sum_groups<T>, a, s.samples * s.groups);
  pieces(c, turn<T>, a);
}

static int backward_dtype(const mrt_call *c) {
  return mrt_common(&c->in[0], &c->in[3], c->out);
}

} // namespace

extern "C" void mrt_cuda_group_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(backward_dtype(c), T, backward<T>(c, groups_of(c)));
}

extern "C" void mrt_cuda_batch_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(backward_dtype(c), T, backward<T>(c, 0));
}

extern "C" size_t mrt_cuda_group_norm_grad_scratch(const mrt_call *c) {
  return scratch(c, backward_dtype(c), groups_of(c), true);
}

extern "C" size_t mrt_cuda_batch_norm_grad_scratch(const mrt_call *c) {
  return scratch(c, backward_dtype(c), 0, true);
}
