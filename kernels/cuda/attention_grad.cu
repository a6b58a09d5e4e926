/* attention_grad.cu -- the gradient of attention, scores computed again
 *
 *   P  = exp(scale Q K' - lse)          dV = P' dO
 *   dS = P * (dO V' - delta) * scale    dQ = dS K,  dK = dS' Q
 *   delta = sum over Dv of o * do
 *
 * Each of the three is a sum over the rows of the other side, in their order,
 * by a block that alone writes what it sums: dq goes by tiles of queries, dk
 * and dv by tiles of keys.  delta is made first.
 *
 * From Dao, arXiv:2307.08691.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_tile.cuh"

namespace {

/* `lse` may be narrow. */
template <typename T> struct gradient_call {
  mrt_attention n;
  mrt_heads<T> q, k, v, dout, dq, dk, dv;
  mrt_any<mrt_real<T>> lse;
  const mrt_real<T> *delta;
};

/* delta [B, H, T]: a warp has a row. */
template <typename T>
__global__ void make_delta(mrt_heads<T> o, mrt_heads<T> dout, mrt_attention n,
                           mrt_real<T> *delta) {
  typedef mrt_real<T> R;
  int lane = (int)threadIdx.x % 32;
  for (int64_t r = mrt_first() / 32; r < n.B * n.T * n.H;
       r += mrt_stride() / 32) {
    int64_t h = r % n.H, t = r / n.H % n.T, b = r / n.H / n.T;
    int64_t from = mrt_row_of(o, b, t, h), other = mrt_row_of(dout, b, t, h);
    R sum = 0;
    for (int64_t d = lane; d < n.Dv; d += 32)
      sum += mrt_get<R>(o.x, from + d) *
             mrt_get<R>(dout.x, other + d * dout.strides[3]);
    sum = mrt_warp_reduce<mrt_add>(sum);
    if (lane == 0) delta[(b * n.H + h) * n.T + t] = sum;
  }
}

template <typename T> static void launch_delta(const mrt_call *c) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER);
  if (n.B * n.T * n.H == 0) return;
  MRT_LAUNCH(mrt_blocks(n.B * n.T * n.H, 8), 256, 0, c->run->queue,
             make_delta<T>)
  (mrt_heads_of<T>(&c->in[3]), mrt_heads_of<T>(&c->in[5]), n,
   (mrt_real<T> *)c->scratch);
}

/* ---- weights ------------------------------------------------------------- */

/* The operands of a kind: weights of rows of `i` for rows of `j`, which sum up
 * rows of `x`. */
enum attention_kind { DQ, DK, DV };

/* Two heads, of which rows i and j are looked at. */
struct two_tiles {
  mrt_sample sample;
  int64_t b, h, i, j;
};

/* Scores become what softcap and mask make of them. */
template <attention_kind K, typename T, int SIDE>
MRT_DEVICE void adjust(const gradient_call<T> &c, const two_tiles &at,
                       typename mrt_square<mrt_real<T>>::memory *m,
                       mrt_real<T> s[][SIDE], mrt_real<T> slope[][SIDE]) {
  typedef mrt_real<T> R;
  mrt_tile_each(s, slope, m, [&](int a, int b, R *score) {
    int64_t row = at.i + a, other = at.j + b;
    int64_t t = K == DQ ? row : other, key = K == DQ ? other : row;
    R by = 1, x = *score * (R)c.n.scale;
    if (mrt_is_seen(c.n, at.sample, t, key))
      x = mrt_adjust(c.n, at.b, at.h, t, key, x, &by);
    *score = x;
    return by;
  });
}

/* w[i][j], from scores and from products of dout and v. */
template <attention_kind K, bool ADJUSTS, typename T, int SIDE>
MRT_DEVICE void weigh(const gradient_call<T> &c, const two_tiles &at,
                      typename mrt_square<mrt_real<T>>::memory *m,
                      mrt_real<T> s[][SIDE], const mrt_real<T> dp[][SIDE]) {
  typedef mrt_real<T> R;
  int64_t head = at.b * c.n.H + at.h;
  R slope[SIDE][SIDE];
  if constexpr (ADJUSTS) adjust<K, T, SIDE>(c, at, m, s, slope);
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) MRT_UNROLL
  for (int b = 0; b < SIDE; b++) {
    int64_t row = at.i + mrt_tile_y() + 16 * a;
    int64_t other = at.j + mrt_tile_x() + 16 * b;
    int64_t t = K == DQ ? row : other, key = K == DQ ? other : row;
    R p = 0, by = ADJUSTS ? slope[a][b] : 1;
    if (mrt_is_seen(c.n, at.sample, t, key)) {
      R lse = mrt_get<R>(c.lse, head * c.n.T + t);
      R score = ADJUSTS ? s[a][b] : s[a][b] * (R)c.n.scale;
      p = lse == -(R)INFINITY ? 0 : exp(score - lse);
      if (K != DV)
        p *= (dp[a][b] - c.delta[head * c.n.T + t]) * by * (R)c.n.scale;
    }
    s[a][b] = p;
  }
}

/* sum over a tile of the other side. */
template <attention_kind K, bool ADJUSTS, typename T, int SIDE, int COLUMNS>
MRT_DEVICE void add_pair(const gradient_call<T> &c, const two_tiles &at,
                         int64_t column,
                         typename mrt_square<mrt_real<T>>::memory *m,
                         mrt_real<T> sum[][COLUMNS]) {
  mrt_real<T> s[SIDE][SIDE], dp[SIDE][SIDE];
  int64_t b = at.b, hk = at.h / c.n.group, i = at.i, j = at.j;
  int64_t q_head = mrt_head(c.q, b, at.h), k_head = mrt_head(c.k, b, hk);
  int64_t dout_head = mrt_head(c.dout, b, at.h), v_head = mrt_head(c.v, b, hk);
  int64_t rows = at.sample.T, keys = at.sample.S;
  mrt_heads<T> q = mrt_rows(c.q, rows), dout = mrt_rows(c.dout, rows);
  mrt_heads<T> k = mrt_rows(c.k, keys), v = mrt_rows(c.v, keys);
  if (K == DQ) {
    mrt_tile_scores(q, q_head, i, k, k_head, j, m, s);
    mrt_tile_scores(dout, dout_head, i, v, v_head, j, m, dp);
  } else {
    mrt_tile_scores(k, k_head, i, q, q_head, j, m, s);
    if (K == DK) mrt_tile_scores(v, v_head, i, dout, dout_head, j, m, dp);
  }
  weigh<K, ADJUSTS, T, SIDE>(c, at, m, s, dp);
  mrt_tile_give(s, c.n.rounds, m);
  if (K == DQ) mrt_tile_add(k, k_head, j, column, m, sum);
  if (K == DK) mrt_tile_add(q, q_head, j, column, m, sum);
  if (K == DV) mrt_tile_add(dout, dout_head, j, column, m, sum);
}

/* What a block is at: rows from i on of a head, columns of what is summed; the
 * others that some of these rows are paired with.  It is in shared memory, as
 * registers are for sums. */
struct tile_grad_item {
  int64_t number, i, column, b, h;
  mrt_sample sample;
  mrt_reach others;
};

template <attention_kind K, int TILE, int WIDE>
MRT_DEVICE tile_grad_item item_of(const mrt_attention &n, int64_t number,
                                  int64_t heads, int64_t tiles,
                                  int64_t chunks) {
  int64_t at = number % tiles, rest = number / tiles / chunks;
  int64_t i = (K == DQ ? tiles - 1 - at : at) * TILE;
  mrt_sample sample = mrt_sample_of(n, rest / heads);
  return { number,
           i,
           number / tiles % chunks * WIDE,
           rest / heads,
           rest % heads,
           sample,
           K == DQ ? mrt_keys_of(n, sample, i, i + TILE, TILE)
                   : mrt_queries_of(n, sample, i, i + TILE, TILE) };
}

template <attention_kind K, typename T, bool ADJUSTS>
__global__ void __launch_bounds__(TILE_THREADS, 2)
    differentiate(gradient_call<T> c, mrt_heads<T> y, int64_t heads,
                  int64_t tiles, int64_t chunks) {
  typedef mrt_real<T> R;
  typedef mrt_square<R> tile;
  constexpr int SIDE = tile::SIDE, COLUMNS = tile::COLUMNS, TILE = tile::TILE;
  __shared__ typename tile::memory m;
  __shared__ tile_grad_item now;
  int64_t items = c.n.B * heads * chunks * tiles;
  for (int64_t item = blockIdx.x; item < items; item = now.number + gridDim.x) {
    __syncthreads(); /* the last one has been read */
    if (threadIdx.x == 0)
      now = item_of<K, TILE, tile::WIDE>(c.n, item, heads, tiles, chunks);
    __syncthreads();
    R sum[SIDE][COLUMNS] = {};
    for (int64_t g = 0; g < (K == DQ ? 1 : c.n.group); g++)
      for (int64_t j = now.others.from; j < now.others.end; j += TILE) {
        int64_t h = K == DQ ? now.h : now.h * c.n.group + g;
        two_tiles two = { now.sample, now.b, h, now.i, j };
        add_pair<K, ADJUSTS, T, SIDE, COLUMNS>(c, two, now.column, &m, sum);
      }
    mrt_tile_put(y, now.b, now.h, now.i, now.column, sum);
  }
}

template <attention_kind K, typename T>
static void launch(const mrt_call *c, const gradient_call<T> &a,
                   const mrt_heads<T> &y, int64_t heads) {
  typedef mrt_square<mrt_real<T>> tile;
  int64_t tiles = mrt_tiles(y.rows, tile::TILE);
  int64_t chunks = mrt_tiles(y.width, tile::WIDE);
  int64_t items = a.n.B * heads * tiles * chunks;
  if (items == 0) return;
  if (mrt_attention_adjusts(a.n))
    MRT_LAUNCH(mrt_blocks(items, 1), TILE_THREADS, 0, c->run->queue,
               differentiate<K, T, true>)
  (a, y, heads, tiles, chunks);
  else MRT_LAUNCH(mrt_blocks(items, 1), TILE_THREADS, 0, c->run->queue,
                  differentiate<K, T, false>)(a, y, heads, tiles, chunks);
}

template <typename T> static void run(const mrt_call *c) {
  typedef mrt_real<T> R;
  gradient_call<T> a = { mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER),
                         mrt_heads_of<T>(&c->in[0]),
                         mrt_heads_of<T>(&c->in[1]),
                         mrt_heads_of<T>(&c->in[2]),
                         mrt_heads_of<T>(&c->in[5]),
                         mrt_heads_of<T>(&c->out[0]),
                         mrt_heads_of<T>(&c->out[1]),
                         mrt_heads_of<T>(&c->out[2]),
                         mrt_at_any<R>(c->in, 4, c->nin),
                         (const R *)c->scratch };
  launch<DQ, T>(c, a, a.dq, a.n.H);
  launch<DK, T>(c, a, a.dk, a.n.Hk);
  launch<DV, T>(c, a, a.dv, a.n.Hk);
}

} // namespace

extern "C" void mrt_cuda_fallback_attention_grad(const mrt_call *c) {
  int dtype = c->in[0].type.dtype;
  for (int i = 1; i < 9; i++) { /* the mask is read as what it is */
    const mrt_operand *x = i < 6 ? &c->in[i] : &c->out[i - 6];
    if (x->type.dtype != dtype) dtype = MRT_DTYPE_COUNT; /* none is f64 */
  }
  MRT_DISPATCH(mrt_common(&c->in[3], &c->in[5]), T, launch_delta<T>(c));
  mrt_attention_mask_grad(c);
  if (mrt_cuda_attention_by_groups(c, true) &&
      mrt_attention_grad_wgmma(c, (const float *)c->scratch))
    return;
  if (!mrt_cuda_attention_is_plain(c) &&
      mrt_attention_grad_mma(c, (const float *)c->scratch))
    return;
  if (dtype == MRT_f32)
    run<float>(c);
  else if (dtype == MRT_f64)
    run<double>(c);
  else
    run<mrt_mixed<float>>(c);
}

/* delta */
extern "C" size_t mrt_cuda_fallback_attention_grad_scratch(const mrt_call *c) {
  mrt_attention n = mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER);
  size_t bytes = c->in[0].type.dtype == MRT_f64 ? 8 : 4;
  return (size_t)(n.B * n.H * n.T) * bytes;
}
