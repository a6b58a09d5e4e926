/* activation.c -- smooth activations: gelu, silu, their gradients, softplus,
 * logsigmoid, mish, softsign
 *
 *   gelu       y = x P(x), P the normal distribution function: exact by erf,
 *              or with approximate = "tanh"
 *              P(x) = (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
 *   silu       y = x / (1 + e^-x)
 *   softplus   y = log(1 + e^x), exact where e^x is large or small
 *   logsigmoid y = -softplus(-x)
 *   mish       y = x tanh(softplus(x))
 *   softsign   y = x / (1 + |x|)
 *
 *   x      any shape, f32 | f64
 *   y      type of x; may take x's storage
 *   cost   20 flop per element
 *   grad   of gelu and silu an operator of its own, of x and dy; of softplus
 *          dy sigmoid(x)
 *   from   Hendrycks & Gimpel, arXiv:1606.08415; Misra, arXiv:1908.08681
 *
 * SPDX-License-Identifier: MIT */
#include "op/activation.h"
#include "op/pointwise.h"

static const mrt_option options[] = {
  MRT_OPTION(mrt_gelu_options, approximate, MRT_OPT_ENUM,
             .preset = MRT_GELU_NONE, .words = "none tanh"),
};

static double flops(const mrt_signature *s) { return 2 * mrt_flops_ten(s); }

static void gelu_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, gelu_grad, b->options, b->in[0], b->dout[0]);
}

/* P(x) + x P'(x) */
static mrt_tensor *erf_slope(mrt_build *b, mrt_tensor *x) {
  mrt_tensor *half = mrt_mul_k(b, mrt_mul(b, x, x), -0.5);
  mrt_tensor *bell = mrt_mul_k(b, mrt_exp(b, half), 0.3989422804014327);
  mrt_tensor *e = MRT_MAKE(b, erf, NULL, mrt_mul_k(b, x, 0.7071067811865476));
  mrt_tensor *p = mrt_mul_k(b, mrt_add_k(b, e, 1), 0.5);
  return mrt_add(b, p, mrt_mul(b, x, bell));
}

/* With t = tanh u: (1 + t) / 2 + x (1 - t^2) u' / 2 */
static mrt_tensor *tanh_slope(mrt_build *b, mrt_tensor *x) {
  const double k = 0.7978845608028654, c = 0.044715;
  mrt_tensor *xx = mrt_mul(b, x, x);
  mrt_tensor *u = mrt_mul(b, x, mrt_add_k(b, mrt_mul_k(b, xx, k * c), k));
  mrt_tensor *du = mrt_add_k(b, mrt_mul_k(b, xx, 3 * k * c), k);
  mrt_tensor *t = MRT_MAKE(b, tanh, NULL, u);
  mrt_tensor *bend = mrt_mul(b, mrt_rsub(b, 1, mrt_mul(b, t, t)), du);
  mrt_tensor *twice = mrt_add(b, mrt_add_k(b, t, 1), mrt_mul(b, x, bend));
  return mrt_mul_k(b, twice, 0.5);
}

static void gelu_grad_parts(mrt_build *b, mrt_tensor **value) {
  const mrt_gelu_options *o = b->options;
  mrt_tensor *slope = o->approximate == MRT_GELU_TANH ? tanh_slope(b, b->in[0])
                                                      : erf_slope(b, b->in[0]);
  value[0] = mrt_mul(b, b->in[1], slope);
}
static void gelu_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, gelu_grad_parts);
}

static void silu_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, silu_grad, NULL, b->in[0], b->dout[0]);
}

/* With s = sigmoid x: dy s (1 + x (1 - s)) */
static void silu_grad_parts(mrt_build *b, mrt_tensor **value) {
  mrt_tensor *x = b->in[0], *dy = b->in[1];
  mrt_tensor *s = MRT_MAKE(b, sigmoid, NULL, x);
  mrt_tensor *rest = mrt_add_k(b, mrt_mul(b, x, mrt_rsub(b, 1, s)), 1);
  value[0] = mrt_mul(b, dy, mrt_mul(b, s, rest));
}
static void silu_grad_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, silu_grad_parts);
}

static void softplus_gradient(mrt_build *b) {
  b->din[0] = mrt_mul(b, b->dout[0], MRT_MAKE(b, sigmoid, NULL, b->in[0]));
}

static void logsigmoid_gradient(mrt_build *b) {
  mrt_tensor *rest = MRT_MAKE(b, sigmoid, NULL, mrt_neg(b, b->in[0]));
  b->din[0] = mrt_mul(b, b->dout[0], rest);
}

/* With t = tanh(softplus x): t + x (1 - t^2) sigmoid(x) */
static void mish_gradient(mrt_build *b) {
  mrt_tensor *x = b->in[0];
  mrt_tensor *t = MRT_MAKE(b, tanh, NULL, MRT_MAKE(b, softplus, NULL, x));
  mrt_tensor *bend = mrt_mul(b, mrt_rsub(b, 1, t), mrt_add_k(b, t, 1));
  bend = mrt_mul(b, mrt_mul(b, x, bend), MRT_MAKE(b, sigmoid, NULL, x));
  b->din[0] = mrt_mul(b, b->dout[0], mrt_add(b, t, bend));
}

/* 1 / (1 + |x|)^2, whose square does not overflow */
static void softsign_gradient(mrt_build *b) {
  mrt_tensor *size = mrt_add_k(b, MRT_MAKE(b, abs, NULL, b->in[0]), 1);
  b->din[0] = mrt_div(b, mrt_div(b, b->dout[0], size), size);
}

const mrt_op mrt_op_gelu = {
  .name = "gelu",
  .number = MRT_OP_gelu,
  .cost = MRT_COST_activation,
  .doc = "y = x P(x), P the normal distribution function",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(options, mrt_gelu_options),
  .infer = mrt_infer_reals,
  .grad = gelu_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_gelu_grad = {
  .name = "gelu_grad",
  .number = MRT_OP_gelu_grad,
  .cost = MRT_COST_activation,
  .doc = "dx = dy (P(x) + x P'(x)), for y = gelu(x)",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(options, mrt_gelu_options),
  .infer = mrt_infer_reals,
  .grad = gelu_grad_gradient,
  .flops = flops,
  .inplace = 3,
  .strided = 3,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE | MRT_LIBRARY,
};
const mrt_op mrt_op_silu = {
  .name = "silu",
  .number = MRT_OP_silu,
  .cost = MRT_COST_activation,
  .doc = "y = x / (1 + e^-x)",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = mrt_infer_reals,
  .grad = silu_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_silu_grad = {
  .name = "silu_grad",
  .number = MRT_OP_silu_grad,
  .cost = MRT_COST_activation,
  .doc = "dx = dy s (1 + x (1 - s)), s = 1 / (1 + e^-x)",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = mrt_infer_reals,
  .grad = silu_grad_gradient,
  .flops = flops,
  .inplace = 3,
  .strided = 3,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE | MRT_LIBRARY,
};
const mrt_op mrt_op_softplus = {
  .name = "softplus",
  .number = MRT_OP_softplus,
  .cost = MRT_COST_activation,
  .doc = "y = log(1 + e^x)",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = mrt_infer_reals,
  .grad = softplus_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_logsigmoid = {
  .name = "logsigmoid",
  .number = MRT_OP_logsigmoid,
  .cost = MRT_COST_activation,
  .doc = "y = -log(1 + e^-x)",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = mrt_infer_reals,
  .grad = logsigmoid_gradient,
  .flops = mrt_flops_ten,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_mish = {
  .name = "mish",
  .number = MRT_OP_mish,
  .cost = MRT_COST_activation,
  .doc = "y = x tanh(log(1 + e^x))",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = mrt_infer_reals,
  .grad = mish_gradient,
  .flops = flops,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_softsign = {
  .name = "softsign",
  .number = MRT_OP_softsign,
  .cost = MRT_COST_activation,
  .doc = "y = x / (1 + |x|)",
  .min_inputs = 1,
  .max_inputs = 1,
  .infer = mrt_infer_reals,
  .grad = softsign_gradient,
  .flops = mrt_flops_one,
  .inplace = 1,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_POINTWISE,
};
