/* pointwise_unary.c -- blocks of operators of one input
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise_options.h"
#include "pointwise.h"

#include <float.h>

#ifdef MRT_F64
#define REAL_MOST DBL_MAX
#else
#define REAL_MOST FLT_MAX
#endif
typedef ireal __attribute__((may_alias)) sign_bits;

MRT_NUMBER1(neg, -x, 0 - (wrap)x);
MRT_NUMBER1(abs, m_abs(x), x < 0 ? 0 - (wrap)x : (wrap)x);
MRT_NUMBER1(sign, (x > 0) - (x < 0), (x > 0) - (x < 0));
MRT_NUMBER1(relu, x < 0 ? 0 : x, x < 0 ? 0 : x); /* NaN stays */

MRT_REAL1(exp, m_exp(x));
MRT_REAL1(log, m_log(x));
MRT_REAL1(sqrt, m_sqrt(x));
MRT_REAL1(root, m_sqrt(x));
MRT_REAL1(rsqrt, 1 / m_sqrt(x));
MRT_REAL1(reciprocal, 1 / x);
MRT_REAL1(tanh, m_tanh(x));
MRT_REAL1(sigmoid, 1 / (1 + m_exp(-x)));
MRT_REAL1(erf, m_erf(x));

MRT_NUMBER1(floor, m_floor(x), x);
MRT_NUMBER1(ceil, m_ceil(x), x);
MRT_NUMBER1(round, m_round(x), x);
MRT_NUMBER1(trunc, m_trunc(x), x);

static void sin_block(const mrt_block *b) {
  if (mrt_all_near(b))
    MRT_EACH1(b, real, real, m_sin_near(x));
  else
    MRT_EACH1(b, real, real, m_sin(x));
}
MRT_KERNEL(sin, .block = sin_block);

static void cos_block(const mrt_block *b) {
  if (mrt_all_near(b))
    MRT_EACH1(b, real, real, m_cos_near(x));
  else
    MRT_EACH1(b, real, real, m_cos(x));
}
MRT_KERNEL(cos, .block = cos_block);

/* What is asked of reals has one answer for all integers. */
#define QUESTION(op, of_reals, of_integers)                                    \
  static void op##_block(const mrt_block *b) {                                 \
    if (mrt_is_float(b->in_dtype))                                             \
      MRT_EACH1(b, real, uint8_t, of_reals);                                   \
    else                                                                       \
      memset(b->out, of_integers, (size_t)b->n);                               \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)

QUESTION(isnan, x != x, false);
QUESTION(isinf, m_abs(x) == MRT_INF, false);
QUESTION(isfinite, m_abs(x) < MRT_INF, true);

static void signbit_block(const mrt_block *b) {
  const int top = 8 * (int)sizeof(ireal) - 1;
  switch (b->in_dtype) {
  case MRT_i64:
    MRT_EACH1(b, int64_t, uint8_t, x < 0);
    break;
  case MRT_i32:
    MRT_EACH1(b, int32_t, uint8_t, x < 0);
    break;
  case MRT_u8:
  case MRT_bool:
    memset(b->out, 0, (size_t)b->n);
    break;
  default: /* the bits of a real, read as an integer */
    MRT_EACH1(b, sign_bits, uint8_t, x >> top & 1);
  }
}
MRT_KERNEL(signbit, .block = signbit_block);

MRT_INTEGERS(nan_to_num, MRT_EACH1, x)
static void nan_to_num_block(const mrt_block *b) {
  const mrt_nan_to_num_options *o = b->options;
  const real most = REAL_MOST, nan = (real)o->nan;
  const real high = o->posinf < (double)most ? (real)o->posinf : most;
  const real low = o->neginf > -(double)most ? (real)o->neginf : -most;
  if (mrt_is_float(b->in_dtype))
    MRT_EACH1(b, real, real,
              x != x          ? nan
              : x == MRT_INF  ? high
              : x == -MRT_INF ? low
                              : x);
  else
    MRT_BOTH(nan_to_num_integers)(b);
}
MRT_KERNEL(nan_to_num, .block = nan_to_num_block);

static void logical_not_block(const mrt_block *b) {
  MRT_EACH1(b, uint8_t, uint8_t, !x);
}
MRT_KERNEL(logical_not, .block = logical_not_block);
