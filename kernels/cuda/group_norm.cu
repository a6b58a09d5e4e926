/* group_norm.cu -- group_norm, batch_norm, running statistics
 *
 * A thread reads a few rows at a time, takes their means, then squares about
 * them, and joins them to what it has; so memory is read once, and once more to
 * be scaled, and nothing cancels.
 *
 *   from  Chan, Golub & LeVeque (1979); Ioffe & Szegedy, arXiv:1502.03167; Wu &
 *         He, arXiv:1803.08494
 *
 * SPDX-License-Identifier: MIT */
#include "group_norm.cuh"

namespace {

/* The mean of n numbers, and squares about it. */
struct moments {
  double mean, squares, n;
  __device__ __forceinline__ void join(const moments &o) {
    if (o.n == 0) return;
    double change = o.mean - mean, all = n + o.n;
    mean += change * (o.n / all);
    squares += o.squares + change * change * (n * o.n / all);
    n = all;
  }
  __device__ __forceinline__ moments below(int by) const {
    return { __shfl_down_sync(0xffffffff, mean, by),
             __shfl_down_sync(0xffffffff, squares, by),
             __shfl_down_sync(0xffffffff, n, by) };
  }
};

/* ---- forward ------------------------------------------------------------- */

/* w, b may be NULL. */
template <typename T> struct group_forward {
  typedef mrt_real<T> R;
  mrt_place<T> x, y;
  const R *w, *b;
  R *mean, *rstd;
  double eps;
  double2 *partial; /* [samples, parts, n] */
  cuda_group_shape s;
};

/* `count` rows of a thread join its means and squares. */
template <typename R, int V>
MRT_DEVICE void add_rows(R (*v)[V], int count, R *n, R *mean, R *squares) {
  R all = *n + (R)count, share = (R)count / all;
  MRT_UNROLL
  for (int k = 0; k < V; k++) {
    R first = v[0][k], middle = 0, sum = 0; /* of equal numbers: exact */
    MRT_UNROLL
    for (int i = 0; i < CHUNK; i++) middle += i < count ? v[i][k] - first : 0;
    middle = first + middle / (R)count;
    MRT_UNROLL
    for (int i = 0; i < CHUNK; i++) {
      R d = i < count ? v[i][k] - middle : 0;
      sum += d * d;
    }
    R change = middle - mean[k];
    mean[k] += change * share;
    squares[k] += sum + change * change * (*n * share);
  }
  *n = all;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) measure(group_forward<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const cuda_group_shape &s = a.s;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    cuda_group_piece p = piece_of(s, b, V);
    R n = 0, mean[V] = { 0 }, squares[V] = { 0 };
    int64_t step = blockDim.y;
    for (int64_t r = p.first + threadIdx.y; r < p.end && p.channel < s.n;
         r += CHUNK * step) {
      R v[CHUNK][V];
      int count = (int)at_most((p.end - r + step - 1) / step, CHUNK);
      MRT_UNROLL
      for (int i = 0; i < CHUNK; i++) {
        int64_t row = (r + i * step) * s.n;
        mrt_get_pack<V>(a.x, row + p.channel, i < count ? row + s.n : 0, (R)0,
                        v[i]);
      }
      add_rows<R, V>(v, count, &n, mean, squares);
    }
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      moments m =
          join_deep(moments{ (double)mean[k], (double)squares[k], (double)n });
      if (threadIdx.y == 0 && p.channel + k < s.n)
        a.partial[(p.sample * s.parts + p.part) * s.n + p.channel + k] =
            make_double2(m.mean, m.squares);
    }
  }
}

/* A warp for the parts and channels of each group. */
template <typename T> __global__ void settle(group_forward<T> a) {
  typedef mrt_real<T> R;
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t g = mrt_first_row(); g < s.samples * s.groups;
       g += mrt_row_stride()) {
    int64_t sample = g / s.groups, channel = g % s.groups * own;
    moments m = { 0, 0, 0 };
    for (int64_t i = threadIdx.x; i < s.parts * own; i += 32) {
      int64_t part = i / own, rows = at_most(s.rows - part * s.each, s.each);
      double2 v =
          a.partial[(sample * s.parts + part) * s.n + channel + i % own];
      m.join({ v.x, v.y, rows > 0 ? (double)rows : 0 });
    }
    m = join_warp(m);
    if (threadIdx.x) continue;
    a.mean[g] = (R)m.mean;
    double var = m.squares / (m.n > 0 ? m.n : 1);
    /* squares that have overflowed are to show */
    a.rstd[g] = var == INFINITY ? (R)NAN : (R)(1 / sqrt(var + a.eps));
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2) scale(group_forward<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const cuda_group_shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    cuda_group_piece p = piece_of(s, b, V);
    R center[V], by[V], shift[V];
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      int64_t c = at_most(p.channel + k, s.n - 1);
      int64_t g = p.sample * s.groups + c / own;
      center[k] = a.mean[g];
      by[k] = a.w ? a.rstd[g] * a.w[c] : a.rstd[g];
      shift[k] = a.b ? a.b[c] : 0;
    }
    if (p.channel >= s.n) continue;
    for (int64_t r = p.first + threadIdx.y; r < p.end; r += blockDim.y) {
      R v[V];
      mrt_get_pack<V>(a.x, r * s.n + p.channel, (r + 1) * s.n, (R)0, v);
      MRT_UNROLL
      for (int k = 0; k < V; k++) v[k] = (v[k] - center[k]) * by[k] + shift[k];
      mrt_put_pack<V>(a.y, r * s.n + p.channel, (r + 1) * s.n, v);
    }
  }
}

/* ---- running statistics -------------------------------------------------- */

template <typename R>
__global__ void follow(const R *mean, const R *rstd, R *running_mean,
                       R *running_var, int64_t n, mrt_running_options o,
                       const void *when, const mrt_run_words *words) {
  if (!mrt_is_due(words, when)) return;
  double unbias = (double)o.count / (double)(o.count - 1);
  double keep = 1 - o.momentum;
  for (int64_t j = mrt_first(); j < n; j += mrt_stride()) {
    double r = (double)rstd[j], var = 1 / (r * r) - o.eps;
    running_mean[j] =
        (R)(keep * (double)running_mean[j] + o.momentum * (double)mean[j]);
    running_var[j] = (R)(keep * (double)running_var[j] +
                         o.momentum * unbias * (var > 0 ? var : 0));
  }
}

/* ---- launching ----------------------------------------------------------- */

template <typename T>
static void forward(const mrt_call *c, int64_t groups, double eps) {
  typedef mrt_real<T> R;
  group_forward<T> a = { mrt_at<T>(&c->in[0]),
                         mrt_at<T>(&c->out[0]),
                         c->nin > 1 ? (const R *)c->in[1].data : NULL,
                         c->nin > 2 ? (const R *)c->in[2].data : NULL,
                         (R *)c->out[1].data,
                         (R *)c->out[2].data,
                         eps,
                         (double2 *)c->scratch,
                         shape_of(c, groups, mrt_at_once<T>) };
  pieces(c, measure<T>, a);
  warps(c, settle<T>, a, a.s.samples * a.s.groups);
  pieces(c, scale<T>, a);
}

static int forward_dtype(const mrt_call *c) {
  return mrt_common(c->in, c->out);
}

} // namespace

extern "C" void mrt_cuda_group_norm(const mrt_call *c) {
  double eps = ((const mrt_group_norm_options *)c->options)->eps;
  MRT_DISPATCH(forward_dtype(c), T, forward<T>(c, groups_of(c), eps));
}

extern "C" void mrt_cuda_batch_norm(const mrt_call *c) {
  double eps = ((const mrt_batch_norm_options *)c->options)->eps;
  MRT_DISPATCH(forward_dtype(c), T, forward<T>(c, 0, eps));
}

extern "C" size_t mrt_cuda_group_norm_scratch(const mrt_call *c) {
  return scratch(c, forward_dtype(c), groups_of(c), false);
}

extern "C" size_t mrt_cuda_batch_norm_scratch(const mrt_call *c) {
  return scratch(c, forward_dtype(c), 0, false);
}

extern "C" void mrt_cuda_running(const mrt_call *c) {
  const mrt_running_options *o = (const mrt_running_options *)c->options;
  const void *when = c->nin > 4 ? c->in[4].data : NULL;
  int64_t n = mrt_elements(&c->out[0]);
  if (n == 0) return;
  if (c->out[0].type.dtype == MRT_f64)
    MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, c->run->queue, follow<double>)
  ((const double *)c->in[2].data, (const double *)c->in[3].data,
   (double *)c->out[0].data, (double *)c->out[1].data, n, *o, when,
   c->run->words);
  else MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, c->run->queue, follow<float>)(
      (const float *)c->in[2].data, (const float *)c->in[3].data,
      (float *)c->out[0].data, (float *)c->out[1].data, n, *o, when,
      c->run->words);
}
