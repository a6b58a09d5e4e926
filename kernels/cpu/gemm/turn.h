/* turn.h -- a tile of sums, rounded to two bytes, goes where columns are
 * contiguous
 *
 * Rows of the tile are rounded, and turned 8 by 8.
 *
 * Only gemm/mixed.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_TURN_H
#define MRT_GEMM_TURN_H

#include "floats.h"
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
                      int n, void *c, int64_t column) {
  uint16_t rounded[ROWS * COLS];
  if (n < COLS) memset(rounded, 0, sizeof rounded);
  mrt_round_rows(dtype, sums, row, rounded, COLS, m, n);
  if (m == ROWS)
    turn_rows(rounded, ROWS, n, c, column);
  else
    turn_rows(rounded, m, n, c, column);
}

#endif
