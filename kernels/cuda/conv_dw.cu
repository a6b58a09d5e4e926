/* conv_dw.cu -- conv2d_dw as a product of matrices that are never made
 *
 * A row is a channel of y, a column a tap and a channel of x; the sum goes over
 * the places of y.  It is long, and dw is small: places are dealt to a number of
 * parts that depends on the shape alone, whose sums are then added in order.
 *
 * SPDX-License-Identifier: MIT */
#include "conv.cuh"
#include "conv_direct.h"
#include "dnn/fallback.h"
#include "tile.cuh"

namespace {

template <typename S> struct dw_product {
  mrt_conv_walk walk;
  mrt_factor x, dy;
  mrt_any<mrt_real<S>> dw;
  mrt_real<S> *partial;        /* NULL: one part, written to dw */
  int columns;                 /* of the product */
  int64_t rows, across, tiles; /* of tiles: down, across, in all */
  int64_t parts, each;         /* places of a part */
};

/* Where [o, tap, c] stands in dw. */
MRT_DEVICE int64_t place_in_dw(int64_t at, int64_t taps, int64_t X) {
  int64_t row = at / (taps * X), column = at % (taps * X);
  return (row * X + column % X) * taps + column / X;
}

/* What a block is at: a part's tile from row m0 and column n0 on; step: of a
 * thread from place to place.  It is in shared memory, as registers are for
 * sums. */
struct dw_item {
  int64_t number, part, group;
  int m0, n0;
  mrt_digits step;
};

template <typename Tile, typename S>
MRT_DEVICE dw_item item_of(const dw_product<S> &p, int64_t t) {
  int64_t rest = t % p.tiles / p.across;
  return { t,
           t / p.tiles,
           rest / p.rows,
           (int)(rest % p.rows) * Tile::SIDE,
           (int)(t % p.tiles % p.across) * Tile::SIDE,
           mrt_digits::of(Tile::PASS, (int)p.walk.h.y, (int)p.walk.w.y) };
}

template <typename Tile, typename S, typename Manner> struct dw_reader {
  enum { V = Tile::V, WIDE = Tile::WIDE };
  mrt_image<S, Manner> image;
  mrt_factor dy;
  const mrt_digits &step;
  mrt_digits tap, at;  /* at: the place of y */
  int next, end, left; /* places; channels from `channel` on */
  int64_t all, channel;

  __device__ __forceinline__ dw_reader(const dw_product<S> &p,
                                       const dw_item &now)
      : image{ p.x,
               mrt_line(p.walk.h, 0, false),
               mrt_line(p.walk.w, 0, false),
               p.walk.X * p.walk.groups,
               now.group * p.walk.X,
               (int)p.walk.X },
        dy(p.dy), step(now.step), tap{ 0, 0, 0 },
        next((int)(now.part * p.each)), end(next + (int)p.each),
        all(p.walk.Y * p.walk.groups) {
    int places = (int)p.walk.N * image.h.places * image.w.places;
    int across, along, high = image.h.places, wide = image.w.places;
    Tile::at(0, &across, &along);
    channel = now.group * p.walk.Y + now.m0 + across;
    left = (int)p.walk.Y - now.m0 - across;
    next += along;
    if (end > places) end = places;
    if (p.columns)
      tap = mrt_digits::of(now.n0 + across, image.w.taps, image.channels);
    at = mrt_digits::of(next, high, wide);
  }

  __device__ __forceinline__ void get_dy(mrt_vector<S, V> *v) const {
    int64_t from = (int64_t)next * all + channel;
    *v = mrt_vector<S, V>();
    if (next >= end || left <= 0) return;
    if constexpr (Manner::whole)
      mrt_get_factors<S, Manner::plain, V>(dy, from, v);
    else
      mrt_fill<!Manner::plain>(v, [&](int k) {
        return k < left ? mrt_get_factor<S, Manner::plain>(dy, from + k) : S();
      });
  }
  __device__ __forceinline__ void fetch(mrt_vector<S, V> *a,
                                        mrt_vector<S, V> *b) {
    MRT_UNROLL
    for (int k = 0; k < WIDE; k++) {
      get_dy(&a[k]);
      image.template get<V>(next < end ? at.a : -1, at.b, at.c, tap, &b[k]);
      at.add(step, image.h.places, image.w.places);
      next += Tile::PASS;
    }
  }
};

template <typename S, bool L, typename Manner>
__global__ void __launch_bounds__((mrt_tile<S, L, true>::THREADS),
                                  (mrt_tile<S, L, true>::AT_ONCE))
    convolve(dw_product<S> p) {
  typedef mrt_tile<S, L, true> Tile;
  typedef mrt_real<S> R;
  __shared__ typename Tile::room room;
  __shared__ dw_item now;
  Tile tile;
  for (int64_t t = blockIdx.x; t < p.tiles * p.parts;
       t = now.number + gridDim.x) {
    __syncthreads(); /* the last one has been read */
    if (threadIdx.x == 0) now = item_of<Tile>(p, t);
    __syncthreads();
    dw_reader<Tile, S, Manner> source(p, now);
    int sum = source.end - (int)(now.part * p.each);
    tile.multiply(room, source, (sum + Tile::DEEP - 1) / Tile::DEEP);
    tile.each(room, [&](int m, int n, R *v) {
      int64_t row = now.group * p.walk.Y + now.m0 + m, column = now.n0 + n;
      int64_t at = row * p.columns + column;
      if (now.m0 + m >= p.walk.Y || column >= p.columns) return;
      if (p.partial) {
        R *to = p.partial + now.part * p.walk.groups * p.walk.Y * p.columns;
        mrt_put_pack<4>(to, at, (row + 1) * p.columns, v);
        return;
      }
      for (int k = 0; k < 4; k++)
        if (column + k < p.columns)
          mrt_put(
              p.dw,
              place_in_dw(at + k, p.walk.h.kernel * p.walk.w.kernel, p.walk.X),
              v[k]);
    });
  }
}

template <typename R>
__global__ void join(const R *partial, int64_t parts, int64_t count,
                     int64_t taps, int64_t X, mrt_any<R> dw) {
  for (int64_t i = mrt_first(); i < count; i += mrt_stride()) {
    R sum = 0;
    for (int64_t k = 0; k < parts; k++) sum += partial[k * count + i];
    mrt_put(dw, place_in_dw(i, taps, X), sum);
  }
}

/* ---- launching ----------------------------------------------------------- */

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static mrt_conv_walk walk_of(const mrt_call *c) {
  return mrt_conv_walk_of(c, &c->in[0].type, &c->out[0].type, &c->in[1].type,
                          false);
}
static int unit_of(const mrt_call *c) {
  mrt_factor x = mrt_factor_of(c, 0), dy = mrt_factor_of(c, 1);
  return mrt_unit_of(&x, &dy);
}

static bool is_large(const mrt_conv_walk *walk) {
  return walk->Y > 64 && walk->X * walk->h.kernel * walk->w.kernel > 64;
}
/* Enough parts to keep a GPU busy, of 512 places or more. */
static int64_t parts_of(const mrt_conv_walk *walk) {
  if (mrt_conv_is_direct(walk)) return mrt_conv_direct_parts(walk);
  int64_t side = is_large(walk) ? 128 : 64, most = 512;
  int64_t columns = walk->X * walk->h.kernel * walk->w.kernel;
  int64_t tiles =
      ceil_div(walk->Y, side) * ceil_div(columns, side) * walk->groups;
  int64_t places = walk->N * walk->h.y * walk->w.y;
  int64_t wanted = tiles ? most / tiles : 1, some = ceil_div(places, 512);
  int64_t n = wanted < some ? wanted : some;
  return n < 1 ? 1 : n;
}

template <typename S, bool L, typename Manner>
static void launch(const mrt_call *c, dw_product<S> *p) {
  typedef mrt_tile<S, L, true> Tile;
  p->rows = ceil_div(p->walk.Y, Tile::SIDE);
  p->across = ceil_div(p->columns, Tile::SIDE);
  p->tiles = p->rows * p->across * p->walk.groups;
  if (p->tiles == 0) return;
  MRT_LAUNCH(mrt_blocks(p->tiles * p->parts, 1), Tile::THREADS, 0,
             c->run->queue, convolve<S, L, Manner>)
  (*p);
}

template <typename S, bool plain>
static void choose(const mrt_call *c, dw_product<S> *p) {
  const int V = 16 / sizeof(S);
  const bool has_large = sizeof(S) < 8;
  bool whole = mrt_is_whole(c->in[0].data, p->walk.X, V) &&
               mrt_is_whole(c->in[1].data, p->walk.Y, V);
  if (!whole)
    launch<S, false, mrt_manner<plain, false>>(c, p);
  else if (has_large && is_large(&p->walk))
    launch<S, has_large, mrt_manner<plain, true>>(c, p);
  else
    launch<S, false, mrt_manner<plain, true>>(c, p);
}

template <typename S>
static void run(const mrt_call *c, const mrt_conv_walk &walk, bool plain,
                int64_t parts) {
  int64_t columns = walk.X * walk.h.kernel * walk.w.kernel;
  int64_t places = walk.N * walk.h.y * walk.w.y;
  dw_product<S> p = { walk,
                      mrt_factor_of(c, 0),
                      mrt_factor_of(c, 1),
                      mrt_at_any<mrt_real<S>>(c->out, 0, 1),
                      parts > 1 ? (mrt_real<S> *)c->scratch : NULL,
                      (int)columns,
                      0,
                      0,
                      0,
                      parts,
                      ceil_div(ceil_div(places, parts), 32) * 32 };
  if (plain || sizeof(S) == 8)
    choose<S, true>(c, &p);
  else
    choose<S, sizeof(S) == 8>(c, &p);
}

template <typename R>
static void join_parts(const mrt_call *c, const mrt_conv_walk *walk,
                       int64_t parts) {
  int64_t count = mrt_elements(&c->out[0]);
  if (count == 0) return;
  MRT_LAUNCH(mrt_blocks(count, 256), 256, 0, c->run->queue, join<R>)
  ((const R *)c->scratch, parts, count, walk->h.kernel * walk->w.kernel,
   walk->X, mrt_at_any<R>(c->out, 0, 1));
}

} // namespace

extern "C" void mrt_cuda_fallback_conv2d_dw(const mrt_call *c) {
  mrt_conv_walk walk = walk_of(c);
  mrt_factor x = mrt_factor_of(c, 0), dy = mrt_factor_of(c, 1);
  int unit = unit_of(c);
  int64_t parts = parts_of(&walk);
  bool direct = mrt_conv_is_direct(&walk);
  bool plain = mrt_is_plain(&x, unit) && mrt_is_plain(&dy, unit);
  if (direct)
    mrt_conv_direct_dw(c, &walk, parts);
  else
    MRT_BY_UNIT(unit, S, run<S>(c, walk, plain, parts))
  if (parts == 1 && !direct) return;
  if (unit == MRT_f64)
    join_parts<double>(c, &walk, parts);
  else
    join_parts<float>(c, &walk, parts);
}

/* The sums of the parts. */
extern "C" size_t mrt_cuda_fallback_conv2d_dw_scratch(const mrt_call *c) {
  mrt_conv_walk walk = walk_of(c);
  int64_t parts = parts_of(&walk);
  if (parts == 1 && !mrt_conv_is_direct(&walk)) return 0;
  return (size_t)(parts * mrt_elements(&c->out[0])) *
         (unit_of(c) == MRT_f64 ? sizeof(double) : sizeof(float));
}
