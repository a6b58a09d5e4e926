/* amx_pack.h -- operands of a product in tiles, copied into tile registers' order
 *
 * A block is SIDE x SIDE numbers of bf16 and becomes two registers, 1 KiB each.
 * As rows of a: a register is AMX_TILE rows, units of k side by side.  As columns of
 * b: a register is AMX_TILE units of k, columns side by side.  An operand's k or its
 * other dimension may be contiguous, so there are four ways.
 *
 * Blocks at an edge, and numbers that are not bf16 or are to be rounded, are
 * copied first, with zeros around.  Numbers are turned four or eight vectors at a
 * time, in lanes of 16 bytes that were loaded to where they have to be: half the
 * shuffles of turning whole vectors.
 *
 * Only gemm/amx.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_AMX_PACK_H
#define MRT_GEMM_AMX_PACK_H

#include "gemm/amx.h"
#include "gemm/read.h"

#include <immintrin.h>

enum {
  SIDE = 2 * AMX_TILE, /* numbers of a row of a register */
  ROW_UNITS = AMX_TILE,
  TILE_UNITS = AMX_TILE * ROW_UNITS,
  BLOCK_UNITS = 2 * TILE_UNITS
};

#define AMX_INLINE static inline __attribute__((always_inline))

/* Four lanes of 16 bytes, `step` apart in memory. */
AMX_INLINE __m512i lanes_at(const uint16_t *x, int64_t step) {
  const __m128i_u *a = (const void *)x, *b = (const void *)(x + step);
  const __m128i_u *c = (const void *)(x + 2 * step);
  const __m128i_u *d = (const void *)(x + 3 * step);
  __m512i v = _mm512_castsi128_si512(_mm_loadu_si128(a));
  v = _mm512_inserti32x4(v, _mm_loadu_si128(b), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128(c), 2);
  return _mm512_inserti32x4(v, _mm_loadu_si128(d), 3);
}

/* SIDE rows along k: copied. */
AMX_INLINE void rows_of_rows(const uint16_t *x, int64_t row, real *to) {
#pragma GCC unroll 8
  for (int i = 0; i < SIDE; i++)
    _mm512_storeu_si512(to + i * ROW_UNITS, _mm512_loadu_si512(x + i * row));
}

/* SIDE steps of SIDE rows: each lane turns eight steps of eight rows. */
AMX_INLINE void rows_of_steps(const uint16_t *x, int64_t step, real *to) {
  for (int i = 0; i < SIDE; i += 8, x += 8, to += 8 * ROW_UNITS) {
    __m512i v[8], w[8];
#pragma GCC unroll 8
    for (int s = 0; s < 8; s++) v[s] = lanes_at(x + s * step, 8 * step);
#pragma GCC unroll 4
    for (int s = 0; s < 4; s++) {
      w[s] = _mm512_unpacklo_epi16(v[2 * s], v[2 * s + 1]);
      w[s + 4] = _mm512_unpackhi_epi16(v[2 * s], v[2 * s + 1]);
    }
#pragma GCC unroll 4
    for (int s = 0; s < 8; s += 2) {
      v[s] = _mm512_unpacklo_epi32(w[s], w[s + 1]);
      v[s + 1] = _mm512_unpackhi_epi32(w[s], w[s + 1]);
    }
#pragma GCC unroll 4
    for (int s = 0; s < 4; s++) {
      int at = s / 2 * 4 + s % 2;
      __m512i low = _mm512_unpacklo_epi64(v[at], v[at + 2]);
      __m512i high = _mm512_unpackhi_epi64(v[at], v[at + 2]);
      _mm512_storeu_si512(to + 2 * s * ROW_UNITS, low);
      _mm512_storeu_si512(to + (2 * s + 1) * ROW_UNITS, high);
    }
  }
}

/* SIDE steps of SIDE columns: two steps become pairs.  Quarters are put where
 * unpacking within lanes takes them from. */
AMX_INLINE void columns_of_steps(const uint16_t *x, int64_t step, real *to) {
  const __m512i apart = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
#pragma GCC unroll 4
  for (int p = 0; p < AMX_TILE; p++, x += 2 * step) {
    __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + step);
    a = _mm512_permutexvar_epi64(apart, a);
    b = _mm512_permutexvar_epi64(apart, b);
    _mm512_storeu_si512(to + p * ROW_UNITS, _mm512_unpacklo_epi16(a, b));
    _mm512_storeu_si512(to + TILE_UNITS + p * ROW_UNITS,
                        _mm512_unpackhi_epi16(a, b));
  }
}

/* SIDE columns along k: each lane turns four pairs of four columns. */
AMX_INLINE void columns_of_rows(const uint16_t *x, int64_t row, real *to) {
  for (int j = 0; j < SIDE;
       j += AMX_TILE, x += AMX_TILE * row, to += TILE_UNITS)
    for (int p = 0; p < AMX_TILE; p += 4) {
      __m512i v[4], w[4];
#pragma GCC unroll 4
      for (int s = 0; s < 4; s++) v[s] = lanes_at(x + s * row + 2 * p, 4 * row);
      w[0] = _mm512_unpacklo_epi32(v[0], v[1]);
      w[1] = _mm512_unpackhi_epi32(v[0], v[1]);
      w[2] = _mm512_unpacklo_epi32(v[2], v[3]);
      w[3] = _mm512_unpackhi_epi32(v[2], v[3]);
      real *at = to + p * ROW_UNITS;
      _mm512_storeu_si512(at, _mm512_unpacklo_epi64(w[0], w[2]));
      _mm512_storeu_si512(at + ROW_UNITS, _mm512_unpackhi_epi64(w[0], w[2]));
      _mm512_storeu_si512(at + 2 * ROW_UNITS,
                          _mm512_unpacklo_epi64(w[1], w[3]));
      _mm512_storeu_si512(at + 3 * ROW_UNITS,
                          _mm512_unpackhi_epi64(w[1], w[3]));
    }
}

/* A block where it lies, or a copy: from (i, p), `n` of its SIDE rows and `left`
 * of its steps of k. */
typedef struct block_at {
  const uint16_t *data;
  int64_t row;
} block_at;

static block_at copied_block(const reader *r, int64_t i, int64_t n, int64_t p,
                             int64_t left, uint16_t *room) {
  bool steps = r->across == 1 && r->along != 1;
  int64_t rows = steps ? left : n, width = steps ? n : left;
  memset(room, 0, SIDE * SIDE * sizeof *room);
  for (int64_t s = 0; s < rows; s++)
    if (steps)
      read_values(r, room + s * SIDE, i, p + s, 1, width);
    else
      read_values(r, room + s * SIDE, i + s, p, r->along, width);
  return (block_at){ room, SIDE };
}

static inline block_at block_of(const reader *r, int64_t i, int64_t n,
                                int64_t p, int64_t left, uint16_t *room) {
  bool along = r->along == 1, steps = r->across == 1;
  if (r->plain && (along || steps) && n >= SIDE && left >= SIDE)
    return (block_at){ (const uint16_t *)element(r, i, p),
                       along ? r->across : r->along };
  return copied_block(r, i, least(n, SIDE), p, least(left, SIDE), room);
}

/* SIDE rows of k units from step p on, of which n and `left` steps are there. */
static void pack_rows(const reader *r, int64_t i, int64_t n, int64_t p,
                      int64_t k, int64_t left, real *to) {
  _Alignas(64) uint16_t room[SIDE * SIDE];
  bool steps = r->across == 1 && r->along != 1;
  for (int64_t q = 0; q < 2 * k; q += SIDE, to += BLOCK_UNITS) {
    block_at x = block_of(r, i, n, p + q, left - q, room);
    if (steps)
      rows_of_steps(x.data, x.row, to);
    else
      rows_of_rows(x.data, x.row, to);
  }
}

/* The same of a matrix of which a step is side by side, n rows. */
static void pack_wide(const reader *r, int64_t i, int64_t n, int64_t p,
                      int64_t k, int64_t left, real *to) {
  _Alignas(64) uint16_t room[SIDE * SIDE];
  for (int64_t q = 0; q < 2 * k; q += SIDE)
    for (int64_t s = 0; s < n; s += SIDE) {
      block_at x = block_of(r, i + s, n - s, p + q, left - q, room);
      rows_of_steps(x.data, x.row, to + s * k + q / SIDE * BLOCK_UNITS);
    }
}

/* Strips of SIDE columns, each of k units, `n` columns in all. */
static void pack_columns(const reader *r, int64_t j, int64_t n, int64_t p,
                         int64_t k, int64_t left, real *to) {
  _Alignas(64) uint16_t room[SIDE * SIDE];
  bool steps = r->across == 1 && r->along != 1;
  if (steps)
    for (int64_t q = 0; q < 2 * k; q += SIDE)
      for (int64_t s = 0; s < n; s += SIDE) {
        block_at x = block_of(r, j + s, n - s, p + q, left - q, room);
        columns_of_steps(x.data, x.row, to + s * k + q / SIDE * BLOCK_UNITS);
      }
  else
    for (int64_t s = 0; s < n; s += SIDE)
      for (int64_t q = 0; q < 2 * k; q += SIDE) {
        block_at x = block_of(r, j + s, n - s, p + q, left - q, room);
        columns_of_rows(x.data, x.row, to + s * k + q / SIDE * BLOCK_UNITS);
      }
}

#endif
