/* bitwise.c -- blocks of operators on the bits of integers
 *
 * SPDX-License-Identifier: MIT */
#include "pointwise.h"

/* Signs do not matter, only sizes. */
#define LOGIC(op, EACH, expr, of_bool)                                         \
  static void op##_block(const mrt_block *b) {                                 \
    switch (b->in_dtype) {                                                     \
    case MRT_i64:                                                              \
      EACH(b, uint64_t, uint64_t, expr);                                       \
      break;                                                                   \
    case MRT_i32:                                                              \
      EACH(b, uint32_t, uint32_t, expr);                                       \
      break;                                                                   \
    case MRT_u8:                                                               \
      EACH(b, uint8_t, uint8_t, expr);                                         \
      break;                                                                   \
    default:                                                                   \
      EACH(b, uint8_t, uint8_t, of_bool);                                      \
    }                                                                          \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)

LOGIC(bitwise_not, MRT_EACH1, ~x, !x);
LOGIC(bitwise_and, MRT_EACH2, x &y, x &y);
LOGIC(bitwise_or, MRT_EACH2, x | y, x | y);
LOGIC(bitwise_xor, MRT_EACH2, x ^ y, x ^ y);

#define INTEGERS2(op, expr)                                                    \
  static void op##_block(const mrt_block *b) {                                 \
    switch (b->in_dtype) {                                                     \
      MRT_INTEGER_CASES(MRT_EACH2, b, expr)                                    \
    default:                                                                   \
      break; /* the row refuses them */                                        \
    }                                                                          \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)

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
