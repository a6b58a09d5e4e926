/* floats.c -- floats of any dtype as reals, and back
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "base/narrow.h"

/* Whole vectors first: rows of a tile are some of these. */
#define CONVERT(name, T, widened, rounded)                                     \
  static void widen_##name(const void *restrict from, real *restrict to,       \
                           int64_t n) {                                        \
    const T *x = from;                                                         \
    for (int64_t i = 0; i < n; i++) to[i] = widened(x[i]);                     \
  }                                                                            \
  static void round_##name(const real *restrict x, void *restrict to,          \
                           int64_t n) {                                        \
    T *y = to;                                                                 \
    int64_t i = 0;                                                             \
    for (; i + LANES <= n; i += LANES)                                         \
      for (int j = 0; j < LANES; j++) y[i + j] = rounded((float)x[i + j]);     \
    for (; i < n; i++) y[i] = rounded((float)x[i]);                            \
  }
CONVERT(bf16, uint16_t, bf16_to_float, float_to_bf16)
CONVERT(f8_e4m3, uint8_t, f8_e4m3_to_float, float_to_f8_e4m3)
CONVERT(f8_e5m2, uint8_t, f8_e5m2_to_float, float_to_f8_e5m2)

/* The processor's conversions of f16 give the numbers of narrow.h. */
#if defined(__F16C__) && !defined(MRT_F64)
#include <immintrin.h>

#if MRT_VECTOR_BYTES == 64
#define VEC_WIDENED(x)    (vec) _mm512_cvtph_ps(_mm256_loadu_si256(x))
#define VEC_ROUNDED(y, x) _mm256_storeu_si256(y, _mm512_cvtps_ph((__m512)x, 0))
#else
#define VEC_WIDENED(x)    (vec) _mm256_cvtph_ps(_mm_loadu_si128(x))
#define VEC_ROUNDED(y, x) _mm_storeu_si128(y, _mm256_cvtps_ph((__m256)x, 0))
#endif

static void widen_f16(const void *restrict from, real *restrict to, int64_t n) {
  const uint16_t *x = from;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    vec_store(to + i, VEC_WIDENED((const void *)(x + i)));
  for (; i < n; i++) to[i] = _cvtsh_ss(x[i]);
}
static void round_f16(const real *restrict x, void *restrict to, int64_t n) {
  uint16_t *y = to;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    VEC_ROUNDED((void *)(y + i), vec_load(x + i));
  for (; i < n; i++) y[i] = _cvtss_sh(x[i], 0);
}
#else
CONVERT(f16, uint16_t, f16_to_float, float_to_f16)
#endif

static void copy(const void *from, real *to, int64_t n) {
  memcpy(to, from, (size_t)n * sizeof *to);
}
static void copy_back(const real *from, void *to, int64_t n) {
  memcpy(to, from, (size_t)n * sizeof *from);
}

void mrt_widen(mrt_dtype dtype, const void *from, real *to, int64_t n) {
  static void (*const widen[MRT_DTYPE_COUNT])(const void *, real *, int64_t) = {
    [MRT_REAL] = copy,
    [MRT_f16] = widen_f16,
    [MRT_bf16] = widen_bf16,
    [MRT_f8_e4m3] = widen_f8_e4m3,
    [MRT_f8_e5m2] = widen_f8_e5m2,
  };
  widen[dtype](from, to, n);
}

static void (*const rounds[MRT_DTYPE_COUNT])(const real *, void *, int64_t) = {
  [MRT_REAL] = copy_back,        [MRT_f16] = round_f16,
  [MRT_bf16] = round_bf16,       [MRT_f8_e4m3] = round_f8_e4m3,
  [MRT_f8_e5m2] = round_f8_e5m2,
};

void mrt_round(mrt_dtype dtype, const real *from, void *to, int64_t n) {
  rounds[dtype](from, to, n);
}

void mrt_round_rows(mrt_dtype dtype, const real *from, int64_t row, void *to,
                    int64_t to_row, int64_t m, int64_t n) {
  char *y = to;
  to_row *= (int64_t)mrt_dtypes[dtype].bytes;
  for (; m--; from += row, y += to_row) rounds[dtype](from, y, n);
}

enum { CHUNK = 256 };

void mrt_widen_apart(mrt_dtype dtype, const void *from, int64_t step, real *to,
                     int64_t n) {
  if (step == 1) {
    mrt_widen(dtype, from, to, n);
    return;
  }
  _Alignas(8) char room[CHUNK * sizeof(real)];
  size_t bytes = mrt_dtypes[dtype].bytes;
  const char *x = from;
  for (int64_t at = 0; at < n; at += CHUNK) {
    int64_t count = n - at < CHUNK ? n - at : CHUNK;
    char *y = room;
    for (int64_t i = 0; i < count; i++, x += step * (int64_t)bytes, y += bytes)
      memcpy(y, x, bytes);
    mrt_widen(dtype, room, to + at, count);
  }
}

void mrt_round_reals(mrt_dtype dtype, real *x, int64_t n) {
  uint16_t room[CHUNK];
  for (int64_t at = 0; at < n; at += CHUNK) {
    int64_t count = n - at < CHUNK ? n - at : CHUNK;
    mrt_round(dtype, x + at, room, count);
    mrt_widen(dtype, room, x + at, count);
  }
}
