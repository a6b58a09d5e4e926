/* activation.c -- blocks of gelu, silu, their gradients, softplus
 *
 * (1 + tanh u) / 2 is 1 / (1 + e^-2u): one exp, and no cancellation where the
 * result is small.
 *
 * SPDX-License-Identifier: MIT */
#include "op/activation.h"
#include "pointwise.h"

#define SQRT_HALF REAL(0.70710678118654752440)
#define BELL      REAL(0.39894228040143267794) /* 1 / sqrt(2 pi) */
#define RATE      REAL(1.59576912160573071176) /* 2 sqrt(2 / pi) */
#define CUBIC     REAL(0.044715)

static inline real gelu_erf(real x) {
  return REAL(0.5) * x * (1 + m_erf(x * SQRT_HALF));
}
static inline real gelu_tanh(real x) {
  return x / (1 + m_exp(-RATE * x * (1 + CUBIC * (x * x))));
}

static inline real gelu_erf_slope(real x) {
  real p = REAL(0.5) * (1 + m_erf(x * SQRT_HALF));
  return p + x * (BELL * m_exp(REAL(-0.5) * x * x));
}
/* Past 30 the slope is 0 or 1, and x^2 might overflow. */
static inline real gelu_tanh_slope(real x) {
  x = x > 30 ? 30 : x;
  x = x < -30 ? -30 : x;
  real xx = x * x, s = 1 / (1 + m_exp(-RATE * x * (1 + CUBIC * xx)));
  return s + s * (1 - s) * x * (RATE * (1 + 3 * CUBIC * xx));
}

static inline real silu_slope(real x) {
  real s = 1 / (1 + m_exp(-x));
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

/* log(1 + u) for 0 <= u <= 1: what rounding 1 + u lost is put back (Kahan). */
static inline real log_one_and(real u) {
  real w = 1 + u;
  return w == 1 ? u : m_log(w) * (u / (w - 1));
}
MRT_REAL1(softplus, (x > 0 ? x : 0) + log_one_and(m_exp(-m_abs(x))));

MRT_REAL1(silu, x / (1 + m_exp(-x)));
MRT_REAL2(silu_grad, silu_slope(x) * y);
