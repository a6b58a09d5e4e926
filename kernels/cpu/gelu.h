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

/* Past this GELU is 0 or x, and its slope 0 or 1, to 35 digits (of doubles to
 * 250): there they are those of this, so that e^-2u needs no care for overflow. */
#ifdef MRT_F64
#define MRT_GELU_PAST 20
#else
#define MRT_GELU_PAST REAL(9.9)
#endif

static inline real gelu_exp(real x, real xx) {
  return m_exp_inside(-MRT_GELU_RATE * x * (1 + MRT_GELU_CUBIC * xx));
}

static inline real gelu_tanh(real x) {
  real near = m_within(x, MRT_GELU_PAST);
  return m_above(x, MRT_GELU_PAST) / (1 + gelu_exp(near, near * near));
}

static inline real gelu_tanh_slope(real x) {
  x = m_within(x, MRT_GELU_PAST);
  real xx = x * x, s = 1 / (1 + gelu_exp(x, xx));
  return s + s * (1 - s) * x * (MRT_GELU_RATE * (1 + 3 * MRT_GELU_CUBIC * xx));
}

#endif
