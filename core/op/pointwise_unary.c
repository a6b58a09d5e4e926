/* pointwise_unary.c -- operators of one input, element by element
 *
 *   x      any shape; f32 | f64.  What counts or rounds takes integers as they
 *          are, what has the trait OF_REALS as f32: callers cast
 *   y      type of x, bool for isnan and its like; may take x's storage
 *   grad   from y where that is simpler (exp, sqrt, tanh, ...): x can go;
 *          0 for sign, floor, ceil, round and trunc, and in nan_to_num for
 *          what is replaced; none for isnan, its like and logical_not
 *   note   u8 and the least integers wrap when negated
 *   fails  EDTYPE  x of another dtype: cast first
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"
#include "op/pointwise_options.h"

#include <math.h>

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

/* 0 where y is, and so is the gradient of that. */
static void root_grad(mrt_build *b) {
  mrt_tensor *zero = mrt_const_like(b, Y, 0), *one = mrt_const_like(b, Y, 1);
  mrt_tensor *at_zero =
      MRT_MAKE(b, eq, NULL, Y, mrt_expand_to(b, zero, mrt_of(Y)));
  mrt_tensor *safe = mrt_where(b, at_zero, one, Y);
  DX = mrt_where(b, at_zero, zero, mrt_div(b, mrt_mul_k(b, DY, 0.5), safe));
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

static mrt_tensor *is_finite(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, isfinite, NULL, x);
}
static void nan_to_num_grad(mrt_build *b) {
  DX = mrt_where(b, is_finite(b, X), DY, mrt_full_like(b, X, 0));
}

static mrt_status infer_question(mrt_infer *c) {
  MRT_TRY(mrt_infer_among(c, MRT_PLAIN));
  c->out[0].dtype = MRT_bool;
  return MRT_OK;
}

static const mrt_option nan_to_num_options[] = {
  MRT_OPTION(mrt_nan_to_num_options, nan, MRT_OPT_NUM),
  MRT_OPTION(mrt_nan_to_num_options, posinf, MRT_OPT_NUM, .preset = INFINITY),
  MRT_OPTION(mrt_nan_to_num_options, neginf, MRT_OPT_NUM, .preset = -INFINITY),
};

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
UNARY(neg, pointwise, "y = -x", .infer = mrt_infer_numbers, .grad = neg_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = TWICE | MRT_LINEAR);
UNARY(abs, pointwise, "y = |x|", .infer = mrt_infer_numbers, .grad = abs_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE);
UNARY(sign, pointwise, "y = -1, 0 or 1 as x < 0, x = 0, x > 0",
      .infer = mrt_infer_numbers,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_FOLLOW, .traits = ONCE);
UNARY(exp, pointwise, "y = e^x", .infer = mrt_infer_reals, .grad = exp_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(log, pointwise, "y = ln x", .infer = mrt_infer_reals, .grad = log_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(sqrt, pointwise, "y = x^(1/2)", .infer = mrt_infer_reals,
      .grad = sqrt_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(root, pointwise, "y = x^(1/2), whose gradient where x is 0 is 0: of sums of squares",
      .infer = mrt_infer_reals, .grad = root_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE,
      .traits = ONCE | MRT_OF_REALS | MRT_LIBRARY);
UNARY(rsqrt, pointwise, "y = x^(-1/2)", .infer = mrt_infer_reals,
      .grad = rsqrt_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(reciprocal, pointwise, "y = 1 / x", .infer = mrt_infer_reals,
      .grad = reciprocal_grad, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(sin, pointwise, "y = sin x", .infer = mrt_infer_reals, .grad = sin_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(cos, pointwise, "y = cos x", .infer = mrt_infer_reals, .grad = cos_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(tanh, activation, "y = tanh x", .infer = mrt_infer_reals,
      .grad = tanh_grad,
      .flops = mrt_flops_ten, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE | MRT_OF_REALS);
UNARY(sigmoid, activation, "y = 1 / (1 + e^-x)", .infer = mrt_infer_reals,
      .grad = sigmoid_grad, .flops = mrt_flops_ten, .inplace = 1,
      .width = MRT_FOLLOW, .traits = ONCE | MRT_OF_REALS);
UNARY(relu, activation, "y = max(x, 0)", .infer = mrt_infer_numbers,
      .grad = relu_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = ONCE);
UNARY(erf, pointwise, "y = 2 / sqrt pi * integral of e^-t^2 from 0 to x",
      .infer = mrt_infer_reals, .grad = erf_grad, .flops = mrt_flops_ten,
      .inplace = 1, .width = MRT_WIDE, .traits = ONCE | MRT_OF_REALS);
UNARY(floor, pointwise, "y = largest integer <= x", .infer = mrt_infer_numbers,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(ceil, pointwise, "y = smallest integer >= x", .infer = mrt_infer_numbers,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(round, pointwise, "y = nearest integer, half to even",
      .infer = mrt_infer_numbers,
      .grad = mrt_grad_zero, .flops = mrt_flops_one, .inplace = 1,
      .width = MRT_WIDE, .traits = ONCE);
UNARY(isnan, pointwise, "y = x is not a number", .infer = infer_question,
      .flops = mrt_flops_one, .width = MRT_WIDE, .traits = ONCE);
UNARY(isfinite, pointwise, "y = x is a number and not infinite",
      .infer = infer_question, .flops = mrt_flops_one, .width = MRT_WIDE,
      .traits = ONCE);
UNARY(isinf, pointwise, "y = x is infinite", .infer = infer_question,
      .flops = mrt_flops_one, .width = MRT_WIDE, .traits = ONCE);
UNARY(signbit, pointwise, "y = x is below 0, or -0", .infer = infer_question,
      .flops = mrt_flops_one, .width = MRT_WIDE, .traits = ONCE);
UNARY(trunc, pointwise, "y = x without what follows the point",
      .infer = mrt_infer_numbers, .grad = mrt_grad_zero,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE, .traits = ONCE);
UNARY(nan_to_num, pointwise, "y = x, or a number for NaN, inf and -inf",
      .infer = mrt_infer_numbers, .grad = nan_to_num_grad,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_WIDE,
      MRT_OPTIONS(nan_to_num_options, mrt_nan_to_num_options), .traits = ONCE);
UNARY(logical_not, pointwise, "y = not x", .infer = mrt_infer_bools,
      .flops = mrt_flops_one, .inplace = 1, .width = MRT_FOLLOW,
      .traits = TWICE);
/* clang-format on */
