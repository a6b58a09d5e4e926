/* conv_direct.cu -- convolutions of groups of few channels, without tiles
 *
 * A thread has an element of what is written, or where every group has one
 * channel of x and one of y, a pack of them.  Weights are copied first so that
 * neighbours, which are channels, read side by side.
 *
 * For dw a column of threads has an element and deals out the places; their
 * number, and that of the parts, depends on the shape alone.
 *
 * SPDX-License-Identifier: MIT */
#include "conv.cuh"
#include "conv_direct.h"

namespace {

/* ---- y and dx ------------------------------------------------------------ */

/* [taps, ins, channels that are written] from [groups * Y, X, taps]. */
template <typename R>
__global__ void pack(mrt_factor w, R *to, int64_t count, mrt_conv_walk p) {
  int64_t taps = p.h.kernel * p.w.kernel;
  int64_t ins = p.back ? p.Y : p.X, outs = p.back ? p.X : p.Y;
  for (int64_t i = mrt_first(); i < count; i += mrt_stride()) {
    int64_t channel = i % (outs * p.groups), rest = i / (outs * p.groups);
    int64_t in = rest % ins, tap = rest / ins, out = channel % outs;
    int64_t y = channel / outs * p.Y + (p.back ? in : out);
    int64_t x = p.back ? out : in;
    to[i] = mrt_get_factor<R, false>(w, (y * p.X + x) * taps + tap);
  }
}

template <typename R> struct direct {
  mrt_conv_walk walk;
  mrt_factor image;
  const R *w;
  mrt_any<R> y, bias;
  int64_t count; /* packs that are written */
};

/* V channels of place (i, j) of image n, from `channel` on. */
template <typename S, bool plain, typename I, int V>
MRT_DEVICE void add_taps(const direct<mrt_real<S>> &p, I n, I i, I j, I channel,
                         mrt_real<S> *sum) {
  typedef mrt_real<S> R;
  const mrt_conv_walk &walk = p.walk;
  I ins = (I)(walk.back ? walk.Y : walk.X),
    outs = (I)(walk.back ? walk.X : walk.Y);
  I h_stride = walk.back ? (I)walk.h.stride : 1;
  I w_stride = walk.back ? (I)walk.w.stride : 1;
  mrt_line_of<I> h(walk.h, i % h_stride, walk.back);
  mrt_line_of<I> w(walk.w, j % w_stride, walk.back);
  I top = i / h_stride * h.stride + h.base, all = outs * (I)walk.groups;
  I left = j / w_stride * w.stride + w.base, first = channel / outs * ins;
  for (I a = 0; a < h.taps; a++) {
    I y = top + a * h.step;
    if (y < 0 || y >= h.image) continue;
    for (I b = 0; b < w.taps; b++) {
      I x = left + b * w.step;
      if (x < 0 || x >= w.image) continue;
      I tap = (h.first_tap + a * h.tap_step) * (I)walk.w.kernel + w.first_tap +
              b * w.tap_step;
      int64_t at = (((int64_t)n * h.image + y) * w.image + x) *
                       ((int64_t)ins * walk.groups) +
                   first;
      const R *weights = p.w + (int64_t)tap * ins * all + channel;
      for (I k = 0; k < ins; k++) {
        mrt_vector<S, V> u;
        R v[V];
        if (V == 1)
          u.at[0] = mrt_get_factor<S, plain>(p.image, at + k);
        else
          mrt_get_factors<S, plain, V>(p.image, at, &u);
        mrt_get_pack<V>(weights, (int64_t)k * all, INT64_MAX, (R)0, v);
        MRT_UNROLL
        for (int e = 0; e < V; e++) sum[e] += (R)mrt_widen(u.at[e]) * v[e];
      }
    }
  }
}

template <typename S, bool plain, typename I, int V>
__global__ void each_pack(direct<mrt_real<S>> p) {
  typedef mrt_real<S> R;
  const mrt_conv_walk &walk = p.walk;
  I all = (I)((walk.back ? walk.X : walk.Y) * walk.groups), packs = all / V;
  I H = (I)(walk.back ? walk.h.x : walk.h.y);
  I W = (I)(walk.back ? walk.w.x : walk.w.y);
  for (int64_t t = mrt_first(); t < p.count; t += mrt_stride()) {
    I place = (I)t / packs, channel = (I)t % packs * V;
    R sum[V] = { 0 }, bias[V];
    add_taps<S, plain, I, V>(p, place / W / H, place / W % H, place % W,
                             channel, sum);
    if (p.bias.data) mrt_get_pack<V>(p.bias, channel, all, (R)0, bias);
    MRT_UNROLL
    for (int k = 0; k < V; k++) sum[k] += p.bias.data ? bias[k] : 0;
    mrt_put_pack<V>(p.y, t * V, p.count * V, sum);
  }
}

template <typename S, bool plain>
static void launch(const mrt_call *c, direct<mrt_real<S>> *p) {
  const mrt_conv_walk *walk = &p->walk;
  const int V = 16 / sizeof(S);
  int64_t channels = walk->groups * walk->X;
  int64_t count = mrt_elements(&c->out[0]);
  bool small = mrt_conv_is_small(walk) && count < 1 << 30;
  bool packs = small && plain && walk->X == 1 && walk->Y == 1 &&
               mrt_is_whole(c->in[0].data, channels, V);
  void *queue = c->run->queue;
  p->count = packs ? count / V : count;
  unsigned grid = mrt_blocks(p->count, 128);
  if (p->count == 0) return;
  if (packs)
    MRT_LAUNCH(grid, 128, 0, queue, each_pack < S, plain, int, plain ? V : 1 >)
  (*p);
  else if (small)
      MRT_LAUNCH(grid, 128, 0, queue, each_pack<S, plain, int, 1>)(*p);
  else MRT_LAUNCH(grid, 128, 0, queue, each_pack<S, plain, int64_t, 1>)(*p);
}

template <typename R>
static void run(const mrt_call *c, const mrt_conv_walk *walk,
                mrt_factor image) {
  direct<R> p = { *walk,
                  image,
                  (const R *)c->scratch,
                  mrt_at_any<R>(c->out, 0, 1),
                  mrt_at_any<R>(c->in, 2, c->nin),
                  0 };
  int64_t weights = mrt_elements(&c->in[1]);
  if (weights)
    MRT_LAUNCH(mrt_blocks(weights, 256), 256, 0, c->run->queue, pack<R>)
  (mrt_factor_of(c, 1), (R *)c->scratch, weights, *walk);
  if constexpr (sizeof(R) == 8)
    launch<double, true>(c, &p);
  else if (!mrt_is_plain(&image, image.dtype) || mrt_is_8_bits(image.dtype))
    launch<float, false>(c, &p);
  else if (image.dtype == MRT_f16)
    launch<mrt_f16, true>(c, &p);
  else if (image.dtype == MRT_bf16)
    launch<mrt_bf16, true>(c, &p);
  else
    launch<float, true>(c, &p);
}

/* ---- dw ------------------------------------------------------------------ */

enum { COLUMNS = 32, DEEP = 16 };

/* Sum over threadIdx.y; for threadIdx.y == 0. */
template <typename R> MRT_DEVICE R sum_deep(R v) {
  __shared__ R all[DEEP][COLUMNS];
  __syncthreads();
  all[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  R sum = 0;
  if (threadIdx.y == 0)
    for (int y = 0; y < DEEP; y++) sum += all[y][threadIdx.x];
  return sum;
}

/* Element `at`: tap, channel of x, channel of y, which runs fastest. */
template <typename R>
MRT_DEVICE R sum_places(const mrt_conv_walk &p, const mrt_factor &x,
                        const mrt_factor &dy, int64_t at, int64_t first,
                        int64_t end) {
  typedef mrt_digits_of<int64_t> digits;
  int64_t y_all = p.Y * p.groups, x_all = p.X * p.groups, out = at % y_all;
  digits tap = digits::of(at / y_all, p.w.kernel, p.X);
  int64_t i0 = tap.a * p.h.dilation - p.h.padding;
  int64_t j0 = tap.b * p.w.dilation - p.w.padding;
  int64_t in = out / p.Y * p.X + tap.c;
  digits place = digits::of(first, p.h.y, p.w.y);
  digits step = digits::of(DEEP, p.h.y, p.w.y);
  R sum = 0;
  for (int64_t k = first; k < end; k += DEEP) {
    int64_t i = place.b * p.h.stride + i0, j = place.c * p.w.stride + j0;
    if (i >= 0 && i < p.h.x && j >= 0 && j < p.w.x)
      sum += mrt_get_factor<R, false>(dy, k * y_all + out) *
             mrt_get_factor<R, false>(
                 x, ((place.a * p.h.x + i) * p.w.x + j) * x_all + in);
    place.add(step, p.h.y, p.w.y);
  }
  return sum;
}

template <typename R>
__global__ void sum_part(mrt_conv_walk p, mrt_factor x, mrt_factor dy,
                         R *partial, int64_t parts, int64_t each) {
  int64_t y_all = p.Y * p.groups, columns = p.h.kernel * p.w.kernel * p.X;
  int64_t count = columns * y_all, tiles = (count + COLUMNS - 1) / COLUMNS;
  int64_t places = p.N * p.h.y * p.w.y;
  for (int64_t b = blockIdx.x; b < tiles * parts; b += gridDim.x) {
    int64_t part = b / tiles, at = b % tiles * COLUMNS + threadIdx.x;
    int64_t end = (part + 1) * each < places ? (part + 1) * each : places;
    R sum = 0;
    if (at < count)
      sum = sum_places<R>(p, x, dy, at, part * each + threadIdx.y, end);
    sum = sum_deep(sum);
    if (threadIdx.y == 0 && at < count)
      partial[part * count + at % y_all * columns + at / y_all] = sum;
  }
}

template <typename R>
static void run_dw(const mrt_call *c, const mrt_conv_walk *walk,
                   int64_t parts) {
  int64_t tiles = (mrt_elements(&c->out[0]) + COLUMNS - 1) / COLUMNS;
  int64_t places = walk->N * walk->h.y * walk->w.y;
  if (tiles == 0) return;
  MRT_LAUNCH(mrt_blocks(tiles * parts, 1), dim3(COLUMNS, DEEP), 0,
             c->run->queue, sum_part<R>)
  (*walk, mrt_factor_of(c, 0), mrt_factor_of(c, 1), (R *)c->scratch, parts,
   (places + parts - 1) / parts);
}

} // namespace

void mrt_conv_direct(const mrt_call *c, const mrt_conv_walk *walk) {
  mrt_factor image = mrt_factor_of(c, 0);
  if (image.dtype == MRT_f64)
    run<double>(c, walk, image);
  else
    run<float>(c, walk, image);
}

size_t mrt_conv_direct_scratch(const mrt_call *c) {
  return (size_t)mrt_elements(&c->in[1]) *
         (c->in[0].type.dtype == MRT_f64 ? sizeof(double) : sizeof(float));
}

void mrt_conv_direct_dw(const mrt_call *c, const mrt_conv_walk *walk,
                        int64_t parts) {
  if (c->in[0].type.dtype == MRT_f64)
    run_dw<double>(c, walk, parts);
  else
    run_dw<float>(c, walk, parts);
}

/* Enough parts to keep a GPU busy, of 128 places or more. */
int64_t mrt_conv_direct_parts(const mrt_conv_walk *walk) {
  int64_t count = walk->h.kernel * walk->w.kernel * walk->X * walk->Y;
  int64_t tiles = (count * walk->groups + COLUMNS - 1) / COLUMNS;
  int64_t places = walk->N * walk->h.y * walk->w.y;
  int64_t wanted = tiles ? 2048 / tiles : 1, some = (places + 127) / 128;
  int64_t n = wanted < some ? wanted : some;
  return n < 1 ? 1 : n;
}
