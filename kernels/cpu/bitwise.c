/* bitwise.c -- blocks of operators on the bits of integers
 *
 * SPDX-License-Identifier: MIT */
#include "pointwise.h"

MRT_INTEGERS(bitwise_not, MRT_EACH1, ~x)
static void bitwise_not_block(const mrt_block *b) {
  if (b->in_dtype == MRT_bool)
    MRT_EACH1(b, uint8_t, uint8_t, !x);
  else
    MRT_BOTH(bitwise_not_integers)(b);
}
MRT_KERNEL(bitwise_not, .block = bitwise_not_block);

#define INTEGERS2(op, expr)                                                    \
  MRT_INTEGERS(op, MRT_EACH2, expr)                                            \
  MRT_KERNEL(op, .block = MRT_BOTH(op##_integers))

INTEGERS2(bitwise_and, x &y);
INTEGERS2(bitwise_or, x | y);
INTEGERS2(bitwise_xor, x ^ y);

/* Whether as many bits can be shifted away; beyond that all are gone. */
#define WITHIN ((wrap)y < 8 * sizeof(wrap))
#define MOST   (8 * sizeof(wrap) - 1)
INTEGERS2(bitwise_left_shift, WITHIN ? (wrap)((wrap)x << (y & MOST)) : 0);
INTEGERS2(bitwise_right_shift, WITHIN ? x >> (y & MOST) : x >> MOST >> 1);

static inline uint64_t size_of(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}
/* Euclid's algorithm. */
static inline uint64_t common(int64_t x, int64_t y) {
  uint64_t a = size_of(x), b = size_of(y);
  while (b) {
    uint64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}
static inline uint64_t multiple(int64_t x, int64_t y) {
  uint64_t divisor = common(x, y);
  return divisor ? size_of(x) / divisor * size_of(y) : 0;
}
INTEGERS2(gcd, common(x, y));
INTEGERS2(lcm, multiple(x, y));
