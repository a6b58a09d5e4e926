/* reduce.c -- the one reduction
 *
 * A block of accumulators stays in the nearest cache while the block of each
 * rank is folded into it, so every operand is read once and every result
 * written once: large reductions are as fast as memory.
 *
 * SPDX-License-Identifier: MIT */
#include "reduce.h"
#include "base/narrow.h"

#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { BLOCK = 512 }; /* elements: accumulators and a part of a rank in L1 */

/* ---- folding a rank's block into the accumulators ------------------------ */

typedef void fold(void *restrict acc, const void *restrict x, int n);

/* T is compared, U is added: integers wrap as unsigned. */
#define FOLD(name, T, expression)                                              \
  static void name(void *restrict acc, const void *restrict from, int n) {     \
    T *restrict y = acc;                                                       \
    const T *restrict x = from;                                                \
    for (int i = 0; i < n; i++) y[i] = (T)(expression);                        \
  }
/* What is not less than itself is NaN, and stays. */
#define FOLDS(name, T, U)                                                      \
  FOLD(name##_sum, T, (U)y[i] + (U)x[i])                                       \
  FOLD(name##_prod, T, (U)y[i] * (U)x[i])                                      \
  FOLD(name##_max, T, ((y[i] > x[i]) | (y[i] != y[i])) ? y[i] : x[i])          \
  FOLD(name##_min, T, ((y[i] < x[i]) | (y[i] != y[i])) ? y[i] : x[i])
FOLDS(f32, float, float)
FOLDS(f64, double, double)
FOLDS(i64, int64_t, uint64_t)
FOLDS(i32, int32_t, uint32_t)
FOLDS(u8, uint8_t, unsigned)

#define ROW(name)                                                              \
  {                                                                            \
    [MRT_REDUCE_SUM] = name##_sum, [MRT_REDUCE_MEAN] = name##_sum,             \
    [MRT_REDUCE_MAX] = name##_max, [MRT_REDUCE_MIN] = name##_min,              \
    [MRT_REDUCE_PROD] = name##_prod                                            \
  }

/* ---- 16-bit floats ------------------------------------------------------- */

/* The same loops, for vectors that a processor may not have. */
#if defined(__x86_64__) && defined(__GNUC__)
#define WIDER __attribute__((target("avx2,f16c")))
#else
#define WIDER
#endif

#define CONVERT(name, dtype, TARGET)                                           \
  TARGET static void widen_##name(float *restrict y,                           \
                                  const void *restrict from, int n) {          \
    const uint16_t *restrict x = from;                                         \
    for (int i = 0; i < n; i++) y[i] = dtype##_to_float(x[i]);                 \
  }                                                                            \
  TARGET static void round_##name(void *restrict to, const float *restrict x,  \
                                  int n) {                                     \
    uint16_t *restrict y = to;                                                 \
    for (int i = 0; i < n; i++) y[i] = float_to_##dtype(x[i]);                 \
  }
CONVERT(f16, f16, )
CONVERT(bf16, bf16, )
CONVERT(wider_bf16, bf16, WIDER)

/* The processor's conversions of f16 give the numbers of narrow.h. */
#if defined(__x86_64__) && defined(__GNUC__)
WIDER static void widen_wider_f16(float *restrict y, const void *restrict from,
                                  int n) {
  const uint16_t *restrict x = from;
  int i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                (const __m128i *)(const void *)(x + i))));
  for (; i < n; i++) y[i] = f16_to_float(x[i]);
}
WIDER static void round_wider_f16(void *restrict to, const float *restrict x,
                                  int n) {
  uint16_t *restrict y = to;
  int i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
  for (; i < n; i++) y[i] = float_to_f16(x[i]);
}
/* clang 14 cannot ask for f16c; what has avx2 has it. */
static bool has_wider(void) { return __builtin_cpu_supports("avx2"); }
#else
CONVERT(wider_f16, f16, )
static bool has_wider(void) { return false; }
#endif

static const size_t sizes[] = {
#define DTYPE(name, ctype, bytes, ...) [MRT_##name] = bytes,
#include "mrt/dtypes.def"
#undef DTYPE
};

size_t mrt_collective_dtype_bytes(mrt_dtype dtype) { return sizes[dtype]; }

/* What is folded in f32; other dtypes are folded as they are. */
static const struct narrow {
  void (*widen)(float *restrict y, const void *restrict from, int n);
  void (*round)(void *restrict to, const float *restrict x, int n);
} narrows[2][MRT_DTYPE_COUNT] = {
  { [MRT_f16] = { widen_f16, round_f16 },
    [MRT_bf16] = { widen_bf16, round_bf16 } },
  { [MRT_f16] = { widen_wider_f16, round_wider_f16 },
    [MRT_bf16] = { widen_wider_bf16, round_wider_bf16 } },
};

static fold *const folds[MRT_DTYPE_COUNT][MRT_REDUCE_PROD + 1] = {
  [MRT_f32] = ROW(f32), [MRT_f64] = ROW(f64), [MRT_i64] = ROW(i64),
  [MRT_i32] = ROW(i32), [MRT_u8] = ROW(u8),   [MRT_bool] = ROW(u8),
};

static void divide(mrt_dtype dtype, void *acc, int n, int ranks) {
  float *x = acc, of = (float)ranks;
  double *y = acc;
  if (dtype == MRT_f32)
    for (int i = 0; i < n; i++) x[i] /= of;
  else
    for (int i = 0; i < n; i++) y[i] /= ranks;
}

/* ---- storing ------------------------------------------------------------- */

/* Past the caches: a line that is written whole need not be read first. */
static void store_far(void *to, const void *from, size_t n) {
#if defined(__SSE2__)
  char *y = to;
  const char *x = from;
  size_t head = -(uintptr_t)y & 15;
  if (head > n) head = n;
  memcpy(y, x, head);
  for (y += head, x += head, n -= head; n >= 16; y += 16, x += 16, n -= 16)
    _mm_stream_si128((__m128i *)(void *)y,
                     _mm_loadu_si128((const __m128i *)(const void *)x));
  memcpy(y, x, n);
#else
  memcpy(to, from, n);
#endif
}

static void store(void *to, const void *from, size_t n) { memcpy(to, from, n); }

/* Stores are seen before what is stored after them. */
static void far_done(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/* Results too large for a cache, in lines that nobody has just read. */
static bool is_far(const void *to, const void *const *from, int ranks,
                   size_t nbytes) {
  enum { FAR = 4 << 20 };
  bool far = nbytes >= FAR;
  for (int i = 0; far && i < ranks; i++) far = from[i] != to;
  return far;
}

/* ---- a block at a time --------------------------------------------------- */

typedef struct reduce_room {
  _Alignas(64) char acc[BLOCK * sizeof(double)];
  _Alignas(64) float wide[BLOCK];
  _Alignas(64) uint16_t narrow[BLOCK];
} reduce_room;

/* The reduction of n elements from byte `at` on: where it lies in the room. */
static const void *reduce_block(mrt_reduction reduction, mrt_dtype dtype,
                                const void *const *from, int ranks, int all,
                                size_t at, int n, reduce_room *room) {
  const struct narrow *narrow = &narrows[has_wider()][dtype];
  mrt_dtype wide = narrow->widen ? MRT_f32 : dtype;
  fold *f = folds[wide][reduction];
  for (int r = 0; r < ranks; r++) {
    const void *x = (const char *)from[r] + at;
    if (narrow->widen) {
      narrow->widen(r ? room->wide : (float *)(void *)room->acc, x, n);
      x = room->wide;
    }
    if (r > 0)
      f(room->acc, x, n);
    else if (!narrow->widen)
      memcpy(room->acc, x, (size_t)n * sizes[dtype]);
  }
  if (reduction == MRT_REDUCE_MEAN) divide(wide, room->acc, n, all);
  if (!narrow->round) return room->acc;
  narrow->round(room->narrow, (const float *)(const void *)room->acc, n);
  return room->narrow;
}

void mrt_reduce_part(mrt_reduction reduction, mrt_dtype dtype,
                     const void *const *from, int ranks, void *const *to,
                     int nto, int64_t count, int all) {
  size_t bytes = sizes[dtype];
  reduce_room room;
  for (int64_t i = 0; i < count; i += BLOCK) {
    int n = count - i < BLOCK ? (int)(count - i) : BLOCK;
    size_t at = (size_t)i * bytes;
    const void *x =
        reduce_block(reduction, dtype, from, ranks, all, at, n, &room);
    for (int t = 0; t < nto; t++) {
      bool far = is_far(to[t], from, ranks, (size_t)count * bytes);
      (far ? store_far : store)((char *)to[t] + at, x, (size_t)n * bytes);
    }
  }
  far_done();
}

void mrt_reduce(mrt_reduction reduction, mrt_dtype dtype,
                const void *const *from, int ranks, void *const *to, int nto,
                int64_t count) {
  mrt_reduce_part(reduction, dtype, from, ranks, to, nto, count, ranks);
}
