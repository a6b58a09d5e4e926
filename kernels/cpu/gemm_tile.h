/* gemm_tile.h -- a tile of c in registers
 *
 * ROWS x VECS vectors of c are kept in registers while k runs: each step loads
 * VECS vectors of b and multiplies them by ROWS single values of a.  24 of 32
 * registers (AVX-512, 64-bit Arm), 12 or 8 of 16 elsewhere.
 *
 * Only products of matrices include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_TILE_H
#define MRT_GEMM_TILE_H

#include "cpu.h"

#if MRT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { ROWS = 8, VECS = 3 };
#elif MRT_VECTOR_BYTES == 32
enum { ROWS = 4, VECS = 3 };
#else
enum { ROWS = 4, VECS = 2 };
#endif
enum { COLS = VECS * LANES };

/* Where a tile goes and what is added to it there. */
typedef struct place {
  real *c;
  int64_t row, col; /* strides of c */
  int m, n;         /* how much of the tile is inside c */
  bool add;         /* to what earlier blocks of k left there */
  const real *bias; /* or NULL; after the last block of k */
  int64_t bias_row, bias_col;
} place;

/* A tile all of which is inside c, whose rows are contiguous. */
static inline __attribute__((always_inline)) void
put_whole(int rows, int vecs, vec sum[ROWS][VECS], const place *at) {
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) {
      real *c = at->c + i * at->row + j * LANES;
      vec x = sum[i][j];
      if (at->add) x = vec_load(c) + x;
      if (at->bias) x += vec_load(at->bias + j * LANES);
      vec_store(c, x);
    }
}

/* The part of a tile inside c, value by value. */
static void put_values(const real *tile, const place *at) {
  for (int i = 0; i < at->m; i++)
    for (int j = 0; j < at->n; j++) {
      real *c = at->c + i * at->row + j * at->col, x = tile[i * COLS + j];
      if (at->add) x = *c + x;
      if (at->bias) x += at->bias[i * at->bias_row + j * at->bias_col];
      *c = x;
    }
}

static inline __attribute__((always_inline)) void
put_edge(int rows, int vecs, vec sum[ROWS][VECS], const place *at) {
  real tile[ROWS * COLS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++)
      vec_store(tile + i * COLS + j * LANES, sum[i][j]);
  put_values(tile, at);
}

static inline __attribute__((always_inline)) void
put(int rows, int vecs, vec sum[ROWS][VECS], const place *at) {
  if (at->m < rows || at->n < vecs * LANES || at->col != 1 ||
      (at->bias && at->bias_row))
    put_edge(rows, vecs, sum, at);
  else
    put_whole(rows, vecs, sum, at);
}

/* Rows of a: x(i, p) = data[i * across + p * along]. */
typedef struct strip {
  const real *data;
  int64_t across, along;
} strip;

/* rows and vecs are constants at every call, so that `sum` is registers. */
static inline __attribute__((always_inline)) void
tile(int rows, int vecs, int64_t k, strip a, const real *b, const place *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  const real *x = a.data;
  for (int64_t p = 0; p < k; p++, x += a.along, b += vecs * LANES) {
    vec y[VECS];
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) y[j] = vec_load(b + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      vec xi = vec_all(x[i * a.across]);
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++) sum[i][j] += xi * y[j];
    }
  }
  put(rows, vecs, sum, at);
}

static inline __attribute__((always_inline)) void
tile_by_width(int rows, int vecs, int64_t k, strip a, const real *b,
              const place *at) {
  if (vecs == VECS)
    tile(rows, VECS, k, a, b, at);
  else if (vecs == 2)
    tile(rows, 2, k, a, b, at);
  else
    tile(rows, 1, k, a, b, at);
}

#endif
