/* tile_dots.h -- the products of tiles.h by dot products of pairs of bf16
 *
 * A `real` of a factor holds two bf16 that are neighbours along the summed
 * dimension, the first in the lower half; sums are f32.  Compiled into the
 * AVX-512 variant, for processors that have AVX512-BF16 (mrt_call.dots); where
 * TILE_DOTS is 0 nothing here may be called.
 *
 *   from  Intel, Architecture Instruction Set Extensions, VDPBF16PS
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TILE_DOTS_H
#define MRT_TILE_DOTS_H

#include "tiles.h"

typedef uint16_t __attribute__((may_alias)) bf16_bits;
typedef uint32_t __attribute__((may_alias)) pair_bits;

/* Rows of bf16, x[m][n], as pairs of rows, y[m / 2][n]; m is even. */
static inline void tile_pair_rows(int64_t m, int64_t n, matrix x, matrix y) {
  for (int64_t i = 0; i < m; i += 2) {
    const bf16_bits *restrict a = (bf16_bits *)(x.p + i * x.row);
    const bf16_bits *restrict b = (bf16_bits *)(x.p + (i + 1) * x.row);
    pair_bits *restrict to = (pair_bits *)(y.p + i / 2 * y.row);
    for (int64_t j = 0; j < n; j++) to[j] = a[j] | (uint32_t)b[j] << 16;
  }
}

#if defined(__AVX512F__) && MRT_VECTOR_BYTES == 64 && !defined(MRT_F64)
#include <immintrin.h>

#define TILE_DOTS 1
#define WITH_DOTS __attribute__((target("avx512bf16")))
#define DOTS_INLINE                                                            \
  static inline __attribute__((always_inline, target("avx512bf16")))

/* As tile_block. */
DOTS_INLINE void dots_block(int rows, int vecs, int64_t k, matrix a, matrix b,
                            matrix c, bool add) {
  __m512 sum[8][4];
  __m512bh right[4];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      sum[i][j] = add ? _mm512_loadu_ps(c.p + i * c.row + j * LANES)
                      : _mm512_setzero_ps();
  const pair_bits *left = (const pair_bits *)a.p;
  for (int64_t l = 0; l < k; l++, left += a.col, b.p += b.row) {
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      right[j] = (__m512bh)_mm512_loadu_si512(b.p + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      __m512bh x = (__m512bh)_mm512_set1_epi32((int)left[i * a.row]);
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++)
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, right[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      _mm512_storeu_ps(c.p + i * c.row + j * LANES, sum[i][j]);
}

DOTS_INLINE void dots_panel(int rows, int vecs, int64_t m, int64_t k, matrix a,
                            matrix b, matrix c, bool add) {
  for (int64_t i = 0; i < m; i += rows)
    dots_block(rows, vecs, k, matrix_at(a, i, 0), b, matrix_at(c, i, 0), add);
}

/* As tile_multiply; k counts pairs. */
static WITH_DOTS void dots_multiply(int64_t m, int64_t n, int64_t k, matrix a,
                                    matrix b, matrix c, bool add) {
  while (n > 0) {
    int64_t vecs = n / LANES < 4 ? n / LANES : 4;
    if (vecs == 4) dots_panel(4, 4, m, k, a, b, c, add);
    if (vecs == 3) dots_panel(4, 3, m, k, a, b, c, add);
    if (vecs == 2) dots_panel(8, 2, m, k, a, b, c, add);
    if (vecs == 1) dots_panel(8, 1, m, k, a, b, c, add);
    n -= vecs * LANES, b.p += vecs * LANES, c.p += vecs * LANES;
  }
}

/* 2^x for x <= 0 to 3e-6 relative, which bf16 does not show; 0 below -126, NaN
 * for NaN. */
DOTS_INLINE __m512 dots_exp2(__m512 x) {
  const __m512 magic = _mm512_set1_ps(0x1.8p23f); /* rounds to an integer */
  x = _mm512_max_ps(_mm512_set1_ps(-127), x);
  __m512 t = x + magic, f = x - (t - magic);
  __m512 p = _mm512_set1_ps(0x1.3a02ccp-7f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c9fc46p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ec0378p-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e12cp-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
  /* The low bits of t are the exponent to add, those of magic are 0. */
  __m512i shift = _mm512_slli_epi32((__m512i)t, 23);
  return (__m512)_mm512_add_epi32((__m512i)p, shift);
}

/* Rounded: the numbers of `low`, then those of `high`. */
DOTS_INLINE __m512i dots_round(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
/* That with the numbers taken in turn: pairs. */
DOTS_INLINE __m512i dots_zip(__m512i x) {
  const __m512i order = _mm512_add_epi32(
      _mm512_set1_epi32(16 << 16),
      _mm512_mullo_epi32(_mm512_set1_epi32(0x10001),
                         _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5,
                                          4, 3, 2, 1, 0)));
  return _mm512_permutexvar_epi16(order, x);
}

#else
#define TILE_DOTS 0
static inline void dots_multiply(int64_t m, int64_t n, int64_t k, matrix a,
                                 matrix b, matrix c, bool add) {}
#endif

#endif
