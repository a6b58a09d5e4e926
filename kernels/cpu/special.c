/* special.c -- blocks of special functions
 *
 * SPDX-License-Identifier: MIT */
#include "op/special.h"
#include "elementary.h"
#include "pointwise.h"
#include "special.h"

MRT_REAL1(erfc, m_erfc(x));
MRT_REAL1(erfinv, m_erfinv(x));
MRT_REAL1(i0, m_i0(x));
MRT_REAL1(i1, m_i1(x));
MRT_REAL1(sinc, (real)wide_sinc(x));
MRT_REAL1(logit, m_logit(x));

/* Above 0 nothing is to be reflected: the bits are those of the long way. */
static bool all_above(const mrt_block *b) {
  const real *x = b->in[0];
  int far = 0;
  for (int64_t i = 0; i < b->n; i++) far |= !(x[i] > 0 && x[i] < MRT_INF);
  return !far;
}

/* The long ways are not worth vector code, which is large. */
#define ANY(name, expr)                                                        \
  static __attribute__((noinline)) real name(real x) { return (real)(expr); }
ANY(lgamma_any, m_lgamma(x))
ANY(digamma_any, wide_digamma(x))
ANY(trigamma_any, wide_trigamma(x))

static void lgamma_block(const mrt_block *b) {
  if (all_above(b))
    MRT_EACH1(b, real, real, m_lgamma_above(x));
  else
    MRT_EACH1(b, real, real, lgamma_any(x));
}
MRT_KERNEL(lgamma, .block = lgamma_block);

static void digamma_block(const mrt_block *b) {
  if (all_above(b))
    MRT_EACH1(b, real, real, digamma_above(x));
  else
    MRT_EACH1(b, real, real, digamma_any(x));
}
MRT_KERNEL(digamma, .block = digamma_block);

static void trigamma_block(const mrt_block *b) {
  if (all_above(b))
    MRT_EACH1(b, real, real, trigamma_above(x));
  else
    MRT_EACH1(b, real, real, trigamma_any(x));
}

static void polygamma_block(const mrt_block *b) {
  const mrt_polygamma_options *o = b->options;
  if (o->n == 0)
    digamma_block(b);
  else if (o->n == 1)
    trigamma_block(b);
  else
    MRT_EACH1(b, real, real, wide_polygamma((int)o->n, x));
}
MRT_KERNEL(polygamma, .block = polygamma_block);

/* 0 log y is 0, unless y is NaN. */
MRT_REAL2(xlogy, x == 0 && y == y ? 0 : x * m_log(y));

/* The larger plus what the smaller adds; of equal infinities it is that. */
static inline real apart(real x, real y) { return x == y ? 0 : m_abs(x - y); }
MRT_REAL2(logaddexp, (x > y ? x : y) + log_one_and(m_exp(-apart(x, y))));
MRT_REAL2(logaddexp2, (x > y ? x : y) +
                          (real)WIDE_LOG2E * log_one_and(m_exp2(-apart(x, y))));
