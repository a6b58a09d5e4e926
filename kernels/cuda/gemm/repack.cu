/* repack.cu -- operands of products in another dtype or layout
 *
 * A copy's lines are contiguous.  What lies the other way is read and written in
 * packs through a tile of shared memory; 8-bit floats that stay what they are, as
 * words of four (the library wants them with the summed dimension contiguous, so
 * that a weight's gradient turns both of its factors).
 *
 * SPDX-License-Identifier: MIT */
#include "base/dtype.h"
#include "gemm/gemm.cuh"

namespace {

/* Lines are contiguous in the copy, `step` apart in x. */
struct cuda_lines {
  mrt_cuda_batch batch;
  int64_t count, n, line, step; /* of a matrix: lines, their elements */
};

/* V numbers of a line for each thread: at once, where x has them together. */
template <typename R, int V>
__global__ void __launch_bounds__(256)
    copy_lines(mrt_any<R> x, mrt_any<R> y, cuda_lines l, int via,
               int64_t matrices) {
  int64_t packs = mrt_quotient(l.n + V - 1, V);
  for (int64_t i = mrt_first(); i < matrices * l.count * packs;
       i += mrt_stride()) {
    int64_t line = mrt_quotient(i, packs), first = (i - line * packs) * V;
    int64_t matrix = matrices > 1 ? mrt_quotient(line, l.count) : 0;
    int64_t from =
        mrt_matrix_at(l.batch, matrix) + (line - matrix * l.count) * l.line;
    R v[V];
    if (l.step == 1)
      mrt_get_pack<V>(x, from + first, from + l.n, (R)0, v);
    else
      MRT_UNROLL
    for (int k = 0; k < V; k++)
      v[k] = first + k < l.n ? mrt_get<R>(x, from + (first + k) * l.step) : 0;
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] = mrt_rounded(v[k], via);
    mrt_put_pack<V>(y, line * l.n + first, (line + 1) * l.n, v);
  }
}

/* Where x has neighbours across lines: tiles that are read that way, and written
 * the other, PACK numbers at once either way. */
enum { TURN = 64, PACK = 4, TURN_PACKS = TURN / PACK, TURN_ROWS = 16 };
template <typename R>
__global__ void __launch_bounds__(TURN_PACKS *TURN_ROWS)
    turn_lines(mrt_any<R> x, mrt_any<R> y, cuda_lines l, int via,
               int64_t matrices) {
  __shared__ R tile[TURN][TURN + 1];
  int64_t across = (l.count + TURN - 1) / TURN, along = (l.n + TURN - 1) / TURN;
  int pack = (int)threadIdx.x * PACK;
  for (int64_t t = blockIdx.x; t < matrices * across * along; t += gridDim.x) {
    int64_t matrix = t / (across * along),
            from = mrt_matrix_at(l.batch, matrix);
    int64_t line = t / along % across * TURN, first = t % along * TURN;
    R v[PACK];
    MRT_UNROLL
    for (int s = 0; s < TURN / TURN_ROWS; s++) {
      int j = (int)threadIdx.y + s * TURN_ROWS;
      int64_t r = line + pack, at = from + (first + j) * l.step;
      if (r >= l.count || first + j >= l.n) continue;
      if (l.line == 1)
        mrt_get_pack<PACK>(x, at + r, at + l.count, (R)0, v);
      else
        MRT_UNROLL
      for (int k = 0; k < PACK; k++)
        v[k] = r + k < l.count ? mrt_get<R>(x, at + (r + k) * l.line) : 0;
      MRT_UNROLL
      for (int k = 0; k < PACK; k++) tile[j][pack + k] = mrt_rounded(v[k], via);
    }
    __syncthreads();
    MRT_UNROLL
    for (int s = 0; s < TURN / TURN_ROWS; s++) {
      int j = (int)threadIdx.y + s * TURN_ROWS;
      int64_t to = (matrix * l.count + line + j) * l.n, i = first + pack;
      if (line + j >= l.count || i >= l.n) continue;
      MRT_UNROLL
      for (int k = 0; k < PACK; k++) v[k] = tile[pack + k][j];
      mrt_put_pack<PACK>(y, to + i, to + l.n, v);
    }
    __syncthreads();
  }
}

/* Bytes that stay as they are, all sizes and steps in whole words.  A thread turns
 * squares of 4 x 4 of them; of a tile's line the words are kept turned around by
 * line / 4, so that neither writing nor reading it meets a bank twice. */
enum { BYTES = 128, WORDS = BYTES / 4, BYTES_ROWS = 8 };
enum { SQUARES = WORDS / BYTES_ROWS };

/* w[q] byte k to w[k] byte q */
MRT_DEVICE void turn_square(uint32_t *w) {
  const uint32_t even = 0x00ff00ff;
  uint32_t a = (w[0] & even) | (w[1] & even) << 8;
  uint32_t b = (w[0] >> 8 & even) | (w[1] & ~even);
  uint32_t c = (w[2] & even) | (w[3] & even) << 8;
  uint32_t d = (w[2] >> 8 & even) | (w[3] & ~even);
  w[0] = (a & 0xffff) | c << 16, w[2] = a >> 16 | (c & 0xffff0000);
  w[1] = (b & 0xffff) | d << 16, w[3] = b >> 16 | (d & 0xffff0000);
}

/* A thread's squares of the tile: all are read before any is kept. */
__global__ void __launch_bounds__(WORDS *BYTES_ROWS)
    turn_bytes(const unsigned char *x, unsigned char *y, cuda_lines l,
               int64_t matrices) {
  __shared__ uint32_t tile[BYTES][WORDS];
  int64_t across = (l.count + BYTES - 1) / BYTES;
  int64_t along = (l.n + BYTES - 1) / BYTES;
  int column = (int)threadIdx.x, row = (int)threadIdx.y;
  for (int64_t t = blockIdx.x; t < matrices * across * along; t += gridDim.x) {
    int64_t matrix = t / (across * along),
            from = mrt_matrix_at(l.batch, matrix);
    int64_t line = t / along % across * BYTES, first = t % along * BYTES;
    uint32_t w[SQUARES][4] = {};
    MRT_UNROLL
    for (int s = 0; s < SQUARES; s++) {
      int64_t r = line + column * 4, i = first + (row + s * BYTES_ROWS) * 4;
      if (r >= l.count || i >= l.n) continue;
      MRT_UNROLL
      for (int q = 0; q < 4; q++)
        w[s][q] = *(const uint32_t *)(x + from + (i + q) * l.step + r);
    }
    MRT_UNROLL
    for (int s = 0; s < SQUARES; s++) {
      turn_square(w[s]);
      MRT_UNROLL
      for (int k = 0; k < 4; k++)
        tile[column * 4 + k][(row + s * BYTES_ROWS + column) % WORDS] = w[s][k];
    }
    __syncthreads();
    MRT_UNROLL
    for (int s = 0; s < BYTES / BYTES_ROWS; s++) {
      int j = row + s * BYTES_ROWS;
      int64_t r = line + j, i = first + column * 4;
      if (r < l.count && i < l.n)
        *(uint32_t *)(y + (matrix * l.count + r) * l.n + i) =
            tile[j][(column + j / 4) % WORDS];
    }
    __syncthreads();
  }
}

static bool in_words(const cuda_lines &l, const void *x, const void *y) {
  int64_t all =
      l.count | l.n | l.step | (int64_t)(uintptr_t)x | (int64_t)(uintptr_t)y;
  for (int i = 0; i < l.batch.rank; i++) all |= l.batch.step[i];
  return l.line == 1 && all % 4 == 0;
}

template <typename R>
static bool stays(const mrt_any<R> &x, const mrt_any<R> &y, int via) {
  return x.dtype == y.dtype && (via == x.dtype || via == MRT_DTYPE_COUNT) &&
         mrt_dtypes[x.dtype].bytes == 1;
}

template <typename R>
static void repack(mrt_any<R> x, mrt_any<R> y, cuda_lines l, int via,
                   cudaStream_t queue) {
  constexpr int V = mrt_at_once<mrt_mixed<R>>;
  int64_t matrices = 1;
  for (int i = 0; i < l.batch.rank; i++) matrices *= l.batch.dims[i];
  if (l.batch.rank == 0 && l.step == 1 && l.line == l.n)
    l.n *= l.count, l.count = 1;
  if (l.step <= l.line || l.count == 1) {
    int64_t work = matrices * l.count * ((l.n + V - 1) / V);
    MRT_LAUNCH(mrt_blocks(work, 256), 256, 0, queue, copy_lines<R, V>)
    (x, y, l, via, matrices);
    return;
  }
  if (stays(x, y, via) && in_words(l, x.data, y.data)) {
    int64_t tiles = matrices * ((l.count + BYTES - 1) / BYTES) *
                    ((l.n + BYTES - 1) / BYTES);
    MRT_LAUNCH(mrt_blocks(tiles, 1), dim3(WORDS, BYTES_ROWS), 0, queue,
               turn_bytes)
    ((const unsigned char *)x.data, (unsigned char *)y.data, l, matrices);
    return;
  }
  int64_t tiles =
      matrices * ((l.count + TURN - 1) / TURN) * ((l.n + TURN - 1) / TURN);
  MRT_LAUNCH(mrt_blocks(tiles, 1), dim3(TURN_PACKS, TURN_ROWS), 0, queue,
             turn_lines<R>)
  (x, y, l, via, matrices);
}

} // namespace

extern "C" void mrt_cuda_repack(const mrt_cuda_matrix *x,
                                const mrt_cuda_batch *batch, int64_t rows,
                                int64_t cols, const mrt_cuda_pack *pack,
                                void *to, cudaStream_t queue) {
  bool turned = pack->turned;
  cuda_lines l = { *batch, turned ? cols : rows, turned ? rows : cols,
                   turned ? x->col : x->row, turned ? x->row : x->col };
  if (x->dtype == MRT_f64)
    repack<double>({ x->data, x->dtype }, { to, pack->dtype }, l, pack->via,
                   queue);
  else
    repack<float>({ x->data, x->dtype }, { to, pack->dtype }, l, pack->via,
                  queue);
}
