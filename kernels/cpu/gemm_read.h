/* gemm_read.h -- the values of a product's operand, rounded and packed
 *
 * A value becomes a unit of four bytes: an f32, or with dot products a pair of
 * bf16 of two steps of k, the first in the lower half.  Units are packed as
 * gemm_pack.h says, by vectors where k is contiguous in memory.
 *
 * Only gemm_mixed.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_READ_H
#define MRT_GEMM_READ_H

#include "gemm.h"
#include "gemm_block.h"
#include "gemm_pack.h"
#include "narrow.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#define AS_IS(x) (x)
#define LOAD(name, T, from)                                                    \
  static void load_##name(float *restrict to, const void *restrict data,       \
                          int64_t n) {                                         \
    const T *x = data;                                                         \
    for (int64_t i = 0; i < n; i++) to[i] = from(x[i]);                        \
  }
LOAD(f32, float, AS_IS)
LOAD(bf16, uint16_t, bf16_to_float)
LOAD(f8_e4m3, uint8_t, f8_e4m3_to_float)
LOAD(f8_e5m2, uint8_t, f8_e5m2_to_float)
/* The processor's conversion gives the same numbers. */
#if MRT_VECTOR_BYTES == 64
#define WIDEN(x) (vec) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x)))
#elif defined(__F16C__)
#define WIDEN(x) (vec) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x)))
#endif
#ifdef WIDEN
static void load_f16(float *restrict to, const void *restrict data, int64_t n) {
  const uint16_t *x = data;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(to + i, WIDEN(x + i));
  for (; i < n; i++) to[i] = f16_to_float(x[i]);
}
#undef WIDEN
#else
LOAD(f16, uint16_t, f16_to_float)
#endif
#undef LOAD
#undef AS_IS

/* Rows of a tile, rounded: `row` and `to_row` are strides in elements. */
#define STORE(name, T)                                                         \
  static void store_##name(void *restrict to, int64_t to_row,                  \
                           const float *restrict x, int64_t row, int64_t m,    \
                           int64_t n) {                                        \
    T *y = to;                                                                 \
    for (int64_t i = 0; i < m; i++, x += row, y += to_row)                     \
      if (n == COLS)                                                           \
        for (int j = 0; j < COLS; j++) y[j] = float_to_##name(x[j]);           \
      else                                                                     \
        for (int64_t j = 0; j < n; j++) y[j] = float_to_##name(x[j]);          \
  }                                                                            \
  static void round_##name(float *x, int64_t n) {                              \
    for (int64_t i = 0; i < n; i++)                                            \
      x[i] = name##_to_float(float_to_##name(x[i]));                           \
  }
STORE(f16, uint16_t)
STORE(bf16, uint16_t)
STORE(f8_e4m3, uint8_t)
STORE(f8_e5m2, uint8_t)
#undef STORE

typedef struct format {
  void (*load)(float *to, const void *data, int64_t n);
  void (*store)(void *to, int64_t to_row, const float *x, int64_t row,
                int64_t m, int64_t n); /* NULL: f32 */
  void (*round)(float *x, int64_t n);  /* NULL: f32 */
} format;

static const format formats[MRT_DTYPE_COUNT] = {
  [MRT_f32] = { load_f32, NULL, NULL },
  [MRT_f16] = { load_f16, store_f16, round_f16 },
  [MRT_bf16] = { load_bf16, store_bf16, round_bf16 },
  [MRT_f8_e4m3] = { load_f8_e4m3, store_f8_e4m3, round_f8_e4m3 },
  [MRT_f8_e5m2] = { load_f8_e5m2, store_f8_e5m2, round_f8_e5m2 },
};

/* An operand: x(i, p) for i across, p along k. */
typedef struct reader {
  const char *data;
  int64_t across, along; /* in elements */
  int64_t bytes;         /* of an element */
  void (*load)(float *to, const void *data, int64_t n);
  void (*round)(float *x, int64_t n); /* or NULL */
  bool pairs;
  bool plain; /* elements are as wanted: f32, or bf16 for pairs */
} reader;

static reader reader_of(const mrt_matrix *x, int64_t across, int64_t along,
                        mrt_dtype compute, bool pairs) {
  mrt_dtype wanted = pairs ? MRT_bf16 : MRT_f32;
  bool rounds = compute != MRT_DTYPE_COUNT && compute != x->dtype;
  return (reader){
    .data = x->data,
    .across = across,
    .along = along,
    .bytes = (int64_t)mrt_dtypes[x->dtype].bytes,
    .load = formats[x->dtype].load,
    /* Pairs are rounded to bf16 in any case. */
    .round = rounds && compute != wanted ? formats[compute].round : NULL,
    .pairs = pairs,
    .plain = x->dtype == wanted && (!rounds || compute == MRT_f32),
  };
}

enum { UNIT = 4, CHUNK = 256 };

/* n elements `step` apart, side by side. */
static const void *gather(const reader *r, void *to, const char *from,
                          int64_t step, int64_t n) {
  if (step == 1) return from;
  char *at = to;
  for (int64_t i = 0; i < n; i++, from += step * r->bytes, at += r->bytes)
    memcpy(at, from, (size_t)r->bytes);
  return to;
}

static const char *element(const reader *r, int64_t i, int64_t p) {
  return r->data + (i * r->across + p * r->along) * r->bytes;
}

/* n values that begin at (i, p) and are `step` apart: f32 or bf16. */
static void read_values(const reader *r, void *to, int64_t i, int64_t p,
                        int64_t step, int64_t n) {
  const char *from = element(r, i, p);
  if (r->plain && step == 1) {
    memcpy(to, from, (size_t)(n * r->bytes));
    return;
  }
  for (int64_t at = 0; at < n; at += CHUNK) {
    _Alignas(8) char raw[CHUNK * sizeof(float)];
    float values[CHUNK];
    int64_t count = least(CHUNK, n - at);
    const void *x = gather(r, raw, from + at * step * r->bytes, step, count);
    float *y = r->pairs ? values : (float *)to + at;
    r->load(y, x, count);
    if (r->round) r->round(y, count);
    if (r->pairs) store_bf16((uint16_t *)to + at, 0, y, 0, 1, count);
  }
}

/* Units [0, k) of row i from step p on, `left` steps of which there are. */
static void read_row(const reader *r, void *to, int64_t i, int64_t p, int64_t k,
                     int64_t left) {
  int64_t steps = least(r->pairs ? 2 * k : k, left);
  read_values(r, to, i, p, r->along, steps);
  if (r->pairs && steps < 2 * k) ((uint16_t *)to)[steps] = 0;
}

/* Some rows at a time, a few steps of each strip, so that lines of both sides
 * are used whole. */
enum { SOME = 4 * COLS, STEPS = 16 };

/* Units of at most SOME rows [i, i + n) at step p. */
static void read_step(const reader *r, void *to, int64_t i, int64_t p,
                      int64_t n, int64_t left) {
  if (!r->pairs) {
    read_values(r, to, i, p, r->across, n);
    return;
  }
  uint16_t room[2][SOME];
  const uint16_t *step[2] = { room[0], room[1] };
  uint32_t *units = to;
  for (int q = 0; q < 2; q++)
    if (q == left)
      memset(room[q], 0, sizeof room[q]);
    else if (r->plain)
      step[q] = (const uint16_t *)element(r, i, p + q);
    else
      read_values(r, room[q], i, p + q, r->across, n);
  for (int64_t j = 0; j < n; j++)
    units[j] = step[0][j] | (uint32_t)step[1][j] << 16;
}

/* Copy strips of `width` out of `n` units of `steps` steps, `row` apart. */
static inline __attribute__((always_inline)) void
spread(real *to, int width, const char *from, int64_t row, int64_t n,
       int64_t steps, int64_t k) {
  for (int64_t s = 0; s < n; s += width, from += width * UNIT)
    for (int64_t q = 0; q < steps; q++)
      memcpy(to + s * k + q * width, from + q * row * UNIT,
             (size_t)width * UNIT);
}

/* Strips of `width` rows of n, k units from step p on, of a matrix of which a
 * step is side by side. */
static inline __attribute__((always_inline)) void
pack_steps(const reader *r, real *to, int width, int unit, int64_t i, int64_t n,
           int64_t p, int64_t k, int64_t left) {
  _Alignas(64) char units[STEPS * SOME * UNIT];
  int each = r->pairs ? 2 : 1;
  for (int64_t s = 0; s < n; s += SOME, to += SOME * k) {
    int64_t count = least(SOME, n - s), all = round_up(count, unit);
    int64_t whole = all / width * width, rest = all - whole;
    for (int64_t q = 0; q < k; q += STEPS) {
      int64_t steps = least(STEPS, k - q);
      for (int64_t j = 0; j < steps; j++) {
        char *row = units + j * SOME * UNIT;
        read_step(r, row, i + s, p + each * (q + j), count,
                  left - each * (q + j));
        memset(row + count * UNIT, 0, (size_t)(all - count) * UNIT);
      }
      spread(to + q * width, width, units, SOME, whole, steps, k);
      if (rest)
        spread(to + whole * k + q * rest, (int)rest, units + whole * UNIT, SOME,
               rest, steps, k);
    }
  }
}

/* The same where steps are not: LANES rows at a time, turned.  `stage` is
 * LANES rows of k units rounded up to LANES. */
static void pack_turned(const reader *r, real *to, real *stage, int64_t i,
                        int64_t n, int64_t p, int64_t k, int64_t left) {
  int64_t row = round_up(k, LANES);
  for (int64_t s = 0; s < n; s += LANES) {
    int64_t strip = s / COLS * COLS, width = least(COLS, n - strip);
    width = round_up(width, LANES);
    real *at = to + strip * k + (s - strip);
    for (int64_t j = 0; j < LANES; j++)
      if (s + j < n)
        read_row(r, stage + j * row, i + s + j, p, k, left);
      else
        memset(stage + j * row, 0, (size_t)row * sizeof(real));
    for (int64_t q = 0; q < k; q += LANES) {
      vec v[LANES];
#pragma GCC unroll 16
      for (int j = 0; j < LANES; j++) v[j] = vec_load(stage + j * row + q);
      transpose(v);
      int64_t count = least(LANES, k - q);
      for (int64_t j = 0; j < count; j++) vec_store(at + (q + j) * width, v[j]);
    }
  }
}

#endif
