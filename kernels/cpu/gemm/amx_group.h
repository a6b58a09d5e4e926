/* amx_group.h -- GROUP x GROUP sums of a product in tile registers
 *
 * Two registers of rows and two of columns are loaded for each AMX_TILE pairs, and
 * multiplied four times.  To multiply takes the registers' time and little of
 * the rest, so between registers the sums of the group before are rounded and
 * put into c, and lines that will be needed are asked for: what waits for the
 * third level costs nothing then.
 *
 * Only gemm/amx.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_AMX_GROUP_H
#define MRT_GEMM_AMX_GROUP_H

#include "gemm/amx_pack.h"

enum { GROUP = 2 * AMX_TILE };

/* Where registers of rows are, in bytes. */
typedef struct amx_rows {
  const char *data;
  int64_t row, second, step; /* to the next row, register of rows, of k */
} amx_rows;

/* Sums that begin with those at `from`, or with 0, and where they go. */
typedef struct amx_sums {
  const real *from;
  real *to;
  int64_t from_row, to_row; /* reals */
} amx_sums;

/* ---- lines to be asked for ------------------------------------------------ */

/* Blocks of GROUP rows of one line or two; they come to the second level. */
typedef struct amx_ask {
  const char *data;
  int64_t row,
      next; /* bytes to the next row; from the last to the next block */
  int64_t left, each; /* rows: of a block, at each step */
  bool two;           /* lines of a row */
} amx_ask;

AMX_INLINE amx_ask ask_some(amx_ask x) {
  for (int64_t i = x.each; i > 0; i--) {
    __builtin_prefetch(x.data, 0, 2);
    if (x.two) __builtin_prefetch(x.data + 64, 0, 2);
    x.data += x.row;
    if (--x.left == 0) x.data += x.next, x.left = GROUP;
  }
  return x;
}

/* ---- sums to be put ------------------------------------------------------- */

/* Rows of at most GROUP sums: what is there and a bias are added, if there are
 * any, and what comes of it goes to `to`, as f32 or bf16. */
typedef struct amx_put {
  const real *from; /* GROUP a row */
  const real *old, *bias;
  char *to;
  int64_t old_row, to_row; /* reals; bytes */
  int64_t left;            /* rows */
  uint32_t columns;        /* a bit of each */
  bool half;
} amx_put;

/* The processor's rounding takes subnormal numbers for 0: no sum of registers is
 * one, but with a bias it may be. */
AMX_INLINE WITH_AMX void put_halves(const amx_put *x, __m512 low, __m512 high) {
#ifndef MRT_AMX_MODEL
  enum { SUBNORMAL = 0x20 };
  if (!x->bias || (_mm512_fpclass_ps_mask(low, SUBNORMAL) |
                   _mm512_fpclass_ps_mask(high, SUBNORMAL)) == 0) {
    _mm512_mask_storeu_epi16(x->to, x->columns,
                             (__m512i)_mm512_cvtne2ps_pbh(high, low));
    return;
  }
#endif
  real row[GROUP];
  uint16_t rounded[GROUP];
  vec_store(row, (vec)low), vec_store(row + AMX_TILE, (vec)high);
  mrt_round(MRT_bf16, row, rounded, GROUP);
  _mm512_mask_storeu_epi16(x->to, x->columns, _mm512_loadu_si512(rounded));
}

AMX_INLINE WITH_AMX void put_some(amx_put *x, int64_t rows) {
  for (; rows > 0 && x->left > 0; rows--, x->left--) {
    __mmask16 first = (__mmask16)x->columns;
    __mmask16 second = (__mmask16)(x->columns >> AMX_TILE);
    __m512 low = _mm512_loadu_ps(x->from);
    __m512 high = _mm512_loadu_ps(x->from + AMX_TILE);
    if (x->old) {
      low += _mm512_maskz_loadu_ps(first, x->old);
      high += _mm512_maskz_loadu_ps(second, x->old + AMX_TILE);
      x->old += x->old_row;
    }
    if (x->bias) {
      low += _mm512_maskz_loadu_ps(first, x->bias);
      high += _mm512_maskz_loadu_ps(second, x->bias + AMX_TILE);
    }
    if (x->half) {
      put_halves(x, low, high);
    } else {
      _mm512_mask_storeu_ps(x->to, first, low);
      _mm512_mask_storeu_ps(x->to + AMX_TILE * UNIT, second, high);
    }
    x->from += GROUP, x->to += x->to_row;
  }
}

/* ---- the registers -------------------------------------------------------- */

/* What is done besides. */
typedef struct amx_besides {
  amx_ask next;
  amx_put put;
} amx_besides;

/* Of two registers of rows, or one, and of columns. */
AMX_INLINE WITH_AMX void multiply(bool rows, bool columns, int64_t k,
                                  amx_rows a, const real *b,
                                  const amx_sums *sums, amx_besides *besides) {
  amx_ask next = besides->next;
  amx_put put = besides->put;
  int64_t puts = k ? ceil_div(put.left * AMX_TILE, k) : 0;
  const real *from = sums->from;
  int64_t row = sums->from_row, bytes = row * UNIT;
  if (from) {
    amx_load(0, from, bytes);
    if (columns) amx_load(1, from + AMX_TILE, bytes);
    if (rows) amx_load(2, from + AMX_TILE * row, bytes);
    if (rows && columns) amx_load(3, from + AMX_TILE * row + AMX_TILE, bytes);
  } else {
    amx_zero(0);
    amx_zero(1);
    amx_zero(2);
    amx_zero(3);
  }
  for (int64_t p = 0; p < k;
       p += AMX_TILE, a.data += a.step, b += BLOCK_UNITS) {
    amx_load(4, a.data, a.row);
    amx_load_once(6, b, AMX_ROW);
    amx_multiply(0, 4, 6);
    if (rows) {
      amx_load(5, a.data + a.second, a.row);
      amx_multiply(2, 5, 6);
    }
    if (columns) {
      amx_load_once(7, b + TILE_UNITS, AMX_ROW);
      amx_multiply(1, 4, 7);
    }
    if (rows && columns) amx_multiply(3, 5, 7);
    put_some(&put, puts);
    next = ask_some(next);
  }
  besides->next = next, besides->put = put;
  real *to = sums->to;
  row = sums->to_row, bytes = row * UNIT;
  amx_store(0, to, bytes);
  if (columns) amx_store(1, to + AMX_TILE, bytes);
  if (rows) amx_store(2, to + AMX_TILE * row, bytes);
  if (rows && columns) amx_store(3, to + AMX_TILE * row + AMX_TILE, bytes);
}

static WITH_AMX void multiply_group(int64_t m, int64_t n, int64_t k, amx_rows a,
                                    const real *b, const amx_sums *sums,
                                    amx_besides *besides) {
  if (m > AMX_TILE && n > AMX_TILE)
    multiply(true, true, k, a, b, sums, besides);
  else if (m > AMX_TILE)
    multiply(true, false, k, a, b, sums, besides);
  else if (n > AMX_TILE)
    multiply(false, true, k, a, b, sums, besides);
  else
    multiply(false, false, k, a, b, sums, besides);
}

/* What is left to be put. */
static WITH_AMX void put_rest(amx_put *x) { put_some(x, x->left); }

#endif
