/* tile.h -- tiles of a convolution in registers
 *
 * ROWS places of an image by VECS vectors of channels are kept in registers
 * while a sum runs.  Six rows by 64 channels fill 24 of 32 registers
 * (AVX-512, 64-bit Arm), six by two vectors 12 of 16 elsewhere; channel counts
 * of networks are multiples of both widths.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_TILE_H
#define MRT_CONV_TILE_H

#include "cpu.h"

#if MRT_VECTOR_BYTES == 64 || defined(__aarch64__)
enum { ROWS = 6, VECS = 4 };
#else
enum { ROWS = 6, VECS = 2 };
#endif
enum { COLS = VECS * LANES };

#define INLINED static inline __attribute__((always_inline))

/* Call run(vecs, ...) with a constant for `vecs`, 1 to VECS. */
#define BY_VECS(vecs, run, ...)                                                \
  do {                                                                         \
    if ((vecs) == VECS)                                                        \
      run(VECS, __VA_ARGS__);                                                  \
    else if ((vecs) == 1)                                                      \
      run(1, __VA_ARGS__);                                                     \
    else if (VECS > 2 && (vecs) == 2)                                          \
      run(VECS > 2 ? 2 : 1, __VA_ARGS__);                                      \
    else if (VECS > 3)                                                         \
      run(VECS > 3 ? 3 : 1, __VA_ARGS__);                                      \
  } while (0)

/* One place of the kernel: what each row reads there, `tap` the place's number
 * within the packed weights. */
typedef struct reads {
  const void *row[ROWS]; /* elements of x; units (units.h) in a tile */
  int64_t tap;
} reads;

/* Where a tile goes: `rows` rows of y, n of its columns. */
typedef struct target {
  real *y[ROWS];
  int rows, n;
  bool add;         /* to what earlier parts of the sum left there */
  const real *bias; /* of the first column, or NULL; after the last part */
} target;

/* The first n values at p; 0 for the rest. */
INLINED vec load_some(const real *p, int n) {
  real lane[LANES] = { 0 };
  memcpy(lane, p, (size_t)n * sizeof *p);
  return vec_load(lane);
}

/* One vector of a row of y, of which n lanes are there. */
INLINED void put(real *y, vec sum, int n, const real *bias, bool add) {
  if (n >= LANES) {
    if (add) sum = vec_load(y) + sum;
    if (bias) sum += vec_load(bias);
    vec_store(y, sum);
    return;
  }
  if (add) sum = load_some(y, n) + sum;
  if (bias) sum += load_some(bias, n);
  real lane[LANES];
  vec_store(lane, sum);
  memcpy(y, lane, (size_t)n * sizeof *y);
}

/* All of a tile's rows and columns are there. */
INLINED void put_whole(int vecs, vec sum[ROWS][VECS], const target *at) {
#pragma GCC unroll 6
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) {
      real *y = at->y[i] + j * LANES;
      vec v = sum[i][j];
      if (at->add) v = vec_load(y) + v;
      if (at->bias) v += vec_load(at->bias + j * LANES);
      vec_store(y, v);
    }
}

/* Rows or columns are missing: of `sums`, vecs vectors to a row.  Apart from
 * the loop, for what it needs of registers made compilers keep sums of whole
 * tiles in memory. */
static __attribute__((noinline)) void put_edge(int vecs, const real *sums,
                                               const target *at) {
  for (int i = 0; i < at->rows; i++)
    for (int j = 0; j < vecs; j++, sums += LANES)
      put(at->y[i] + j * LANES, vec_load(sums), at->n - j * LANES,
          at->bias ? at->bias + j * LANES : NULL, at->add);
}

INLINED void put_tile(int vecs, vec sum[ROWS][VECS], const target *at) {
  if (at->rows == ROWS && at->n == vecs * LANES) {
    put_whole(vecs, sum, at);
    return;
  }
  real room[ROWS * COLS];
#pragma GCC unroll 6
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++)
      vec_store(room + (i * vecs + j) * LANES, sum[i][j]);
  put_edge(vecs, room, at);
}

/* Sums over `count` places of the kernel and k channels each; w holds vecs
 * vectors for each of them. */
INLINED void tile_channels(int vecs, const reads *r, int count, int64_t k,
                           const real *w, const target *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 6
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  for (; count--; r++) {
    const real *b = w + r->tap * k * vecs * LANES, *x[ROWS];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) x[i] = r->row[i];
    for (int64_t p = 0; p < k; p++, b += vecs * LANES) {
      vec y[VECS];
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++) y[j] = vec_load(b + j * LANES);
#pragma GCC unroll 6
      for (int i = 0; i < ROWS; i++) {
        vec xi = vec_all(x[i][p]);
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++) sum[i][j] += xi * y[j];
      }
    }
  }
  put_tile(vecs, sum, at);
}

#endif
