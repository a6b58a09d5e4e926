/* attention_grad_mma.cu -- the gradient of attention by the matrix units
 *
 * The formulas of attention_grad.cu.  dq goes by tiles of queries, whose warps
 * compute scores [query][key]; dk and dv together by tiles of keys, whose warps
 * compute them turned, [key][query]: in both the weights are left factors as
 * they lie in the registers.  Scores are computed twice, no sum is shared.
 * While a tile of the other side is computed with, the next is copied.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_adjust.cuh"

namespace {

#define LOG2_E 1.442695040888963

/* Rows of the other side at a time, for dq alone or for both dk and dv: twice the
 * sums, which with softcap and mask leave no registers for 32. */
template <bool ANY, bool both> constexpr int others = !both || !ANY ? 32 : 16;

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

/* What a warp looks at: 16 M rows of one side, from t or s on, some of the
 * other. */
struct look {
  mrt_band band; /* of the one side's rows */
  int b, h, t, s;
};

/* Of a query; lse in powers of 2. */
struct two_terms {
  float lse, delta;
};

/* Scores of 16 M rows by N columns become weights p; ds: the gradients of scores
 * less the scale.  term(r, j): of the query of the lane's score j, row 8 r + g. */
template <bool ANY, int N, int M, bool turned, typename F>
MRT_DEVICE void weigh(const mrt_attention &n, const mrt_score_block &at, F term,
                      float p[M][N / 8][4], float ds[M][N / 8][4]) {
  MRT_UNROLL
  for (int r = 0; r < 2 * M; r++) {
    float unit = (float)(n.scale * LOG2_E), x[N / 4], slope[N / 4];
    MRT_UNROLL
    for (int j = 0; j < N / 4; j++)
      x[j] = p[r / 2][j / 2][r % 2 * 2 + j % 2], slope[j] = 1;
    if constexpr (ANY) {
      __shared__ mrt_score_room<N, true> room;
      mrt_score_block rows = at;
      (turned ? rows.s : rows.t) += 8 * r;
      if (n.mask || n.softcap > 0) {
        mrt_adjust_row<N, turned>(n, rows, &room, x, slope);
        unit = (float)LOG2_E;
      }
    }
    MRT_UNROLL
    for (int j = 0; j < N / 4; j++) {
      float *dp = &ds[r / 2][j / 2][r % 2 * 2 + j % 2];
      two_terms its = term(r, j);
      float weight = mrt_exp2(fmaf(x[j], unit, -its.lse));
      p[r / 2][j / 2][r % 2 * 2 + j % 2] = weight;
      *dp = weight * (*dp - its.delta) * slope[j];
    }
  }
}

/* Nothing where row i, of the one side, does not see column j of N. */
template <int N, int M>
MRT_DEVICE void leave_unseen(const mrt_band &band, int i, int first,
                             float p[M][N / 8][4], float ds[M][N / 8][4]) {
  int g = mrt_lane() / 4, column = mrt_lane() % 4 * 2;
  MRT_UNROLL
  for (int r = 0; r < 2 * M; r++) {
    mrt_seen_span seen = mrt_seen_by(band, i + 8 * r + g, first);
    MRT_UNROLL
    for (int j = 0; j < N / 8 * 2; j++) {
      int k = r % 2 * 2 + j % 2, other = j / 2 * 8 + column + j % 2;
      if (other >= seen.from && other < seen.end) continue;
      p[r / 2][j / 2][k] = 0, ds[r / 2][j / 2][k] = 0;
    }
  }
}

/* ---- dq ------------------------------------------------------------------ */

/* Scores of 16 M queries from t on and N keys from s on; row r of the lane is
 * query t + 8 r + g. */
template <bool ANY, int N, int M>
MRT_DEVICE void weigh_keys(const mrt_attention &n, const look &at,
                           const float *lse, const float *delta,
                           float p[M][N / 8][4], float ds[M][N / 8][4]) {
  weigh<ANY, N, M, false>(
      n, { at.b, at.h, at.t, at.s },
      [&](int r, int) {
        return two_terms{ lse[r], delta[r] };
      },
      p, ds);
  if (!mrt_sees_all<N>(at.band, at.t, 16 * M, at.s))
    leave_unseen<N, M>(at.band, at.t, at.s, p, ds);
}

template <typename T, int W, int M, bool ANY>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    queries(gradient_mma_call<T> c, int64_t tiles) {
  constexpr int N = others<ANY, false>, STEP = mrt_step<W>,
                STAGE = 2 * N * STEP;
  constexpr int ROWS = MMA_ROWS * M;
  MRT_SHARED(T, shared);
  T *q = shared, *dout = q + ROWS * STEP, *pair = dout + ROWS * STEP;
  int row = (int)(threadIdx.x / 32) * 16 * M;
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.H * tiles;
       item += gridDim.x) {
    int64_t head = item / tiles;
    int t = (int)(tiles - 1 - item % tiles) * ROWS;
    int b = (int)(head / c.n.H), h = (int)(head % c.n.H);
    int hk = h / (int)c.n.group;
    int64_t k_head = mrt_head(c.k, b, hk), v_head = mrt_head(c.v, b, hk);
    int mine = t + row + mrt_lane() / 4;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_band band = mrt_band_of(c.n, sample);
    mrt_seen_span seen = mrt_seen_by_some(band, t, ROWS, N);
    mrt_heads<T> rows = mrt_rows(c.q, sample.T);
    mrt_heads<T> douts = mrt_rows(c.dout, sample.T);
    mrt_heads<T> k = mrt_rows(c.k, sample.S), v = mrt_rows(c.v, sample.S);
    float lse[2 * M], delta[2 * M], dq[M][W / 8][4] = {};
    MRT_UNROLL
    for (int r = 0; r < 2 * M; r++)
      get_terms(c, head, mine + 8 * r, &lse[r], &delta[r]);

    __syncthreads(); /* the last item's tiles have been read */
    mrt_mma_load<ANY, W, ROWS>(rows, mrt_head(c.q, b, h), t, q);
    mrt_mma_load<ANY, W, ROWS>(douts, mrt_head(c.dout, b, h), t, dout);
    mrt_mma_load<ANY, W, N>(k, k_head, seen.from, pair);
    mrt_mma_load<ANY, W, N>(v, v_head, seen.from, pair + STAGE / 2);
    int stage = 0;
    for (int s = seen.from; s < seen.end; s += N, stage = 1 - stage) {
      float p[M][N / 8][4], ds[M][N / 8][4];
      mrt_copies_wait();
      __syncthreads(); /* this tile is there, the one before has been read */
      if (s + N < seen.end) {
        T *next = pair + (1 - stage) * STAGE;
        mrt_mma_load<ANY, W, N>(k, k_head, s + N, next);
        mrt_mma_load<ANY, W, N>(v, v_head, s + N, next + STAGE / 2);
      }
      if (!mrt_sees_some<N>(band, t + row, 16 * M, s)) continue;
      const T *tile = pair + stage * STAGE;
      mrt_mma_scores_at<W, N, M>(q, row, tile, p);
      mrt_mma_scores_at<W, N, M>(dout, row, tile + STAGE / 2, ds);
      look at = { band, b, h, t + row, s };
      weigh_keys<ANY, N, M>(c.n, at, lse, delta, p, ds);
      mrt_mma_add<W, N, M>(ds, tile, dq);
    }
    mrt_copies_wait();
    MRT_UNROLL
    for (int r = 0; r < 2 * M; r++)
      mrt_mma_put<W>(c.dq, b, h, mine + 8 * r, dq[r / 2], r % 2,
                     (float)c.n.scale);
  }
}

/* ---- dk and dv ----------------------------------------------------------- */

/* What a block has of N queries: twice, as q and dout.  And of its item what no
 * register is free for meanwhile. */
template <int N> struct terms {
  float lse[2][N], delta[2][N];
  int64_t item;
  int hk, s;
  alignas(16) int b; /* and what follows: one load */
  int h_end;
  mrt_seen_span seers;
  mrt_band band;
};

/* Scores of 16 M keys from s on and N queries from t on, turned. */
template <bool ANY, int N, int M>
MRT_DEVICE void weigh_queries(const mrt_attention &n, const look &at,
                              const float *lse, const float *delta,
                              float p[M][N / 8][4], float ds[M][N / 8][4]) {
  weigh<ANY, N, M, true>(
      n, { at.b, at.h, at.t, at.s },
      [&](int, int j) {
        int query = mrt_score_column(j);
        return two_terms{ lse[query], delta[query] };
      },
      p, ds);
  if (!mrt_sees_all<N>(at.band, at.s, 16 * M, at.t))
    leave_unseen<N, M>(at.band, at.s, at.t, p, ds);
}

/* The queries that a block's keys are seen by are walked N at a time: of each
 * head of the group those of a span. */
struct query_walk {
  int h, t;
};
template <int N>
MRT_DEVICE void step_on(query_walk *w, const mrt_seen_span &seers) {
  w->t += N;
  if (w->t >= seers.end) w->t = seers.from, w->h++;
}

/* Begin to copy queries of which `there` are there. */
template <bool ANY, typename T, int W>
MRT_DEVICE void load_queries(const gradient_mma_call<T> &c, int64_t there,
                             int b, const query_walk &at, int stage, T *pair,
                             terms<others<ANY, true>> *m) {
  constexpr int N = others<ANY, true>;
  mrt_heads<T> q = mrt_rows(c.q, there), dout = mrt_rows(c.dout, there);
  pair += stage * 2 * N * mrt_step<W>;
  mrt_mma_load<ANY, W, N>(q, mrt_head(c.q, (unsigned)b, (unsigned)at.h), at.t,
                          pair);
  mrt_mma_load<ANY, W, N>(dout, mrt_head(c.dout, (unsigned)b, (unsigned)at.h),
                          at.t, pair + N * mrt_step<W>);
  int j = (int)threadIdx.x;
  if (j < N)
    get_terms(c, (int64_t)b * c.n.H + at.h, at.t + j, &m->lse[stage][j],
              &m->delta[stage][j]);
}

template <typename T, int W, int M, bool ANY>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    keys(gradient_mma_call<T> c, int64_t tiles, int64_t items) {
  constexpr int N = others<ANY, true>, STEP = mrt_step<W>, STAGE = 2 * N * STEP;
  constexpr int ROWS = MMA_ROWS * M;
  MRT_SHARED(T, shared);
  __shared__ terms<N> m;
  T *k = shared, *v = k + ROWS * STEP, *pair = v + ROWS * STEP;
  int row = (int)(threadIdx.x / 32) * 16 * M;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    int64_t head = item / tiles;
    int s = (int)(item % tiles) * ROWS;
    int b = (int)(head / c.n.Hk), hk = (int)(head % c.n.Hk);
    int group = (int)c.n.group;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_band band = mrt_turned(mrt_band_of(c.n, sample));
    mrt_seen_span seers = mrt_seen_by_some(band, s, ROWS, N);
    mrt_heads<T> k_rows = mrt_rows(c.k, sample.S);
    mrt_heads<T> v_rows = mrt_rows(c.v, sample.S);
    float dk[M][W / 8][4] = {}, dv[M][W / 8][4] = {};
    query_walk now = { hk * group, seers.from };
    bool more = seers.from < seers.end;

    __syncthreads(); /* the last item's tiles have been read */
    if (threadIdx.x == 0) {
      m.item = item, m.b = b, m.hk = hk, m.s = s;
      m.h_end = now.h + group, m.seers = seers, m.band = band;
    }
    mrt_mma_load<ANY, W, ROWS>(k_rows, mrt_head(c.k, b, hk), s, k);
    mrt_mma_load<ANY, W, ROWS>(v_rows, mrt_head(c.v, b, hk), s, v);
    if (more) load_queries<ANY, T, W>(c, sample.T, b, now, 0, pair, &m);
    for (int stage = 0; more; stage = 1 - stage) {
      float p[M][N / 8][4], ds[M][N / 8][4];
      int h = now.h, t = now.t;
      mrt_copies_wait();
      __syncthreads(); /* this tile is there, the one before has been read */
      /* read anew, or what follows from it would take registers */
      look at = { m.band, m.b, h, t, s + row };
      step_on<N>(&now, m.seers);
      more = now.h < m.h_end;
      if (more)
        load_queries<ANY, T, W>(c, at.band.others, at.b, now, 1 - stage, pair,
                                &m);
      if (!mrt_sees_some<N>(at.band, s + row, 16 * M, at.t)) continue;
      const T *q = pair + stage * STAGE, *dout = q + STAGE / 2;
      mrt_mma_scores_at<W, N, M>(k, row, q, p);
      mrt_mma_scores_at<W, N, M>(v, row, dout, ds);
      weigh_queries<ANY, N, M>(c.n, at, m.lse[stage], m.delta[stage], p, ds);
      mrt_mma_add<W, N, M>(p, dout, dv);
      mrt_mma_add<W, N, M>(ds, q, dk);
    }
    mrt_copies_wait();
    __syncthreads(); /* what m has is there, though there were no queries */
    item = m.item;
    MRT_UNROLL
    for (int r = 0; r < 2 * M; r++) {
      int mine = m.s + row + 8 * r + mrt_lane() / 4;
      mrt_mma_put<W>(c.dk, m.b, m.hk, mine, dk[r / 2], r % 2, (float)c.n.scale);
      mrt_mma_put<W>(c.dv, m.b, m.hk, mine, dv[r / 2], r % 2, 1.0f);
    }
  }
}

template <typename T, int W, bool ANY>
static void run_as(const mrt_call *c, const float *delta) {
  constexpr int M = W == 64 ? 2 : 1, ROWS = MMA_ROWS * M;
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
  size_t row = mrt_step<W> * sizeof(T);
  size_t bytes = (2 * ROWS + 4 * others<ANY, false>)*row;
  size_t bytes_of_keys = (2 * ROWS + 4 * others<ANY, true>)*row;
  int64_t by_t = mrt_tiles(a.n.T, ROWS), by_s = mrt_tiles(a.n.S, ROWS);
  int64_t heads = a.n.B * a.n.H, key_heads = a.n.B * a.n.Hk;
  mrt_allow_shared(queries<T, W, M, ANY>, bytes);
  mrt_allow_shared(keys<T, W, M, ANY>, bytes_of_keys);
  if (heads * by_t > 0)
    MRT_LAUNCH(mrt_blocks(heads * by_t, 1), MMA_THREADS, bytes, c->run->queue,
               queries<T, W, M, ANY>)
  (a, by_t);
  if (key_heads * by_s > 0)
    MRT_LAUNCH(mrt_blocks(key_heads * by_s, 1), MMA_THREADS, bytes_of_keys,
               c->run->queue, keys<T, W, M, ANY>)
  (a, by_s, key_heads * by_s);
}
template <typename T, int W>
static void run(const mrt_call *c, const mrt_attention &n, const float *delta) {
  if (mrt_attention_adjusts(n) ||
      !mrt_mma_packs(&c->in[0], &c->in[1], &c->in[2], &c->in[5]))
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
