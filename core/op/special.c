/* special.c -- functions of the error integral, of gamma, of Bessel; sinc,
 * logit, xlogy, sums of exponentials in logarithms
 *
 *   x, y   any shape, one type; f32 | f64; of integers and bool callers make
 *          f32
 *   z      type of x; may take the storage of an input
 *   poles  lgamma is inf at 0, -1, ..; digamma -inf at 0, inf at -0, NaN at
 *          -1, -2, ..; polygamma inf or -inf by the sign of n
 *   grad   lgamma -> digamma -> polygamma{n = 1} -> .. as far as
 *          MRT_POLYGAMMA_MOST.  xlogy(0, y) does not depend on y: its gradient
 *          there is 0.  logaddexp(x, x): half to each, also of infinities
 *   fails  EDTYPE  x of another dtype;  EVALUE  n out of range
 *
 * SPDX-License-Identifier: MIT */
#include "op/special.h"
#include "op/pointwise.h"

/* What the rules below read. */
#define X     (b->in[0])
#define Y     (b->in[1])
#define OUT   (b->out[0])
#define DOUT  (b->dout[0])
#define DX    (b->din[0])
#define DY    (b->din[1])
#define IF_DX if (b->wants[0])
#define IF_DY if (b->wants[1])

#define PI 3.14159265358979323846

/* ---- of one number ------------------------------------------------------- */

static void erfc_grad(mrt_build *b) {
  mrt_tensor *bell = mrt_exp(b, mrt_neg(b, mrt_mul(b, X, X)));
  DX = mrt_mul(b, DOUT, mrt_mul_k(b, bell, -1.1283791670955126));
}

/* sqrt(pi) / 2 e^(y^2) */
static void erfinv_grad(mrt_build *b) {
  mrt_tensor *slope = mrt_exp(b, mrt_mul(b, OUT, OUT));
  DX = mrt_mul(b, DOUT, mrt_mul_k(b, slope, 0.88622692545275801));
}

static void lgamma_grad(mrt_build *b) {
  DX = mrt_mul(b, DOUT, MRT_MAKE(b, digamma, NULL, X));
}

static mrt_tensor *polygamma(mrt_build *b, int64_t n) {
  mrt_polygamma_options o = { n };
  return mrt_mul(b, DOUT, MRT_MAKE(b, polygamma, &o, X));
}
static void digamma_grad(mrt_build *b) { DX = polygamma(b, 1); }
static void polygamma_grad(mrt_build *b) {
  const mrt_polygamma_options *o = b->options;
  DX = polygamma(b, o->n + 1);
}

static void i0_grad(mrt_build *b) {
  DX = mrt_mul(b, DOUT, MRT_MAKE(b, i1, NULL, X));
}
/* I0(x) - I1(x) / x; the quotient is 1/2 at 0. */
static void i1_grad(mrt_build *b) {
  mrt_tensor *one = mrt_full_like(b, X, 1);
  mrt_tensor *zero = MRT_MAKE(b, eq, NULL, X, mrt_full_like(b, X, 0));
  mrt_tensor *rest = mrt_div(b, OUT, mrt_where(b, zero, one, X));
  rest = mrt_where(b, zero, mrt_full_like(b, X, 0.5), rest);
  DX = mrt_mul(b, DOUT, mrt_sub(b, MRT_MAKE(b, i0, NULL, X), rest));
}

/* (cos pi x - sinc x) / x, and its series where the difference is of near
 * numbers. */
static void sinc_grad(mrt_build *b) {
  static const double series[] = { /* (-1)^k pi^2k 2k / (2k + 1)! */
                                   -3.289868133696453,    3.246969701133414,
                                   -1.144510944732505,    0.20918278254123832,
                                   -0.023460810354558225, 0.001781145516372851
  };
  mrt_tensor *one = mrt_full_like(b, X, 1), *xx = mrt_mul(b, X, X);
  mrt_tensor *near = MRT_MAKE(b, lt, NULL, xx, mrt_full_like(b, X, 0.01));
  mrt_tensor *sum = mrt_mul_k(b, xx, series[5]);
  for (int k = 4; k > 0; k--)
    sum = mrt_mul(b, xx, mrt_add_k(b, sum, series[k]));
  sum = mrt_mul(b, X, mrt_add_k(b, sum, series[0]));
  mrt_tensor *cosine = MRT_MAKE(b, cos, NULL, mrt_mul_k(b, X, PI));
  mrt_tensor *far =
      mrt_div(b, mrt_sub(b, cosine, OUT), mrt_where(b, near, one, X));
  DX = mrt_mul(b, DOUT, mrt_where(b, near, sum, far));
}

static void logit_grad(mrt_build *b) {
  DX = mrt_div(b, DOUT, mrt_mul(b, X, mrt_rsub(b, 1, X)));
}

static mrt_status infer_polygamma(mrt_infer *c) {
  const mrt_polygamma_options *o = c->options;
  if (o->n < 0 || o->n > MRT_POLYGAMMA_MOST)
    return mrt_refuse(c, MRT_EVALUE, "n = %lld, 0 to %d wanted",
                      (long long)o->n, MRT_POLYGAMMA_MOST);
  return mrt_infer_reals(c);
}

static const mrt_option polygamma_options[] = {
  MRT_OPTION(mrt_polygamma_options, n, MRT_OPT_INT, .required = true),
};

/* ---- of two -------------------------------------------------------------- */

static void xlogy_grad(mrt_build *b) {
  mrt_tensor *zero = mrt_full_like(b, X, 0), *one = mrt_full_like(b, X, 1);
  mrt_tensor *none = MRT_MAKE(b, eq, NULL, X, zero);
  IF_DX {
    mrt_tensor *flat =
        MRT_MAKE(b, logical_and, NULL, none, MRT_MAKE(b, le, NULL, Y, zero));
    mrt_tensor *y = mrt_where(b, flat, one, Y);
    DX = mrt_mul(b, DOUT, MRT_MAKE(b, log, NULL, y));
  }
  IF_DY DY = mrt_mul(b, DOUT, mrt_div(b, X, mrt_where(b, none, one, Y)));
}

/* Of k (x - y): the sigmoid to x, what is left to y. */
static void share(mrt_build *b, double k) {
  mrt_tensor *same = MRT_MAKE(b, eq, NULL, X, Y);
  mrt_tensor *apart = mrt_mul_k(b, mrt_sub(b, X, Y), k);
  apart = mrt_where(b, same, mrt_full_like(b, X, 0), apart);
  IF_DX DX = mrt_mul(b, DOUT, MRT_MAKE(b, sigmoid, NULL, apart));
  IF_DY DY = mrt_mul(b, DOUT, MRT_MAKE(b, sigmoid, NULL, mrt_neg(b, apart)));
}
static void logaddexp_grad(mrt_build *b) { share(b, 1); }
static void logaddexp2_grad(mrt_build *b) { share(b, 0.69314718055994530942); }

#define SPECIAL(op, inputs, infer_types, text, ...)                            \
  const mrt_op mrt_op_##op = { .name = #op,                                    \
                               .number = MRT_OP_##op,                          \
                               .cost = MRT_COST_pointwise,                     \
                               .doc = text,                                    \
                               .min_inputs = inputs,                           \
                               .max_inputs = inputs,                           \
                               .infer = infer_types,                           \
                               .grad = op##_grad,                              \
                               .flops = mrt_flops_ten,                         \
                               .inplace = (1 << inputs) - 1,                   \
                               .strided = (1 << inputs) - 1,                   \
                               .width = MRT_WIDE,                              \
                               .traits = MRT_POINTWISE | MRT_OF_REALS,         \
                               __VA_ARGS__ }
#define ONE(op, text) SPECIAL(op, 1, mrt_infer_reals, text, )
#define TWO(op, text) SPECIAL(op, 2, mrt_infer_reals, text, )

/* clang-format off */
ONE(erfc, "y = 1 - erf x, exact where erf x is near 1");
ONE(erfinv, "y = the number whose erf is x");
ONE(lgamma, "y = ln |gamma(x)|");
ONE(digamma, "y = the derivative of ln gamma(x)");
SPECIAL(polygamma, 1, infer_polygamma, "y = the n-th derivative of digamma(x)",
        MRT_OPTIONS(polygamma_options, mrt_polygamma_options));
ONE(i0, "y = the modified Bessel function of x, of order 0");
ONE(i1, "y = the modified Bessel function of x, of order 1");
ONE(sinc, "y = sin(pi x) / (pi x), 1 at 0");
ONE(logit, "y = ln(x / (1 - x))");
TWO(xlogy, "z = x ln y, 0 where x = 0");
TWO(logaddexp, "z = ln(e^x + e^y)");
TWO(logaddexp2, "z = the logarithm of 2^x + 2^y to base 2");
/* clang-format on */
