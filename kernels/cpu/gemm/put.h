/* put.h -- where a tile of sums goes
 *
 * Tiles inside c go by vectors, if a row or a column of c is contiguous; the
 * others value by value.  An element is what earlier blocks of k left there,
 * plus the sum, plus the bias, whichever way it goes.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_PUT_H
#define MRT_GEMM_PUT_H

#include "gemm/pack.h"

#if MRT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { ROWS = 8, VECS = 3 };
#elif MRT_VECTOR_BYTES == 32
enum { ROWS = 6, VECS = 2 };
#else
enum { ROWS = 4, VECS = 2 };
#endif
/* The tile for what is left of the rows: with fewer than 8 sums under way its
 * multiply-adds would wait for one another. */
enum { HALF = ROWS > 4 ? 4 : ROWS / 2, COLS = VECS * LANES };

/* Where a tile goes and what is added to it there. */
typedef struct tile_place {
  real *c;
  int64_t row, col; /* strides of c */
  int m, n;         /* how much of the tile is inside c */
  bool add;         /* to what earlier blocks of k left there */
  const real *bias; /* or NULL; after the last block of k */
  int64_t bias_row, bias_col;
} tile_place;

/* One for each column, or for each row of a product that was turned. */
static inline __attribute__((always_inline)) void
add_bias(int rows, int vecs, vec sum[ROWS][VECS], const tile_place *at) {
  if (at->bias_row == 0)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) {
      vec bias = vec_load(at->bias + j * LANES);
#pragma GCC unroll 8
      for (int i = 0; i < rows; i++) sum[i][j] += bias;
    }
  else
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      vec bias = vec_all(at->bias[i * at->bias_row]);
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++) sum[i][j] += bias;
    }
}

/* A tile all of which is inside c, whose rows are contiguous. */
static inline __attribute__((always_inline)) void
put_whole(int rows, int vecs, vec sum[ROWS][VECS], const tile_place *at) {
  real *c = at->c;
  int64_t row = at->row;
  if (at->add)
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++)
        sum[i][j] = vec_load(c + i * row + j * LANES) + sum[i][j];
  if (at->bias) add_bias(rows, vecs, sum, at);
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++)
      vec_store(c + i * row + j * LANES, sum[i][j]);
}

/* The part of a tile inside c, value by value. */
static void put_values(const real *tile, const tile_place *at) {
  for (int i = 0; i < at->m; i++)
    for (int j = 0; j < at->n; j++) {
      real *c = at->c + i * at->row + j * at->col, x = tile[i * COLS + j];
      if (at->add) x = *c + x;
      if (at->bias) x += at->bias[i * at->bias_row + j * at->bias_col];
      *c = x;
    }
}

static inline __attribute__((always_inline)) void
put_column(int m, const real *sums, real *c, bool add, const real *bias) {
  for (int i = 0; i < m; i++) {
    real x = sums[i];
    if (add) x = c[i] + x;
    if (bias) x += bias[i];
    c[i] = x;
  }
}

/* Column j of rows [i, ROWS) of a tile is at `sums`. */
static inline __attribute__((always_inline)) void
put_at(int m, const real *sums, int i, int j, const tile_place *at) {
  put_column(m, sums, at->c + i + j * at->col, at->add,
             at->bias ? at->bias + i : NULL);
}

/* So many columns' rows fill a vector. */
enum { BESIDE = (int)LANES / (int)ROWS };

/* Whole rows of BESIDE vectors of columns are turned at once. */
static inline __attribute__((always_inline)) void
put_beside(const real *tile, int j, const tile_place *at) {
  vec v[LANES];
#pragma GCC unroll 16
  for (int r = 0; r < LANES; r++)
    v[r] = vec_load(tile + r % ROWS * COLS + j + r / ROWS * LANES);
  transpose(v);
#pragma GCC unroll 16
  for (int q = 0; q < LANES; q++) {
    real lane[LANES];
    vec_store(lane, v[q]);
    for (int b = 0; b < BESIDE; b++)
      put_at(ROWS, lane + b * ROWS, 0, j + b * LANES + q, at);
  }
}

/* The part of a tile inside c, whose columns are contiguous. */
static void put_columns(const real *tile, const tile_place *at) {
  enum { WHOLE = (int)ROWS < (int)LANES ? (int)ROWS : (int)LANES };
  int done = 0;
  if (BESIDE > 1 && at->m == ROWS)
    for (; done + BESIDE * LANES <= at->n; done += BESIDE * LANES)
      put_beside(tile, done, at);
  for (int i = 0; i < at->m; i += LANES)
    for (int j = done; j < at->n; j += LANES) {
      int m = at->m - i < LANES ? at->m - i : LANES;
      int n = at->n - j < LANES ? at->n - j : LANES;
      vec v[LANES];
      for (int r = 0; r < LANES; r++)
        v[r] = vec_load(tile + (r < m ? i + r : i) * COLS + j);
      transpose(v);
      for (int q = 0; q < n; q++) {
        real lane[LANES];
        vec_store(lane, v[q]);
        if (m == WHOLE)
          put_at(WHOLE, lane, i, j + q, at);
        else
          put_at(m, lane, i, j + q, at);
      }
    }
}

static inline __attribute__((always_inline)) void
put_other(int rows, int vecs, vec sum[ROWS][VECS], const tile_place *at) {
  real tile[ROWS * COLS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++)
      vec_store(tile + i * COLS + j * LANES, sum[i][j]);
  bool along_m = at->bias_row == 1 && at->bias_col == 0;
  if (at->row == 1 && (!at->bias || along_m))
    put_columns(tile, at);
  else
    put_values(tile, at);
}

static inline __attribute__((always_inline)) void
put(int rows, int vecs, vec sum[ROWS][VECS], const tile_place *at) {
  if (at->m < rows || at->n < vecs * LANES || at->col != 1 ||
      (at->bias && at->bias_row && at->bias_col))
    put_other(rows, vecs, sum, at);
  else
    put_whole(rows, vecs, sum, at);
}

#endif
