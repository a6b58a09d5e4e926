/* tile_amx.h -- the products of tile_dots.h in tile registers
 *
 * Pairs lie there as registers want them, but for a left factor that is read by
 * columns: that is turned first.  What is not whole registers of rows or of k goes
 * by dot products, added last.  An element is the same function of its row and
 * column for the same m, n and k.
 *
 * Who calls this has asked for tile registers and begun with tile_amx_begin.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TILE_AMX_H
#define MRT_TILE_AMX_H

#include "tile_dots.h"

/* Rows of a register: fewer go by dot products. */
enum { TILE_AMX_ROWS = 16 };

#if TILE_DOTS
#include "gemm/amx.h"

#define AMX_TILES 1

static inline WITH_AMX void tile_amx_begin(void) { amx_begin(); }
static inline WITH_AMX void tile_amx_end(void) { amx_end(); }

/* Two registers of rows, or one, and of columns. */
static inline __attribute__((always_inline)) WITH_AMX void
amx_block(bool rows, bool columns, int64_t k, matrix a, matrix b, matrix c,
          bool add) {
  int64_t left = a.row * 4, right = b.row * 4, sums = c.row * 4;
  real *second = c.p + AMX_TILE * c.row;
  if (add) {
    amx_load(0, c.p, sums);
    if (columns) amx_load(1, c.p + AMX_TILE, sums);
    if (rows) amx_load(2, second, sums);
    if (rows && columns) amx_load(3, second + AMX_TILE, sums);
  } else {
    amx_zero(0);
    amx_zero(1);
    amx_zero(2);
    amx_zero(3);
  }
  for (int64_t l = 0; l < k; l += AMX_TILE) {
    amx_load(4, a.p + l, left);
    amx_load(6, b.p + l * b.row, right);
    amx_multiply(0, 4, 6);
    if (rows) {
      amx_load(5, a.p + AMX_TILE * a.row + l, left);
      amx_multiply(2, 5, 6);
    }
    if (columns) {
      amx_load(7, b.p + l * b.row + AMX_TILE, right);
      amx_multiply(1, 4, 7);
    }
    if (rows && columns) amx_multiply(3, 5, 7);
  }
  amx_store(0, c.p, sums);
  if (columns) amx_store(1, c.p + AMX_TILE, sums);
  if (rows) amx_store(2, second, sums);
  if (rows && columns) amx_store(3, second + AMX_TILE, sums);
}

/* m, n and k in whole registers. */
static WITH_AMX void amx_blocks(int64_t m, int64_t n, int64_t k, matrix a,
                                matrix b, matrix c, bool add) {
  enum { TWO = 2 * AMX_TILE };
  for (int64_t i = 0; i < m; i += TWO)
    for (int64_t j = 0; j < n; j += TWO) {
      matrix x = matrix_at(a, i, 0), y = matrix_at(b, 0, j);
      matrix z = matrix_at(c, i, j);
      if (m - i > AMX_TILE && n - j > AMX_TILE)
        amx_block(true, true, k, x, y, z, add);
      else if (m - i > AMX_TILE)
        amx_block(true, false, k, x, y, z, add);
      else if (n - j > AMX_TILE)
        amx_block(false, true, k, x, y, z, add);
      else
        amx_block(false, false, k, x, y, z, add);
    }
}

/* As dots_multiply, of at most `AMX_SIDE` rows where a is read by columns. */
enum { AMX_SIDE = 64, AMX_UNITS = 32 };
static void tile_amx_multiply(int64_t m, int64_t n, int64_t k, matrix a,
                              matrix b, matrix c, bool add) {
  int64_t rows = m / AMX_TILE * AMX_TILE, whole = k / AMX_TILE * AMX_TILE;
  bool turns = a.col != 1;
  if (turns && (m > AMX_SIDE || k > AMX_UNITS)) rows = 0;
  if (rows && (whole || k == 0)) { /* empty sums are 0 */
    _Alignas(64) real room[AMX_SIDE * AMX_UNITS];
    matrix left = a;
    if (turns) {
      left = (matrix){ room, AMX_UNITS, 1 };
      tile_turn(whole, rows, matrix_transposed(a), left);
    }
    amx_blocks(rows, n, whole, left, b, c, add);
  }
  if (rows && whole < k)
    dots_multiply(rows, n, k - whole, matrix_at(a, 0, whole),
                  matrix_at(b, whole, 0), c, add || whole);
  if (rows < m)
    dots_multiply(m - rows, n, k, matrix_at(a, rows, 0), b,
                  matrix_at(c, rows, 0), add);
}
#else
static inline void tile_amx_begin(void) {}
static inline void tile_amx_end(void) {}
static inline void tile_amx_multiply(int64_t m, int64_t n, int64_t k, matrix a,
                                     matrix b, matrix c, bool add) {}
#endif

#endif
