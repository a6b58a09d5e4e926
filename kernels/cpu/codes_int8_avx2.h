/* codes_int8_avx2.h -- panels in registers, for codes_int8.c
 *
 *   method  A register has 16 bytes of two columns, c and c + 4.  Products are of
 *           unsigned and signed bytes, in pairs: of q4_0 code * x, less 8 times the
 *           sum of x; else |w| * (x with the sign of w), where a pair is at most
 *           2 * 128 * 127, which 16 bits hold.  Four registers of pairs become one
 *           of columns by adding neighbours twice.  Rows go by four, so that
 *           codes are opened once for these.
 *
 * SPDX-License-Identifier: MIT */
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- scales -------------------------------------------------------------- */

INLINE void turn_eight(__m256 v[8], float to[][COLUMNS]) {
  __m256 u[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    u[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    u[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      v[i + 2 * j] = _mm256_shuffle_ps(u[i + j], u[i + j + 2], 0x44);
      v[i + 2 * j + 1] = _mm256_shuffle_ps(u[i + j], u[i + j + 2], 0xee);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to[i], _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
    _mm256_storeu_ps(to[i + 4], _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
  }
}

/* Scales [from, from + n) of COLUMNS of `rows` rows, from `row` on, turned by
 * eight, at most CHUNK; how many are done is returned. */
static int64_t turn_scales(const mrt_codes *m, int64_t rows, int64_t row,
                           int64_t from, int64_t n, float to[][COLUMNS]) {
  int64_t i = 0, first = (row + 7) * m->blocks + from;
  for (; i < n && first + i + 8 <= rows * m->blocks; i += 8) {
    __m256 v[8];
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) {
      int64_t at = (row + l) * m->blocks + from + i;
      if (m->short_scales)
        v[l] = _mm256_cvtph_ps(_mm_loadu_si128(
            (const __m128i *)((const uint16_t *)m->scales + at)));
      else
        v[l] = _mm256_loadu_ps((const float *)m->scales + at);
    }
    turn_eight(v, to + i);
  }
  return i;
}

/* ---- products ------------------------------------------------------------ */

/* 16 bytes of each of two columns. */
INLINE __m256i load_two(const uint8_t *a, const uint8_t *b) {
  __m128i low = _mm_loadu_si128((const __m128i *)a);
  __m128i high = _mm_loadu_si128((const __m128i *)b);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* The codes or numbers of a block of two columns: those beside the first 16 of
 * x, and the others. */
typedef struct two_columns {
  __m256i w[2], size[2]; /* size: |w| */
} two_columns;

INLINE two_columns open_two(int kind, __m256i values, const uint8_t *a,
                            const uint8_t *b) {
  const __m256i fifteen = _mm256_set1_epi8(15);
  two_columns t;
  t.w[0] = load_two(a, b);
  if (mrt_quantize_pack(kind) == 2) {
    t.w[1] = _mm256_and_si256(_mm256_srli_epi16(t.w[0], 4), fifteen);
    t.w[0] = _mm256_and_si256(t.w[0], fifteen);
  } else {
    t.w[1] = load_two(a + BLOCK / 2, b + BLOCK / 2);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    if (kind == MRT_QUANTIZE_INT8)
      t.w[i] = _mm256_xor_si256(t.w[i], _mm256_set1_epi8((char)128));
    if (int8_tabled(kind)) t.w[i] = _mm256_shuffle_epi8(values, t.w[i]);
    t.size[i] = _mm256_abs_epi8(t.w[i]);
  }
  return t;
}

/* Four sums of each of two columns. */
INLINE __m256i multiply_two(int kind, const two_columns *t,
                            const int8_block *x) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i pairs[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    __m256i codes = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(x->codes + i * (BLOCK / 2))));
    if (kind == MRT_QUANTIZE_Q4_0)
      pairs[i] = _mm256_maddubs_epi16(t->w[i], codes);
    else
      pairs[i] =
          _mm256_maddubs_epi16(t->size[i], _mm256_sign_epi8(codes, t->w[i]));
  }
  if (kind == MRT_QUANTIZE_Q4_0) /* at most 4 * 15 * 127 */
    return _mm256_madd_epi16(_mm256_add_epi16(pairs[0], pairs[1]), ones);
  return _mm256_add_epi32(_mm256_madd_epi16(pairs[0], ones),
                          _mm256_madd_epi16(pairs[1], ones));
}

/* One block of `rows` rows. */
INLINE void add_block(int kind, int rows, const int8_panel *p, __m256i values,
                      const uint8_t *from, const int8_block *x, int64_t x_row,
                      __m256 scales, __m256 sum[4]) {
  __m256i half[4], all[4];
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    const uint8_t *a = from + 2 * h * p->stride, *b = a + p->stride;
    two_columns one = open_two(kind, values, a, a + 4 * p->stride);
    two_columns two = open_two(kind, values, b, b + 4 * p->stride);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      __m256i got = _mm256_hadd_epi32(multiply_two(kind, &one, x + r * x_row),
                                      multiply_two(kind, &two, x + r * x_row));
      if (h == 0)
        half[r] = got;
      else
        all[r] = _mm256_hadd_epi32(half[r], got);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    const int8_block *at = x + r * x_row;
    if (kind == MRT_QUANTIZE_Q4_0)
      all[r] = _mm256_sub_epi32(all[r], _mm256_set1_epi32(8 * at->sum));
    __m256 both = _mm256_mul_ps(_mm256_set1_ps(at->scale), scales);
    sum[r] =
        _mm256_add_ps(sum[r], _mm256_mul_ps(_mm256_cvtepi32_ps(all[r]), both));
  }
}

/* Ask for as many bytes as COLUMNS blocks have. */
INLINE void ask_for(const char *from, int kind) {
  __builtin_prefetch(from);
  __builtin_prefetch(from + 64);
  if (mrt_quantize_pack(kind) == 1) __builtin_prefetch(from + 128);
  if (mrt_quantize_pack(kind) == 1) __builtin_prefetch(from + 192);
}

INLINE void add_some(int kind, int rows, const int8_panel *p, bool asks,
                     const int8_block *x, int64_t x_row, float to[][COLUMNS]) {
  int64_t bytes = int8_bytes(kind);
  __m256i values =
      _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p->values));
  const uint8_t *from = p->codes;
  /* The next panel lies behind this one. */
  const char *next = (const char *)from + COLUMNS * p->stride;
  __m256 sum[4];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) sum[r] = _mm256_loadu_ps(to[r]);
#pragma GCC unroll 1
  for (int64_t b = 0; b < p->blocks; b++, from += bytes) {
    if (asks) ask_for(next + b * COLUMNS * bytes, kind);
    add_block(kind, rows, p, values, from, x + b, x_row,
              _mm256_loadu_ps(p->scales[b]), sum);
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) _mm256_storeu_ps(to[r], sum[r]);
}

#define ADD(name, kind)                                                        \
  static void name(const int8_panel *p, int64_t m, const int8_block *x,        \
                   int64_t x_row, float sum[][COLUMNS]) {                      \
    int64_t r = 0;                                                             \
    for (; r + 4 <= m; r += 4)                                                 \
      add_some(kind, 4, p, r == 0, x + r * x_row, x_row, sum + r);             \
    for (; r + 2 <= m; r += 2)                                                 \
      add_some(kind, 2, p, r == 0, x + r * x_row, x_row, sum + r);             \
    if (r < m) add_some(kind, 1, p, r == 0, x + r * x_row, x_row, sum + r);    \
  }
ADD(add_int8, MRT_QUANTIZE_INT8)
ADD(add_q4_0, MRT_QUANTIZE_Q4_0)
ADD(add_q8_0, MRT_QUANTIZE_Q8_0)
ADD(add_nf4, MRT_QUANTIZE_NF4) /* or fp4, by other values */

/* sum[row][column] += m rows, `x_row` blocks apart, times a panel. */
static void add_panel(const int8_panel *p, int64_t m, const int8_block *x,
                      int64_t x_row, float sum[][COLUMNS]) {
  if (p->kind == MRT_QUANTIZE_INT8)
    add_int8(p, m, x, x_row, sum);
  else if (p->kind == MRT_QUANTIZE_Q4_0)
    add_q4_0(p, m, x, x_row, sum);
  else if (p->kind == MRT_QUANTIZE_Q8_0)
    add_q8_0(p, m, x, x_row, sum);
  else
    add_nf4(p, m, x, x_row, sum);
}
