/* conv.cu -- conv2d and conv2d_dx as products of matrices that are never made
 *
 * A row of the left side is a place of what is written, a column a channel; the
 * sum goes over taps and the channels that they read.  Rows are read where they
 * stand in the image.  Weights are packed first, one channel's taps and
 * channels in the order of the sum, and rounded.
 *
 * Groups of few channels go to conv_direct.cu.
 *
 * They stand in wherever cuDNN is not installed, refuses the dtypes, or would
 * not give the same bits each time (dnn/dnn.h): the library is optional, so
 * every convolution has a kernel here.
 *
 *   from  Chetlur et al., cuDNN, arXiv:1410.0759
 *
 * SPDX-License-Identifier: MIT */
#include "conv.cuh"
#include "conv_direct.h"
#include "dnn/fallback.h"
#include "tile.cuh"

namespace {

/* ---- weights ------------------------------------------------------------- */

/* [groups, outs, taps, ins] from [groups * Y, X, taps]: outs are X with `back`,
 * else Y. */
template <typename S>
__global__ void pack(mrt_factor w, S *to, int64_t count, int taps, int X, int Y,
                     bool back) {
  int ins = back ? Y : X, outs = back ? X : Y;
  for (int64_t i = mrt_first(); i < count; i += mrt_stride()) {
    int64_t in = i % ins, tap = i / ins % taps, out = i / ins / taps % outs;
    int64_t group = i / ins / taps / outs;
    int64_t y = group * Y + (back ? in : out), x = back ? out : in;
    to[i] = mrt_get_factor<S, false>(w, (y * X + x) * taps + tap);
  }
}

/* ---- the product --------------------------------------------------------- */

template <typename S> struct product {
  mrt_conv_walk walk;
  mrt_factor image;
  const S *w;                   /* packed */
  mrt_any<mrt_real<S>> y, bias; /* bias: NULL, there is none */
  int ins, outs;                /* channels of a group */
  int64_t rows, columns, tiles; /* of tiles: in a phase, across, in all */
};

/* What a block is at: a tile of a phase, from row m0 and column n0 on.  It is in
 * shared memory, as registers are for sums. */
struct conv_item {
  int64_t number, group, channel; /* channel: the group's first that is read */
  int m0, n0, places;
  mrt_line h, w;
};

template <int SIDE, typename S>
MRT_DEVICE conv_item item_of(const product<S> &p, int64_t t) {
  int64_t rest = t / p.columns, phases = p.walk.w.phases;
  int phase = (int)(rest / p.rows % (p.walk.h.phases * phases));
  mrt_line h(p.walk.h, phase / (int)phases, p.walk.back);
  mrt_line w(p.walk.w, phase % (int)phases, p.walk.back);
  int64_t group = rest / p.rows / (p.walk.h.phases * phases);
  return { t,
           group,
           group * p.ins,
           (int)(rest % p.rows) * SIDE,
           (int)(t % p.columns) * SIDE,
           (int)p.walk.N * h.places * w.places,
           h,
           w };
}

/* What the threads of a block read, a step of the sum after the other. */
template <typename Tile, typename S, typename Manner> struct walker {
  enum { V = Tile::V, WIDE = Tile::WIDE };
  /* a thread with 64 sums and as many factors has no registers for lines */
  mrt_image<S, Manner, Tile::SIDE == 128 && sizeof(S) == 4> image;
  int n[WIDE], i[WIDE], j[WIDE]; /* places; n is -1 where there is none */
  const S *w[WIDE];              /* NULL alike */
  int kernel_w;
  mrt_digits at, step; /* tap and channel */

  __device__ __forceinline__ walker(const product<S> &p, const conv_item &now)
      : image{ p.image, now.h, now.w, p.ins * p.walk.groups, now.channel, p.ins },
        kernel_w((int)p.walk.w.kernel), at{ 0, 0, 0 }, step{ 0, 0, 0 } {
    const mrt_line &h = now.h, &l = now.w;
    int m0 = now.m0, n0 = now.n0;
    int64_t line = p.walk.h.kernel * p.walk.w.kernel * p.ins;
    int across, along;
    MRT_UNROLL
    for (int k = 0; k < WIDE; k++) {
      Tile::at(k, &across, &along);
      mrt_digits place = mrt_digits::of(m0 + across, h.places, l.places);
      n[k] = m0 + across < now.places ? place.a : -1;
      i[k] = place.b;
      j[k] = place.c;
      w[k] = n0 + across < p.outs
                 ? p.w + (now.group * p.outs + n0 + across) * line
                 : NULL;
    }
    if (p.ins == 0 || l.taps == 0) return;
    at = mrt_digits::of(along, l.taps, p.ins);
    step = mrt_digits::of(Tile::DEEP, l.taps, p.ins);
  }

  __device__ __forceinline__ int64_t weight(const mrt_digits &d) const {
    int64_t a = image.h.first_tap + d.a * image.h.tap_step;
    int64_t b = image.w.first_tap + d.b * image.w.tap_step;
    return (a * kernel_w + b) * image.channels + d.c;
  }
  __device__ __forceinline__ void get_weights(const S *from,
                                              mrt_vector<S, V> *v) const {
    *v = mrt_vector<S, V>();
    if (!from) return;
    mrt_digits d = at;
    MRT_UNROLL
    for (int k = 0; k < (Manner::whole ? 1 : V); k++) {
      bool inside = d.a < image.h.taps;
      if constexpr (Manner::whole) {
        if (inside) *v = *(const mrt_vector<S, V> *)(from + weight(d));
      } else {
        if (inside) v->at[k] = from[weight(d)];
        d.next(image.w.taps, image.channels);
      }
    }
  }
  __device__ __forceinline__ void fetch(mrt_vector<S, V> *a,
                                        mrt_vector<S, V> *b) {
    MRT_UNROLL
    for (int k = 0; k < WIDE; k++) {
      image.template get<V>(n[k], i[k], j[k], at, &a[k]);
      get_weights(w[k], &b[k]);
    }
    at.add(step, image.w.taps, image.channels);
  }
};

template <typename S, bool L, typename Manner>
__global__ void __launch_bounds__((mrt_tile<S, L, false>::THREADS),
                                  (mrt_tile<S, L, false>::AT_ONCE))
    convolve(product<S> p) {
  typedef mrt_tile<S, L, false> Tile;
  __shared__ typename Tile::room room;
  __shared__ __align__(16) unsigned char memory[sizeof(conv_item)];
  conv_item &now = *(conv_item *)memory;
  Tile tile;
  for (int64_t t = blockIdx.x; t < p.tiles; t = now.number + gridDim.x) {
    __syncthreads(); /* the last one has been read */
    if (threadIdx.x == 0) now = item_of<Tile::SIDE>(p, t);
    __syncthreads();
    if (now.m0 >= now.places) continue;
    walker<Tile, S, Manner> source(p, now);
    int sum = now.h.taps * now.w.taps * p.ins;
    tile.multiply(room, source, (sum + Tile::DEEP - 1) / Tile::DEEP);
    int64_t all = p.outs * p.walk.groups, H = p.walk.h.x, W = p.walk.w.x;
    tile.each(room, [&](int m, int n, mrt_real<S> *v) {
      const mrt_line &h = now.h, &w = now.w;
      int64_t row = now.m0 + m, channel = now.group * p.outs + now.n0 + n;
      if (row >= now.places || now.n0 + n >= p.outs) return;
      if (h.apart > 1 || w.apart > 1) {
        mrt_digits d = mrt_digits::of((int)row, h.places, w.places);
        row = (d.a * H + h.first + d.b * h.apart) * W + w.first + d.c * w.apart;
      }
      for (int k = 0; k < 4; k++)
        if (p.bias.data && now.n0 + n + k < p.outs)
          v[k] += mrt_get<mrt_real<S>>(p.bias, channel + k);
      mrt_put_pack<4>(p.y, row * all + channel,
                      row * all + (now.group + 1) * p.outs, v);
    });
  }
}

/* ---- launching ----------------------------------------------------------- */

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Tiles of this side: in a phase, across, in all. */
template <typename S> static void count(product<S> *p, int64_t side) {
  const mrt_side *h = &p->walk.h, *w = &p->walk.w;
  int64_t phases = h->phases * w->phases, places = h->y * w->y;
  if (p->walk.back && phases)
    places = ceil_div(h->x, h->stride) * ceil_div(w->x, w->stride);
  p->rows = ceil_div(p->walk.N * places, side);
  p->columns = ceil_div(p->outs, side);
  p->tiles = p->rows * p->columns * phases * p->walk.groups;
}

template <typename S, bool L, typename Manner>
static void launch(const mrt_call *c, product<S> *p) {
  typedef mrt_tile<S, L, false> Tile;
  count(p, Tile::SIDE);
  if (p->tiles == 0) return;
  MRT_LAUNCH(mrt_blocks(p->tiles, 1), Tile::THREADS, 0, c->run->queue,
             convolve<S, L, Manner>)
  (*p);
}

/* Large tiles, where there are enough of them to keep a GPU busy. */
template <typename S, bool plain>
static void choose(const mrt_call *c, product<S> *p, bool whole) {
  const bool has_large = sizeof(S) < 8;
  count(p, 128);
  if (!whole)
    launch<S, false, mrt_manner<plain, false>>(c, p);
  else if (has_large && p->outs > 64 && p->tiles >= 256)
    launch<S, has_large, mrt_manner<plain, true>>(c, p);
  else
    launch<S, false, mrt_manner<plain, true>>(c, p);
}

template <typename S>
static void run(const mrt_call *c, const mrt_conv_walk &walk, bool plain) {
  typedef mrt_real<S> R;
  const int V = 16 / sizeof(S);
  int ins = (int)(walk.back ? walk.Y : walk.X);
  int outs = (int)(walk.back ? walk.X : walk.Y);
  int taps = (int)(walk.h.kernel * walk.w.kernel);
  int64_t weights = walk.groups * ins * outs * taps;
  product<S> p = { walk,
                   mrt_factor_of(c, 0),
                   (S *)c->scratch,
                   mrt_at_any<R>(c->out, 0, 1),
                   mrt_at_any<R>(c->in, 2, c->nin),
                   ins,
                   outs,
                   0,
                   0,
                   0 };
  bool whole = mrt_is_whole(c->in[0].data, ins, V);
  if (weights)
    MRT_LAUNCH(mrt_blocks(weights, 256), 256, 0, c->run->queue, pack<S>)
  (mrt_factor_of(c, 1), (S *)c->scratch, weights, taps, (int)walk.X,
   (int)walk.Y, walk.back);
  if (plain || sizeof(S) == 8)
    choose<S, true>(c, &p, whole);
  else
    choose<S, sizeof(S) == 8>(c, &p, whole);
}

static mrt_conv_walk walk_of(const mrt_call *c, bool back) {
  const mrt_type *image = &c->in[0].type, *out = &c->out[0].type;
  return back ? mrt_conv_walk_of(c, out, &c->in[1].type, image, true)
              : mrt_conv_walk_of(c, image, &c->in[1].type, out, false);
}

static void run_any(const mrt_call *c, bool back) {
  mrt_conv_walk walk = walk_of(c, back);
  mrt_factor image = mrt_factor_of(c, 0), w = mrt_factor_of(c, 1);
  int unit = mrt_unit_of(&image, &w);
  if (mrt_conv_is_direct(&walk))
    mrt_conv_direct(c, &walk);
  else
    MRT_BY_UNIT(unit, S, run<S>(c, walk, mrt_is_plain(&image, unit)))
}

/* The packed weights. */
static size_t scratch(const mrt_call *c, bool back) {
  mrt_conv_walk walk = walk_of(c, back);
  mrt_factor image = mrt_factor_of(c, 0), w = mrt_factor_of(c, 1);
  if (mrt_conv_is_direct(&walk)) return mrt_conv_direct_scratch(c);
  return (size_t)mrt_elements(&c->in[1]) *
         (size_t)mrt_bytes_of(mrt_unit_of(&image, &w));
}

} // namespace

extern "C" void mrt_cuda_fallback_conv2d(const mrt_call *c) {
  run_any(c, false);
}
extern "C" void mrt_cuda_fallback_conv2d_dx(const mrt_call *c) {
  run_any(c, true);
}
extern "C" size_t mrt_cuda_fallback_conv2d_scratch(const mrt_call *c) {
  return scratch(c, false);
}
extern "C" size_t mrt_cuda_fallback_conv2d_dx_scratch(const mrt_call *c) {
  return scratch(c, true);
}
