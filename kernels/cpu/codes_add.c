/* codes_add.c -- one row times columns of codes, in registers
 *
 *   needs   what codes_turn.h needs, multiply-adds that round once, and whole
 *           halves of pieces
 *   method  As codes_fill.c, but the numbers go nowhere: SET vectors of columns
 *           have their sums in registers, a step multiplies all of them.  Half
 *           of the time of making the numbers first
 *   gives   the bits of that: (code - 8) * scale, where the scale is finite, is
 *           code * scale - 8 * scale, rounded once
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "codes_planes.h"
#include "codes_turn.h"

#if !defined(MRT_F64) && defined(__FMA__) && MRT_VECTOR_BYTES >= 32
/* Vectors of columns at a time: as many chains of sums. */
enum { SET = 4 };

/* A half's first four words of each of LANES rows. */
static inline __attribute__((always_inline)) void
turn_four(const char *from, int64_t stride, vec w[4]) {
  typedef float part __attribute__((vector_size(16), aligned(1), may_alias));
  vec v[4], u[4];
#define PART(l) (*(const part *)mrt_few_column(from, stride, l))
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    typedef float two __attribute__((vector_size(32)));
    two low =
        __builtin_shufflevector(PART(i), PART(i + 4), 0, 1, 2, 3, 4, 5, 6, 7);
#if MRT_VECTOR_BYTES == 64
    two high = __builtin_shufflevector(PART(i + 8), PART(i + 12), 0, 1, 2, 3, 4,
                                       5, 6, 7);
    v[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                   11, 12, 13, 14, 15);
#else
    v[i] = low;
#endif
  }
#undef PART
#if MRT_VECTOR_BYTES == 64
#define LOW   0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH  2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOWS  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGHS 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#else
#define LOW   0, 8, 1, 9, 4, 12, 5, 13
#define HIGH  2, 10, 3, 11, 6, 14, 7, 15
#define LOWS  0, 1, 8, 9, 4, 5, 12, 13
#define HIGHS 2, 3, 10, 11, 6, 7, 14, 15
#endif
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    u[i] = ZIP(v[i], v[i + 1], LOW);
    u[i + 1] = ZIP(v[i], v[i + 1], HIGH);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    w[2 * i] = ZIP(u[i], u[i + 2], LOWS);
    w[2 * i + 1] = ZIP(u[i], u[i + 2], HIGHS);
  }
}

/* sum + x * the numbers of code i of each word. */
static inline __attribute__((always_inline)) vec
add_code(int kind, ivec word, int i, vec x, vec scale, vec less, vec lower,
         vec upper, vec sum) {
  if (kind == MRT_QUANTIZE_INT8) {
    vec code = number(word >> 8 * i & 255);
    return sum + x * (code * scale - less);
  }
#if MRT_VECTOR_BYTES == 32
  if (kind == MRT_QUANTIZE_Q4_0) {
    vec code = number(word >> 4 * i & 15);
    return sum + x * (code * scale - less);
  }
#endif
  vec w = value_of(kind, word, i, lower, upper) * scale;
  return sum + x * w;
}

/* Codes of a word, and words of a half. */
static inline __attribute__((always_inline)) int codes_of(int kind) {
  return kind == MRT_QUANTIZE_INT8 || kind == MRT_QUANTIZE_Q8_0 ? 4 : 8;
}

/* One step of SET vectors: code i of word w of each. */
static inline __attribute__((always_inline)) void
add_step(int kind, vec words[SET][WORDS], int w, int i, real x,
         const real *scales, const real *less, vec lower, vec upper,
         vec sum[SET]) {
  /* Read again each time: registers are for sums, words and scales. */
  __asm__ volatile("" : "+r"(less));
#pragma GCC unroll 4
  for (int g = 0; g < SET; g++)
    sum[g] = add_code(kind, (ivec)words[g][w], i, vec_all(x),
                      vec_load(scales + g * LANES), vec_load(less + g * LANES),
                      lower, upper, sum[g]);
}

#ifdef MRT_PLANES
/* The steps of a word, where codes are looked up in planes. */
static inline __attribute__((always_inline)) void
add_planes(const planes *p, vec words[SET][WORDS], int w, const real *x,
           const real *scales, vec sum[SET]) {
#pragma GCC unroll 4
  for (int g = 0; g < SET; g++) {
    vec v[8], scale = vec_load(scales + g * LANES);
    look_up_words(p, words[g][w], v);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
      sum[g] = sum[g] + vec_all(x[i]) * (v[i] * scale);
  }
}
#endif

/* HALF steps of SET vectors of columns, which begin at `from`; less: what a
 * code of 0 is short of 0. */
static inline __attribute__((always_inline)) void
add_half(int kind, const mrt_codes *m, const char *from, const real *x,
         const real *scales, const real *less, real *sums) {
  int each = codes_of(kind);
  vec words[SET][WORDS], sum[SET], lower = { 0 }, upper = { 0 };
  if (kind == MRT_QUANTIZE_NF4) {
    lower = vec_load(m->values->one);
    upper = vec_load(m->values->one + 16 - LANES);
  } else if (MRT_VECTOR_BYTES == 64) {
    for (int i = 0; i < LANES; i++) lower[i] = (real)(i - 8);
  }
#pragma GCC unroll 4
  for (int g = 0; g < SET; g++) {
    const char *at = from + g * LANES * m->bytes;
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++)
      __builtin_prefetch(mrt_few_column(at, m->bytes, l) + WIDTH * m->bytes);
    if (each == 8)
      turn_four(at, m->bytes, words[g]);
    else
      turn_words(at, m->bytes, words[g]);
    sum[g] = vec_load(sums + g * LANES);
  }
  if (kind == MRT_QUANTIZE_Q4_0) {
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++)
#pragma GCC unroll 1
      for (int w = 0; w < 4; w++, x += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
          add_step(kind, words, w, 2 * i + odd, x[i], scales, less, lower,
                   upper, sum);
#ifdef MRT_PLANES
  } else if (kind == MRT_QUANTIZE_NF4) {
    planes p = planes_of(m->values);
#pragma GCC unroll 1
    for (int w = 0; w < HALF / 8; w++, x += 8)
      add_planes(&p, words, w, x, scales, sum);
#endif
  } else {
#pragma GCC unroll 1
    for (int w = 0; w < HALF / each; w++, x += each)
#pragma GCC unroll 8
      for (int i = 0; i < each; i++)
        add_step(kind, words, w, i, x[i], scales, less, lower, upper, sum);
  }
#pragma GCC unroll 4
  for (int g = 0; g < SET; g++) vec_store(sums + g * LANES, sum[g]);
}

#define ADD(name, kind)                                                        \
  static void name(const mrt_codes *m, const char *from, int64_t n,            \
                   const real *x, const real *scales, const real *less,        \
                   real *sum) {                                                \
    for (int64_t s = 0; s < n; s += SET * LANES)                               \
      add_half(kind, m, from + s * m->bytes, x, scales + s, less + s,          \
               sum + s);                                                       \
  }
ADD(add_int8, MRT_QUANTIZE_INT8)
ADD(add_q4_0, MRT_QUANTIZE_Q4_0)
ADD(add_q8_0, MRT_QUANTIZE_Q8_0)
ADD(add_nf4, MRT_QUANTIZE_NF4) /* or fp4, by another table */

/* One half from step p on. */
static void add_one(const mrt_codes *m, int64_t row, int64_t n, int64_t p,
                    const real *x, const real *scales, real *sum) {
  int kind = m->o->kind;
  const char *from =
      (const char *)m->codes + row * m->bytes + p / mrt_quantize_pack(kind);
  real zero = kind == MRT_QUANTIZE_INT8 ? 128 : 8, less[WIDTH];
  for (int i = 0; i < WIDTH; i++) less[i] = zero * scales[i];
  if (kind == MRT_QUANTIZE_INT8)
    add_int8(m, from, n, x, scales, less, sum);
  else if (kind == MRT_QUANTIZE_Q4_0)
    add_q4_0(m, from, n, x, scales, less, sum);
  else if (kind == MRT_QUANTIZE_Q8_0)
    add_q8_0(m, from, n, x, scales, less, sum);
  else
    add_nf4(m, from, n, x, scales, less, sum);
}
#endif

bool mrt_codes_add(const mrt_few_product *f, int64_t j, int64_t p, int64_t end,
                   const real *x, real *sum) {
#if !defined(MRT_F64) && defined(__FMA__) && MRT_VECTOR_BYTES >= 32
  const mrt_codes *m = f->columns;
  int64_t n = least(WIDTH, f->g->n - j);
  if (p % HALF || end % HALF || n % (SET * LANES) || !codes_turn(m, f->g->k))
    return false;
  real scales[STEPS / HALF][WIDTH];
  take_scales(m, f->first + j, n, p, scales);
  for (int h = 0; p < end; p += HALF, x += HALF, h++)
    add_one(m, f->first + j, n, p, x, scales[h], sum);
  return true;
#else
  return false;
#endif
}
