/* tiles.h -- products and transposes of tiles that fit the first-level cache
 *
 * Tiles are padded: rows to TILE_ROWS and columns to LANES, so that no loop
 * here has an edge.  The left factor is read one element at a time and may
 * have any strides, which gives products with its transpose for nothing; the
 * right factor and the result have contiguous rows.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TILES_H
#define MRT_TILES_H

#include "cpu.h"

enum {
  TILE_ROWS = 8,
  BLOCK_VECS = MRT_VECTOR_BYTES == 64   ? 4
               : MRT_VECTOR_BYTES == 32 ? 3
                                        : 2,
  /* Narrow blocks are taller: with fewer than 8 sums under way the
   * multiply-adds would wait for one another. */
  ROWS_OF_2 = MRT_VECTOR_BYTES == 64 ? 8 : 4,
  ROWS_OF_1 = 8
};

static inline int64_t padded(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

static inline vec vec_fma(vec a, vec b, vec c) {
  vec y;
  for (int i = 0; i < LANES; i++) y[i] = fma_(a[i], b[i], c[i]);
  return y;
}

/* A matrix: element (i, j) at p[i * row + j * col]. */
typedef struct matrix {
  real *p;
  int64_t row, col;
} matrix;

static inline matrix matrix_at(matrix a, int64_t i, int64_t j) {
  return (matrix){ a.p + i * a.row + j * a.col, a.row, a.col };
}
static inline matrix matrix_transposed(matrix a) {
  return (matrix){ a.p, a.col, a.row };
}

/* `rows` x `vecs` registers of c = a b, or c + a b; both are constants where
 * this is inlined, so that the sums live in registers. */
static inline __attribute__((always_inline)) void
tile_block(int rows, int vecs, int64_t k, matrix a, matrix b, matrix c,
           bool add) {
  vec sum[8][4], right[4];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      sum[i][j] = add ? vec_load(c.p + i * c.row + j * LANES) : vec_all(0);
#pragma GCC unroll 4
  for (int64_t l = 0; l < k; l++) {
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      right[j] = vec_load(b.p + l * b.row + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      vec left = vec_all(a.p[i * a.row + l * a.col]);
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++)
        sum[i][j] = vec_fma(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      vec_store(c.p + i * c.row + j * LANES, sum[i][j]);
}

/* All rows of a panel of `vecs` registers, a constant as above. */
static inline __attribute__((always_inline)) void
tile_panel(int rows, int vecs, int64_t m, int64_t k, matrix a, matrix b,
           matrix c, bool add) {
  for (int64_t i = 0; i < m; i += rows)
    tile_block(rows, vecs, k, matrix_at(a, i, 0), b, matrix_at(c, i, 0), add);
}

/* c[m][n] = a[m][k] b[k][n], added to c if `add`; m is a multiple of TILE_ROWS
 * and n of LANES. */
static inline void tile_multiply(int64_t m, int64_t n, int64_t k, matrix a,
                                 matrix b, matrix c, bool add) {
  while (n > 0) {
    int64_t vecs = n / LANES < BLOCK_VECS ? n / LANES : BLOCK_VECS;
    if (BLOCK_VECS >= 4 && vecs == 4) tile_panel(4, 4, m, k, a, b, c, add);
    if (BLOCK_VECS >= 3 && vecs == 3) tile_panel(4, 3, m, k, a, b, c, add);
    if (vecs == 2) tile_panel(ROWS_OF_2, 2, m, k, a, b, c, add);
    if (vecs == 1) tile_panel(ROWS_OF_1, 1, m, k, a, b, c, add);
    n -= vecs * LANES, b.p += vecs * LANES, c.p += vecs * LANES;
  }
}

/* ---- transposing --------------------------------------------------------- */

/* Lanes of the lower (upper) halves of a and b, taken in turn. */
#ifdef MRT_F64
#define TILE_LANES (MRT_VECTOR_BYTES / 8)
#else
#define TILE_LANES (MRT_VECTOR_BYTES / 4)
#endif
#define ZIP(...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if TILE_LANES == 2
static inline vec zip_low(vec a, vec b) { return ZIP(0, 2); }
static inline vec zip_high(vec a, vec b) { return ZIP(1, 3); }
#elif TILE_LANES == 4
static inline vec zip_low(vec a, vec b) { return ZIP(0, 4, 1, 5); }
static inline vec zip_high(vec a, vec b) { return ZIP(2, 6, 3, 7); }
#elif TILE_LANES == 8
static inline vec zip_low(vec a, vec b) {
  return ZIP(0, 8, 1, 9, 2, 10, 3, 11);
}
static inline vec zip_high(vec a, vec b) {
  return ZIP(4, 12, 5, 13, 6, 14, 7, 15);
}
#else
static inline vec zip_low(vec a, vec b) {
  return ZIP(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
static inline vec zip_high(vec a, vec b) {
  return ZIP(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#endif
#undef ZIP
#undef TILE_LANES

/* Transpose a block of LANES x LANES: zipping row i with row i + LANES / 2 moves
 * one bit of the row number into the lane number each round. */
static inline __attribute__((always_inline)) void tile_turn_block(vec *r) {
  vec t[LANES];
#pragma GCC unroll 4
  for (int bit = 1; bit < LANES; bit *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
      t[2 * i] = zip_low(r[i], r[i + LANES / 2]);
      t[2 * i + 1] = zip_high(r[i], r[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) r[i] = t[i];
  }
}

/* y = scale x' for one block.  Bits that are no reals must not be scaled, a
 * constant where this is inlined. */
static inline __attribute__((always_inline)) void
tile_transpose_block(bool scaled, real scale, const real *x, int64_t x_row,
                     real *y, int64_t y_row) {
  vec r[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    r[i] = vec_load(x + i * x_row);
    if (scaled) r[i] *= scale;
  }
  tile_turn_block(r);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) vec_store(y + i * y_row, r[i]);
}

static inline __attribute__((always_inline)) void
tile_transpose_by(bool scaled, int64_t m, int64_t n, real scale, matrix x,
                  matrix y) {
  for (int64_t i = 0; i < m; i += LANES)
    for (int64_t j = 0; j < n; j += LANES)
      tile_transpose_block(scaled, scale, x.p + i * x.row + j, x.row,
                           y.p + j * y.row + i, y.row);
}

/* y[n][m] = scale x[m][n]'; m and n are multiples of LANES. */
static inline void tile_transpose(int64_t m, int64_t n, real scale, matrix x,
                                  matrix y) {
  tile_transpose_by(true, m, n, scale, x, y);
}
/* The same of whatever bits are there. */
static inline void tile_turn(int64_t m, int64_t n, matrix x, matrix y) {
  tile_transpose_by(false, m, n, 1, x, y);
}

#endif
