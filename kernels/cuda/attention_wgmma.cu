/* attention_wgmma.cu -- attention of bf16 or f16 by Hopper's warpgroups
 *
 * As attention_mma.cu, with its arithmetic.  In turn j a warpgroup begins the
 * scores of keys j, and then weights j - 1 times values, which go on while the
 * scores are softened; so o is scaled after these were added, not before.  The
 * other warpgroup's products, and another block's, go on in between.  Of keys and
 * of values two tiles are there: the next ones are copied meanwhile.
 *
 * From Shah et al., arXiv:2407.08608, of which this is the part without copies
 * by the copy engine and without a warpgroup of its own for them.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_wgmma.cuh"
#include "online_softmax.cuh"

namespace {

#define LOG2_E 1.442695040888963

/* Keys at a time, and blocks that share a multiprocessor's registers. */
template <int W> constexpr int keys_of = W == 64 ? 64 : 128;
template <int W> constexpr int blocks_of = W == 64 ? 2 : 1;

template <typename T> struct attention_group_call {
  mrt_attention n;
  mrt_heads<T> q, k, v, o;
  float *lse;
};

#ifdef MRT_HAS_WGMMA

/* What a thread knows of its rows g and g + 8 of a warp's 16 queries: the keys
 * that each sees, its maximum, of its sum the thread's own columns. */
template <int W> struct row_progress {
  mrt_seen_span seen[2];
  float max[2], sum[2], o[W / 8][4];
};
/* What a block walks: tiles of keys and values, two of each in turns.  `odd` is
 * the way from even turns' to that of the turn, in bytes. */
template <typename T> struct key_walk {
  mrt_tile_rows<T> k, v; /* the next ones' */
  int tiles, odd;
  uint32_t at; /* in shared memory: a tile of queries, two of keys, of values */
  uint32_t to; /* of the thread's pack in the first tile of keys */
};
template <int W> constexpr int tile_bytes = keys_of<W> *W * 2;
template <int W> constexpr int keys_on = MRT_BLOCK_ROWS *W * 2;
template <int W> constexpr int values_on = keys_on<W> + 2 * tile_bytes<W>;

/* A block's item, for which no register is free meanwhile. */
struct wgmma_item {
  int64_t item;
  int b, h, t;
};

template <int W> MRT_DEVICE int tiles_of(int from, int end) {
  return end > from ? (end - from + keys_of<W> - 1) / keys_of<W> : 0;
}

/* Scores of keys s .. become exponents of 2; those of keys that a query does
 * not see, -infinity. */
template <int W>
MRT_DEVICE void leave_seen(const row_progress<W> &p, int s, float unit,
                           float w[][4]) {
  int column = mrt_lane() % 4 * 2;
  MRT_UNROLL
  for (int r = 0; r < 2; r++) {
    int from = p.seen[r].from - s - column, end = p.seen[r].end - s - column;
    MRT_UNROLL
    for (int j = 0; j < keys_of<W> / 8 * 2; j++) {
      int key = j / 2 * 8 + j % 2;
      float *score = &w[j / 2][r * 2 + j % 2];
      *score = key >= from && key < end ? *score * unit : -INFINITY;
    }
  }
}

/* Scores of keys s .. become weights; keep: what is left of the weight of what
 * was summed before.  Where all are seen their maximum is taken before the
 * scale, as in attention_mma.cu. */
template <int W>
MRT_DEVICE void soften(int s, float unit, float w[][4], row_progress<W> *p,
                       float *keep) {
  constexpr int N = keys_of<W>;
  bool whole = unit >= 0;
  for (int r = 0; r < 2; r++)
    whole = whole && p->seen[r].from <= s && s + N <= p->seen[r].end;
  if (!__all_sync(0xffffffff, whole)) {
    leave_seen(*p, s, unit, w);
    unit = 1;
  }
  MRT_UNROLL
  for (int r = 0; r < 2; r++) {
    float top = -INFINITY;
    MRT_UNROLL
    for (int j = 0; j < N / 8; j++) {
      const float *two = &w[j][2 * r];
      top = mrt_larger::of(top, mrt_larger::of(two[0], two[1]));
    }
    top = mrt_larger::of(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = mrt_larger::of(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = mrt_larger::of(p->max[r], top * unit);
    float shift = mrt_shift_of(top);
    keep[r] = mrt_exp2(p->max[r] - shift);
    p->max[r] = top, p->sum[r] *= keep[r];
    MRT_UNROLL
    for (int j = 0; j < N / 8; j++) {
      float *two = &w[j][2 * r];
      two[0] = mrt_exp2(fmaf(two[0], unit, -shift));
      two[1] = mrt_exp2(fmaf(two[1], unit, -shift));
      p->sum[r] += two[0] + two[1];
    }
  }
}

/* Turn j begins: keys j and values j - 1 are there, all that was read before
 * has been read, keys j + 1 and values j are on their way.  The whole block
 * calls. */
template <typename T, int W>
MRT_DEVICE void turn(const attention_group_call<T> &c, key_walk<T> *x, int j) {
  constexpr int N = keys_of<W>, TILE = tile_bytes<W>;
  mrt_copies_wait_but<0>();
  mrt_shared_written();
  __syncthreads();
  x->odd = j % 2 * TILE;
  if (j < x->tiles)
    mrt_part_begin<W, N>(&x->v, c.v.strides[1], x->to + 2 * TILE + x->odd);
  if (j + 1 < x->tiles)
    mrt_part_begin<W, N>(&x->k, c.k.strides[1], x->to + TILE - x->odd);
  mrt_copies_commit();
}
/* The turn's keys; and the values of the turn before. */
template <typename T, int W> MRT_DEVICE uint32_t keys_at(const key_walk<T> &x) {
  return mrt_matrix_at(x.at) + mrt_bytes_on(keys_on<W> + x.odd);
}
template <typename T, int W>
MRT_DEVICE uint32_t values_at(const key_walk<T> &x) {
  return mrt_turned_at<keys_of<W>>(x.at) +
         mrt_bytes_on(values_on<W> + tile_bytes<W> - x.odd);
}

/* o weighs less; rarely, since a maximum seldom rises late. */
template <int W>
MRT_DEVICE void keep_part(const float *keep, float o[W / 8][4]) {
  if (__all_sync(0xffffffff, keep[0] == 1 && keep[1] == 1)) return;
  MRT_UNROLL
  for (int d = 0; d < W / 2; d++) o[d / 4][d % 4] *= keep[d % 4 / 2];
}

/* A warpgroup's turns: of the block's tiles, the first of which has key s
 * first, it sees the first `tiles`. */
template <typename T, int W>
MRT_DEVICE void attend_keys(const attention_group_call<T> &c, key_walk<T> x,
                            int s, int tiles, row_progress<W> *p) {
  constexpr int N = keys_of<W>, ROWS = MRT_BLOCK_ROWS;
  const float unit = (float)(c.n.scale * LOG2_E);
  int group = mrt_in_warp((int)threadIdx.x / MRT_GROUP_THREADS);
  uint32_t q = mrt_matrix_at(x.at) + mrt_rows_on(MRT_GROUP_ROWS * group);
  float w[N / 8][4], keep[2];
  uint32_t weights[N / 16][4];
  turn<T, W>(c, &x, 0);
  if (tiles > 0) {
    mrt_wgmma_fence();
    mrt_group_scores<T, W, N, ROWS>(&w[0][0], q, keys_at<T, W>(x));
    mrt_wgmma_commit();
    mrt_wgmma_wait<0>();
    mrt_pin<N / 2>(&w[0][0]);
    soften<W>(s, unit, w, p, keep);
    mrt_group_pack<T, N>(w, weights);
  }
  MRT_NO_UNROLL
  for (int j = 1; j < tiles; j++) {
    turn<T, W>(c, &x, j);
    mrt_pin<W / 2>(&p->o[0][0]);
    mrt_pin<N / 4>(&weights[0][0]);
    mrt_wgmma_fence();
    mrt_group_scores<T, W, N, ROWS>(&w[0][0], q, keys_at<T, W>(x));
    mrt_wgmma_commit();
    mrt_group_add<T, W, N>(&p->o[0][0], weights, values_at<T, W>(x));
    mrt_wgmma_commit();
    mrt_wgmma_wait<1>();
    mrt_pin<N / 2>(&w[0][0]);
    soften<W>(s + j * N, unit, w, p, keep);
    mrt_wgmma_wait<0>();
    mrt_pin<W / 2>(&p->o[0][0]);
    mrt_pin<N / 4>(&weights[0][0]);
    keep_part<W>(keep, p->o);
    mrt_group_pack<T, N>(w, weights);
  }
  if (tiles > 0) {
    turn<T, W>(c, &x, tiles);
    mrt_pin<W / 2>(&p->o[0][0]);
    mrt_pin<N / 4>(&weights[0][0]);
    mrt_wgmma_fence();
    mrt_group_add<T, W, N>(&p->o[0][0], weights, values_at<T, W>(x));
    mrt_wgmma_commit();
    mrt_wgmma_wait<0>();
    mrt_pin<W / 2>(&p->o[0][0]);
  }
  MRT_NO_UNROLL
  for (int j = tiles + 1; j <= x.tiles; j++) turn<T, W>(c, &x, j);
}

template <typename T, int W>
MRT_DEVICE void finish(const attention_group_call<T> &c, int b, int h, int t,
                       const row_progress<W> &p) {
  MRT_UNROLL
  for (int r = 0; r < 2; r++) {
    int row = t + 8 * r + mrt_lane() / 4;
    float sum = p.sum[r], max = p.max[r];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    bool none = sum == 0 && max == -INFINITY; /* not: scores that overflow */
    mrt_mma_put<W>(c.o, b, h, row, p.o, r, none ? 0 : 1 / sum);
    if (mrt_lane() % 4 == 0 && row < c.n.T) /* from powers of 2 */
      c.lse[((int64_t)b * c.n.H + h) * c.n.T + row] =
          max * 0.693147180559945f + logf(sum);
  }
}

/* A block's item: its queries, what they see, and the first tiles. */
template <typename T, int W>
MRT_DEVICE void attend_item(const attention_group_call<T> &c, int b, int h,
                            int t, key_walk<T> *x, row_progress<W> *p) {
  constexpr int N = keys_of<W>;
  int warp = (int)threadIdx.x / 32, mine = t + warp / 4 * MRT_GROUP_ROWS;
  int hk = h / (int)c.n.group;
  mrt_sample sample = mrt_sample_of(c.n, b);
  mrt_band band = mrt_band_of(c.n, sample);
  mrt_seen_span all = mrt_seen_by_some(band, t, MRT_BLOCK_ROWS, N);
  int end = mrt_seen_by_some(band, mine, MRT_GROUP_ROWS, N).end;
  mrt_tile_rows<T> q = mrt_part_of<W>(c.q, mrt_head(c.q, b, h), t, sample.T);
  x->k = mrt_part_of<W>(c.k, mrt_head(c.k, b, hk), all.from, sample.S);
  x->v = mrt_part_of<W>(c.v, mrt_head(c.v, b, hk), all.from, sample.S);
  x->tiles = mrt_in_warp(tiles_of<W>(all.from, all.end));
  MRT_UNROLL
  for (int r = 0; r < 2; r++) {
    p->seen[r] = mrt_seen_by(band, t + 16 * warp + 8 * r + mrt_lane() / 4, 0);
    p->max[r] = -INFINITY, p->sum[r] = 0;
  }
  MRT_UNROLL
  for (int d = 0; d < W / 2; d++) p->o[d / 4][d % 4] = 0;
  mrt_part_begin<W, MRT_BLOCK_ROWS>(
      &q, c.q.strides[1], x->at + mrt_part_place<W, MRT_BLOCK_ROWS>());
  if (x->tiles > 0) mrt_part_begin<W, N>(&x->k, c.k.strides[1], x->to);
  mrt_copies_commit();
  attend_keys<T, W>(c, *x, all.from, mrt_in_warp(tiles_of<W>(all.from, end)),
                    p);
}

#endif

template <int W> constexpr int bytes_of(void) {
  return (MRT_BLOCK_ROWS + 4 * keys_of<W>)*W * 2 + MRT_TILE_ALIGN;
}

template <typename T, int W>
__global__ void __launch_bounds__(MRT_BLOCK_THREADS, blocks_of<W>)
    attend_wgmma(attention_group_call<T> c, int64_t tiles) {
#ifdef MRT_HAS_WGMMA
  MRT_SHARED(T, shared);
  __shared__ wgmma_item m;
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.H * tiles;
       item = m.item + gridDim.x) {
    int64_t head = item / tiles;
    int t = (int)(tiles - 1 - item % tiles) * MRT_BLOCK_ROWS;
    int b = (int)(head / c.n.H), h = (int)(head % c.n.H);
    key_walk<T> x;
    row_progress<W> p;
    x.at = mrt_first_tile(shared), x.odd = 0;
    x.to = x.at + keys_on<W> + mrt_part_place<W, keys_of<W>>();
    __syncthreads(); /* the last item's tiles, and m, have been read */
    if (threadIdx.x == 0) m = { item, b, h, t };
    attend_item<T, W>(c, b, h, t, &x, &p);
    finish<T, W>(c, m.b, m.h, m.t + (int)threadIdx.x / 32 * 16, p);
  }
#endif
}

template <typename T, int W> static void run(const mrt_call *c) {
  attention_group_call<T> a = { mrt_attention_of(c, MRT_ATTENTION_AFTER),
                                mrt_heads_of<T>(&c->in[0]),
                                mrt_heads_of<T>(&c->in[1]),
                                mrt_heads_of<T>(&c->in[2]),
                                mrt_heads_of<T>(&c->out[0]),
                                (float *)c->out[1].data };
  int64_t tiles = mrt_tiles(a.n.T, MRT_BLOCK_ROWS);
  if (a.n.B * a.n.H * tiles == 0) return;
  mrt_allow_shared(attend_wgmma<T, W>, bytes_of<W>());
  MRT_LAUNCH(mrt_blocks(a.n.B * a.n.H * tiles, 1), MRT_BLOCK_THREADS,
             bytes_of<W>(), c->run->queue, attend_wgmma<T, W>)
  (a, tiles);
}

} // namespace

bool mrt_attention_wgmma(const mrt_call *c) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_AFTER);
  int dtype = mrt_mma_dtype(n, &c->in[0], &c->in[1], &c->in[2], &c->out[0]);
  if (dtype == MRT_DTYPE_COUNT || mrt_attention_adjusts(n) ||
      !mrt_mma_packs(&c->in[0], &c->in[1], &c->in[2]))
    return false;
  MRT_MMA_DISPATCH(dtype, n, T, W, run<T, W>(c));
  return true;
}
