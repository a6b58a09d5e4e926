/* attention_mask_grad.cu -- the gradient of a mask that attention adds
 *
 *     dmask = P * (dO V' - delta), summed over what the mask is 1 of
 *
 * A block has a tile of the mask, queries against keys, and everything that
 * reads it: it computes scores and dP of those pairs once more, with sums in
 * registers, so no score is stored and no sum crosses blocks.  Where the mask is
 * 1 of the queries (or keys), tiles of all of these are added up in one, which
 * is summed in the end.  Of any floats, by plain sums of products.
 *
 * SPDX-License-Identifier: MIT */
#include "attention_tile.cuh"

namespace {

template <typename T> struct mask_call {
  mrt_attention n;
  mrt_heads<T> q, k, v, dout;
  mrt_any<mrt_real<T>> lse, dmask;
  const mrt_real<T> *delta;
  int64_t dims[4];  /* of the mask */
  int64_t tiles[4]; /* items along each: b, h, tiles of t and of s */
};

/* What an item reads along dimension d. */
MRT_DEVICE mrt_reach part_of(int64_t of_mask, int64_t all, int64_t at,
                             int64_t unit) {
  if (of_mask == 1) return { 0, all };
  int64_t from = at * unit;
  return { from, from + unit < all ? from + unit : all };
}

/* The gradients of a pair of tiles are added to sum. */
template <typename T, int SIDE>
MRT_DEVICE void add_tile(const mask_call<T> &c, const mrt_sample &sample,
                         int64_t b, int64_t h, int64_t t, int64_t s,
                         typename mrt_square<mrt_real<T>>::memory *m,
                         mrt_real<T> sum[][SIDE]) {
  typedef mrt_real<T> R;
  R score[SIDE][SIDE], dp[SIDE][SIDE];
  int64_t hk = h / c.n.group, head = b * c.n.H + h;
  mrt_heads<T> q = mrt_rows(c.q, sample.T), dout = mrt_rows(c.dout, sample.T);
  mrt_heads<T> k = mrt_rows(c.k, sample.S), v = mrt_rows(c.v, sample.S);
  mrt_tile_scores(q, mrt_head(q, b, h), t, k, mrt_head(k, b, hk), s, m, score);
  mrt_tile_scores(dout, mrt_head(dout, b, h), t, v, mrt_head(v, b, hk), s, m,
                  dp);
  R slope[SIDE][SIDE];
  mrt_tile_each(score, slope, m, [&](int i, int j, R *x) {
    R by = 1;
    *x *= (R)c.n.scale;
    if (mrt_is_seen(c.n, sample, t + i, s + j))
      *x = mrt_adjust(c.n, b, h, t + i, s + j, *x, &by);
    return by;
  });
  MRT_UNROLL
  for (int i = 0; i < SIDE; i++) MRT_UNROLL
  for (int j = 0; j < SIDE; j++) {
    int64_t row = t + mrt_tile_y() + 16 * i, key = s + mrt_tile_x() + 16 * j;
    if (!mrt_is_seen(c.n, sample, row, key)) continue;
    R lse = mrt_get<R>(c.lse, head * c.n.T + row);
    if (lse != -(R)INFINITY)
      sum[i][j] +=
          exp(score[i][j] - lse) * (dp[i][j] - c.delta[head * c.n.T + row]);
  }
}

/* A tile of sums in shared memory, of which rows, columns or both are summed,
 * to the mask's gradient from query t and key s on. */
template <typename T>
MRT_DEVICE void put_tile(const mask_call<T> &c, int64_t first, int64_t t,
                         int64_t s,
                         typename mrt_square<mrt_real<T>>::memory *m) {
  typedef mrt_real<T> R;
  constexpr int TILE = mrt_square<R>::TILE;
  int rows = c.dims[2] == 1 ? 1 : TILE, columns = c.dims[3] == 1 ? 1 : TILE;
  for (int x = (int)threadIdx.x; x < rows * columns; x += TILE_THREADS) {
    int i = x / columns, j = x % columns;
    R sum = 0;
    for (int a = i; a < (rows == 1 ? TILE : i + 1); a++)
      for (int b = j; b < (columns == 1 ? TILE : j + 1); b++)
        sum += m->weights[a][b];
    if (t + i < c.dims[2] && s + j < c.dims[3])
      mrt_put(c.dmask, first + (t + i) * c.dims[3] + s + j, sum);
  }
}

/* One block on a processor may be all: products bind it, not memory, and four
 * nested loops take registers that two blocks would not leave. */
template <typename T>
__global__ void __launch_bounds__(TILE_THREADS, 1) sum_mask(mask_call<T> c) {
  typedef mrt_real<T> R;
  constexpr int SIDE = mrt_square<R>::SIDE, TILE = mrt_square<R>::TILE;
  __shared__ typename mrt_square<R>::memory m;
  int64_t items = c.tiles[0] * c.tiles[1] * c.tiles[2] * c.tiles[3];
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    int64_t si = item % c.tiles[3], rest = item / c.tiles[3];
    int64_t ti = rest % c.tiles[2], hi = rest / c.tiles[2] % c.tiles[1];
    int64_t bi = rest / c.tiles[2] / c.tiles[1];
    mrt_reach bs = part_of(c.dims[0], c.n.B, bi, 1);
    mrt_reach hs = part_of(c.dims[1], c.n.H, hi, 1);
    mrt_reach ts = part_of(c.dims[2], c.n.T, ti, TILE);
    mrt_reach ss = part_of(c.dims[3], c.n.S, si, TILE);
    R sum[SIDE][SIDE] = {};
    for (int64_t b = bs.from; b < bs.end; b++) {
      mrt_sample sample = mrt_sample_of(c.n, b);
      for (int64_t h = hs.from; h < hs.end; h++)
        for (int64_t t = ts.from; t < ts.end; t += TILE) {
          mrt_reach keys = mrt_keys_of(c.n, sample, t, t + TILE, TILE);
          int64_t from = keys.from > ss.from ? keys.from : ss.from;
          int64_t end = keys.end < ss.end ? keys.end : ss.end;
          for (int64_t s = from; s < end; s += TILE)
            add_tile<T, SIDE>(c, sample, b, h, t, s, &m, sum);
        }
    }
    mrt_tile_give(sum, false, &m);
    __syncthreads();
    int64_t first = (bi * c.dims[1] + hi) * c.dims[2] * c.dims[3];
    put_tile(c, first, c.dims[2] == 1 ? 0 : ts.from,
             c.dims[3] == 1 ? 0 : ss.from, &m);
    __syncthreads();
  }
}

template <typename T> static void run(const mrt_call *c) {
  typedef mrt_real<T> R;
  mask_call<T> a = { mrt_attention_of(c, MRT_ATTENTION_GRAD_AFTER),
                     mrt_heads_of<T>(&c->in[0]),
                     mrt_heads_of<T>(&c->in[1]),
                     mrt_heads_of<T>(&c->in[2]),
                     mrt_heads_of<T>(&c->in[5]),
                     mrt_at_any<R>(c->in, 4, c->nin),
                     mrt_at_any<R>(c->out, 3, c->nout),
                     (const R *)c->scratch,
                     {},
                     {} };
  int64_t items = 1;
  for (int d = 0; d < 4; d++) {
    a.dims[d] = c->out[3].type.dims[d];
    a.tiles[d] = d < 2 ? a.dims[d] : mrt_tiles(a.dims[d], mrt_square<R>::TILE);
    items *= a.tiles[d];
  }
  if (items == 0) return;
  MRT_LAUNCH(mrt_blocks(items, 1), TILE_THREADS, 0, c->run->queue, sum_mask<T>)
  (a);
}

} // namespace

void mrt_attention_mask_grad(const mrt_call *c) {
  const mrt_attention_options *o = (const mrt_attention_options *)c->options;
  if (!o->mask_grad) return;
  int dtype = mrt_common(&c->in[0], &c->in[1], &c->in[2], &c->in[5]);
  if (dtype == MRT_f32)
    run<float>(c);
  else if (dtype == MRT_f64)
    run<double>(c);
  else
    run<mrt_mixed<float>>(c);
}
