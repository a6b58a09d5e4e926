/* piecewise.c -- functions that are another formula on each side of a bound
 *
 *   clamp        min where x < min, max where x > max, and max if min > max
 *   hardtanh     clamp, but flat at its bounds; relu6 is hardtanh from 0 to 6
 *   leaky_relu   x, below 0 times `negative_slope`
 *   elu          scale x, below 0 scale alpha (e^(input_scale x) - 1); selu and
 *                celu too
 *   softshrink   x nearer to 0 by `lambd`, 0 within it
 *   hardshrink   x, 0 within `lambd`
 *   threshold    x where it exceeds `threshold`, else `value`
 *   hardswish    x hardsigmoid(x)
 *   hardsigmoid  (x + 3) / 6, from 0 to 1
 *   prelu        x, below 0 times y
 *
 *   x      any shape, f32 | f64; clamp also i64 | i32 | u8, with whole bounds
 *   y      type of x; may take x's storage; NaN stays
 *   grad   PyTorch's at the bounds; 0 at NaN, except where a slope multiplies
 *   fails  EDTYPE;  EVALUE  a bound that is no integer, of integers; NaN
 *
 * SPDX-License-Identifier: MIT */
#include "op/piecewise.h"
#include "op/pointwise.h"

#include <math.h>

/* What the rules below read. */
#define X  (b->in[0])
#define DY (b->dout[0])
#define DX (b->din[0])

static mrt_tensor *like(mrt_build *b, double k) {
  return mrt_full_like(b, X, k);
}
#define COMPARE(relation, x, k) MRT_MAKE(b, relation, NULL, x, like(b, k))

/* `dy` where both are true, else 0. */
static mrt_tensor *within(mrt_build *b, mrt_tensor *low, mrt_tensor *high,
                          mrt_tensor *dy) {
  mrt_tensor *both = MRT_MAKE(b, logical_and, NULL, low, high);
  return mrt_where(b, both, dy, like(b, 0));
}

static void clamp_grad(mrt_build *b) {
  const mrt_clamp_options *o = b->options;
  DX = within(b, COMPARE(ge, X, o->min), COMPARE(le, X, o->max), DY);
}

/* By y, which is x where it is between the bounds: so x need not be kept. */
static void hardtanh_grad(mrt_build *b) {
  const mrt_hardtanh_options *o = b->options;
  mrt_tensor *y = b->out[0];
  DX = within(b, COMPARE(gt, y, o->min_val), COMPARE(lt, y, o->max_val), DY);
}

static void leaky_relu_grad(mrt_build *b) {
  const mrt_slope_options *o = b->options;
  DX = mrt_where(b, COMPARE(gt, X, 0), DY, mrt_mul_k(b, DY, o->negative_slope));
}

/* What is above 0 is kept out of e^x, so that it cannot overflow. */
static void elu_grad(mrt_build *b) {
  const mrt_elu_options *o = b->options;
  mrt_clamp_options below = { -INFINITY, 0 };
  mrt_tensor *x = MRT_MAKE(b, clamp, &below, X);
  mrt_tensor *slope = mrt_exp(b, mrt_mul_k(b, x, o->input_scale));
  slope = mrt_mul_k(b, slope, o->alpha * o->scale * o->input_scale);
  slope = mrt_where(b, COMPARE(gt, X, 0), like(b, o->scale), slope);
  DX = mrt_mul(b, DY, slope);
}

static void shrink_grad(mrt_build *b) {
  const mrt_shrink_options *o = b->options;
  mrt_tensor *size = MRT_MAKE(b, abs, NULL, X);
  DX = mrt_where(b, COMPARE(gt, size, o->lambd), DY, like(b, 0));
}

static void threshold_grad(mrt_build *b) {
  const mrt_threshold_options *o = b->options;
  DX = mrt_where(b, COMPARE(gt, X, o->threshold), DY, like(b, 0));
}

static void hardswish_grad(mrt_build *b) {
  mrt_tensor *slope = mrt_add_k(b, mrt_mul_k(b, X, 1.0 / 3), 0.5);
  slope = mrt_where(b, COMPARE(lt, X, 3), slope, like(b, 1));
  DX = mrt_mul(b, DY, mrt_where(b, COMPARE(ge, X, -3), slope, like(b, 0)));
}

static void hardsigmoid_grad(mrt_build *b) {
  DX = within(b, COMPARE(gt, X, -3), COMPARE(lt, X, 3),
              mrt_mul_k(b, DY, 1.0 / 6));
}

static void prelu_grad(mrt_build *b) {
  mrt_tensor *w = b->in[1], *above = COMPARE(gt, X, 0);
  if (b->wants[0]) DX = mrt_where(b, above, DY, mrt_mul(b, DY, w));
  if (b->wants[1])
    b->din[1] = mrt_mul(b, DY, mrt_where(b, above, like(b, 0), X));
}

/* ---- options ------------------------------------------------------------- */

static mrt_status infer_clamp(mrt_infer *c) {
  const mrt_clamp_options *o = c->options;
  if (isnan(o->min) || isnan(o->max))
    return mrt_refuse(c, MRT_EVALUE, "min = %g, max = %g, numbers wanted",
                      o->min, o->max);
  if (mrt_is_int(c->in[0]->dtype) &&
      (floor(o->min) != o->min || floor(o->max) != o->max))
    return mrt_refuse(c, MRT_EVALUE,
                      "min = %g, max = %g, whole numbers wanted for %s", o->min,
                      o->max, mrt_dtype_name(c->in[0]->dtype));
  return mrt_infer_numbers(c);
}

static mrt_status infer_hardtanh(mrt_infer *c) {
  const mrt_hardtanh_options *o = c->options;
  if (!(o->min_val <= o->max_val))
    return mrt_refuse(c, MRT_EVALUE,
                      "min_val = %g, max_val = %g, the first must not exceed "
                      "the second",
                      o->min_val, o->max_val);
  return mrt_infer_reals(c);
}

static mrt_status infer_softshrink(mrt_infer *c) {
  const mrt_shrink_options *o = c->options;
  if (!(o->lambd >= 0))
    return mrt_refuse(c, MRT_EVALUE, "lambd = %g, 0 or more wanted", o->lambd);
  return mrt_infer_reals(c);
}

static const mrt_option clamp_options[] = {
  MRT_OPTION(mrt_clamp_options, min, MRT_OPT_NUM, .preset = -INFINITY),
  MRT_OPTION(mrt_clamp_options, max, MRT_OPT_NUM, .preset = INFINITY),
};
static const mrt_option hardtanh_options[] = {
  MRT_OPTION(mrt_hardtanh_options, min_val, MRT_OPT_NUM, .preset = -1),
  MRT_OPTION(mrt_hardtanh_options, max_val, MRT_OPT_NUM, .preset = 1),
};
static const mrt_option leaky_relu_options[] = {
  MRT_OPTION(mrt_slope_options, negative_slope, MRT_OPT_NUM, .preset = 0.01),
};
static const mrt_option elu_options[] = {
  MRT_OPTION(mrt_elu_options, alpha, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_elu_options, scale, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_elu_options, input_scale, MRT_OPT_NUM, .preset = 1),
};
static const mrt_option shrink_options[] = {
  MRT_OPTION(mrt_shrink_options, lambd, MRT_OPT_NUM, .preset = 0.5),
};
static const mrt_option threshold_options[] = {
  MRT_OPTION(mrt_threshold_options, threshold, MRT_OPT_NUM, .required = true),
  MRT_OPTION(mrt_threshold_options, value, MRT_OPT_NUM, .required = true),
};

/* ---- rows ---------------------------------------------------------------- */

#define PIECEWISE(op, inputs, kind, text, ...)                                 \
  const mrt_op mrt_op_##op = { .name = #op,                                    \
                               .number = MRT_OP_##op,                          \
                               .cost = MRT_COST_##kind,                        \
                               .doc = text,                                    \
                               .min_inputs = inputs,                           \
                               .max_inputs = inputs,                           \
                               .inplace = (1 << inputs) - 1,                   \
                               .strided = (1 << inputs) - 1,                   \
                               .flops = mrt_flops_one,                         \
                               .width = MRT_FOLLOW,                            \
                               .traits = MRT_POINTWISE,                        \
                               __VA_ARGS__ }

/* clang-format off */
PIECEWISE(clamp, 1, pointwise, "y = x, at least min, at most max",
          MRT_OPTIONS(clamp_options, mrt_clamp_options),
          .infer = infer_clamp, .grad = clamp_grad);
PIECEWISE(hardtanh, 1, activation, "y = x, at least min_val, at most max_val",
          MRT_OPTIONS(hardtanh_options, mrt_hardtanh_options),
          .infer = infer_hardtanh, .grad = hardtanh_grad);
PIECEWISE(leaky_relu, 1, activation, "y = x where x > 0, else negative_slope x",
          MRT_OPTIONS(leaky_relu_options, mrt_slope_options),
          .infer = mrt_infer_reals, .grad = leaky_relu_grad);
PIECEWISE(elu, 1, activation,
          "y = scale x where x > 0, else scale alpha (e^(input_scale x) - 1)",
          MRT_OPTIONS(elu_options, mrt_elu_options),
          .infer = mrt_infer_reals, .grad = elu_grad);
PIECEWISE(softshrink, 1, activation, "y = x nearer to 0 by lambd, or 0",
          MRT_OPTIONS(shrink_options, mrt_shrink_options),
          .infer = infer_softshrink, .grad = shrink_grad);
PIECEWISE(hardshrink, 1, activation, "y = x where |x| > lambd, else 0",
          MRT_OPTIONS(shrink_options, mrt_shrink_options),
          .infer = mrt_infer_reals, .grad = shrink_grad);
PIECEWISE(threshold, 1, activation, "y = x where x > threshold, else value",
          MRT_OPTIONS(threshold_options, mrt_threshold_options),
          .infer = mrt_infer_reals, .grad = threshold_grad);
PIECEWISE(hardswish, 1, activation, "y = x hardsigmoid(x)",
          .infer = mrt_infer_reals, .grad = hardswish_grad);
PIECEWISE(hardsigmoid, 1, activation, "y = (x + 3) / 6, from 0 to 1",
          .infer = mrt_infer_reals, .grad = hardsigmoid_grad);
PIECEWISE(prelu, 2, activation, "z = x where x > 0, else y x",
          .infer = mrt_infer_reals, .grad = prelu_grad);
/* clang-format on */
