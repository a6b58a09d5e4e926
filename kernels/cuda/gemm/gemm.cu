/* gemm.cu -- what products need beside the library
 *
 * The last step of a product whose sum the library could not finish, and a whole
 * product of ours, tile by tile through shared memory, for what the library does
 * not take: any strides, dtypes and addresses.  Its sums run along k in order, so
 * that they depend on k alone.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.cuh"
#include "gemm/gemm.h"
#include "jit/pointwise.cuh"

namespace {

/* ---- the last step ------------------------------------------------------- */

template <typename R> static mrt_any<R> any_of(const void *data, int dtype) {
  return { (void *)data, dtype };
}

/* What is done with a sum; data is NULL where there is none. */
template <typename R> struct ending {
  mrt_any<R> bias, aux, c;
  int64_t c_row; /* its stride */
  int gelu;
};
template <typename R> static ending<R> ending_of(const mrt_cuda_gemm *g) {
  return { any_of<R>(g->bias, g->bias_dtype), any_of<R>(g->aux, g->aux_dtype),
           any_of<R>(g->adds ? g->c : NULL, g->y_dtype), g->y_row, g->gelu };
}

/* V sums of row r, from column j on, as y has them. */
template <int V, typename R>
MRT_DEVICE void end_sums(const ending<R> &to, int64_t r, int64_t j, int64_t n,
                         R *v) {
  int64_t first = r * n + j, end = r * n + n;
  R x[V] = {};
  if (to.c.data) {
    mrt_get_pack<V>(to.c, r * to.c_row + j, r * to.c_row + n, (R)0, x);
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] += x[k];
  }
  if (to.bias.data) {
    mrt_get_pack<V>(to.bias, j, n, (R)0, x);
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] += x[k];
  }
  if (to.gelu == MRT_GELU) {
    if (to.aux.data) mrt_put_pack<V>(to.aux, first, end, v);
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] = m_gelu_tanh(v[k]);
  } else if (to.gelu == MRT_GELU_GRAD) {
    mrt_get_pack<V>(to.aux, first, end, (R)0, x);
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] *= m_gelu_tanh_slope(x[k]);
  }
}

/* Room for so many blocks is enough; told nothing, the compiler makes room for
 * more, and spills. */
template <typename R>
__global__ void __launch_bounds__(256, sizeof(R) == 8 ? 2 : 4)
    finish(mrt_any<R> y, int64_t y_row, mrt_any<R> sum, int64_t sum_row,
           ending<R> to, int64_t rows, int64_t n) {
  constexpr int V = mrt_at_once<mrt_mixed<R>>;
  int64_t packs = (n + V - 1) / V;
  for (int64_t i = mrt_first(); i < rows * packs; i += mrt_stride()) {
    int64_t r = mrt_quotient(i, packs), j = (i - r * packs) * V;
    R v[V] = {};
    if (sum.data)
      mrt_get_pack<V>(sum, r * sum_row + j, r * sum_row + n, (R)0, v);
    end_sums<V>(to, r, j, n, v);
    mrt_put_pack<V>(y, r * y_row + j, r * y_row + n, v);
  }
}

/* ---- a product of ours --------------------------------------------------- */

/* A block has a tile of y, EACH x EACH numbers of it a thread. */
enum { TILE = 64, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE };

/* Where tile t of all lies. */
struct cuda_tile {
  int64_t matrix, row, col, a, b; /* a and b: their first elements */
};
MRT_DEVICE cuda_tile tile_of(const mrt_cuda_gemm &g, int64_t t) {
  int64_t across = (g.n + TILE - 1) / TILE, down = (g.m + TILE - 1) / TILE;
  cuda_tile at;
  at.matrix = t / (across * down);
  at.row = t / across % down * TILE, at.col = t % across * TILE;
  at.a = mrt_matrix_at(g.a_batch, at.matrix);
  at.b = mrt_matrix_at(g.b_batch, at.matrix);
  return at;
}

/* part[p][i] = x at (first + i, p0 + p), 0 outside; `across` is the stride
 * between i, `along` that between p.  Neighbours in memory are read by
 * neighbours. */
template <typename T, typename R>
MRT_DEVICE void load(mrt_place<T> x, int64_t from, int64_t across,
                     int64_t along, int64_t first, int64_t end, int64_t p0,
                     int64_t k, int compute, R (*part)[TILE + 1]) {
  bool by_p = along == 1;
  for (int e = threadIdx.x; e < TILE * DEPTH; e += SIDE * SIDE) {
    int i = by_p ? e / DEPTH : e % TILE, p = by_p ? e % DEPTH : e / TILE;
    bool inside = first + i < end && p0 + p < k;
    int64_t at = from + (first + i) * across + (p0 + p) * along;
    part[p][i] = inside ? mrt_rounded((R)mrt_get<R>(x, at), compute) : (R)0;
  }
}

template <typename T>
__global__ void __launch_bounds__(SIDE *SIDE, 2)
    plainly(mrt_cuda_gemm g, mrt_place<T> a, mrt_place<T> b,
            mrt_any<mrt_real<T>> y, ending<mrt_real<T>> to, int64_t tiles) {
  typedef mrt_real<T> R;
  __shared__ R a_part[DEPTH][TILE + 1], b_part[DEPTH][TILE + 1];
  int i0 = (int)threadIdx.x / SIDE, j0 = (int)threadIdx.x % SIDE;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    cuda_tile at = tile_of(g, t);
    R sum[EACH][EACH] = {};
    for (int64_t p0 = 0; p0 < g.k; p0 += DEPTH) {
      __syncthreads();
      load<T, R>(a, at.a, g.a.row, g.a.col, at.row, g.m, p0, g.k, g.compute,
                 a_part);
      load<T, R>(b, at.b, g.b.col, g.b.row, at.col, g.n, p0, g.k, g.compute,
                 b_part);
      __syncthreads();
      for (int p = 0; p < DEPTH; p++) MRT_UNROLL
      for (int i = 0; i < EACH; i++) MRT_UNROLL
      for (int j = 0; j < EACH; j++)
        sum[i][j] += a_part[p][i0 + SIDE * i] * b_part[p][j0 + SIDE * j];
    }
    MRT_UNROLL
    for (int i = 0; i < EACH; i++) MRT_UNROLL
    for (int j = 0; j < EACH; j++) {
      int64_t r = at.row + i0 + SIDE * i, q = at.col + j0 + SIDE * j;
      if (r >= g.m || q >= g.n) continue;
      int64_t row = at.matrix * g.m + r;
      end_sums<1>(to, row, q, g.n, &sum[i][j]);
      mrt_put(y, row * g.y_row + q, sum[i][j]);
    }
  }
}

template <typename T>
static void multiply(const mrt_cuda_gemm *g, cudaStream_t queue) {
  typedef mrt_real<T> R;
  int64_t tiles =
      g->count * ((g->m + TILE - 1) / TILE) * ((g->n + TILE - 1) / TILE);
  MRT_LAUNCH(mrt_blocks(tiles, 1), SIDE * SIDE, 0, queue, plainly<T>)
  (*g, mrt_place_of<T>::at(g->a.data, g->a.dtype),
   mrt_place_of<T>::at(g->b.data, g->b.dtype), any_of<R>(g->y, g->y_dtype),
   ending_of<R>(g), tiles);
}

/* ---- numbers to try with ------------------------------------------------- */

template <typename R> __global__ void noise(mrt_any<R> x, int64_t n) {
  for (int64_t i = mrt_first(); i < n; i += mrt_stride()) {
    uint32_t h = (uint32_t)i * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    mrt_put(x, i, (R)(h >> 8) / (R)(1 << 23) - 1);
  }
}

} // namespace

template <typename R>
static void finish_in(const mrt_cuda_gemm *g, const void *sum, int sum_dtype,
                      int64_t sum_row, cudaStream_t queue) {
  int64_t rows = g->count * g->m;
  unsigned grid = mrt_blocks(rows * ((g->n + 3) / 4), 256);
  MRT_LAUNCH(grid, 256, 0, queue, finish<R>)
  (any_of<R>(g->y, g->y_dtype), g->y_row, any_of<R>(sum, sum_dtype), sum_row,
   ending_of<R>(g), rows, g->n);
}

extern "C" void mrt_cuda_gemm_finish(const mrt_cuda_gemm *g, const void *sum,
                                     int sum_dtype, int64_t sum_row,
                                     cudaStream_t queue) {
  if (g->y_dtype == MRT_f64)
    finish_in<double>(g, sum, sum_dtype, sum_row, queue);
  else
    finish_in<float>(g, sum, sum_dtype, sum_row, queue);
}

extern "C" void mrt_cuda_gemm_kernel(const mrt_cuda_gemm *g,
                                     cudaStream_t queue) {
  int dtype = g->a.dtype == g->b.dtype ? g->a.dtype : (int)MRT_DTYPE_COUNT;
  MRT_DISPATCH(dtype, T, multiply<T>(g, queue));
}

extern "C" void mrt_cuda_noise(void *to, int dtype, int64_t n,
                               cudaStream_t queue) {
  if (dtype == MRT_f64)
    MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, queue, noise<double>)
  (any_of<double>(to, dtype), n);
  else MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, queue,
                  noise<float>)(any_of<float>(to, dtype), n);
}
