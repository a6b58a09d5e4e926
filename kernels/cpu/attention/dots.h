/* dots.h -- what becomes of scores that are dot products of bf16
 *
 * Scores come unscaled and go, in columns of LANES queries, as pairs of
 * rounded weights.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ATTENTION_DOTS_H
#define MRT_ATTENTION_DOTS_H

#include "attention/attention.h"

#if TILE_DOTS
#define LOG2_E 1.442695041f

/* n scores of each query become exp(scale (s - shift)), pairs of keys in place.
 * The sum of these and of `sum`, which is for the maximum `old` and weighs
 * `keep` now. */
static inline WITH_DOTS vec dots_soften(matrix s, int64_t n, real scale,
                                        vec shift, vec old, vec sum,
                                        vec *keep) {
  __m512 unit = _mm512_set1_ps(scale * LOG2_E), less = (__m512)shift * unit;
  __m512 sums[2] = { _mm512_setzero_ps(), _mm512_setzero_ps() };
  for (int64_t i = 0; i < n; i += 2) {
    __m512 e[2] = { _mm512_setzero_ps(), _mm512_setzero_ps() };
    for (int k = 0; k < 2 && i + k < n; k++) {
      __m512 x = _mm512_loadu_ps(s.p + (i + k) * s.row);
      e[k] = dots_exp2(_mm512_fmsub_ps(x, unit, less));
      sums[k] += e[k];
    }
    _mm512_storeu_si512(s.p + i / 2 * s.row, dots_zip(dots_round(e[0], e[1])));
  }
  *keep = (vec)dots_exp2(_mm512_fmsub_ps((__m512)old, unit, less));
  return sum * *keep + (vec)(sums[0] + sums[1]);
}

/* A maximum need not rise by less than 2^8: weights of bf16 lose nothing, and
 * what was summed need not be multiplied (FlashAttention-4). */
static inline vec dots_raise(real scale, vec old, vec max) {
  for (int l = 0; l < LANES; l++)
    max[l] = (max[l] - old[l]) * (scale * LOG2_E) > 8 ? max[l] : old[l];
  return max;
}

/* Sum of x y over n numbers of bf16. */
static inline WITH_DOTS real dots_row(const void *x, const void *y, int64_t n) {
  const bf16_bits *a = x, *b = y;
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += 32) {
    __mmask32 some = n - i < 32 ? (1u << (n - i)) - 1 : ~0u;
    __m512i p = _mm512_maskz_loadu_epi16(some, a + i);
    __m512i q = _mm512_maskz_loadu_epi16(some, b + i);
    sum = _mm512_dpbf16_ps(sum, (__m512bh)p, (__m512bh)q);
  }
  return _mm512_reduce_add_ps(sum);
}

/* n reals to bf16; what is subnormal becomes 0. */
static inline WITH_DOTS void dots_store(void *to, const real *x, int64_t n) {
  bf16_bits *y = to;
  for (int64_t i = 0; i < n; i += LANES) {
    __mmask16 some = n - i < LANES ? (1u << (n - i)) - 1 : 0xffff;
    __m256bh z = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(y + i, some, (__m256i)z);
  }
}

DOTS_INLINE void dots_store_rows(matrix to, int64_t i, __m512i x) {
  _mm256_storeu_si256((__m256i *)(to.p + i * to.row),
                      _mm512_castsi512_si256(x));
  _mm256_storeu_si256((__m256i *)(to.p + (i + 1) * to.row),
                      _mm512_extracti64x4_epi64(x, 1));
}

/* n scores and dP of each query become P = exp(unit s - lse), in pairs of
 * queries in pq, and dS = P (dP - delta) scale, and `slope` if there is any, in
 * pairs of keys in place and of queries in dsq. */
static inline WITH_DOTS void dots_differentiate(int64_t n, real factor,
                                                real scale, vec lse, vec delta,
                                                const real *slope, matrix s,
                                                matrix ds, matrix pq,
                                                matrix dsq) {
  __m512 unit = _mm512_set1_ps(factor * LOG2_E), zero = _mm512_setzero_ps();
  __m512 less = (__m512)lse * _mm512_set1_ps(LOG2_E);
  for (int64_t i = 0; i < n; i += 2) {
    __m512 p[2] = { zero, zero }, d[2] = { zero, zero };
    for (int k = 0; k < 2 && i + k < n; k++) {
      __m512 x = _mm512_loadu_ps(s.p + (i + k) * s.row);
      __m512 dp = _mm512_loadu_ps(ds.p + (i + k) * ds.row);
      p[k] = dots_exp2(_mm512_fmsub_ps(x, unit, less));
      d[k] = p[k] * (dp - (__m512)delta) * _mm512_set1_ps(scale);
      if (slope) d[k] *= _mm512_loadu_ps(slope + (i + k) * TILE);
    }
    __m512i rows = dots_round(d[0], d[1]);
    dots_store_rows(pq, i, dots_round(p[0], p[1]));
    dots_store_rows(dsq, i, rows);
    _mm512_storeu_si512(ds.p + i / 2 * ds.row, dots_zip(rows));
  }
}
#else
static inline vec dots_raise(real scale, vec old, vec max) { return max; }
static inline real dots_row(const void *x, const void *y, int64_t n) {
  return 0;
}
static inline void dots_store(void *to, const real *x, int64_t n) {}
static inline vec dots_soften(matrix s, int64_t n, real scale, vec shift,
                              vec old, vec sum, vec *keep) {
  return *keep = sum;
}
static inline void dots_differentiate(int64_t n, real factor, real scale,
                                      vec lse, vec delta, const real *slope,
                                      matrix s, matrix ds, matrix pq,
                                      matrix dsq) {}
#endif

/* Row t of a head from reals. */
static inline void store_row(const shape *n, const mrt_operand *x, int64_t b,
                             int64_t t, int64_t h, const real *from) {
  void *to = head_at(x, b, t, h);
  if (n->dots && x->type.dtype == MRT_bf16)
    dots_store(to, from, x->type.dims[3]);
  else
    mrt_round(x->type.dtype, from, to, x->type.dims[3]);
}

#endif
