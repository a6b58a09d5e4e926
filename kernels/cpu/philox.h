/* philox.h -- Philox for many counters at once
 *
 * A word lies in the low half of a 64-bit lane, where the processors' 32-bit
 * multiplication wants it and leaves both halves of the product; what is in
 * the high half does not matter.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_PHILOX_H
#define MRT_CPU_PHILOX_H

#include "base/philox.h"
#include "cpu.h"
#include "op/random.h"

enum { PHILOX_DRAWS = 64 };

#ifdef __SSE2__
#if MRT_VECTOR_BYTES == 64
#include <immintrin.h>
#else /* all of it is 0.3 s of each file that reads it */
#include <emmintrin.h>
#endif

typedef uint64_t lanes __attribute__((vector_size(MRT_VECTOR_BYTES)));
typedef uint32_t words __attribute__((vector_size(MRT_VECTOR_BYTES / 2)));
typedef words uwords __attribute__((aligned(4), may_alias));
enum { PHILOX_LANES = MRT_VECTOR_BYTES / 8 };

/* The product of the low halves. */
static inline lanes product(lanes x, uint64_t k) {
  lanes y = k - (lanes){ 0 };
#if MRT_VECTOR_BYTES == 64
  return (lanes)_mm512_mul_epu32((__m512i)x, (__m512i)y);
#elif MRT_VECTOR_BYTES == 32
  typedef int ints __attribute__((vector_size(32)));
  return (lanes)__builtin_ia32_pmuludq256((ints)x, (ints)y);
#else
  return (lanes)_mm_mul_epu32((__m128i)x, (__m128i)y);
#endif
}

static inline void philox_lanes(lanes c[4], uint64_t seed) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (uint32_t i = 0; i < 10; i++) {
    lanes p0 = product(c[0], MRT_PHILOX_M0), p1 = product(c[2], MRT_PHILOX_M1);
    c[0] = (p1 >> 32) ^ c[1] ^ (k0 + i * MRT_PHILOX_W0);
    c[2] = (p0 >> 32) ^ c[3] ^ (k1 + i * MRT_PHILOX_W1);
    c[1] = p1, c[3] = p0;
  }
}

/* word[k][j] is word k of counter (first + j, node, step). */
static inline void philox(uint64_t seed, uint64_t first, uint32_t node,
                          uint32_t step, uint32_t word[4][PHILOX_DRAWS]) {
  lanes at;
  for (int i = 0; i < PHILOX_LANES; i++) at[i] = first + (uint64_t)i;
  for (int j = 0; j < PHILOX_DRAWS; j += PHILOX_LANES, at += PHILOX_LANES) {
    lanes c[4] = { at, at >> 32, node - (lanes){ 0 }, step - (lanes){ 0 } };
    philox_lanes(c, seed);
    for (int k = 0; k < 4; k++)
      *(uwords *)&word[k][j] = __builtin_convertvector(c[k], words);
  }
}

#else

static inline void philox(uint64_t seed, uint64_t first, uint32_t node,
                          uint32_t step, uint32_t word[4][PHILOX_DRAWS]) {
  for (int j = 0; j < PHILOX_DRAWS; j++) {
    uint64_t at = first + (uint64_t)j;
    mrt_philox c = { { (uint32_t)at, (uint32_t)(at >> 32), node, step } };
    c = mrt_philox_draw(c, seed);
    for (int k = 0; k < 4; k++) word[k][j] = c.w[k];
  }
}

#endif

/* The same for a random operator: its draw is the first of its options. */
static inline void philox_of(const void *options, const mrt_run *run,
                             uint64_t first, uint32_t word[4][PHILOX_DRAWS]) {
  mrt_draw d;
  memcpy(&d, options, sizeof d);
  bool pinned = (d.key & MRT_DRAW_PINNED) != 0;
  philox(pinned ? d.seed : run->seed, first, (uint32_t)d.key,
         pinned ? 0 : (uint32_t)run->step, word);
}

/* The index in the tensor of the whole batch that element i of the part's has,
 * and how many elements follow each other there as they do here. */
static inline int64_t mrt_whole_index(const mrt_block *b, int64_t i,
                                      int64_t *run) {
  mrt_draw d;
  memcpy(&d, b->options, sizeof d);
  const mrt_run *r = b->run;
  int64_t part = r->rows * d.inner; /* of the elements under one outer index */
  *run = INT64_MAX;
  if (part == 0) return i;
  *run = part - i % part;
  return i / part * r->all_rows * r->ranks * d.inner +
         (r->rank * r->all_rows + r->row) * d.inner + i % part;
}

#endif
