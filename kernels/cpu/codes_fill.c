/* codes_fill.c -- columns of codes, turned and dequantised for few rows
 *
 *   needs   blocks of a multiple of 32 numbers, or one to a row; f32.  Others
 *           are taken row by row, and then turned
 *   method  32 bytes of each of LANES rows are turned as words of four bytes:
 *           24 exchanges for 512 codes of 4 bits.  What is at one place of all
 *           words are codes of one step, which become numbers by arithmetic, or
 *           where a register holds the table, or half of it, by looking up
 *   gives   the numbers of codes.c, bit for bit
 *
 * SPDX-License-Identifier: MIT */
#include "codes.h"
#include "floats.h"
#include "gemm/pack.h"

#if MRT_VECTOR_BYTES == 32 && defined(__AVX2__)
#include <immintrin.h>
#endif

enum { STEPS = MRT_FEW_STEPS, WIDTH = MRT_FEW_VECS * LANES };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Rows of any matrix, turned. */
static void fill_any(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
  real room[LANES * STEPS];
  int64_t end = least(f->g->k, p + STEPS);
  memset(room, 0, sizeof room);
  for (int s = 0; s < MRT_FEW_VECS && j + s * LANES < f->g->n; s++) {
    int64_t n = least(LANES, f->g->n - j - s * LANES);
    for (int64_t l = 0; l < n; l++)
      mrt_codes_take(f->columns, f->first + j + s * LANES + l, p, end,
                     room + l * STEPS);
    real *at = to + s * LANES;
    for (int64_t q = 0; q < STEPS; q += LANES, at += LANES * WIDTH) {
      vec v[LANES];
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++) v[l] = vec_load(room + l * STEPS + q);
      transpose(v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) vec_store(at + i * WIDTH, v[i]);
    }
  }
}

#ifndef MRT_F64
/* HALF: steps that surely share a scale.  BYTES: of a row, at a time; WORDS: as
 * many words. */
enum { HALF = 32, BYTES = 32, WORDS = BYTES / 4 };

/* Words w[i]: the i-th of each of LANES rows. */
static inline __attribute__((always_inline)) void
turn_words(const char *from, int64_t stride, vec w[WORDS]) {
#if MRT_VECTOR_BYTES == 64
  typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
  for (int l = 0; l < WORDS; l++)
    w[l] = __builtin_shufflevector(
        *(const half *)mrt_few_column(from, stride, l),
        *(const half *)mrt_few_column(from, stride, l + WORDS), 0, 1, 2, 3, 4,
        5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 3
  for (int round = 1; round < WORDS; round *= 2) {
    vec v[WORDS];
#pragma GCC unroll 4
    for (int i = 0; i < WORDS / 2; i++) {
      v[2 * i] = ZIP(w[i], w[i + WORDS / 2], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24,
                     9, 25, 10, 26, 11, 27);
      v[2 * i + 1] = ZIP(w[i], w[i + WORDS / 2], 4, 20, 5, 21, 6, 22, 7, 23, 12,
                         28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < WORDS; i++) w[i] = v[i];
  }
#else
  for (int i = 0; i < WORDS; i += LANES) {
#pragma GCC unroll 8
    for (int l = 0; l < LANES; l++)
      w[i + l] =
          vec_load((const real *)mrt_few_column(from + 4 * i, stride, l));
    transpose(w + i);
  }
#endif
}

static inline __attribute__((always_inline)) vec number(ivec code) {
  return __builtin_convertvector(code, vec);
}

/* The numbers of code i of each word, of 4 or 8 bits, but for the scale. */
static inline __attribute__((always_inline)) vec
value_of(int kind, ivec word, int i, vec lower, vec upper) {
  if (kind == MRT_QUANTIZE_INT8) return number((word >> 8 * i & 255) - 128);
  if (kind == MRT_QUANTIZE_Q8_0) return number(word << (24 - 8 * i) >> 24);
#if MRT_VECTOR_BYTES == 64 && !defined(__clang__)
  return __builtin_shuffle(lower, word >> 4 * i); /* the last 4 bits count */
#else
  if (kind == MRT_QUANTIZE_Q4_0) return number((word >> 4 * i & 15) - 8);
#if MRT_VECTOR_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
  vec low = __builtin_shuffle(lower, word >> 4 * i); /* the last 3 do */
  vec high = __builtin_shuffle(upper, word >> 4 * i);
  return _mm256_blendv_ps(low, high, (vec)(word << (28 - 4 * i)));
#else
  return lower; /* is_fast says no */
#endif
#endif
}

/* In which order the codes of a word are steps: of step 0 of these words. */
static inline __attribute__((always_inline)) int step_of(int kind, int w,
                                                         int i) {
  if (kind == MRT_QUANTIZE_Q4_0)
    return w / 4 * HALF + (i & 1) * (HALF / 2) + w % 4 * 4 + i / 2;
  bool bytes = kind == MRT_QUANTIZE_INT8 || kind == MRT_QUANTIZE_Q8_0;
  return w * (bytes ? 4 : 8) + i;
}

/* BYTES of each of LANES rows become numbers; scales: of each HALF steps,
 * `apart` from one another. */
static inline __attribute__((always_inline)) void
put_words(int kind, const mrt_codes *m, const char *from, int64_t stride,
          const real *scales, real *to) {
  bool bytes = kind == MRT_QUANTIZE_INT8 || kind == MRT_QUANTIZE_Q8_0;
  bool tabled = kind == MRT_QUANTIZE_NF4 || kind == MRT_QUANTIZE_FP4;
  vec w[WORDS], lower = { 0 }, upper = { 0 };
  if (tabled) {
    lower = vec_load(m->values->one);
    upper = vec_load(m->values->one + 16 - LANES);
  } else if (MRT_VECTOR_BYTES == 64) {
    for (int i = 0; i < LANES; i++) lower[i] = (real)(i - 8);
  }
  turn_words(from, stride, w);
#pragma GCC unroll 8
  for (int i = 0; i < WORDS; i++) {
    vec scale = vec_load(scales + (bytes ? 0 : i / 4 * WIDTH));
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++)
      if (k < 4 || !bytes)
        vec_store(to + step_of(kind, i, k) * WIDTH,
                  value_of(kind, (ivec)w[i], k, lower, upper) * scale);
  }
}

/* The scales of n columns from row `row` on, of each HALF from step p on. */
static void take_scales(const mrt_codes *m, int64_t row, int64_t n, int64_t p,
                        real scales[2][WIDTH]) {
  for (int h = 0; h < STEPS / HALF; h++) {
    int64_t b = least((p + h * HALF) / m->o->block, m->blocks - 1);
    int64_t at = row * m->blocks + b;
    if (m->short_scales) {
      uint16_t room[WIDTH];
      const uint16_t *from = (const uint16_t *)m->scales + at;
      for (int64_t i = 0; i < n; i++) room[i] = from[i * m->blocks];
      mrt_widen(MRT_f16, room, scales[h], n);
    } else {
      const real *from = (const real *)m->scales + at;
      for (int64_t i = 0; i < n; i++) scales[h][i] = from[i * m->blocks];
    }
    for (int64_t i = 0; m->o->kind == MRT_QUANTIZE_INT8 && i < n; i++)
      scales[h][i] /= 127;
    for (int64_t i = n; i < WIDTH; i++) scales[h][i] = 0;
  }
}

/* LANES columns, n of which are there. */
static inline __attribute__((always_inline)) void
put_columns(int kind, const mrt_codes *m, int64_t row, int64_t n, int64_t p,
            const real *scales, real *to) {
  int pack = mrt_quantize_pack(kind);
  const char *from = (const char *)m->codes + row * m->bytes + p / pack;
  int64_t left = m->bytes - p / pack, all = STEPS / pack;
  for (int64_t at = 0; at < all && at < left; at += BYTES) {
    const real *scale = scales + (pack == 1 ? at / BYTES * WIDTH : 0);
    real *piece = to + at * pack * WIDTH;
    const char *x = from + at;
    int64_t stride = m->bytes;
    char room[LANES * BYTES];
    if (n < LANES || left - at < BYTES) {
      mrt_few_stage(x, stride, n, least(BYTES, left - at), room, BYTES);
      x = room, stride = BYTES;
    } else {
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++)
        __builtin_prefetch(mrt_few_column(x, stride, l) + WIDTH * stride);
    }
    put_words(kind, m, x, stride, scale, piece);
  }
}

#define FILL(name, kind)                                                       \
  static void name(const mrt_few_product *f, int64_t j, int64_t p, real *to) { \
    const mrt_codes *m = f->columns;                                           \
    int64_t n = least(WIDTH, f->g->n - j);                                     \
    real scales[STEPS / HALF][WIDTH];                                          \
    take_scales(m, f->first + j, n, p, scales);                                \
    for (int64_t s = 0; s < n; s += LANES)                                     \
      put_columns(kind, m, f->first + j + s, n - s, p, scales[0] + s, to + s); \
  }
FILL(fill_int8, MRT_QUANTIZE_INT8)
FILL(fill_q4_0, MRT_QUANTIZE_Q4_0)
FILL(fill_q8_0, MRT_QUANTIZE_Q8_0)
FILL(fill_nf4, MRT_QUANTIZE_NF4) /* or fp4, by another table */

static bool is_fast(const mrt_codes *m, int64_t k) {
  bool tabled =
      m->o->kind == MRT_QUANTIZE_NF4 || m->o->kind == MRT_QUANTIZE_FP4;
#ifdef __clang__
  bool looks_up = false;
#else
  bool looks_up = MRT_VECTOR_BYTES >= 32;
#endif
  return (m->o->block % HALF == 0 || m->o->block >= k) && (looks_up || !tabled);
}
#endif

void mrt_codes_fill(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
#ifndef MRT_F64
  const mrt_codes *m = f->columns;
  if (is_fast(m, f->g->k)) {
    if (m->o->kind == MRT_QUANTIZE_INT8)
      fill_int8(f, j, p, to);
    else if (m->o->kind == MRT_QUANTIZE_Q4_0)
      fill_q4_0(f, j, p, to);
    else if (m->o->kind == MRT_QUANTIZE_Q8_0)
      fill_q8_0(f, j, p, to);
    else
      fill_nf4(f, j, p, to);
    return;
  }
#endif
  fill_any(f, j, p, to);
}
