/* philox.h -- counter-based random bits: Philox4x32-10
 *
 * A keyed bijection of counters, so a number is computed from where it stands,
 * never from the one before: whoever recomputes element i draws the same bits,
 * and there is no state to keep.  Passes the reference's known answers.
 *
 *   from  Salmon, Moraes, Dror & Shaw, Parallel Random Numbers: As Easy as
 *         1, 2, 3, SC'11
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_PHILOX_H
#define MRT_BASE_PHILOX_H

#include <stdint.h>

typedef struct mrt_philox {
  uint32_t w[4];
} mrt_philox;

static inline mrt_philox mrt_philox_round(mrt_philox c, uint32_t k0,
                                          uint32_t k1) {
  uint64_t p0 = (uint64_t)c.w[0] * 0xD2511F53u;
  uint64_t p1 = (uint64_t)c.w[2] * 0xCD9E8D57u;
  return (mrt_philox){ { (uint32_t)(p1 >> 32) ^ c.w[1] ^ k0, (uint32_t)p1,
                         (uint32_t)(p0 >> 32) ^ c.w[3] ^ k1, (uint32_t)p0 } };
}

/* Four random words for a counter under a key.  Written flat, so that a loop
 * over counters becomes vector code. */
static inline mrt_philox mrt_philox_draw(mrt_philox counter, uint64_t key) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (uint32_t i = 0; i < 10; i++)
    counter = mrt_philox_round(counter, k0 + i * 0x9E3779B9u,
                               k1 + i * 0xBB67AE85u);
  return counter;
}

#endif
