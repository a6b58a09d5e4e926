/* attention_grad_mma.cu -- the gradient of attention by the matrix units
 *
 * The formulas of attention_grad.cu.  dq goes by tiles of queries, whose warps
 * compute scores [query][key]; dk and dv together by tiles of keys, whose warps
 * compute them turned, [key][query]: in both the weights are left factors as
 * they lie in the registers.  Scores are computed twice, no sum is shared.
 * While a tile of the other side is computed with, the next is copied.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_mma.cuh"

namespace {

#define LOG2_E 1.442695040888963

/* Rows of the other side at a time. */
template <int W> constexpr int others = W == 64 ? 64 : 32;

template <typename T> struct gradient_mma_call {
  mrt_attention n;
  mrt_heads<T> q, k, v, dout, dq, dk, dv;
  mrt_any<float> lse;
  const float *delta;
};

/* lse in powers of 2 and delta of query t; what makes weights 0 where it saw no
 * key or is none. */
template <typename T>
MRT_DEVICE void get_terms(const gradient_mma_call<T> &c, int64_t head,
                          int64_t t, float *lse, float *delta) {
  *lse = INFINITY, *delta = 0;
  if (t >= c.n.T) return;
  float x = mrt_get<float>(c.lse, head * c.n.T + t);
  if (x == -INFINITY) return;
  *lse = x * (float)LOG2_E;
  *delta = c.delta[head * c.n.T + t];
}

/* What a warp looks at: 16 rows of one side, some of the other. */
struct look {
  mrt_sample sample;
  int64_t b, h, t, s;
};

/* A weight, and the gradient of its score less the scale. */
template <bool ADJUSTS>
MRT_DEVICE void weigh(const mrt_attention &n, const look &at, int64_t t,
                      int64_t key, float lse, float delta, bool is_seen,
                      float *s, float *dp) {
  float x = *s, unit = (float)(n.scale * LOG2_E), slope = 1;
  if (ADJUSTS && is_seen) {
    x = mrt_adjust(n, at.b, at.h, t, key, x * (float)n.scale, &slope);
    unit = (float)LOG2_E;
  }
  *s = is_seen ? mrt_exp2(fmaf(x, unit, -lse)) : 0;
  *dp = is_seen ? *s * (*dp - delta) * slope : 0;
}

/* ---- dq ------------------------------------------------------------------ */

/* Scores of 16 queries from t on and N keys from s on. */
template <bool ADJUSTS, int N>
MRT_DEVICE void weigh_keys(const mrt_attention &n, const look &at,
                           const float *lse, const float *delta,
                           float p[N / 8][4], float ds[N / 8][4]) {
  int g = mrt_lane() / 4, column = mrt_lane() % 4 * 2;
  bool whole = mrt_mma_whole<N>(n, at.sample, at.t, 16, at.s);
  MRT_UNROLL
  for (int half = 0; half < 2; half++) {
    int64_t t = at.t + 8 * half + g;
    mrt_reach seen = mrt_mma_seen<N>(n, at.sample, t, at.s);
    MRT_UNROLL
    for (int j = 0; j < N / 8 * 2; j++) {
      int i = 2 * half + j % 2, key = j / 2 * 8 + column + j % 2;
      bool is_seen = whole || (key >= seen.from && key < seen.end);
      weigh<ADJUSTS>(n, at, t, at.s + key, lse[half], delta[half], is_seen,
                     &p[j / 2][i], &ds[j / 2][i]);
    }
  }
}

template <typename T, int W, bool ADJUSTS>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    queries(gradient_mma_call<T> c, int64_t tiles) {
  constexpr int N = others<W>, STEP = mrt_step<W>, STAGE = 2 * N * STEP;
  MRT_SHARED(T, shared);
  T *q = shared, *dout = q + MMA_ROWS * STEP, *pair = dout + MMA_ROWS * STEP;
  int row = (int)threadIdx.x / 32 * 16;
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.H * tiles;
       item += gridDim.x) {
    int64_t t = (tiles - 1 - item % tiles) * MMA_ROWS, head = item / tiles;
    int64_t b = head / c.n.H, h = head % c.n.H, hk = h / c.n.group;
    int64_t k_head = mrt_head(c.k, b, hk), v_head = mrt_head(c.v, b, hk);
    int64_t mine = t + row + mrt_lane() / 4;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_reach seen = mrt_keys_of(c.n, sample, t, t + MMA_ROWS, N);
    mrt_heads<T> rows = mrt_rows(c.q, sample.T);
    mrt_heads<T> douts = mrt_rows(c.dout, sample.T);
    mrt_heads<T> k = mrt_rows(c.k, sample.S), v = mrt_rows(c.v, sample.S);
    float lse[2], delta[2], dq[1][W / 8][4] = {};
    MRT_UNROLL
    for (int half = 0; half < 2; half++)
      get_terms(c, head, mine + 8 * half, &lse[half], &delta[half]);

    __syncthreads(); /* the last item's tiles have been read */
    mrt_mma_load<W, MMA_ROWS>(rows, mrt_head(c.q, b, h), t, q);
    mrt_mma_load<W, MMA_ROWS>(douts, mrt_head(c.dout, b, h), t, dout);
    mrt_mma_load<W, N>(k, k_head, seen.from, pair);
    mrt_mma_load<W, N>(v, v_head, seen.from, pair + STAGE / 2);
    for (int64_t s = seen.from; s < seen.end; s += N) {
      float p[N / 8][4], ds[1][N / 8][4];
      int64_t stage = (s - seen.from) / N % 2;
      mrt_copies_wait();
      __syncthreads(); /* this tile is there, the one before has been read */
      if (s + N < seen.end) {
        T *next = pair + (1 - stage) * STAGE;
        mrt_mma_load<W, N>(k, k_head, s + N, next);
        mrt_mma_load<W, N>(v, v_head, s + N, next + STAGE / 2);
      }
      const T *tile = pair + stage * STAGE;
      mrt_mma_scores_at<W, N>(q, row, tile, p);
      mrt_mma_scores_at<W, N>(dout, row, tile + STAGE / 2, ds[0]);
      look at = { sample, b, h, t + row, s };
      weigh_keys<ADJUSTS, N>(c.n, at, lse, delta, p, ds[0]);
      mrt_mma_add<W, N, 1>(ds, tile, dq);
    }
    mrt_copies_wait();
    MRT_UNROLL
    for (int half = 0; half < 2; half++)
      mrt_mma_put<W>(c.dq, b, h, mine + 8 * half, dq[0], half,
                     (float)c.n.scale);
  }
}

/* ---- dk and dv ----------------------------------------------------------- */

/* What a block has of N queries: twice, as q and dout. */
template <int N> struct terms { float lse[2][N], delta[2][N]; };

/* Scores of 16 keys from s on and N queries from t on, turned. */
template <bool ADJUSTS, int N>
MRT_DEVICE void weigh_queries(const mrt_attention &n, const look &at,
                              const float *lse, const float *delta,
                              float p[N / 8][4], float ds[N / 8][4]) {
  int g = mrt_lane() / 4, column = mrt_lane() % 4 * 2;
  mrt_reach seers[2];
  MRT_UNROLL
  for (int half = 0; half < 2; half++)
    seers[half] = mrt_mma_seers<N>(n, at.sample, at.t, at.s + 8 * half + g);
  MRT_UNROLL
  for (int j = 0; j < N / 8 * 4; j++) {
    int i = j % 4, query = j / 4 * 8 + column + i % 2;
    mrt_reach seer = seers[i / 2];
    bool is_seen = query >= seer.from && query < seer.end;
    weigh<ADJUSTS>(n, at, at.t + query, at.s + 8 * (i / 2) + g, lse[query],
                   delta[query], is_seen, &p[j / 4][i], &ds[j / 4][i]);
  }
}

/* Begin to copy the queries of step `i` of a block's keys; there are `steps` of
 * each query head, and `there` queries. */
template <typename T, int W>
MRT_DEVICE void load_queries(const gradient_mma_call<T> &c, int64_t there,
                             int64_t b, int64_t hk, int64_t first,
                             int64_t steps, int64_t i, T *pair,
                             terms<others<W>> *m) {
  constexpr int N = others<W>;
  int64_t h = hk * c.n.group + i / steps, t = first + i % steps * N;
  mrt_heads<T> q = mrt_rows(c.q, there), dout = mrt_rows(c.dout, there);
  mrt_mma_load<W, N>(q, mrt_head(c.q, b, h), t, pair);
  mrt_mma_load<W, N>(dout, mrt_head(c.dout, b, h), t, pair + N * mrt_step<W>);
  int j = (int)threadIdx.x;
  if (j < N)
    get_terms(c, b * c.n.H + h, t + j, &m->lse[i % 2][j], &m->delta[i % 2][j]);
}

template <typename T, int W, bool ADJUSTS>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    keys(gradient_mma_call<T> c, int64_t tiles) {
  constexpr int N = others<W>, STEP = mrt_step<W>, STAGE = 2 * N * STEP;
  MRT_SHARED(T, shared);
  __shared__ terms<N> m;
  T *k = shared, *v = k + MMA_ROWS * STEP, *pair = v + MMA_ROWS * STEP;
  int row = (int)threadIdx.x / 32 * 16;
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.Hk * tiles;
       item += gridDim.x) {
    int64_t s = item % tiles * MMA_ROWS, head = item / tiles;
    int64_t b = head / c.n.Hk, hk = head % c.n.Hk;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_reach seers = mrt_queries_of(c.n, sample, s, s + MMA_ROWS, N);
    mrt_heads<T> k_rows = mrt_rows(c.k, sample.S);
    mrt_heads<T> v_rows = mrt_rows(c.v, sample.S);
    int64_t first = seers.from;
    int64_t steps = first < seers.end ? (seers.end - first + N - 1) / N : 0;
    float dk[1][W / 8][4] = {}, dv[1][W / 8][4] = {};

    __syncthreads(); /* the last item's tiles have been read */
    mrt_mma_load<W, MMA_ROWS>(k_rows, mrt_head(c.k, b, hk), s, k);
    mrt_mma_load<W, MMA_ROWS>(v_rows, mrt_head(c.v, b, hk), s, v);
    if (steps)
      load_queries<T, W>(c, sample.T, b, hk, first, steps, 0, pair, &m);
    for (int64_t i = 0; i < steps * c.n.group; i++) {
      float p[1][N / 8][4], ds[1][N / 8][4];
      mrt_copies_wait();
      __syncthreads(); /* this tile is there, the one before has been read */
      if (i + 1 < steps * c.n.group)
        load_queries<T, W>(c, sample.T, b, hk, first, steps, i + 1,
                           pair + (i + 1) % 2 * STAGE, &m);
      const T *q = pair + i % 2 * STAGE, *dout = q + STAGE / 2;
      mrt_mma_scores_at<W, N>(k, row, q, p[0]);
      mrt_mma_scores_at<W, N>(v, row, dout, ds[0]);
      look at = { sample, b, hk * c.n.group + i / steps, first + i % steps * N,
                  s + row };
      weigh_queries<ADJUSTS, N>(c.n, at, m.lse[i % 2], m.delta[i % 2], p[0],
                                ds[0]);
      mrt_mma_add<W, N, 1>(p, dout, dv);
      mrt_mma_add<W, N, 1>(ds, q, dk);
    }
    mrt_copies_wait();
    MRT_UNROLL
    for (int half = 0; half < 2; half++) {
      int64_t mine = s + row + 8 * half + mrt_lane() / 4;
      mrt_mma_put<W>(c.dk, b, hk, mine, dk[0], half, (float)c.n.scale);
      mrt_mma_put<W>(c.dv, b, hk, mine, dv[0], half, 1.0f);
    }
  }
}

template <typename T, int W, bool ADJUSTS>
static void run_as(const mrt_call *c, const float *delta) {
  gradient_mma_call<T> a = { mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER),
                             mrt_heads_of<T>(&c->in[0]),
                             mrt_heads_of<T>(&c->in[1]),
                             mrt_heads_of<T>(&c->in[2]),
                             mrt_heads_of<T>(&c->in[5]),
                             mrt_heads_of<T>(&c->out[0]),
                             mrt_heads_of<T>(&c->out[1]),
                             mrt_heads_of<T>(&c->out[2]),
                             mrt_at_any<float>(c->in, 4, c->nin),
                             delta };
  size_t bytes = (2 * MMA_ROWS + 4 * others<W>)*mrt_step<W> * sizeof(T);
  int64_t by_t = mrt_tiles(a.n.T, MMA_ROWS), by_s = mrt_tiles(a.n.S, MMA_ROWS);
  int64_t heads = a.n.B * a.n.H, key_heads = a.n.B * a.n.Hk;
  mrt_allow_shared(queries<T, W, ADJUSTS>, bytes);
  mrt_allow_shared(keys<T, W, ADJUSTS>, bytes);
  if (heads * by_t > 0)
    MRT_LAUNCH(mrt_blocks(heads * by_t, 1), MMA_THREADS, bytes, c->run->queue,
               queries<T, W, ADJUSTS>)
  (a, by_t);
  if (key_heads * by_s > 0)
    MRT_LAUNCH(mrt_blocks(key_heads * by_s, 1), MMA_THREADS, bytes,
               c->run->queue, keys<T, W, ADJUSTS>)
  (a, by_s);
}
template <typename T, int W>
static void run(const mrt_call *c, const mrt_attention &n, const float *delta) {
  if (mrt_attention_adjusts(n))
    run_as<T, W, true>(c, delta);
  else
    run_as<T, W, false>(c, delta);
}

} // namespace

bool mrt_attention_grad_mma(const mrt_call *c, const float *delta) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER);
  int dtype = mrt_mma_dtype(n, &c->in[0], &c->in[1], &c->in[2], &c->in[5],
                            &c->out[0], &c->out[1], &c->out[2]);
  if (dtype == MRT_DTYPE_COUNT) return false;
  MRT_MMA_DISPATCH(dtype, n, T, W, run<T, W>(c, n, delta));
  return true;
}
