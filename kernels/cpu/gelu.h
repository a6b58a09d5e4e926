/* gelu.h -- GELU by tanh and its slope, of one real
 *
 * (1 + tanh u) / 2 is 1 / (1 + e^-2u): one exp, and no cancellation where the
 * result is small.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_GELU_H
#define MRT_CPU_GELU_H

#include "vmath.h"

#define MRT_GELU_RATE  REAL(1.59576912160573071176) /* 2 sqrt(2 / pi) */
#define MRT_GELU_CUBIC REAL(0.044715)

static inline real gelu_tanh(real x) {
  return x / (1 + m_exp(-MRT_GELU_RATE * x * (1 + MRT_GELU_CUBIC * (x * x))));
}

/* Past 30 the slope is 0 or 1, and x^2 might overflow. */
static inline real gelu_tanh_slope(real x) {
  x = x > 30 ? 30 : x;
  x = x < -30 ? -30 : x;
  real xx = x * x;
  real s = 1 / (1 + m_exp(-MRT_GELU_RATE * x * (1 + MRT_GELU_CUBIC * xx)));
  return s + s * (1 - s) * x * (MRT_GELU_RATE * (1 + 3 * MRT_GELU_CUBIC * xx));
}

#endif
