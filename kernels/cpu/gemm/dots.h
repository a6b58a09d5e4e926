/* dots.h -- the tile of gemm/tile.h with dot products of bf16 pairs
 *
 * Compiled into the AVX-512 variant, for processors that have AVX512-BF16; who
 * calls it has asked.
 *
 *   from  Intel, Architecture Instruction Set Extensions, VDPBF16PS
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_DOTS_H
#define MRT_GEMM_DOTS_H

#include "gemm/tile.h"

#if defined(__AVX512F__) && MRT_VECTOR_BYTES == 64
#define MRT_DOTS 1
#include <immintrin.h>

#define WITH_DOTS __attribute__((target("avx512bf16")))
typedef int32_t pair __attribute__((may_alias));

static inline __attribute__((always_inline)) WITH_DOTS void
dot_tile(int rows, int vecs, int64_t k, strip a, const real *b,
         const tile_place *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  const pair *x = (const pair *)a.data;
  for (int64_t p = 0; p < k; p++, x += a.along, b += vecs * LANES) {
    if (p % LINE == 0) prefetch_rows(rows, k, a, p);
    __m512bh y[VECS];
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++)
      y[j] = (__m512bh)_mm512_loadu_si512(b + j * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      __m512bh xi = (__m512bh)_mm512_set1_epi32(x[i * a.across]);
#pragma GCC unroll 8
      for (int j = 0; j < vecs; j++)
        sum[i][j] = (vec)_mm512_dpbf16_ps((__m512)sum[i][j], xi, y[j]);
    }
  }
  put(rows, vecs, sum, at);
}

static inline __attribute__((always_inline)) WITH_DOTS void
dots_by_width(int rows, int vecs, int64_t k, strip a, const real *b,
              const tile_place *at) {
  if (vecs == VECS)
    dot_tile(rows, VECS, k, a, b, at);
  else if (vecs == 2)
    dot_tile(rows, 2, k, a, b, at);
  else
    dot_tile(rows, 1, k, a, b, at);
}

static __attribute__((unused)) WITH_DOTS void run_dots(int vecs, int64_t k,
                                                       const strip *a,
                                                       const real *b,
                                                       const tile_place *at) {
  if (at->m > HALF)
    dots_by_width(ROWS, vecs, k, *a, b, at);
  else if (at->m > 1)
    dots_by_width(HALF, vecs, k, *a, b, at);
  else
    dots_by_width(1, vecs, k, *a, b, at);
}
#endif

#endif
