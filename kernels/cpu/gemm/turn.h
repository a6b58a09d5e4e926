/* turn.h -- a tile of sums, rounded, goes to c
 *
 * Where columns are contiguous, rows of two-byte numbers are turned 8 by 8.
 *
 * Only products of narrow floats include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_TURN_H
#define MRT_GEMM_TURN_H

#include "floats.h"
#include "gemm/gemm.h"
#include "gemm/put.h"

typedef uint16_t halves __attribute__((vector_size(16)));
typedef halves any_halves __attribute__((aligned(2), may_alias));

/* Eight rows of eight become columns: the halves of the list of rows are
 * interleaved three times. */
static inline __attribute__((always_inline)) void turn_8(halves v[8]) {
#pragma GCC unroll 3
  for (int round = 0; round < 3; round++) {
    halves w[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      w[2 * i] = ZIP(v[i], v[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      w[2 * i + 1] = ZIP(v[i], v[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) v[i] = w[i];
  }
}

/* `m` of at most 8 rows of n values, COLS apart, to columns of c. */
static inline __attribute__((always_inline)) void
turn_rows(const uint16_t *rows, int m, int n, uint16_t *c, int64_t column) {
  for (int j = 0; j < n; j += 8) {
    halves v[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
      v[i] = *(const any_halves *)(rows + (i < m ? i : 0) * COLS + j);
    turn_8(v);
    int count = n - j < 8 ? n - j : 8;
    for (int q = 0; q < count; q++)
      memcpy(c + (j + q) * column, &v[q], (size_t)m * sizeof *c);
  }
}

/* m rows of n sums, `row` apart, in `dtype`, of two bytes, at c, whose columns
 * are `column` apart. */
static void turn_tile(mrt_dtype dtype, const real *sums, int64_t row, int m,
                      int n, uint16_t *c, int64_t column) {
  uint16_t rounded[ROWS * COLS + 8]; /* eight are read from any that is there */
  if (n < COLS) memset(rounded, 0, sizeof rounded);
  for (int i = 0; i < m; i += ROWS) {
    int rows = m - i < ROWS ? m - i : ROWS;
    mrt_round_rows(dtype, sums + i * row, row, rounded, COLS, rows, n);
    if (rows == ROWS)
      turn_rows(rounded, ROWS, n, c + i, column);
    else
      turn_rows(rounded, rows, n, c + i, column);
  }
}

/* Round a tile of sums into c at row i, column j. */
static void round_tile(const mrt_gemm *g, const tile_place *at, int64_t i,
                       int64_t j) {
  if (g->col == 1) {
    mrt_round_rows(g->dtype, at->c, at->row, mrt_gemm_to(g, i, j), g->row,
                   at->m, at->n);
    return;
  }
  if (g->row == 1 && mrt_dtypes[g->dtype].bytes == sizeof(uint16_t)) {
    turn_tile(g->dtype, at->c, at->row, at->m, at->n, mrt_gemm_to(g, i, j),
              g->col);
    return;
  }
  for (int q = 0; q < at->n; q++)
    mrt_round_rows(g->dtype, at->c + q, at->row, mrt_gemm_to(g, i, j + q),
                   g->row, at->m, 1);
}

#endif
