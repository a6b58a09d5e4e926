/* pointwise_unary.c -- operators of one input, element by element
 *
 *   x      any shape; f32 | f64; neg, abs, sign and relu take i64 | i32 too
 *   y      type of x, bool for isnan; may take x's storage
 *   grad   from y where that is simpler (exp, sqrt, tanh, ...): x can go;
 *          0 for sign, floor, ceil and round, none for isnan and logical_not
 *   fails  EDTYPE  x of another dtype: cast first
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"

/* What the rules below read. */
#define X  (b->in[0])
#define Y  (b->out[0])
#define DY (b->dout[0])
#define DX (b->din[0])

static void neg_grad(mrt_build *b) { DX = mrt_neg(b, DY); }

static void abs_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, MRT_MAKE(b, sign, NULL, X));
}

static void exp_grad(mrt_build *b) { DX = mrt_mul(b, DY, Y); }

static void log_grad(mrt_build *b) { DX = mrt_div(b, DY, X); }

static void sqrt_grad(mrt_build *b) {
  DX = mrt_div(b, mrt_mul_k(b, DY, 0.5), Y);
}

static void rsqrt_grad(mrt_build *b) {
  mrt_tensor *cube = mrt_mul(b, Y, mrt_mul(b, Y, Y));
  DX = mrt_mul(b, mrt_mul_k(b, DY, -0.5), cube);
}

static void reciprocal_grad(mrt_build *b) {
  DX = mrt_neg(b, mrt_mul(b, DY, mrt_mul(b, Y, Y)));
}

static void sin_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, MRT_MAKE(b, cos, NULL, X));
}

static void cos_grad(mrt_build *b) {
  DX = mrt_neg(b, mrt_mul(b, DY, MRT_MAKE(b, sin, NULL, X)));
}

static void tanh_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, mrt_rsub(b, 1, mrt_mul(b, Y, Y)));
}

static void sigmoid_grad(mrt_build *b) {
  DX = mrt_mul(b, DY, mrt_mul(b, Y, mrt_rsub(b, 1, Y)));
}

static void relu_grad(mrt_build *b) {
  mrt_tensor *zero = mrt_full_like(b, Y, 0);
  DX = mrt_where(b, MRT_MAKE(b, gt, NULL, Y, zero), DY, zero);
}

static void erf_grad(mrt_build *b) {
  mrt_tensor *bell = mrt_exp(b, mrt_neg(b, mrt_mul(b, X, X)));
  DX = mrt_mul(b, DY, mrt_mul_k(b, bell, 1.1283791670955126)); /* 2/sqrt pi */
}

static mrt_status infer_signed(mrt_infer *c) {
  return mrt_infer_among(c, MRT_SIGNED);
}

static mrt_status infer_isnan(mrt_infer *c) {
  MRT_TRY(mrt_infer_reals(c));
  c->out[0].dtype = MRT_bool;
  return MRT_OK;
}

#define UNARY(op, kind, text, ...)                                             \
  const mrt_op mrt_op_##op = { .name = #op,                                    \
                               .number = MRT_OP_##op,                          \
                               .cost = MRT_COST_##kind,                        \
                               .doc = text,                                    \
                               .min_inputs = 1,                                \
                               .max_inputs = 1,                                \
                               .strided = 1,                                   \
                               __VA_ARGS__                                     \
                                                                               \
  }

#define ONCE  (MRT_POINTWISE)
#define TWICE (MRT_POINTWISE | MRT_INVOLUTION) /* f(f(x)) = x */

/* clang-format off */
UNARY(neg, pointwise, "y = -x", .infer = infer_signed, .grad = neg_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = TWICE | MRT_LINEAR);
UNARY(abs, pointwise, "y = |x|", .infer = infer_signed, .grad = abs_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE);
UNARY(sign, pointwise, "y = -1, 0 or 1 as x < 0, x = 0, x > 0",
      .infer = infer_signed,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_FOLLOW, .traits = ONCE);
UNARY(exp, pointwise, "y = e^x", .infer = mrt_infer_reals, .grad = exp_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(log, pointwise, "y = ln x", .infer = mrt_infer_reals, .grad = log_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(sqrt, pointwise, "y = x^(1/2)", .infer = mrt_infer_reals,
      .grad = sqrt_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(rsqrt, pointwise, "y = x^(-1/2)", .infer = mrt_infer_reals,
      .grad = rsqrt_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(reciprocal, pointwise, "y = 1 / x", .infer = mrt_infer_reals,
      .grad = reciprocal_grad, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(sin, pointwise, "y = sin x", .infer = mrt_infer_reals, .grad = sin_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(cos, pointwise, "y = cos x", .infer = mrt_infer_reals, .grad = cos_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(tanh, activation, "y = tanh x", .infer = mrt_infer_reals,
      .grad = tanh_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE);
UNARY(sigmoid, activation, "y = 1 / (1 + e^-x)", .infer = mrt_infer_reals,
      .grad = sigmoid_grad, .flops = mrt_flops_ten, .inplace = 1,
      .width = MRT_FOLLOW, .traits = ONCE);
UNARY(relu, activation, "y = max(x, 0)", .infer = infer_signed,
      .grad = relu_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE);
UNARY(erf, pointwise, "y = 2 / sqrt pi * integral of e^-t^2 from 0 to x",
      .infer = mrt_infer_reals, .grad = erf_grad, .flops = mrt_flops_ten,
      .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(floor, pointwise, "y = largest integer <= x", .infer = mrt_infer_reals,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(ceil, pointwise, "y = smallest integer >= x", .infer = mrt_infer_reals,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(round, pointwise, "y = nearest integer, half to even",
      .infer = mrt_infer_reals,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(isnan, pointwise, "y = x is not a number", .infer = infer_isnan,
      .flops = mrt_flops_one, .width = MRT_WIDE, .traits = ONCE);
UNARY(logical_not, pointwise, "y = not x", .infer = mrt_infer_bools,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = TWICE);
/* clang-format on */
