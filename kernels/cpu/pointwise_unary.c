/* pointwise_unary.c -- blocks of operators of one input
 *
 * SPDX-License-Identifier: MIT */
#include "pointwise.h"

MRT_NUMBER1(neg, -x, 0 - (wrap)x);
MRT_NUMBER1(abs, m_abs(x), x < 0 ? 0 - (wrap)x : (wrap)x);
MRT_NUMBER1(sign, (x > 0) - (x < 0), (x > 0) - (x < 0));
MRT_NUMBER1(relu, x < 0 ? 0 : x, x < 0 ? 0 : x); /* NaN stays */

MRT_REAL1(exp, m_exp(x));
MRT_REAL1(log, m_log(x));
MRT_REAL1(sqrt, m_sqrt(x));
MRT_REAL1(rsqrt, 1 / m_sqrt(x));
MRT_REAL1(reciprocal, 1 / x);
MRT_REAL1(tanh, m_tanh(x));
MRT_REAL1(sigmoid, 1 / (1 + m_exp(-x)));
MRT_REAL1(erf, m_erf(x));
MRT_REAL1(floor, m_floor(x));
MRT_REAL1(ceil, m_ceil(x));
MRT_REAL1(round, m_round(x));

/* Whether the short way is right for all of the block. */
static bool all_near(const mrt_block *b) {
  const real *x = b->in[0];
  int far = 0;
  for (int64_t i = 0; i < b->n; i++) far |= !(m_abs(x[i]) <= M_NEAR);
  return !far;
}
static void sin_block(const mrt_block *b) {
  if (all_near(b))
    MRT_EACH1(b, real, real, m_sin_near(x));
  else
    MRT_EACH1(b, real, real, m_sin(x));
}
MRT_KERNEL(sin, .block = sin_block);

static void cos_block(const mrt_block *b) {
  if (all_near(b))
    MRT_EACH1(b, real, real, m_cos_near(x));
  else
    MRT_EACH1(b, real, real, m_cos(x));
}
MRT_KERNEL(cos, .block = cos_block);

static void isnan_block(const mrt_block *b) {
  MRT_EACH1(b, real, uint8_t, x != x);
}
MRT_KERNEL(isnan, .block = isnan_block);

static void logical_not_block(const mrt_block *b) {
  MRT_EACH1(b, uint8_t, uint8_t, !x);
}
MRT_KERNEL(logical_not, .block = logical_not_block);
