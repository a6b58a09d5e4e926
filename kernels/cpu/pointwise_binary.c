/* pointwise_binary.c -- blocks of operators of two inputs, and of where
 *
 * SPDX-License-Identifier: MIT */
#include "elementary.h"
#include "op/pointwise_options.h"
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

/* x - y trunc(x / y), exactly: in double the product of y and a quotient below
 * 2^29 is, and so is the difference.  A quotient that was rounded up to a whole
 * number leaves a rest of the wrong sign. */
#ifdef MRT_F64
static inline bool mod_is_near(real x, real y) { return false; }
static inline real mod_near(real x, real y) { return m_fmod(x, y); }
#else
static inline bool mod_is_near(real x, real y) {
  return m_abs(x) < 0x1p28f * m_abs(y) && m_abs(y) < MRT_INF;
}
static inline float mod_near(float x, float y) {
  double a = m_abs(x), b = m_abs(y);
  double rest = a - b * __builtin_trunc(a / b);
  return m_copysign((float)(rest < 0 ? rest + b : rest), x);
}
#endif
/* Whether the short way is right for all of the block. */
static bool all_mod_near(const mrt_block *b) {
  const real *x = b->in[0], *y = b->in[1];
  int far = 0;
  for (int64_t i = 0; i < b->n; i++) far |= !mod_is_near(x[i], y[i]);
  return !far;
}

/* As in Lua: the sign of the divisor. */
static inline real signed_as(real r, real y) {
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
/* Never traps: x % 0 and INT64_MIN % -1 are 0. */
static inline int64_t remainder_integer(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
/* As in C: the sign of the dividend. */
static inline int64_t fmod_integer(int64_t x, int64_t y) {
  return y == 0 || y == -1 ? 0 : x % y;
}

#define MODULO(op, near, far, of_integers)                                     \
  MRT_INTEGERS(op, MRT_EACH2, of_integers)                                     \
  static void op##_block(const mrt_block *b) {                                 \
    if (!mrt_is_float(b->in_dtype))                                            \
      MRT_BOTH(op##_integers)(b);                                              \
    else if (all_mod_near(b))                                                  \
      MRT_EACH2(b, real, real, near);                                          \
    else                                                                       \
      MRT_EACH2(b, real, real, far);                                           \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)
MODULO(remainder, signed_as(mod_near(x, y), y), signed_as(m_fmod(x, y), y),
       remainder_integer(x, y));
MODULO(fmod, mod_near(x, y), m_fmod(x, y), fmod_integer(x, y));

MRT_REAL2(atan2, m_atan2(x, y));
MRT_REAL2(hypot, m_hypot(x, y));
MRT_REAL2(copysign, m_copysign(x, y));
MRT_REAL2(nextafter, m_nextafter(x, y));

/* From the nearer end, so that weight 1 gives y exactly. */
static void lerp_block(const mrt_block *b) {
  const mrt_lerp_options *o = b->options;
  const real w = (real)o->weight, rest = (real)(1 - o->weight);
  if (o->weight < 0.5)
    MRT_EACH2(b, real, real, x + w * (y - x));
  else
    MRT_EACH2(b, real, real, y - (y - x) * rest);
}
MRT_KERNEL(lerp, .block = lerp_block);

#define ASKED(b, T, R, expr) MRT_EACH2(b, T, uint8_t, expr)
#define COMPARE(op, relation)                                                  \
  MRT_INTEGERS(op, ASKED, x relation y)                                        \
  static void op##_block(const mrt_block *b) {                                 \
    if (mrt_is_float(b->in_dtype))                                             \
      ASKED(b, real, , x relation y);                                          \
    else                                                                       \
      MRT_BOTH(op##_integers)(b);                                              \
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

static void standardize_block(const mrt_block *b) {
  const real *x = b->in[0], *mean = b->in[1], *scale = b->in[2];
  real *z = b->out;
  int64_t n = b->n;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) z[i] = (x[i] - mean[i]) * scale[i];
}
MRT_KERNEL(standardize, .block = standardize_block);
