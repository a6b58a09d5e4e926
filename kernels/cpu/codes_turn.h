/* codes_turn.h -- codes of many rows, turned
 *
 *   needs   blocks of a multiple of 32 numbers, or one to a row; f32
 *   method  32 bytes of each of LANES rows are turned as words of four bytes:
 *           24 exchanges for 512 codes of 4 bits.  What is at one place of all
 *           words are codes of one step, which become numbers by arithmetic, or
 *           where a register holds the table, or half of it, by looking up
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CODES_TURN_H
#define MRT_CODES_TURN_H

#include "codes.h"
#include "floats.h"
#include "gemm/pack.h"

enum { STEPS = MRT_FEW_STEPS, WIDTH = MRT_FEW_VECS * LANES };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#ifndef MRT_F64
/* HALF: steps that surely share a scale.  BYTES: of a row, at a time; WORDS: as
 * many words. */
enum { HALF = 32, BYTES = 32, WORDS = BYTES / 4 };

/* Words w[i]: the i-th of each of LANES rows. */
static inline __attribute__((always_inline)) void
turn_words(const char *from, int64_t stride, vec w[WORDS]) {
#if MRT_VECTOR_BYTES == 64
  typedef float half __attribute__((vector_size(32), aligned(1), may_alias));
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
      w[i + l] = mrt_few_load(mrt_few_column(from + 4 * i, stride, l));
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
  return __builtin_ia32_blendvps256(low, high, (vec)(word << (28 - 4 * i)));
#else
  return lower; /* codes_turn says no */
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

/* Scales of n columns that are f16, and those that follow them. */
static inline void take_pairs(const mrt_codes *m, int64_t at, int64_t n,
                              real scales[2][WIDTH]) {
  uint32_t pair[WIDTH];
  uint16_t room[2][WIDTH];
  const char *from = (const char *)m->scales + 2 * at;
  for (int64_t i = 0; i < n; i++, from += 2 * m->blocks)
    memcpy(&pair[i], from, sizeof pair[i]);
  for (int64_t i = 0; i < n; i++) {
    room[0][i] = (uint16_t)pair[i];
    room[1][i] = (uint16_t)(pair[i] >> 16);
  }
  for (int h = 0; h < 2; h++) mrt_widen(MRT_f16, room[h], scales[h], n);
}

static inline void take_some(const mrt_codes *m, int64_t at, int64_t n,
                             real *scales) {
  if (m->short_scales) {
    uint16_t room[WIDTH];
    const uint16_t *from = (const uint16_t *)m->scales + at;
    for (int64_t i = 0; i < n; i++) room[i] = from[i * m->blocks];
    mrt_widen(MRT_f16, room, scales, n);
  } else {
    const real *from = (const real *)m->scales + at;
    for (int64_t i = 0; i < n; i++) scales[i] = from[i * m->blocks];
  }
}

/* The scales of n columns from row `row` on, of each HALF from step p on. */
static inline void take_scales(const mrt_codes *m, int64_t row, int64_t n,
                               int64_t p, real scales[2][WIDTH]) {
  int64_t block = m->o->block, last = m->blocks - 1;
  int64_t first = least(p / block, last);
  int64_t second = least((p + HALF) / block, last);
  if (m->short_scales && second == first + 1) {
    take_pairs(m, row * m->blocks + first, n, scales);
  } else {
    take_some(m, row * m->blocks + first, n, scales[0]);
    if (second == first)
      memcpy(scales[1], scales[0], (size_t)n * sizeof(real));
    else
      take_some(m, row * m->blocks + second, n, scales[1]);
  }
  for (int h = 0; h < 2; h++) {
    for (int64_t i = 0; m->o->kind == MRT_QUANTIZE_INT8 && i < n; i++)
      scales[h][i] /= 127;
    for (int64_t i = n; i < WIDTH; i++) scales[h][i] = 0;
  }
}

/* Can columns of k codes be turned here? */
static inline bool codes_turn(const mrt_codes *m, int64_t k) {
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

#endif
