/* gemm_tile.h -- a tile of c in registers
 *
 * ROWS x VECS vectors of c are kept in registers while k runs: each step loads
 * VECS vectors of b and multiplies them by ROWS single values of a.  24 of 32
 * registers (AVX-512, 64-bit Arm), 12 or 8 of 16 elsewhere.
 *
 * Only gemm.c includes this.
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

/* The part of a tile inside c, value by value. */
static void put_edge(const real *tile, int width, const place *at) {
  for (int i = 0; i < at->m; i++)
    for (int j = 0; j < at->n; j++) {
      real *c = at->c + i * at->row + j * at->col, x = tile[i * width + j];
      if (at->add) x = *c + x;
      if (at->bias) x += at->bias[i * at->bias_row + j * at->bias_col];
      *c = x;
    }
}

/* rows and vecs are constants at every call, so that `sum` is registers. */
static inline __attribute__((always_inline)) void tile(int rows, int vecs,
                                                       int64_t k, const real *a,
                                                       const real *b,
                                                       const place *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  for (int64_t p = 0; p < k; p++, a += ROWS, b += vecs * LANES) {
    vec y[VECS];
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) y[j] = vec_load(b + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      vec x = vec_all(a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++) sum[i][j] += x * y[j];
    }
  }
  if (at->m < rows || at->n < vecs * LANES || at->col != 1 ||
      (at->bias && at->bias_row)) {
    real edge[ROWS * COLS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++)
        vec_store(edge + i * COLS + j * LANES, sum[i][j]);
    put_edge(edge, COLS, at);
    return;
  }
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

/* The narrowest tile that covers at->m rows and `vecs` vectors. */
static void run_tile(int vecs, int64_t k, const real *a, const real *b,
                     const place *at) {
  switch (vecs * 4 + (at->m > ROWS / 2 ? 2 : at->m > 1)) {
  case 4:
    tile(1, 1, k, a, b, at);
    break;
  case 5:
    tile(ROWS / 2, 1, k, a, b, at);
    break;
  case 6:
    tile(ROWS, 1, k, a, b, at);
    break;
  case 8:
    tile(1, 2, k, a, b, at);
    break;
  case 9:
    tile(ROWS / 2, 2, k, a, b, at);
    break;
  case 10:
    tile(ROWS, 2, k, a, b, at);
    break;
#if MRT_VECTOR_BYTES > 16 || defined(__aarch64__)
  case 12:
    tile(1, 3, k, a, b, at);
    break;
  case 13:
    tile(ROWS / 2, 3, k, a, b, at);
    break;
  case 14:
    tile(ROWS, 3, k, a, b, at);
    break;
#endif
  default:
    break;
  }
}

#endif
