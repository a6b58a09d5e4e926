/* units.h -- values of any float dtype, rounded, as units of a product
 *
 * A value becomes a unit of four bytes: an f32, or with dot products a pair of
 * bf16 of two steps of a sum, the first in the lower half.
 *
 * Who includes this has `least` and COLS, the width of a tile.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_UNITS_H
#define MRT_UNITS_H

#include "gemm.h"
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
static inline void read_row(const reader *r, void *to, int64_t i, int64_t p,
                            int64_t k, int64_t left) {
  int64_t steps = least(r->pairs ? 2 * k : k, left);
  read_values(r, to, i, p, r->along, steps);
  if (r->pairs && steps < 2 * k) ((uint16_t *)to)[steps] = 0;
}

/* Pairs of a and b. */
static inline void zip_pairs(void *to, const uint16_t *a, const uint16_t *b,
                             int64_t n) {
  uint32_t *units = to;
  for (int64_t j = 0; j < n; j++) units[j] = a[j] | (uint32_t)b[j] << 16;
}

static inline bool is_bf16(mrt_dtype d) {
  return d == MRT_bf16 || d == MRT_f8_e4m3 || d == MRT_f8_e5m2;
}
/* Are all values of a and b, rounded to `compute`, those of bf16?  (Rounding
 * bf16 to f16 gives no bits that bf16 lacks.) */
static inline bool are_bf16(mrt_dtype a, mrt_dtype b, mrt_dtype compute) {
  bool rounded = compute != MRT_DTYPE_COUNT && is_bf16(compute);
  return rounded || (is_bf16(a) && is_bf16(b));
}

#endif
