/* elementary.c -- blocks of logarithms, exponentials, angles
 *
 * SPDX-License-Identifier: MIT */
#include "elementary.h"
#include "pointwise.h"

MRT_REAL1(log1p, m_log1p(x));
MRT_REAL1(expm1, m_expm1(x));
MRT_REAL1(exp2, m_exp2(x));
MRT_REAL1(log2, m_log2(x));
MRT_REAL1(log10, m_log10(x));
MRT_REAL1(asin, m_asin(x));
MRT_REAL1(acos, m_acos(x));
MRT_REAL1(atan, m_atan(x));
MRT_REAL1(sinh, m_sinh(x));
MRT_REAL1(cosh, m_cosh(x));
MRT_REAL1(asinh, m_asinh(x));
MRT_REAL1(acosh, m_acosh(x));
MRT_REAL1(atanh, m_atanh(x));

static void tan_block(const mrt_block *b) {
  if (mrt_all_near(b))
    MRT_EACH1(b, real, real, m_tan_near(x));
  else
    MRT_EACH1(b, real, real, m_tan(x));
}
MRT_KERNEL(tan, .block = tan_block);
