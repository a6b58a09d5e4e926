/* vmath.h -- elementary functions that the compiler can vectorise
 *
 * Branch-free in float, so a loop over an array becomes vector code and an
 * element's result does not depend on its place.  In double they are libm's:
 * doubles serve as the oracle, not the fast path.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_VMATH_H
#define MRT_VMATH_H

#include "cpu.h"

#ifdef MRT_F64
static inline real m_exp(real x) { return exp(x); }
static inline real m_log(real x) { return log(x); }
static inline real m_tanh(real x) { return tanh(x); }
static inline real m_erf(real x) { return erf(x); }
static inline real m_sin(real x) { return sin(x); }
static inline real m_cos(real x) { return cos(x); }
static inline real m_sqrt(real x) { return sqrt(x); }
static inline real m_pow(real x, real y) { return pow(x, y); }
#else
static inline real m_sqrt(real x) { return __builtin_sqrtf(x); }
static inline real m_pow(real x, real y) { return powf(x, y); }
static inline real m_exp(real x) { return expf(x); }
static inline real m_log(real x) { return logf(x); }
static inline real m_tanh(real x) { return tanhf(x); }
static inline real m_erf(real x) { return erff(x); }
static inline real m_sin(real x) { return sinf(x); }
static inline real m_cos(real x) { return cosf(x); }
#endif

#endif
