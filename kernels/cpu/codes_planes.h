/* codes_planes.h -- values of codes of 4 bits, looked up byte by byte
 *
 *   needs   AVX2, f32
 *   method  One look-up serves 32 codes, but gives bytes: four give the bytes of
 *           32 values, and two exchanges of each register put these together.
 *           Half of the time of looking up in two registers of eight values
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CODES_PLANES_H
#define MRT_CODES_PLANES_H

#include "codes.h"

#if MRT_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(MRT_F64)
#define MRT_PLANES 1
#include <immintrin.h>

/* Byte p of each of the 16 values, twice. */
typedef struct planes {
  __m256i of[4];
} planes;

static inline __attribute__((always_inline)) planes
planes_of(const mrt_code_table *t) {
  planes p;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    p.of[i] = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)t->bytes[i]));
  return p;
}

/* v[i]: what code i of each word stands for. */
static inline __attribute__((always_inline)) void
look_up_words(const planes *p, vec words, vec v[8]) {
  const __m256i turn =
      _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0,
                       4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m256i fifteen = _mm256_set1_epi8(15);
  __m256i bytes = _mm256_shuffle_epi8((__m256i)words, turn);
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    __m256i codes =
        _mm256_and_si256(h ? _mm256_srli_epi16(bytes, 4) : bytes, fifteen);
    __m256i b0 = _mm256_shuffle_epi8(p->of[0], codes);
    __m256i b1 = _mm256_shuffle_epi8(p->of[1], codes);
    __m256i b2 = _mm256_shuffle_epi8(p->of[2], codes);
    __m256i b3 = _mm256_shuffle_epi8(p->of[3], codes);
    __m256i low = _mm256_unpacklo_epi8(b0, b1);
    __m256i high = _mm256_unpacklo_epi8(b2, b3);
    v[h] = (vec)_mm256_unpacklo_epi16(low, high);
    v[2 + h] = (vec)_mm256_unpackhi_epi16(low, high);
    low = _mm256_unpackhi_epi8(b0, b1);
    high = _mm256_unpackhi_epi8(b2, b3);
    v[4 + h] = (vec)_mm256_unpacklo_epi16(low, high);
    v[6 + h] = (vec)_mm256_unpackhi_epi16(low, high);
  }
}
#endif

#endif
