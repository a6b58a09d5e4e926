/* attention.cu -- attention without its matrix of scores
 *
 * A block has a tile of queries of one head and walks the tiles of keys that
 * they see, with a running maximum and sum for each query.  Tiles of late
 * queries see most keys and start first.  A mask is read where it lies, number
 * by number; keys and values may lie in pages.
 *
 * From Dao, arXiv:2307.08691; Milakov & Gimelshein, arXiv:1805.02867.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_tile.cuh"
#include "online_softmax.cuh"

namespace {

/* X: how k and v lie. */
template <typename T, typename X> struct attention_call {
  mrt_attention n;
  mrt_heads<T> q;
  X k, v;
  mrt_heads<T> o;
  mrt_real<T> *lse;
};

/* What a block is at: queries from t on of a head, columns of its values.  It is
 * in shared memory, as registers are for sums. */
struct tile_item {
  int64_t number, t, column, b, h;
  mrt_sample sample;
  mrt_reach keys;
};

template <int TILE, int WIDE>
MRT_DEVICE tile_item item_of(const mrt_attention &n, int64_t number,
                             int64_t tiles, int64_t chunks) {
  int64_t t = (tiles - 1 - number % tiles) * TILE, rest = number / tiles;
  int64_t column = rest % chunks * WIDE, head = rest / chunks;
  mrt_sample sample = mrt_sample_of(n, head / n.H);
  return { number,
           t,
           column,
           head / n.H,
           head % n.H,
           sample,
           mrt_keys_of(n, sample, t, t + TILE, TILE) };
}

/* Scores of the item's queries and keys from s become weights; what was summed
 * before the maximum rose weighs less now. */
template <bool ADJUSTS, typename R, int SIDE, int COLUMNS>
MRT_DEVICE void soften(const mrt_attention &n, const tile_item &item, int64_t s,
                       typename mrt_square<R>::memory *m, R w[][SIDE], R *max,
                       R *sum, R o[][COLUMNS]) {
  const mrt_sample sample = item.sample;
  const int64_t t = item.t;
  if constexpr (ADJUSTS) {
    R slope[SIDE][SIDE];
    mrt_tile_each(w, slope, m, [&](int a, int b, R *score) {
      R by = 1, x = *score * (R)n.scale;
      if (mrt_is_seen(n, sample, t + a, s + b))
        x = mrt_adjust(n, item.b, item.h, t + a, s + b, x, &by);
      *score = x;
      return by;
    });
  }
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) {
    int64_t row = t + mrt_tile_y() + 16 * a;
    int64_t seen = mrt_keys_seen(n, sample, row);
    int64_t from = mrt_keys_from(n, sample, row);
    R top = -(R)INFINITY, part = 0;
    MRT_UNROLL
    for (int b = 0; b < SIDE; b++) {
      int64_t key = s + mrt_tile_x() + 16 * b;
      bool is_seen = key >= from && key < seen;
      R score = ADJUSTS ? w[a][b] : w[a][b] * (R)n.scale;
      w[a][b] = is_seen ? score : -(R)INFINITY;
      top = mrt_larger::of(top, w[a][b]);
    }
    top = mrt_larger::of(max[a], mrt_tile_reduce<mrt_larger>(top));
    R shift = mrt_shift_of(top), keep = exp(max[a] - shift);
    MRT_UNROLL
    for (int b = 0; b < SIDE; b++) {
      w[a][b] = exp(w[a][b] - shift);
      part += w[a][b];
    }
    max[a] = top;
    sum[a] = sum[a] * keep + mrt_tile_reduce<mrt_add>(part);
    MRT_UNROLL
    for (int c = 0; c < COLUMNS; c++) o[a][c] *= keep;
  }
}

template <typename T, typename X, bool ADJUSTS>
__global__ void __launch_bounds__(TILE_THREADS, 2)
    attend(attention_call<T, X> c, int64_t tiles, int64_t chunks) {
  typedef mrt_real<T> R;
  typedef mrt_square<R> tile;
  constexpr int SIDE = tile::SIDE, COLUMNS = tile::COLUMNS;
  __shared__ typename tile::memory m;
  __shared__ tile_item now;
  int64_t items = c.n.B * c.n.H * chunks * tiles;
  for (int64_t item = blockIdx.x; item < items; item = now.number + gridDim.x) {
    __syncthreads(); /* the last one has been read */
    if (threadIdx.x == 0)
      now = item_of<tile::TILE, tile::WIDE>(c.n, item, tiles, chunks);
    __syncthreads();
    R max[SIDE], sum[SIDE], o[SIDE][COLUMNS] = {};
    for (int a = 0; a < SIDE; a++) max[a] = -(R)INFINITY, sum[a] = 0;
    for (int64_t s = now.keys.from; s < now.keys.end; s += tile::TILE) {
      R w[SIDE][SIDE];
      int64_t b = now.b, h = now.h, hk = h / c.n.group;
      mrt_heads<T> q = mrt_rows(c.q, now.sample.T);
      X k = mrt_rows_of(c.k, b, now.sample.S);
      X v = mrt_rows_of(c.v, b, now.sample.S);
      mrt_tile_scores(q, mrt_head(q, b, h), now.t, k, mrt_head(k, b, hk), s, &m,
                      w);
      soften<ADJUSTS, R, SIDE, COLUMNS>(c.n, now, s, &m, w, max, sum, o);
      mrt_tile_give(w, c.n.rounds, &m);
      mrt_tile_add(v, mrt_head(v, b, hk), s, now.column, &m, o);
    }
    MRT_UNROLL
    for (int a = 0; a < SIDE; a++) {
      int64_t row = now.t + mrt_tile_y() + 16 * a;
      R part = sum[a] == 0 ? 0 : 1 / sum[a]; /* no key was seen */
      for (int k = 0; k < COLUMNS; k++) o[a][k] *= part;
      if (mrt_tile_x() == 0 && now.column == 0 && row < c.n.T)
        c.lse[(now.b * c.n.H + now.h) * c.n.T + row] = max[a] + log(sum[a]);
    }
    mrt_tile_put(c.o, now.b, now.h, now.t, now.column, o);
  }
}

template <typename T, typename X, bool ADJUSTS>
static void launch(const mrt_call *c, const attention_call<T, X> &a) {
  typedef mrt_square<mrt_real<T>> tile;
  int64_t tiles = mrt_tiles(a.n.T, tile::TILE);
  int64_t chunks = a.n.Dv ? mrt_tiles(a.n.Dv, tile::WIDE) : 1;
  int64_t items = a.n.B * a.n.H * tiles * chunks;
  if (items == 0) return;
  MRT_LAUNCH(mrt_blocks(items, 1), TILE_THREADS, 0, c->run->queue,
             attend<T, X, ADJUSTS>)
  (a, tiles, chunks);
}

template <typename T, typename X>
static void run_with(const mrt_call *c, int after, const X &k, const X &v) {
  attention_call<T, X> a = {
    mrt_attention_of(c, after),  mrt_heads_of<T>(&c->in[0]),   k, v,
    mrt_heads_of<T>(&c->out[0]), (mrt_real<T> *)c->out[1].data
  };
  if (mrt_attention_adjusts(a.n))
    launch<T, X, true>(c, a);
  else
    launch<T, X, false>(c, a);
}
template <typename T> static void run(const mrt_call *c) {
  run_with<T>(c, MRT_ATTENTION_AFTER, mrt_heads_of<T>(&c->in[1]),
              mrt_heads_of<T>(&c->in[2]));
}
template <typename T> static void run_paged(const mrt_call *c) {
  run_with<T>(c, MRT_ATTENTION_PAGED_AFTER, mrt_paged_of<T>(c, 1),
              mrt_paged_of<T>(c, 2));
}

} // namespace

extern "C" void mrt_cuda_fallback_attention(const mrt_call *c) {
  int dtype = mrt_common(&c->in[0], &c->in[1], &c->in[2], &c->out[0]);
  if (mrt_cuda_attention_by_groups(c, false) && mrt_attention_wgmma(c)) return;
  if (!mrt_cuda_attention_is_plain(c) && mrt_attention_mma(c)) return;
  if (dtype == MRT_f32)
    run<float>(c);
  else if (dtype == MRT_f64)
    run<double>(c);
  else
    run<mrt_mixed<float>>(c);
}

extern "C" void mrt_cuda_paged_attention(const mrt_call *c) {
  int dtype = mrt_common(&c->in[0], &c->in[1], &c->in[2], &c->out[0]);
  if (dtype == MRT_f32)
    run_paged<float>(c);
  else if (dtype == MRT_f64)
    run_paged<double>(c);
  else
    run_paged<mrt_mixed<float>>(c);
}
