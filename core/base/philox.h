/* philox.h -- counter-based random bits: Philox4x32-10
 *
 * A keyed bijection of counters, so a number is computed from where it stands,
 * never from the one before: whoever recomputes element i draws the same bits,
 * and there is no state to keep. 
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

#define MRT_PHILOX_M0 0xD2511F53u /* multipliers */
#define MRT_PHILOX_M1 0xCD9E8D57u
#define MRT_PHILOX_W0 0x9E3779B9u /* added to the key each round */
#define MRT_PHILOX_W1 0xBB67AE85u

/* Four random words for a counter under a key. */
static inline mrt_philox mrt_philox_draw(mrt_philox c, uint64_t key) {
  for (uint32_t i = 0; i < 10; i++) {
    uint32_t k0 = (uint32_t)key + i * MRT_PHILOX_W0;
    uint32_t k1 = (uint32_t)(key >> 32) + i * MRT_PHILOX_W1;
    uint64_t p0 = (uint64_t)c.w[0] * MRT_PHILOX_M0;
    uint64_t p1 = (uint64_t)c.w[2] * MRT_PHILOX_M1;
    c = (mrt_philox){ { (uint32_t)(p1 >> 32) ^ c.w[1] ^ k0, (uint32_t)p1,
                        (uint32_t)(p0 >> 32) ^ c.w[3] ^ k1, (uint32_t)p0 } };
  }
  return c;
}

#endif
