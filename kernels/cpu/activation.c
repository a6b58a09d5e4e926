/* activation.c -- blocks of smooth activations
 *
 * SPDX-License-Identifier: MIT */
#include "op/activation.h"
#include "gelu.h"
#include "pointwise.h"

#define SQRT_HALF REAL(0.70710678118654752440)
#define BELL      REAL(0.39894228040143267794) /* 1 / sqrt(2 pi) */

static inline real gelu_erf(real x) {
  return REAL(0.5) * x * (1 + m_erf(x * SQRT_HALF));
}

static inline real gelu_erf_slope(real x) {
  real p = REAL(0.5) * (1 + m_erf(x * SQRT_HALF));
  return p + x * (BELL * m_exp(REAL(-0.5) * x * x));
}

/* Past this below 0 silu is 0 to 35 digits (of doubles to 300), past this above
 * it is x: there e^-x is that of this, so that it needs no care for overflow. */
#ifdef MRT_F64
#define SILU_PAST 700
#else
#define SILU_PAST 87
#endif

static inline real silu(real x) {
  return m_above(x, SILU_PAST) / (1 + m_exp_inside(-m_within(x, SILU_PAST)));
}

static inline real silu_slope(real x) {
  x = m_within(x, SILU_PAST);
  real s = 1 / (1 + m_exp_inside(-x));
  return s * (1 + x * (1 - s));
}

static bool by_tanh(const mrt_block *b) {
  const mrt_gelu_options *o = b->options;
  return o->approximate == MRT_GELU_TANH;
}

static void gelu_block(const mrt_block *b) {
  if (by_tanh(b))
    MRT_EACH1(b, real, real, gelu_tanh(x));
  else
    MRT_EACH1(b, real, real, gelu_erf(x));
}
MRT_KERNEL(gelu, .block = gelu_block);

static void gelu_grad_block(const mrt_block *b) {
  if (by_tanh(b))
    MRT_EACH2(b, real, real, y * gelu_tanh_slope(x));
  else
    MRT_EACH2(b, real, real, y * gelu_erf_slope(x));
}
MRT_KERNEL(gelu_grad, .block = gelu_grad_block);

MRT_REAL1(softplus, (x > 0 ? x : 0) + log_one_and(m_exp(-m_abs(x))));

MRT_REAL1(silu, silu(x));
MRT_REAL2(silu_grad, silu_slope(x) * y);

MRT_REAL1(logsigmoid, (x < 0 ? x : 0) - log_one_and(m_exp(-m_abs(x))));
MRT_REAL1(softsign, x / (1 + m_abs(x)));

/* With e = e^x, tanh(log(1 + e)) = n / (n + 2), n = e (e + 2); beyond 20 it is
 * 1 in any dtype of ours but double, and there beyond 40. */
static inline real mish(real x) {
  real e = m_exp(x > 40 ? 40 : x), n = e * (e + 2);
  return x * (n / (n + 2));
}
MRT_REAL1(mish, mish(x));
