/* attention_mma.cu -- attention of bf16 or f16 by the matrix units
 *
 * As attention.cu; while a tile of keys and values is computed with, the next
 * is copied.  Queries stay in registers: their tile in shared memory becomes
 * that of the second keys.  Scores are softened in powers of 2.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_adjust.cuh"
#include "online_softmax.cuh"

namespace {

#define LOG2_E 1.442695040888963

enum { KEYS = 64 };

template <typename T> struct attention_mma_call {
  mrt_attention n;
  mrt_heads<T> q, k, v, o;
  float *lse;
};

/* What a warp knows of its 16 M queries; a lane has rows g and g + 8 of each
 * 16, of the sum its own columns only. */
template <int W, int M> struct progress {
  float max[M][2], sum[M][2], o[M][W / 8][4];
};

/* What a block is at, in shared memory: no register is free for it meanwhile. */
struct mma_item {
  int64_t number;
  int b, h;
  mrt_band band;
};

/* Of a head, a warp's 16 M queries from t on and what they see. */
struct warp_rows {
  mrt_band band;
  const mma_item *item;
  int t;
};
/* With ANY it is read each time, or what follows from it for each row would
 * take registers. */
template <bool ANY> MRT_DEVICE mrt_band band_of(const warp_rows &at) {
  return ANY ? at.item->band : at.band;
}

/* Scores of queries and of keys s .. become exponents of 2; keys that a query
 * does not see get -infinity. */
template <bool ANY, int M>
MRT_DEVICE void prepare(const mrt_attention &n, const warp_rows &at, int s,
                        float w[M][KEYS / 8][4]) {
  const int EACH = KEYS / 4; /* keys of a lane */
  const bool adjusts = ANY && (n.mask || n.softcap > 0);
  const float unit = adjusts ? (float)LOG2_E : (float)(n.scale * LOG2_E);
  const mrt_band band = band_of<ANY>(at);
  MRT_UNROLL
  for (int r = 0; r < 2 * M; r++) {
    mrt_seen_span seen = mrt_seen_by(band, at.t + 8 * r + mrt_lane() / 4, s);
    float x[EACH];
    MRT_UNROLL
    for (int j = 0; j < EACH; j++) x[j] = w[r / 2][j / 2][r % 2 * 2 + j % 2];
    if constexpr (ANY) {
      __shared__ mrt_score_room<KEYS, false> room;
      mrt_score_block rows = { at.item->b, at.item->h, at.t + 8 * r, s };
      if (adjusts)
        mrt_adjust_row<KEYS, false>(n, rows, &room, x, (float *)NULL);
    }
    MRT_UNROLL
    for (int j = 0; j < EACH; j++) {
      int key = mrt_score_column(j);
      bool is_seen = key >= seen.from && key < seen.end;
      w[r / 2][j / 2][r % 2 * 2 + j % 2] = is_seen ? x[j] * unit : -INFINITY;
    }
  }
}

/* Scores of queries and of keys s .. become weights.  Where all are seen their
 * maximum is taken before the scale, which then is one instruction with the
 * shift; a negative one would want the minimum, and goes the other way. */
template <bool ANY, int W, int M>
MRT_DEVICE void soften(const mrt_attention &n, const warp_rows &at, int s,
                       float w[M][KEYS / 8][4], progress<W, M> *p) {
  float unit = (float)(n.scale * LOG2_E);
  bool whole =
      unit >= 0 && mrt_sees_all<KEYS>(band_of<ANY>(at), at.t, 16 * M, s);
  if (ANY) whole = whole && !n.mask && !(n.softcap > 0);
  if (!whole) {
    prepare<ANY, M>(n, at, s, w);
    unit = 1;
  }
  MRT_UNROLL
  for (int r = 0; r < 2 * M; r++) {
    int m = r / 2, half = r % 2;
    float *max = &p->max[m][half], *sum = &p->sum[m][half];
    float top = -INFINITY;
    MRT_UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
      float *two = &w[m][j][2 * half];
      top = mrt_larger::of(top, mrt_larger::of(two[0], two[1]));
    }
    top = mrt_larger::of(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = mrt_larger::of(top, __shfl_xor_sync(0xffffffff, top, 2));
    top = mrt_larger::of(*max, top * unit);
    float shift = mrt_shift_of(top), keep = mrt_exp2(*max - shift);
    *max = top, *sum *= keep;
    MRT_UNROLL
    for (int j = 0; j < KEYS / 8; j++) {
      float *two = &w[m][j][2 * half];
      two[0] = mrt_exp2(fmaf(two[0], unit, -shift));
      two[1] = mrt_exp2(fmaf(two[1], unit, -shift));
      *sum += two[0] + two[1];
    }
    MRT_UNROLL
    for (int d = 0; d < W / 8; d++) {
      p->o[m][d][2 * half] *= keep;
      p->o[m][d][2 * half + 1] *= keep;
    }
  }
}

template <typename T, int W, int M>
MRT_DEVICE void finish(const attention_mma_call<T> &c, int b, int h, int t,
                       const progress<W, M> &p) {
  MRT_UNROLL
  for (int r = 0; r < 2 * M; r++) {
    int m = r / 2, half = r % 2;
    int row = t + 16 * m + 8 * half + mrt_lane() / 4;
    float sum = p.sum[m][half];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    float max = p.max[m][half];
    bool none = sum == 0 && max == -INFINITY; /* not: scores that overflow */
    mrt_mma_put<W>(c.o, b, h, row, p.o[m], half, none ? 0 : 1 / sum);
    if (mrt_lane() % 4 == 0 && row < c.n.T) /* from powers of 2 */
      c.lse[((int64_t)b * c.n.H + h) * c.n.T + row] =
          max * 0.693147180559945f + logf(sum);
  }
}

template <typename T, int W, int M, bool ANY>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    attend(attention_mma_call<T> c, int64_t tiles) {
  constexpr int QUERIES = MMA_ROWS * M, STAGE = 2 * KEYS * mrt_step<W>;
  MRT_SHARED(T, shared);
  __shared__ mma_item now;
  int warp = (int)(threadIdx.x / 32);
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.H * tiles;
       item = now.number + gridDim.x) {
    int64_t head = item / tiles;
    int t = (int)(tiles - 1 - item % tiles) * QUERIES;
    int b = (int)(head / c.n.H), h = (int)(head % c.n.H);
    int hk = h / (int)c.n.group;
    int64_t k_head = mrt_head(c.k, b, hk), v_head = mrt_head(c.v, b, hk);
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_heads<T> k = mrt_rows(c.k, sample.S), v = mrt_rows(c.v, sample.S);
    mrt_heads<T> queries = mrt_rows(c.q, sample.T);
    warp_rows at = { mrt_band_of(c.n, sample), &now, t + 16 * M * warp };
    mrt_seen_span keys = mrt_seen_by_some(at.band, t, QUERIES, KEYS);
    uint32_t q[M][W / 16][4];
    progress<W, M> p = {};
    MRT_UNROLL
    for (int m = 0; m < M; m++) p.max[m][0] = p.max[m][1] = -INFINITY;

    __syncthreads(); /* the last item's tiles have been read */
    if (threadIdx.x == 0) now = { item, b, h, at.band };
    mrt_mma_load<ANY, W, QUERIES>(queries, mrt_head(c.q, b, h), t,
                                  shared + STAGE);
    mrt_mma_load<ANY, W, KEYS>(k, k_head, keys.from, shared);
    mrt_mma_load<ANY, W, KEYS>(v, v_head, keys.from, shared + STAGE / 2);
    mrt_copies_wait();
    __syncthreads();
    MRT_UNROLL
    for (int j = 0; j < M * W / 16; j++)
      mrt_left<W>(q[j % M][j / M], shared + STAGE, 16 * (M * warp + j % M),
                  j / M * 16);

    int stage = 0;
    for (int s = keys.from; s < keys.end; s += KEYS, stage = 1 - stage) {
      float w[M][KEYS / 8][4];
      mrt_copies_wait();
      __syncthreads(); /* this tile is there, the one before has been read */
      if (s + KEYS < keys.end) {
        T *next = shared + (1 - stage) * STAGE;
        mrt_mma_load<ANY, W, KEYS>(k, k_head, s + KEYS, next);
        mrt_mma_load<ANY, W, KEYS>(v, v_head, s + KEYS, next + STAGE / 2);
      }
      if (!mrt_sees_some<KEYS>(band_of<ANY>(at), at.t, 16 * M, s)) continue;
      const T *tile = shared + stage * STAGE;
      mrt_mma_scores<W, KEYS, M>(q, tile, w);
      soften<ANY, W, M>(c.n, at, s, w, &p);
      mrt_mma_add<W, KEYS, M>(w, tile + STAGE / 2, p.o);
    }
    mrt_copies_wait();
    finish<T, W, M>(c, now.b, now.h, at.t, p);
  }
}

template <typename T, int W, bool ANY> static void run_as(const mrt_call *c) {
  constexpr int M = W == 64 ? 2 : 1;
  attention_mma_call<T> a = { mrt_attention_of(c, MRT_ATTENTION_AFTER),
                              mrt_heads_of<T>(&c->in[0]),
                              mrt_heads_of<T>(&c->in[1]),
                              mrt_heads_of<T>(&c->in[2]),
                              mrt_heads_of<T>(&c->out[0]),
                              (float *)c->out[1].data };
  int64_t tiles = mrt_tiles(a.n.T, MMA_ROWS * M);
  size_t bytes = 4 * KEYS * mrt_step<W> * sizeof(T);
  if (a.n.B * a.n.H * tiles == 0) return;
  mrt_allow_shared(attend<T, W, M, ANY>, bytes);
  MRT_LAUNCH(mrt_blocks(a.n.B * a.n.H * tiles, 1), MMA_THREADS, bytes,
             c->run->queue, attend<T, W, M, ANY>)
  (a, tiles);
}
template <typename T, int W>
static void run(const mrt_call *c, const mrt_attention &n) {
  if (mrt_attention_adjusts(n) ||
      !mrt_mma_packs(&c->in[0], &c->in[1], &c->in[2]))
    run_as<T, W, true>(c);
  else
    run_as<T, W, false>(c);
}

} // namespace

bool mrt_attention_mma(const mrt_call *c) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_AFTER);
  int dtype = mrt_mma_dtype(n, &c->in[0], &c->in[1], &c->in[2], &c->out[0]);
  if (dtype == MRT_DTYPE_COUNT) return false;
  MRT_MMA_DISPATCH(dtype, n, T, W, run<T, W>(c, n));
  return true;
}
