/* group_norm.cu -- group_norm, batch_norm, their gradients, running statistics
 *
 * batch_norm is group_norm of one sample, each channel a group.  Rows of a
 * sample are dealt to parts, whose number depends on the shape alone; a block
 * has some channels of a part.  A thread reads a few rows at a time, takes their
 * means, then squares about them, and joins them to what it has; so memory is
 * read once and nothing cancels.  Threads and parts are then joined in double
 * precision, in a fixed order.
 *
 *   from  Chan, Golub & LeVeque (1979); Ioffe & Szegedy, arXiv:1502.03167; Wu &
 *         He, arXiv:1803.08494
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/batch_norm.h"
#include "op/group_norm.h"

namespace {

enum { THREADS = 256, CHUNK = 4 /* rows that a thread reads at a time */ };

/* [samples, rows, n]: n channels in groups.  wide: threads along channels. */
struct shape {
  int64_t samples, rows, n, groups;
  int64_t parts, each; /* rows of a part */
  int64_t tiles;       /* of channels */
  int wide;
};

MRT_DEVICE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- what threads and parts join ------------------------------------------------- */

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
};
/* Sums of dy and of dy (x - mean). */
struct sums {
  double dy, product;
  __device__ __forceinline__ void join(const sums &o) {
    dy += o.dy;
    product += o.product;
  }
};

/* Over the block's threads of one threadIdx.x; for threadIdx.y == 0. */
template <typename P> MRT_DEVICE P join_deep(P v) {
  __shared__ P all[THREADS];
  int me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
  __syncthreads();
  all[me] = v;
  for (int deep = (int)blockDim.y / 2; deep; deep /= 2) {
    __syncthreads();
    if ((int)threadIdx.y >= deep) continue;
    v.join(all[me + deep * (int)blockDim.x]);
    all[me] = v;
  }
  return v;
}

MRT_DEVICE moments from_below(const moments &v, int by) {
  return { __shfl_down_sync(0xffffffff, v.mean, by),
           __shfl_down_sync(0xffffffff, v.squares, by),
           __shfl_down_sync(0xffffffff, v.n, by) };
}
MRT_DEVICE sums from_below(const sums &v, int by) {
  return { __shfl_down_sync(0xffffffff, v.dy, by),
           __shfl_down_sync(0xffffffff, v.product, by) };
}
/* Over a warp; for its first lane. */
template <typename P> MRT_DEVICE P join_warp(P v) {
  for (int by = 16; by; by /= 2) v.join(from_below(v, by));
  return v;
}

/* Block b has these rows and channels of a sample. */
struct piece {
  int64_t sample, part, first, end; /* rows, of all samples */
  int64_t channel;                  /* the thread's first */
};
MRT_DEVICE piece piece_of(const shape &s, int64_t b, int V) {
  int64_t tile = b % s.tiles, part = b / s.tiles % s.parts;
  int64_t sample = b / s.tiles / s.parts, from = sample * s.rows;
  return { sample, part, from + at_most(part * s.each, s.rows),
           from + at_most((part + 1) * s.each, s.rows),
           (tile * s.wide + threadIdx.x) * V };
}

/* ---- forward ------------------------------------------------------------------------ */

/* w, b may be NULL. */
template <typename T> struct forward_of {
  typedef mrt_real<T> R;
  mrt_place<T> x, y;
  const R *w, *b;
  R *mean, *rstd;
  double eps;
  double2 *partial; /* [samples, parts, n] */
  shape s;
};

/* `count` rows of a thread join its means and squares. */
template <typename R, int V>
MRT_DEVICE void add_rows(R (*v)[V], int count, R *n, R *mean, R *squares) {
  R all = *n + (R)count, share = (R)count / all;
  MRT_UNROLL
  for (int k = 0; k < V; k++) {
    R middle = 0, sum = 0;
    MRT_UNROLL
    for (int i = 0; i < CHUNK; i++) middle += v[i][k]; /* 0 from count on */
    middle /= (R)count;
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
__global__ void __launch_bounds__(THREADS) measure(forward_of<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const shape &s = a.s;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    piece p = piece_of(s, b, V);
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
template <typename T> __global__ void settle(forward_of<T> a) {
  typedef mrt_real<T> R;
  const shape &s = a.s;
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
    a.rstd[g] = (R)(1 / sqrt(m.squares / (m.n > 0 ? m.n : 1) + a.eps));
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) scale(forward_of<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    piece p = piece_of(s, b, V);
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

/* ---- gradients ------------------------------------------------------------------------- */

/* w may be NULL, then there are no dw and db. */
template <typename T> struct gradient {
  typedef mrt_real<T> R;
  mrt_place<T> x, dy, dx;
  const R *mean, *rstd, *w;
  R *dw, *db;
  double2 *partial, *total; /* total: [samples, groups], means over the group */
  shape s;
};

template <typename T>
__global__ void __launch_bounds__(THREADS) sum_parts(gradient<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    piece p = piece_of(s, b, V);
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
      sums all = join_deep(sums{ (double)dy[k], (double)product[k] });
      if (threadIdx.y == 0 && p.channel + k < s.n)
        a.partial[(p.sample * s.parts + p.part) * s.n + p.channel + k] =
            make_double2(all.dy, all.product);
    }
  }
}

/* A warp for the parts and channels of each group. */
template <typename T> __global__ void sum_groups(gradient<T> a) {
  const shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t g = mrt_first_row(); g < s.samples * s.groups;
       g += mrt_row_stride()) {
    int64_t sample = g / s.groups, channel = g % s.groups * own;
    double count = (double)(s.rows * own);
    sums all = { 0, 0 };
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
template <typename T> __global__ void sum_channels(gradient<T> a) {
  typedef mrt_real<T> R;
  const shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t c = mrt_first_row(); c < s.n; c += mrt_row_stride()) {
    sums all = { 0, 0 };
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
__global__ void __launch_bounds__(THREADS) turn(gradient<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  const shape &s = a.s;
  int64_t own = s.n / s.groups;
  for (int64_t b = blockIdx.x; b < s.samples * s.parts * s.tiles;
       b += gridDim.x) {
    piece p = piece_of(s, b, V);
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

/* ---- running statistics ------------------------------------------------------------------- */

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

/* ---- launching ------------------------------------------------------------------------------- */

/* As batch_norm with 0 groups.  Enough parts to keep a GPU busy. */
static shape shape_of(const mrt_call *c, int64_t groups, int V) {
  const mrt_operand *x = &c->in[0];
  shape s = { 1, mrt_rows(x), mrt_cols(x), groups, 1, 0, 1, 1 };
  if (groups) {
    s.samples = x->type.dims[0];
    s.rows = s.samples ? s.rows / s.samples : 0;
  } else
    s.groups = s.n;
  int64_t packs = (s.n + V - 1) / V;
  while (s.wide < 32 && s.wide < packs) s.wide *= 2;
  s.tiles = (packs + s.wide - 1) / s.wide;
  int64_t blocks = s.samples * s.tiles, deep = THREADS / s.wide * 2 * CHUNK;
  int64_t wanted = blocks ? 1024 / blocks : 1,
          most = (s.rows + deep - 1) / deep;
  s.parts = wanted < most ? wanted : most;
  if (s.parts < 1) s.parts = 1;
  s.each = (s.rows + s.parts - 1) / s.parts;
  return s;
}

/* A block for each piece; a warp for each number. */
template <typename A>
static void pieces(const mrt_call *c, void (*kernel)(A), const A &a) {
  int64_t blocks = a.s.samples * a.s.parts * a.s.tiles;
  if (a.s.n == 0 || blocks == 0) return;
  dim3 block((unsigned)a.s.wide, (unsigned)(THREADS / a.s.wide));
  MRT_LAUNCH(mrt_blocks(blocks, 1), block, 0, c->run->queue, kernel)(a);
}
template <typename A>
static void warps(const mrt_call *c, void (*kernel)(A), const A &a, int64_t n) {
  if (n == 0) return;
  MRT_LAUNCH(mrt_blocks(n, 4), dim3(32, 4), 0, c->run->queue, kernel)(a);
}

template <typename T>
static void forward(const mrt_call *c, int64_t groups, double eps) {
  typedef mrt_real<T> R;
  forward_of<T> a = { mrt_at<T>(&c->in[0]),
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

template <typename T> static void backward(const mrt_call *c, int64_t groups) {
  typedef mrt_real<T> R;
  shape s = shape_of(c, groups, mrt_at_once<T>);
  bool has_w = c->nin > 4;
  gradient<T> a = { mrt_at<T>(&c->in[0]),
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

static int64_t groups_of(const mrt_call *c) {
  return ((const mrt_group_norm_options *)c->options)->groups;
}

/* Sums of the parts; with `totals` also of the groups. */
static size_t scratch(const mrt_call *c, int dtype, int64_t groups,
                      bool totals) {
  shape s = { 0, 0, 0, 0, 0, 0, 0, 0 };
  MRT_DISPATCH(dtype, T, s = shape_of(c, groups, mrt_at_once<T>));
  int64_t n = s.samples * s.parts * s.n;
  return (size_t)(n + (totals ? s.samples * s.groups : 0)) * sizeof(double2);
}
static int forward_dtype(const mrt_call *c) {
  return mrt_common(c->in, c->out);
}
static int backward_dtype(const mrt_call *c) {
  return mrt_common(&c->in[0], &c->in[3], c->out);
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
extern "C" void mrt_cuda_group_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(backward_dtype(c), T, backward<T>(c, groups_of(c)));
}
extern "C" void mrt_cuda_batch_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(backward_dtype(c), T, backward<T>(c, 0));
}
extern "C" size_t mrt_cuda_group_norm_scratch(const mrt_call *c) {
  return scratch(c, forward_dtype(c), groups_of(c), false);
}
extern "C" size_t mrt_cuda_batch_norm_scratch(const mrt_call *c) {
  return scratch(c, forward_dtype(c), 0, false);
}
extern "C" size_t mrt_cuda_group_norm_grad_scratch(const mrt_call *c) {
  return scratch(c, backward_dtype(c), groups_of(c), true);
}
extern "C" size_t mrt_cuda_batch_norm_grad_scratch(const mrt_call *c) {
  return scratch(c, backward_dtype(c), 0, true);
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
