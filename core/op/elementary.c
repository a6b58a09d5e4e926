/* elementary.c -- logarithms, exponentials, trigonometric and hyperbolic
 * functions beyond those of pointwise_unary.c
 *
 *   x      any shape; f32 | f64; of integers and bool callers make f32
 *   y      type of x; may take x's storage
 *   width  wide: results of a few ulp would be lost in a narrow dtype
 *   grad   from y where that is simpler and as exact (expm1, exp2, tan);
 *          written so that no square of x overflows and no difference of near
 *          numbers is taken twice
 *   fails  EDTYPE  x of another dtype
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"

/* What the rules below read. */
#define X  (b->in[0])
#define Y  (b->out[0])
#define DY (b->dout[0])
#define DX (b->din[0])

#define LN_2  0.69314718055994530942
#define LN_10 2.30258509299404568402

static mrt_tensor *root(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, sqrt, NULL, x);
}
/* (1 - x) (1 + x), exact where x^2 is near 1. */
static mrt_tensor *one_less_square(mrt_build *b) {
  return mrt_mul(b, mrt_rsub(b, 1, X), mrt_add_k(b, X, 1));
}
/* sqrt(1 + x^2), for x of any size. */
static mrt_tensor *length_with_one(mrt_build *b) {
  return MRT_MAKE(b, hypot, NULL, X, mrt_full_like(b, X, 1));
}

static void log1p_grad(mrt_build *b) {
  DX = mrt_div(b, DY, mrt_add_k(b, X, 1));
}
static void expm1_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, mrt_add_k(b, Y, 1));
}
static void exp2_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, mrt_mul_k(b, Y, LN_2));
}
static void log2_grad(mrt_build *b) {
  DX = mrt_div(b, DY, mrt_mul_k(b, X, LN_2));
}
static void log10_grad(mrt_build *b) {
  DX = mrt_div(b, DY, mrt_mul_k(b, X, LN_10));
}
static void tan_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, mrt_add_k(b, mrt_mul(b, Y, Y), 1));
}
static void asin_grad(mrt_build *b) {
  DX = mrt_div(b, DY, root(b, one_less_square(b)));
}
static void acos_grad(mrt_build *b) {
  DX = mrt_neg(b, mrt_div(b, DY, root(b, one_less_square(b))));
}
static void atan_grad(mrt_build *b) {
  mrt_tensor *length = length_with_one(b);
  DX = mrt_div(b, mrt_div(b, DY, length), length);
}
static void sinh_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, MRT_MAKE(b, cosh, NULL, X));
}
static void cosh_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, MRT_MAKE(b, sinh, NULL, X));
}
static void asinh_grad(mrt_build *b) {
  DX = mrt_div(b, DY, length_with_one(b));
}
static void acosh_grad(mrt_build *b) {
  mrt_tensor *low = root(b, mrt_add_k(b, X, -1));
  mrt_tensor *high = root(b, mrt_add_k(b, X, 1));
  DX = mrt_div(b, DY, mrt_mul(b, low, high));
}
static void atanh_grad(mrt_build *b) {
  DX = mrt_div(b, DY, one_less_square(b));
}

#define ELEMENTARY(op, text)                                                   \
  const mrt_op mrt_op_##op = {                                                 \
    .name = #op,                                                               \
    .number = MRT_OP_##op,                                                     \
    .cost = MRT_COST_pointwise,                                                \
    .doc = text,                                                               \
    .min_inputs = 1,                                                           \
    .max_inputs = 1,                                                           \
    .infer = mrt_infer_reals,                                                  \
    .grad = op##_grad,                                                         \
    .flops = mrt_flops_ten,                                                    \
    .inplace = 1,                                                              \
    .strided = 1,                                                              \
    .width = MRT_WIDE,                                                         \
    .traits = MRT_POINTWISE | MRT_OF_REALS,                                    \
  }

ELEMENTARY(log1p, "y = ln(1 + x), exact where x is small");
ELEMENTARY(expm1, "y = e^x - 1, exact where x is small");
ELEMENTARY(exp2, "y = 2^x");
ELEMENTARY(log2, "y = the logarithm of x to base 2");
ELEMENTARY(log10, "y = the logarithm of x to base 10");
ELEMENTARY(tan, "y = tan x");
ELEMENTARY(asin, "y = the angle from -pi/2 to pi/2 whose sine is x");
ELEMENTARY(acos, "y = the angle from 0 to pi whose cosine is x");
ELEMENTARY(atan, "y = the angle from -pi/2 to pi/2 whose tangent is x");
ELEMENTARY(sinh, "y = (e^x - e^-x) / 2");
ELEMENTARY(cosh, "y = (e^x + e^-x) / 2");
ELEMENTARY(asinh, "y = the number whose sinh is x");
ELEMENTARY(acosh, "y = the number from 0 whose cosh is x");
ELEMENTARY(atanh, "y = the number whose tanh is x");
