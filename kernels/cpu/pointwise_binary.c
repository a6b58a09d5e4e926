/* pointwise_binary.c -- blocks of operators of two inputs, and of where
 *
 * SPDX-License-Identifier: MIT */
#include "pointwise.h"

/* clang-format off */
MRT_NUMBER2(add, x + y, (wrap)x + (wrap)y);
MRT_NUMBER2(sub, x - y, (wrap)x - (wrap)y);
MRT_NUMBER2(mul, x * y, (wrap)x * (wrap)y);
/* clang-format on */
MRT_REAL2(div, x / y);
MRT_REAL2(pow, m_pow(x, y));

/* Swapping x and y changes no bit: 0 and -0 are ordered, NaN is one NaN. */
static inline real larger(real x, real y) {
  real same = x == y ? (x == 0 ? x + y : x) : (real)NAN;
  return x > y ? x : x < y ? y : same;
}
static inline real smaller(real x, real y) { return -larger(-x, -y); }
MRT_NUMBER2(maximum, larger(x, y), x > y ? x : y);
MRT_NUMBER2(minimum, smaller(x, y), x < y ? x : y);

/* As in Lua: the sign of the divisor. */
static inline real remainder_real(real x, real y) {
  real r = m_fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
/* Never traps: x % 0 and INT64_MIN % -1 are 0. */
static inline int64_t remainder_integer(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
MRT_NUMBER2(remainder, remainder_real(x, y), remainder_integer(x, y));

#define COMPARE(op, relation)                                                  \
  static void op##_block(const mrt_block *b) {                                 \
    switch (b->in_dtype) {                                                     \
    case MRT_i64:                                                              \
      MRT_EACH2(b, int64_t, uint8_t, x relation y);                            \
      break;                                                                   \
    case MRT_i32:                                                              \
      MRT_EACH2(b, int32_t, uint8_t, x relation y);                            \
      break;                                                                   \
    case MRT_u8:                                                               \
    case MRT_bool:                                                             \
      MRT_EACH2(b, uint8_t, uint8_t, x relation y);                            \
      break;                                                                   \
    default:                                                                   \
      MRT_EACH2(b, real, uint8_t, x relation y);                               \
    }                                                                          \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)

COMPARE(eq, ==);
COMPARE(ne, !=);
COMPARE(lt, <);
COMPARE(le, <=);
COMPARE(gt, >);
COMPARE(ge, >=);

static void logical_and_block(const mrt_block *b) {
  MRT_EACH2(b, uint8_t, uint8_t, x & y);
}
MRT_KERNEL(logical_and, .block = logical_and_block);

static void logical_or_block(const mrt_block *b) {
  MRT_EACH2(b, uint8_t, uint8_t, x || y);
}
MRT_KERNEL(logical_or, .block = logical_or_block);

/* Bits are chosen, never looked at, so only their size matters. */
#define CHOOSE(T)                                                              \
  do {                                                                         \
    const uint8_t *c = b->in[0];                                               \
    const T *x = b->in[1], *y = b->in[2];                                      \
    T *out = b->out;                                                           \
    int64_t n = b->n;                                                          \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                      \
      T a = x[i], z = y[i];                                                    \
      out[i] = c[i] ? a : z;                                                   \
    }                                                                          \
  } while (0)

static void where_block(const mrt_block *b) {
  switch (mrt_dtypes[b->out_dtype].bytes) {
  case 8:
    CHOOSE(uint64_t);
    break;
  case 4:
    CHOOSE(uint32_t);
    break;
  case 2:
    CHOOSE(uint16_t);
    break;
  default:
    CHOOSE(uint8_t);
  }
}
MRT_KERNEL(where, .block = where_block);
