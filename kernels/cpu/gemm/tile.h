/* tile.h -- a tile of c in registers
 *
 * ROWS x VECS vectors of c are kept in registers while k runs: each step loads
 * VECS vectors of b and multiplies them by ROWS single values of a.  24 of 32
 * registers (AVX-512, 64-bit Arm), 12 (6 x 2, AVX2) or 8 of 16 elsewhere.
 *
 * Only products of matrices include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_TILE_H
#define MRT_GEMM_TILE_H

#include "gemm/put.h"

/* Prefetching: a line's values of a row, and how many steps ahead. */
enum {
  LINE = 64 / (int)sizeof(real),
  A_AHEAD = (MRT_VECTOR_BYTES == 64 ? 2 : 4) * LINE,
  B_AHEAD = 16
};

/* Rows of a: x(i, p) = data[i * across + p * along]. */
typedef struct strip {
  const real *data;
  int64_t across, along;
} strip;

/* Columns of b: vectors side by side, steps `along` apart.  Where they are not
 * packed yet, the tile packs them to `keep` as it goes. */
typedef struct columns {
  const real *data;
  int64_t along;
  real *keep;
} columns;

/* Ask for what is read A_AHEAD steps after p: in this strip or the next. */
static inline __attribute__((always_inline)) void
prefetch_rows(int rows, int64_t k, strip a, int64_t p) {
  const real *x = a.data;
  p += A_AHEAD;
  if (a.along == 1 && p >= k) x += rows * a.across, p -= k;
  x += p * a.along;
  int64_t across = a.along == 1 ? a.across : LINE;
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) __builtin_prefetch(x + i * across);
}

/* Ask for what c holds, to be there when the sums are. */
static inline __attribute__((always_inline)) void
prefetch_c(int rows, int vecs, const tile_place *at) {
  if (at->col == 1)
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++)
        __builtin_prefetch(at->c + i * at->row + j * LANES, 1);
  else
    for (int j = 0; j < vecs * LANES; j++)
      __builtin_prefetch(at->c + j * at->col, 1);
}

/* One step of k. */
static inline __attribute__((always_inline)) void
step(int rows, int vecs, bool keeps, const real *x, int64_t across,
     const columns *b, vec sum[ROWS][VECS]) {
  vec y[VECS];
#pragma GCC unroll 8
  for (int j = 0; j < vecs; j++) {
    y[j] = vec_load(b->data + j * LANES);
    if (keeps) {
      vec_store(b->keep + j * LANES, y[j]);
      __builtin_prefetch(b->data + B_AHEAD * b->along + j * LANES);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) {
    vec xi = vec_all(x[i * across]);
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) sum[i][j] += xi * y[j];
  }
}

/* rows, vecs and keeps are constants at every call, so that `sum` is
 * registers. */
static inline __attribute__((always_inline)) void tile(int rows, int vecs,
                                                       bool keeps, int64_t k,
                                                       strip a, columns b,
                                                       const tile_place *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  prefetch_c(rows, vecs, at);
  const real *x = a.data;
  if (!keeps) b.along = vecs * LANES;
  for (int64_t p = 0; p < k;) {
    int64_t end = p + LINE < k ? p + LINE : k;
    prefetch_rows(rows, k, a, p);
    for (; p < end; p++, x += a.along, b.data += b.along) {
      step(rows, vecs, keeps, x, a.across, &b, sum);
      if (keeps) b.keep += vecs * LANES;
    }
  }
  put(rows, vecs, sum, at);
}

static inline __attribute__((always_inline)) void
tile_by_width(int rows, int vecs, bool keeps, int64_t k, strip a, columns b,
              const tile_place *at) {
  if (vecs == VECS)
    tile(rows, VECS, keeps, k, a, b, at);
  else if (vecs == 2)
    tile(rows, 2, keeps, k, a, b, at);
  else
    tile(rows, 1, keeps, k, a, b, at);
}

/* at->m rows of a strip: the lowest tile that covers them. */
static inline __attribute__((always_inline)) void
tile_by_size(int vecs, bool keeps, int64_t k, strip a, columns b,
             const tile_place *at) {
  if (at->m > HALF)
    tile_by_width(ROWS, vecs, keeps, k, a, b, at);
  else if (at->m > 1)
    tile_by_width(HALF, vecs, keeps, k, a, b, at);
  else
    tile_by_width(1, vecs, keeps, k, a, b, at);
}

/* With b packed.  (A strip is passed where it lies: copied by vectors it would
 * wait for all stores of the tile before.) */
static __attribute__((unused)) void run_rows(int vecs, int64_t k,
                                             const strip *a, const real *b,
                                             const tile_place *at) {
  columns y = { .data = b };
  if (a->along == 1)
    tile_by_size(vecs, false, k, (strip){ a->data, a->across, 1 }, y, at);
  else
    tile_by_size(vecs, false, k, (strip){ a->data, 1, ROWS }, y, at);
}

#endif
