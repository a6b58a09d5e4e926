/* attention_tile.cuh -- products of tiles, by a block of 256 threads
 *
 * Weights w[i][j] belong to rows i of one operand and rows j of another; thread
 * (x, y) of 16 by 16 has rows y + 16 a and columns x + 16 b of them, and the
 * same rows and more columns of what they are multiplied with.  Widths go by
 * chunks, so that any fits; results wider than WIDE are computed by several
 * blocks, each with scores of its own.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_TILE_CUH
#define MRT_CUDA_ATTENTION_TILE_CUH

#include "attention.cuh"

enum { TILE_THREADS = 256, TILE_DEPTH = 32 };

template <typename R> struct mrt_square {
  enum {
    SIDE = sizeof(R) == 8 ? 2 : 4,
    TILE = 16 * SIDE,
    COLUMNS = 2 * SIDE,
    WIDE = 16 * COLUMNS
  };
  struct memory {
    R room[2 * TILE * (TILE_DEPTH + 1)];
    R weights[TILE][TILE + 1];
  };
};

MRT_DEVICE int mrt_tile_x(void) { return (int)threadIdx.x % 16; }
MRT_DEVICE int mrt_tile_y(void) { return (int)threadIdx.x / 16; }

/* room[i][k] = x[row + i][column + k] of the head at `head`, zeros around.  A
 * thread has a column of it, some rows at a time: places of more would be kept
 * in registers that the sums need. */
template <int ROWS, int WIDTH, int STEP, typename X>
MRT_DEVICE void mrt_tile_load(const X &x, int64_t head, int64_t row,
                              int64_t column,
                              mrt_real<typename X::element> *room) {
  typedef mrt_real<typename X::element> R;
  constexpr int AT_ONCE = TILE_THREADS / WIDTH;
  int k = (int)threadIdx.x % WIDTH, first = (int)threadIdx.x / WIDTH;
  int64_t along = (column + k) * x.strides[3];
  int64_t rows = column + k < x.width ? x.rows - row : 0;
  MRT_UNROLL_BY(X::ROWS_AT_ONCE)
  for (int i = first; i < ROWS; i += AT_ONCE) {
    R value = 0;
    if (i < rows) value = mrt_get<R>(x.x, mrt_row_at(x, head, row + i) + along);
    room[i * STEP + k] = value;
  }
}

/* s[a][b] = row y + 16 a of x times row x + 16 b of y, from rows i and j on. */
template <typename T, typename Y>
MRT_DEVICE void
mrt_tile_scores(const mrt_heads<T> &x, int64_t x_head, int64_t i, const Y &y,
                int64_t y_head, int64_t j,
                typename mrt_square<mrt_real<T>>::memory *m,
                mrt_real<T> s[][mrt_square<mrt_real<T>>::SIDE]) {
  typedef mrt_real<T> R;
  constexpr int SIDE = mrt_square<R>::SIDE, TILE = mrt_square<R>::TILE;
  constexpr int STEP = TILE_DEPTH + 1;
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) MRT_UNROLL
  for (int b = 0; b < SIDE; b++) s[a][b] = 0;
  R *left = m->room, *right = m->room + TILE * STEP;
  for (int64_t k = 0; k < x.width; k += TILE_DEPTH) {
    __syncthreads();
    mrt_tile_load<TILE, TILE_DEPTH, STEP>(x, x_head, i, k, left);
    mrt_tile_load<TILE, TILE_DEPTH, STEP>(y, y_head, j, k, right);
    __syncthreads();
    MRT_UNROLL
    for (int d = 0; d < TILE_DEPTH; d++) {
      R u[SIDE], v[SIDE];
      MRT_UNROLL
      for (int a = 0; a < SIDE; a++) {
        u[a] = left[(mrt_tile_y() + 16 * a) * STEP + d];
        v[a] = right[(mrt_tile_x() + 16 * a) * STEP + d];
      }
      MRT_UNROLL
      for (int a = 0; a < SIDE; a++) MRT_UNROLL
      for (int b = 0; b < SIDE; b++) s[a][b] += u[a] * v[b];
    }
  }
}

/* f(row, column, &score) of each of the thread's scores, in a loop through shared
 * memory: what f is then is there once, not once for each.  *slope: what it
 * returns. */
template <typename R, typename F>
MRT_DEVICE void mrt_tile_each(R s[][mrt_square<R>::SIDE],
                              R slope[][mrt_square<R>::SIDE],
                              typename mrt_square<R>::memory *m, F f) {
  constexpr int SIDE = mrt_square<R>::SIDE;
  int x = mrt_tile_x(), y = mrt_tile_y();
  R *slopes = m->room + threadIdx.x;
  __syncthreads(); /* what lies there has been read */
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) MRT_UNROLL
  for (int b = 0; b < SIDE; b++) m->weights[y + 16 * a][x + 16 * b] = s[a][b];
  MRT_UNROLL_BY(1)
  for (int i = 0; i < SIDE * SIDE; i++) {
    int row = y + i / SIDE * 16, column = x + i % SIDE * 16;
    slopes[i * TILE_THREADS] = f(row, column, &m->weights[row][column]);
  }
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) MRT_UNROLL
  for (int b = 0; b < SIDE; b++) {
    s[a][b] = m->weights[y + 16 * a][x + 16 * b];
    slope[a][b] = slopes[(a * SIDE + b) * TILE_THREADS];
  }
}

/* The thread's weights, to where the block multiplies with them. */
template <typename R>
MRT_DEVICE void mrt_tile_give(const R w[][mrt_square<R>::SIDE], bool rounds,
                              typename mrt_square<R>::memory *m) {
  constexpr int SIDE = mrt_square<R>::SIDE;
  __syncthreads(); /* the last ones have been read */
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) MRT_UNROLL
  for (int b = 0; b < SIDE; b++) {
    mrt_bf16 narrow;
    mrt_round(w[a][b], &narrow);
    m->weights[mrt_tile_y() + 16 * a][mrt_tile_x() + 16 * b] =
        rounds ? (R)mrt_widen(narrow) : w[a][b];
  }
}

/* sum += weights times x, rows from j and columns from `column` on. */
template <typename X, typename R>
MRT_DEVICE void mrt_tile_add(const X &x, int64_t head, int64_t j,
                             int64_t column, typename mrt_square<R>::memory *m,
                             R sum[][mrt_square<R>::COLUMNS]) {
  constexpr int SIDE = mrt_square<R>::SIDE, COLUMNS = mrt_square<R>::COLUMNS;
  constexpr int TILE = mrt_square<R>::TILE, WIDE = mrt_square<R>::WIDE;
  for (int k = 0; k < TILE; k += TILE_DEPTH) {
    __syncthreads();
    mrt_tile_load<TILE_DEPTH, WIDE, WIDE>(x, head, j + k, column, m->room);
    __syncthreads();
    MRT_UNROLL
    for (int d = 0; d < TILE_DEPTH; d++) {
      R u[SIDE], v[COLUMNS];
      MRT_UNROLL
      for (int a = 0; a < SIDE; a++)
        u[a] = m->weights[mrt_tile_y() + 16 * a][k + d];
      MRT_UNROLL
      for (int b = 0; b < COLUMNS; b++)
        v[b] = m->room[d * WIDE + mrt_tile_x() + 16 * b];
      MRT_UNROLL
      for (int a = 0; a < SIDE; a++) MRT_UNROLL
      for (int b = 0; b < COLUMNS; b++) sum[a][b] += u[a] * v[b];
    }
  }
}

/* Rows from i and columns from `column` on of an output. */
template <typename T>
MRT_DEVICE void
mrt_tile_put(const mrt_heads<T> &y, int64_t b, int64_t h, int64_t i,
             int64_t column,
             const mrt_real<T> sum[][mrt_square<mrt_real<T>>::COLUMNS]) {
  typedef mrt_real<T> R;
  constexpr int SIDE = mrt_square<R>::SIDE, COLUMNS = mrt_square<R>::COLUMNS;
  MRT_UNROLL
  for (int a = 0; a < SIDE; a++) {
    int64_t row = i + mrt_tile_y() + 16 * a;
    MRT_UNROLL
    for (int c = 0; c < COLUMNS; c++) {
      int64_t at = column + mrt_tile_x() + 16 * c;
      if (row < y.rows && at < y.width)
        mrt_put(y.x, mrt_row_of(y, b, row, h) + at, sum[a][c]);
    }
  }
}

/* Over the 16 threads that share rows. */
template <typename Op, typename R> MRT_DEVICE R mrt_tile_reduce(R v) {
  MRT_UNROLL
  for (int by = 8; by; by /= 2)
    v = Op::of(v, __shfl_xor_sync(0xffffffff, v, by));
  return v;
}

#endif
