/* pack.h -- copy strips of a matrix into the order the tile reads them
 *
 * A strip is `width` rows (of a) or columns (of b) over `k` steps; packed, the
 * `width` values of one step lie side by side:
 *
 *     to[p * width + i] = from[i * across + p * along]
 *
 * Lanes past `count` are zero.  Only gemm.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_PACK_H
#define MRT_GEMM_PACK_H

#include "cpu.h"

/* Transpose LANES x LANES values.  Interleaving the halves of the list of
 * vectors log2(LANES) times turns rows into columns; registers of two halves
 * interleave faster within these, which go to their places last. */
#define ZIP(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if MRT_VECTOR_BYTES == 32 && !defined(MRT_F64)
static inline __attribute__((always_inline)) void transpose(vec v[LANES]) {
  vec w[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < LANES; i += 2) {
    w[i] = ZIP(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    w[i + 1] = ZIP(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int i = 0; i < LANES; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
      v[i + 2 * j] = ZIP(w[i + j], w[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      v[i + 2 * j + 1] =
          ZIP(w[i + j], w[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
  for (int i = 0; i < LANES / 2; i++) {
    w[i] = ZIP(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    w[i + 4] = ZIP(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < LANES; i++) v[i] = w[i];
}
#elif MRT_VECTOR_BYTES == 32
static inline __attribute__((always_inline)) void transpose(vec v[LANES]) {
  vec w[LANES] = { ZIP(v[0], v[1], 0, 4, 2, 6), ZIP(v[0], v[1], 1, 5, 3, 7),
                   ZIP(v[2], v[3], 0, 4, 2, 6), ZIP(v[2], v[3], 1, 5, 3, 7) };
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    v[i] = ZIP(w[i], w[i + 2], 0, 1, 4, 5);
    v[i + 2] = ZIP(w[i], w[i + 2], 2, 3, 6, 7);
  }
}
#else
#if MRT_VECTOR_BYTES == 64 && !defined(MRT_F64)
#define LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif MRT_VECTOR_BYTES == 64
#define LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER 4, 12, 5, 13, 6, 14, 7, 15
#elif !defined(MRT_F64)
#define LOWER 0, 4, 1, 5
#define UPPER 2, 6, 3, 7
#else
#define LOWER 0, 2
#define UPPER 1, 3
#endif
static inline void transpose(vec v[LANES]) {
#pragma GCC unroll 4
  for (int round = 1; round < LANES; round *= 2) {
    vec w[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES / 2; i++) {
      w[2 * i] = ZIP(v[i], v[i + LANES / 2], LOWER);
      w[2 * i + 1] = ZIP(v[i], v[i + LANES / 2], UPPER);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) v[i] = w[i];
  }
}
#endif

/* Lanes [first, width), one value at a time. */
static inline void pack_any(real *to, int width, const real *from,
                            int64_t across, int64_t along, int64_t k, int first,
                            int count) {
  for (int64_t p = 0; p < k; p++, to += width, from += along) {
    for (int i = first; i < count; i++) to[i] = from[i * across];
    for (int i = count; i < width; i++) to[i] = 0;
  }
}

/* Steps are side by side: LANES of them at a time, for lanes [i, i + LANES). */
static inline void pack_turn(real *to, int width, const real *from,
                             int64_t across, int64_t k, int i) {
  int64_t whole = k / LANES * LANES;
  from += i * across, to += i;
  for (int64_t p = 0; p < whole; p += LANES) {
    vec v[LANES];
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) {
      v[j] = vec_load(from + j * across + p);
      __builtin_prefetch(from + (j + LANES) * across + p);
    }
    transpose(v);
#pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) vec_store(to + (p + j) * width, v[j]);
  }
  for (int64_t p = whole; p < k; p++)
    for (int j = 0; j < LANES; j++) to[p * width + j] = from[j * across + p];
}

static inline void pack_strip(real *to, int width, const real *from,
                              int64_t across, int64_t along, int64_t k,
                              int count) {
  int i = 0;
  for (; along == 1 && i + LANES <= count; i += LANES)
    pack_turn(to, width, from, across, k, i);
  if (i < width) pack_any(to, width, from, across, along, k, i, count);
}

/* The values of a step are side by side, for all strips: a few steps at a time,
 * so that lines of both sides are used whole. */
static inline __attribute__((always_inline)) void
copy_strips(real *to, int width, const real *from, int64_t along, int64_t k,
            int64_t strips) {
  enum { STEPS = MRT_VECTOR_BYTES == 64 ? 16 : 4 };
  for (int64_t p = 0; p < k; p += STEPS) {
    int64_t end = p + STEPS < k ? p + STEPS : k;
    for (int64_t s = 0; s < strips; s++)
      for (int64_t q = p; q < end; q++) {
        const real *step = from + s * width + q * along;
        __builtin_prefetch(step + STEPS * along); /* 4 % of a whole dW */
        memcpy(to + s * width * k + q * width, step,
               (size_t)width * sizeof(real));
      }
  }
}

/* Pack `n` rows or columns into strips of `width`, a constant; the last one is
 * rounded up to a multiple of `unit` only. */
static inline __attribute__((always_inline)) void
pack(real *to, int width, int unit, const real *from, int64_t across,
     int64_t along, int64_t k, int64_t n) {
  int64_t s = across == 1 ? n / width * width : 0;
  if (s) copy_strips(to, width, from, along, k, s / width);
  for (; s < n; s += width) {
    int count = n - s < width ? (int)(n - s) : width;
    pack_strip(to + s * k, (count + unit - 1) / unit * unit, from + s * across,
               across, along, k, count);
  }
}

#endif
