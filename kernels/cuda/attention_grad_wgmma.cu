/* attention_grad_wgmma.cu -- the gradient of attention by Hopper's warpgroups
 *
 * As attention_grad_mma.cu: dq by tiles of queries, dk and dv by tiles of keys,
 * scores computed twice, no sum shared.  A block has 128 rows of one side;
 * tiles of the other are copied in turns, three of which are there: while a
 * turn's scores are computed its sums of the turn before are still being added
 * to.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_grad_wgmma.cuh"

namespace {

#define LOG2_E 1.442695040888963

enum { N = MRT_PAIR_ROWS };

#ifdef MRT_HAS_WGMMA

/* ---- dq ------------------------------------------------------------------ */

MRT_DEVICE int tiles_of(int from, int end) {
  return mrt_in_warp(end > from ? (end - from + N - 1) / N : 0);
}

/* Of the block's `all` tiles of keys, from s on, a warpgroup sees the first. */
template <typename T, int W>
MRT_DEVICE void sum_keys(const mrt_gradient_groups<T> &c, mrt_pair_walk<T> x,
                         int s, int tiles, int all, const mrt_seen_span *seen,
                         const mrt_terms_of_rows &terms, float sum[W / 8][4]) {
  const float unit = (float)(c.n.scale * LOG2_E);
  float w[N / 8][4], dp[N / 8][4];
  uint32_t weights[N / 16][4];
  mrt_pin<W / 2>(&sum[0][0]);
  MRT_NO_UNROLL
  for (int j = 0; j < all; j++, s += N) {
    mrt_begin_turn();
    if (j + 1 < all)
      mrt_begin_pair<T, W>(&x, mrt_stage_after<W>(x.stage), c.k.strides[1],
                           c.v.strides[1]);
    mrt_copies_commit();
    if (j < tiles) {
      mrt_begin_scores<T, W>(x, &w[0][0], &dp[0][0]);
      mrt_wgmma_wait<1>();
      mrt_pin<N / 2>(&w[0][0]);
      bool whole = mrt_see_all(seen, s);
      mrt_weigh(terms, unit, w);
      if (!whole) mrt_leave_unseen(seen, s, w);
      mrt_wgmma_wait<0>();
      mrt_pin<N / 2>(&dp[0][0]);
      mrt_weigh_gradients(terms, w, dp);
      if (!whole) mrt_leave_unseen(seen, s, dp);
      mrt_group_pack<T, N>(dp, weights);
      mrt_begin_sum<T, W>(x, 0, weights, &sum[0][0]);
    } else {
      mrt_wgmma_wait<0>(); /* nobody else does */
    }
    x.stage = mrt_stage_after<W>(x.stage);
  }
  mrt_wgmma_wait<0>();
  mrt_pin<W / 2>(&sum[0][0]);
}

#endif

template <typename T, int W>
__global__ void __launch_bounds__(MRT_BLOCK_THREADS, 1)
    queries_wgmma(mrt_gradient_groups<T> c, int64_t tiles) {
#ifdef MRT_HAS_WGMMA
  MRT_SHARED(T, shared);
  int warp = (int)threadIdx.x / 32, lane = mrt_lane();
  for (int64_t item = blockIdx.x; item < c.n.B * c.n.H * tiles;
       item += gridDim.x) {
    int64_t head = item / tiles;
    int t = (int)(tiles - 1 - item % tiles) * MRT_BLOCK_ROWS;
    int b = (int)(head / c.n.H), h = (int)(head % c.n.H);
    int hk = h / (int)c.n.group, row = t + 16 * warp + lane / 4;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_band band = mrt_band_of(c.n, sample);
    mrt_seen_span all = mrt_seen_by_some(band, t, MRT_BLOCK_ROWS, N);
    int end =
        mrt_seen_by_some(band, t + warp / 4 * MRT_GROUP_ROWS, MRT_GROUP_ROWS, N)
            .end;
    mrt_seen_span seen[2];
    mrt_terms_of_rows terms;
    float sum[W / 8][4];
    mrt_pair_walk<T> x;
    mrt_place_pairs<W>(shared, &x);
    x.one = mrt_part_of<W>(c.k, mrt_head(c.k, b, hk), all.from, sample.S);
    x.two = mrt_part_of<W>(c.v, mrt_head(c.v, b, hk), all.from, sample.S);
    __syncthreads(); /* the last item's tiles have been read */
    mrt_begin_mine<T, W>(
        x, mrt_part_of<W>(c.q, mrt_head(c.q, b, h), t, sample.T),
        c.q.strides[1],
        mrt_part_of<W>(c.dout, mrt_head(c.dout, b, h), t, sample.T),
        c.dout.strides[1]);
    mrt_begin_pair<T, W>(&x, 0, c.k.strides[1], c.v.strides[1]);
    mrt_copies_commit();
    MRT_UNROLL
    for (int r = 0; r < 2; r++) {
      seen[r] = mrt_seen_by(band, row + 8 * r, 0);
      mrt_get_terms(c, head, row + 8 * r, &terms.lse[r], &terms.delta[r]);
    }
    MRT_UNROLL
    for (int i = 0; i < W / 2; i++) sum[i / 4][i % 4] = 0;
    sum_keys<T, W>(c, x, all.from, tiles_of(all.from, end),
                   tiles_of(all.from, all.end), seen, terms, sum);
    MRT_UNROLL
    for (int r = 0; r < 2; r++)
      mrt_mma_put<W>(c.dq, b, h, row + 8 * r, sum, r, (float)c.n.scale);
    mrt_copies_wait_but<0>();
  }
#endif
}

/* ---- dk and dv ----------------------------------------------------------- */

/* What a block has of the pairs' queries.  And of its item what no register is
 * free for meanwhile: which queries are there, and see its keys, of heads
 * before h_end. */
struct column_terms {
  float lse[MRT_STAGES][N], delta[MRT_STAGES][N];
  int64_t item;
  int b, hk, s, h_end, there;
  mrt_seen_span seers;
};

#ifdef MRT_HAS_WGMMA

/* The queries that a block's keys are seen by are walked N at a time: of each
 * head of the group those of a span. */
struct query_turn {
  int h, t;
};

/* The next pair is that of these queries. */
template <typename T, int W>
MRT_DEVICE void aim(const mrt_gradient_groups<T> &c, int b, int there,
                    const query_turn &at, mrt_pair_walk<T> *x) {
  x->one = mrt_part_of<W>(c.q, mrt_head(c.q, b, at.h), at.t, there);
  x->two = mrt_part_of<W>(c.dout, mrt_head(c.dout, b, at.h), at.t, there);
}
template <typename T>
MRT_DEVICE void put_terms(const mrt_gradient_groups<T> &c, int b,
                          const query_turn &at, int stage, column_terms *m) {
  int j = (int)threadIdx.x;
  if (j < N)
    mrt_get_terms(c, (int64_t)b * c.n.H + at.h, at.t + j, &m->lse[stage][j],
                  &m->delta[stage][j]);
  __syncwarp(); /* whole warps begin products, and wait for them */
}
/* As far as there are some. */
template <typename T, int W>
MRT_DEVICE void step_on(const mrt_gradient_groups<T> &c, const column_terms &m,
                        query_turn *at, mrt_pair_walk<T> *x) {
  at->t += N;
  if (at->t < m.seers.end) return;
  at->t = m.seers.from, at->h++;
  aim<T, W>(c, m.b, m.there, *at, x);
}

template <typename T, int W>
MRT_DEVICE void sum_queries(const mrt_gradient_groups<T> &c, mrt_pair_walk<T> x,
                            query_turn now, int turns,
                            const mrt_seen_span *seen, column_terms *m,
                            float dk[W / 8][4], float dv[W / 8][4]) {
  const float unit = (float)(c.n.scale * LOG2_E);
  float w[N / 8][4], dp[N / 8][4];
  uint32_t p[N / 16][4], ds[N / 16][4];
  mrt_pin<W / 2>(&dk[0][0]);
  mrt_pin<W / 2>(&dv[0][0]);
  MRT_NO_UNROLL
  for (int j = 0; j < turns; j++) {
    int t = now.t, i = x.stage / mrt_pair_bytes<W>;
    int next = mrt_stage_after<W>(x.stage);
    mrt_begin_turn();
    if (j + 1 < turns) {
      step_on<T, W>(c, *m, &now, &x);
      mrt_begin_pair<T, W>(&x, next, c.q.strides[1], c.dout.strides[1]);
    }
    mrt_copies_commit();
    mrt_begin_scores<T, W>(x, &w[0][0], &dp[0][0]);
    if (j + 1 < turns) put_terms(c, m->b, now, next / mrt_pair_bytes<W>, m);
    mrt_wgmma_wait<1>();
    mrt_pin<N / 2>(&w[0][0]);
    mrt_terms_of_columns terms = { m->lse[i], m->delta[i] };
    bool whole = mrt_see_all(seen, t);
    mrt_weigh(terms, unit, w);
    if (!whole) mrt_leave_unseen(seen, t, w);
    mrt_wgmma_wait<0>();
    mrt_pin<N / 2>(&dp[0][0]);
    mrt_weigh_gradients(terms, w, dp);
    if (!whole) mrt_leave_unseen(seen, t, dp);
    mrt_group_pack<T, N>(w, p);
    mrt_group_pack<T, N>(dp, ds);
    mrt_pin<N / 4>(&ds[0][0]); /* before the first sum begins */
    mrt_begin_sum<T, W>(x, 1, p, &dv[0][0]);
    mrt_begin_sum<T, W>(x, 0, ds, &dk[0][0]);
    if (W > 64)
      mrt_wgmma_wait<0>(); /* no registers for p and ds beside w, dp */
    x.stage = next;
  }
  mrt_wgmma_wait<0>();
  mrt_pin<W / 2>(&dk[0][0]);
  mrt_pin<W / 2>(&dv[0][0]);
}

#endif

template <typename T, int W>
__global__ void __launch_bounds__(MRT_BLOCK_THREADS, 1)
    keys_wgmma(mrt_gradient_groups<T> c, int64_t tiles, int64_t items) {
#ifdef MRT_HAS_WGMMA
  MRT_SHARED(T, shared);
  __shared__ column_terms m;
  int warp = (int)threadIdx.x / 32, lane = mrt_lane();
  for (int64_t item = blockIdx.x; item < items; item = m.item + gridDim.x) {
    int64_t head = item / tiles;
    int s = (int)(item % tiles) * MRT_BLOCK_ROWS, row = 16 * warp + lane / 4;
    int b = (int)(head / c.n.Hk), hk = (int)(head % c.n.Hk);
    int group = (int)c.n.group;
    mrt_sample sample = mrt_sample_of(c.n, b);
    mrt_band band = mrt_turned(mrt_band_of(c.n, sample));
    mrt_seen_span seers = mrt_seen_by_some(band, s, MRT_BLOCK_ROWS, N), seen[2];
    query_turn now = { hk * group, seers.from };
    int turns = tiles_of(seers.from, seers.end) * group;
    float dk[W / 8][4], dv[W / 8][4];
    mrt_pair_walk<T> x;
    mrt_place_pairs<W>(shared, &x);
    __syncthreads(); /* the last item's tiles, and m, have been read */
    if (threadIdx.x == 0) {
      m.item = item, m.b = b, m.hk = hk, m.s = s, m.h_end = (hk + 1) * group;
      m.there = (int)sample.T, m.seers = seers;
    }
    mrt_begin_mine<T, W>(
        x, mrt_part_of<W>(c.k, mrt_head(c.k, b, hk), s, sample.S),
        c.k.strides[1], mrt_part_of<W>(c.v, mrt_head(c.v, b, hk), s, sample.S),
        c.v.strides[1]);
    if (turns > 0) {
      aim<T, W>(c, b, (int)sample.T, now, &x);
      mrt_begin_pair<T, W>(&x, 0, c.q.strides[1], c.dout.strides[1]);
      put_terms(c, b, now, 0, &m);
    }
    mrt_copies_commit();
    MRT_UNROLL
    for (int r = 0; r < 2; r++) seen[r] = mrt_seen_by(band, s + row + 8 * r, 0);
    MRT_UNROLL
    for (int i = 0; i < W / 2; i++) dk[i / 4][i % 4] = dv[i / 4][i % 4] = 0;
    sum_queries<T, W>(c, x, now, turns, seen, &m, dk, dv);
    mrt_copies_wait_but<0>();
    __syncthreads(); /* what m has is there, though there were no queries */
    MRT_UNROLL
    for (int r = 0; r < 2; r++) {
      int mine = m.s + row + 8 * r;
      mrt_mma_put<W>(c.dk, m.b, m.hk, mine, dk, r, (float)c.n.scale);
      mrt_mma_put<W>(c.dv, m.b, m.hk, mine, dv, r, 1.0f);
    }
  }
#endif
}

template <typename T, int W>
static void run(const mrt_call *c, const float *delta) {
  mrt_gradient_groups<T> a = { mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER),
                               mrt_heads_of<T>(&c->in[0]),
                               mrt_heads_of<T>(&c->in[1]),
                               mrt_heads_of<T>(&c->in[2]),
                               mrt_heads_of<T>(&c->in[5]),
                               mrt_heads_of<T>(&c->out[0]),
                               mrt_heads_of<T>(&c->out[1]),
                               mrt_heads_of<T>(&c->out[2]),
                               mrt_at_any<float>(c->in, 4, c->nin),
                               delta };
  constexpr int bytes = mrt_gradient_bytes<T, W>();
  int64_t by_t = mrt_tiles(a.n.T, MRT_BLOCK_ROWS);
  int64_t by_s = mrt_tiles(a.n.S, MRT_BLOCK_ROWS);
  int64_t heads = a.n.B * a.n.H, key_heads = a.n.B * a.n.Hk;
  mrt_allow_shared(queries_wgmma<T, W>, bytes);
  mrt_allow_shared(keys_wgmma<T, W>, bytes);
  if (heads * by_t > 0)
    MRT_LAUNCH(mrt_blocks(heads * by_t, 1), MRT_BLOCK_THREADS, bytes,
               c->run->queue, queries_wgmma<T, W>)
  (a, by_t);
  if (key_heads * by_s > 0)
    MRT_LAUNCH(mrt_blocks(key_heads * by_s, 1), MRT_BLOCK_THREADS, bytes,
               c->run->queue, keys_wgmma<T, W>)
  (a, by_s, key_heads * by_s);
}

} // namespace

bool mrt_attention_grad_wgmma(const mrt_call *c, const float *delta) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER);
  int dtype = mrt_mma_dtype(n, &c->in[0], &c->in[1], &c->in[2], &c->in[5],
                            &c->out[0], &c->out[1], &c->out[2]);
  if (dtype == MRT_DTYPE_COUNT || mrt_attention_adjusts(n) ||
      !mrt_mma_packs(&c->in[0], &c->in[1], &c->in[2], &c->in[5]))
    return false;
  MRT_MMA_DISPATCH(dtype, n, T, W, run<T, W>(c, delta));
  return true;
}
