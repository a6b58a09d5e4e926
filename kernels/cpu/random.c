/* random.c -- blocks of rand, randn, randint and dropout
 *
 * Four elements share a draw of Philox: element i takes word i % 4 of counter
 * i / 4, under the seed, the node's key and the step.  So an element's
 * number depends on its index alone.  Doubles take 21 more bits from a second
 * draw, and agree with floats in the first 24.
 *
 * SPDX-License-Identifier: MIT */
#include "op/random.h"
#include "philox.h"
#include "pointwise.h"

enum { DRAWS = PHILOX_DRAWS, CHUNK = 4 * DRAWS };
#define SECOND (UINT64_C(1) << 63) /* counters of the second draw */

static void draw(const mrt_block *b, uint64_t counter,
                 uint32_t word[4][DRAWS]) {
  philox_of(b->options, b->run, counter, word);
}

/* Calls emit(b, counter, at, skip, n) for the parts of the block that lie in
 * one chunk of counters: `skip` elements of the chunk come before the block's
 * element `at`. */
typedef void emit_part(const mrt_block *b, uint64_t counter, int64_t at,
                       int64_t skip, int64_t n);

static void each_chunk(const mrt_block *b, emit_part *emit) {
  for (int64_t at = 0; at < b->n;) {
    int64_t run, index = mrt_whole_index(b, b->first + at, &run),
                 skip = index % 4;
    int64_t n = CHUNK - skip < b->n - at ? CHUNK - skip : b->n - at;
    n = n < run ? n : run;
    emit(b, (uint64_t)(index / 4), at, skip, n);
    at += n;
  }
}

/* u[k][j] uniform in [0, 1). */
static void uniform(const mrt_block *b, uint64_t counter, real u[4][DRAWS]) {
  uint32_t w[4][DRAWS];
  draw(b, counter, w);
#ifdef MRT_F64
  uint32_t low[4][DRAWS];
  draw(b, counter | SECOND, low);
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < DRAWS; j++) {
      uint64_t bits = (uint64_t)w[k][j] << 21 | low[k][j] >> 11;
      u[k][j] = (double)bits * 0x1p-53;
    }
#else
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < DRAWS; j++)
      u[k][j] = (float)(int32_t)(w[k][j] >> 8) * 0x1p-24f;
#endif
}

static void interleave(real u[4][DRAWS], real *out) {
  for (int j = 0; j < DRAWS; j++)
    for (int k = 0; k < 4; k++) out[4 * j + k] = u[k][j];
}

static void store(const mrt_block *b, int64_t at, const real *value,
                  int64_t n) {
  memcpy((real *)b->out + at, value, (size_t)n * sizeof(real));
}

static void rand_part(const mrt_block *b, uint64_t counter, int64_t at,
                      int64_t skip, int64_t n) {
  real u[4][DRAWS], value[CHUNK];
  uniform(b, counter, u);
  interleave(u, value);
  store(b, at, value + skip, n);
}
static void rand_block(const mrt_block *b) { each_chunk(b, rand_part); }
MRT_KERNEL(rand, .block = rand_block);

/* Box & Muller: words 2p and 2p + 1 make elements 2p and 2p + 1.  1 - u is in
 * (0, 1], where the logarithm is finite. */
static void pair(real u[DRAWS], real v[DRAWS]) {
  const real turn = REAL(6.28318530717958647693);
  _Pragma("omp simd") for (int j = 0; j < DRAWS; j++) {
    real radius = m_sqrt(-2 * m_log(1 - u[j])), angle = turn * v[j];
    u[j] = radius * m_cos_near(angle);
    v[j] = radius * m_sin_near(angle);
  }
}
static void randn_part(const mrt_block *b, uint64_t counter, int64_t at,
                       int64_t skip, int64_t n) {
  real u[4][DRAWS], value[CHUNK];
  uniform(b, counter, u);
  pair(u[0], u[1]);
  pair(u[2], u[3]);
  interleave(u, value);
  store(b, at, value + skip, n);
}
static void randn_block(const mrt_block *b) { each_chunk(b, randn_part); }
MRT_KERNEL(randn, .block = randn_block);

/* x * scale where the element's word reaches the threshold, else x * 0. */
static void dropout_part(const mrt_block *b, uint64_t counter, int64_t at,
                         int64_t skip, int64_t n) {
  const mrt_dropout_options *o = b->options;
  uint32_t drop = o->p < 1 ? (uint32_t)(o->p * 0x1p32) : 0;
  real scale = o->p < 1 ? (real)(1 / (1 - o->p)) : 0, factor[CHUNK];
  uint32_t w[4][DRAWS];
  draw(b, counter, w);
  for (int j = 0; j < DRAWS; j++)
    for (int k = 0; k < 4; k++) factor[4 * j + k] = w[k][j] >= drop ? scale : 0;
  const real *x = (const real *)b->in[0] + at, *f = factor + skip;
  real *y = (real *)b->out + at;
  _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = x[i] * f[i];
}
static void dropout_block(const mrt_block *b) { each_chunk(b, dropout_part); }
MRT_KERNEL(dropout, .block = dropout_block);

/* floor(bits / 2^64 * range) by parts: range * high / 2^32, carries and all.
 * 64 bits, so that the bias is below range / 2^64. */
static inline uint64_t scaled(uint32_t high, uint32_t low, uint64_t range) {
  uint64_t r0 = (uint32_t)range, r1 = range >> 32;
  uint64_t mid = r0 * high + (r0 * low >> 32), mid2 = r1 * low;
  uint64_t carry = ((uint32_t)mid + (uint64_t)(uint32_t)mid2) >> 32;
  return r1 * high + (mid >> 32) + (mid2 >> 32) + carry;
}
static void randint_part(const mrt_block *b, uint64_t counter, int64_t at,
                         int64_t skip, int64_t n) {
  const mrt_randint_options *o = b->options;
  uint64_t range = (uint64_t)o->high - (uint64_t)o->low;
  uint32_t high[4][DRAWS], low[4][DRAWS];
  draw(b, counter, high);
  draw(b, counter | SECOND, low);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = (i + skip) % 4, j = (i + skip) / 4;
    uint64_t x = (uint64_t)o->low + scaled(high[k][j], low[k][j], range);
    switch (b->out_dtype) {
    case MRT_i64:
      ((int64_t *)b->out)[at + i] = (int64_t)x;
      break;
    case MRT_i32:
      ((int32_t *)b->out)[at + i] = (int32_t)x;
      break;
    default:
      ((uint8_t *)b->out)[at + i] = (uint8_t)x;
    }
  }
}
static void randint_block(const mrt_block *b) { each_chunk(b, randint_part); }
MRT_KERNEL(randint, .block = randint_block);
