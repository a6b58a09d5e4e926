/* pointwise_binary.c -- operators of two or three inputs, element by element
 *
 *   x, y   one dtype and one shape: the caller has promoted and broadcast
 *   z      type of x, bool for comparisons; may take x's or y's storage
 *   grad   maximum and minimum share it half and half where x = y; atan2 and
 *          hypot give 0 at the origin; none for comparisons, logic, nextafter
 *   note   integers wrap; x remainder 0 and x fmod 0 are 0 for them: who wants an error
 *          divides by divisor(y) (divisor.c)
 *   fails  EDTYPE  dtypes differ or are not among the operator's
 *          ESHAPE  shapes differ
 *
 * SPDX-License-Identifier: MIT */
#include "op/pointwise.h"
#include "op/pointwise_options.h"

/* What the rules below read. */
#define X     (b->in[0])
#define Y     (b->in[1])
#define Z     (b->out[0])
#define DZ    (b->dout[0])
#define DX    (b->din[0])
#define DY    (b->din[1])
#define IF_DX if (b->wants[0])
#define IF_DY if (b->wants[1])

static void add_grad(mrt_build *b) { DX = DY = DZ; }

static void sub_grad(mrt_build *b) {
  DX = DZ;
  IF_DY DY = mrt_neg(b, DZ);
}

static void mul_grad(mrt_build *b) {
  IF_DX DX = mrt_mul(b, DZ, Y);
  IF_DY DY = mrt_mul(b, DZ, X);
}

static void div_grad(mrt_build *b) {
  mrt_tensor *dx = mrt_div(b, DZ, Y);
  DX = dx;
  IF_DY DY = mrt_neg(b, mrt_mul(b, dx, Z));
}

/* Zeros are kept out of x^(y - 1) and log x, not masked afterwards, so that
 * the rules can be differentiated again without 0 * inf. */
static void pow_grad(mrt_build *b) {
  mrt_tensor *one = mrt_full_like(b, X, 1), *zero = mrt_full_like(b, X, 0);
  IF_DX {
    mrt_tensor *power =
        mrt_where(b, MRT_MAKE(b, eq, NULL, Y, zero), one, mrt_sub(b, Y, one));
    mrt_tensor *slope = mrt_mul(b, Y, MRT_MAKE(b, pow, NULL, X, power));
    DX = mrt_mul(b, DZ, slope);
  }
  IF_DY {
    mrt_tensor *base = mrt_where(b, MRT_MAKE(b, gt, NULL, X, zero), X, one);
    DY = mrt_mul(b, DZ, mrt_mul(b, Z, MRT_MAKE(b, log, NULL, base)));
  }
}

static void maximum_grad(mrt_build *b) {
  mrt_tensor *tie = MRT_MAKE(b, eq, NULL, X, Y), *zero = mrt_full_like(b, X, 0);
  mrt_tensor *dz = mrt_where(b, tie, mrt_mul_k(b, DZ, 0.5), DZ);
  IF_DX DX = mrt_where(b, MRT_MAKE(b, ge, NULL, X, Y), dz, zero);
  IF_DY DY = mrt_where(b, MRT_MAKE(b, ge, NULL, Y, X), dz, zero);
}

static void minimum_grad(mrt_build *b) {
  mrt_tensor *tie = MRT_MAKE(b, eq, NULL, X, Y), *zero = mrt_full_like(b, X, 0);
  mrt_tensor *dz = mrt_where(b, tie, mrt_mul_k(b, DZ, 0.5), DZ);
  IF_DX DX = mrt_where(b, MRT_MAKE(b, le, NULL, X, Y), dz, zero);
  IF_DY DY = mrt_where(b, MRT_MAKE(b, le, NULL, Y, X), dz, zero);
}

/* x - y floor(x / y) */
static void remainder_grad(mrt_build *b) {
  DX = DZ;
  IF_DY DY =
      mrt_neg(b, mrt_mul(b, DZ, MRT_MAKE(b, floor, NULL, mrt_div(b, X, Y))));
}

/* x - y trunc(x / y) */
static void fmod_grad(mrt_build *b) {
  DX = DZ;
  IF_DY DY =
      mrt_neg(b, mrt_mul(b, DZ, MRT_MAKE(b, trunc, NULL, mrt_div(b, X, Y))));
}

/* `length`, or 1 where that is 0. */
static mrt_tensor *divides(mrt_build *b, mrt_tensor *length) {
  mrt_tensor *zero = mrt_full_like(b, X, 0), *one = mrt_full_like(b, X, 1);
  return mrt_where(b, MRT_MAKE(b, eq, NULL, length, zero), one, length);
}
static void hypot_grad(mrt_build *b) {
  mrt_tensor *length = divides(b, Z);
  IF_DX DX = mrt_mul(b, DZ, mrt_div(b, X, length));
  IF_DY DY = mrt_mul(b, DZ, mrt_div(b, Y, length));
}
/* The angle of (y, x): (x dy - y dx) / length^2, which must not overflow. */
static void atan2_grad(mrt_build *b) {
  mrt_tensor *length = divides(b, MRT_MAKE(b, hypot, NULL, X, Y));
  mrt_tensor *scaled = mrt_div(b, DZ, length);
  IF_DX DX = mrt_mul(b, scaled, mrt_div(b, Y, length));
  IF_DY DY = mrt_neg(b, mrt_mul(b, scaled, mrt_div(b, X, length)));
}

static void copysign_grad(mrt_build *b) {
  mrt_tensor *side =
      mrt_mul(b, MRT_MAKE(b, sign, NULL, X), MRT_MAKE(b, sign, NULL, Z));
  IF_DX DX = mrt_mul(b, DZ, side);
  IF_DY DY = mrt_full_like(b, Y, 0);
}

static void lerp_grad(mrt_build *b) {
  const mrt_lerp_options *o = b->options;
  IF_DX DX = mrt_mul_k(b, DZ, 1 - o->weight);
  IF_DY DY = mrt_mul_k(b, DZ, o->weight);
}

static double flops_two(const mrt_signature *s) { return 2 * mrt_flops_one(s); }

static void standardize_grad(mrt_build *b) {
  mrt_tensor *scale = b->in[2], *dx = mrt_mul(b, DZ, scale);
  DX = dx;
  IF_DY DY = mrt_neg(b, dx);
  if (b->wants[2]) b->din[2] = mrt_mul(b, DZ, mrt_sub(b, X, Y));
}

static const mrt_option lerp_options[] = {
  MRT_OPTION(mrt_lerp_options, weight, MRT_OPT_NUM, .required = true),
};

static void where_grad(mrt_build *b) {
  mrt_tensor *zero = mrt_full_like(b, DZ, 0);
  if (b->wants[1]) b->din[1] = mrt_where(b, b->in[0], DZ, zero);
  if (b->wants[2]) b->din[2] = mrt_where(b, b->in[0], zero, DZ);
}

static mrt_status infer_plain(mrt_infer *c) {
  return mrt_infer_among(c, MRT_PLAIN);
}

static mrt_status infer_relation(mrt_infer *c) {
  MRT_TRY(mrt_infer_among(c, MRT_PLAIN));
  c->out[0].dtype = MRT_bool;
  return MRT_OK;
}

static mrt_status infer_where(mrt_infer *c) {
  MRT_TRY(mrt_want_dtype(c, 0, MRT_bool));
  MRT_TRY(mrt_want_same(c, 1, 2));
  MRT_TRY(mrt_want_shape(c, 0, c->in[1]->rank, c->in[1]->dims,
                         "the shape of what it chooses"));
  c->out[0] = *c->in[1];
  return MRT_OK;
}

#define BINARY(op, text, ...)                                                  \
  const mrt_op mrt_op_##op = { .name = #op,                                    \
                               .number = MRT_OP_##op,                          \
                               .cost = MRT_COST_pointwise,                     \
                               .doc = text,                                    \
                               .min_inputs = 2,                                \
                               .max_inputs = 2,                                \
                               .strided = 3,                                   \
                               __VA_ARGS__ }
#define ORDERED (MRT_POINTWISE)
#define EITHER  (MRT_POINTWISE | MRT_COMMUTES)

/* clang-format off */
BINARY(add, "z = x + y", .infer = mrt_infer_numbers, .grad = add_grad,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .traits = EITHER | MRT_LINEAR);
BINARY(sub, "z = x - y", .infer = mrt_infer_numbers, .grad = sub_grad,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .unit_inputs = 2, .unit = 0, .traits = ORDERED | MRT_LINEAR);
BINARY(mul, "z = x * y", .infer = mrt_infer_numbers, .grad = mul_grad,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .unit_inputs = 3, .unit = 1, .traits = EITHER | MRT_PRODUCT);
BINARY(div, "z = x / y", .infer = mrt_infer_reals, .grad = div_grad,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .unit_inputs = 2, .unit = 1, .traits = ORDERED | MRT_OF_REALS | MRT_QUOTIENT);
BINARY(pow, "z = x^y", .infer = mrt_infer_reals, .grad = pow_grad,
       .flops = mrt_flops_ten, .inplace = 3, .width = MRT_WIDE,
       .traits = ORDERED | MRT_OF_REALS);
BINARY(maximum, "z = the larger of x and y, NaN if one is",
       .infer = infer_plain, .grad = maximum_grad, .flops = mrt_flops_one,
       .inplace = 3, .width = MRT_FOLLOW, .traits = EITHER);
BINARY(minimum, "z = the smaller of x and y, NaN if one is",
       .infer = infer_plain, .grad = minimum_grad, .flops = mrt_flops_one,
       .inplace = 3, .width = MRT_FOLLOW, .traits = EITHER);
BINARY(remainder, "z = x - y floor(x / y)", .infer = mrt_infer_numbers,
       .grad = remainder_grad, .flops = mrt_flops_ten, .inplace = 3,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(eq, "z = x equals y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = EITHER);
BINARY(ne, "z = x differs from y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = EITHER);
BINARY(lt, "z = x < y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(le, "z = x <= y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(gt, "z = x > y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(ge, "z = x >= y", .infer = infer_relation, .flops = mrt_flops_one,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(logical_and, "z = x and y", .infer = mrt_infer_bools,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .traits = EITHER);
BINARY(logical_or, "z = x or y", .infer = mrt_infer_bools,
       .flops = mrt_flops_one, .inplace = 3, .width = MRT_FOLLOW,
       .traits = EITHER);
BINARY(atan2, "z = the angle of the point whose height is x and breadth y",
       .infer = mrt_infer_reals, .grad = atan2_grad, .flops = mrt_flops_ten,
       .inplace = 3, .width = MRT_WIDE, .traits = ORDERED | MRT_OF_REALS);
BINARY(hypot, "z = (x^2 + y^2)^(1/2)", .infer = mrt_infer_reals,
       .grad = hypot_grad, .flops = mrt_flops_ten, .inplace = 3,
       .width = MRT_WIDE, .traits = EITHER | MRT_OF_REALS);
BINARY(fmod, "z = x - y trunc(x / y)", .infer = mrt_infer_numbers,
       .grad = fmod_grad, .flops = mrt_flops_ten, .inplace = 3,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(copysign, "z = |x| with the sign of y", .infer = mrt_infer_reals,
       .grad = copysign_grad, .flops = mrt_flops_one, .inplace = 3,
       .width = MRT_FOLLOW, .traits = ORDERED | MRT_OF_REALS);
BINARY(nextafter, "z = the number of this dtype that follows x towards y",
       .infer = mrt_infer_reals, .flops = mrt_flops_ten, .inplace = 3,
       .width = MRT_WIDE, .traits = ORDERED);
BINARY(lerp, "z = x + weight (y - x)", .infer = mrt_infer_reals,
       .grad = lerp_grad, .flops = mrt_flops_one, .inplace = 3,
       .width = MRT_FOLLOW, MRT_OPTIONS(lerp_options, mrt_lerp_options),
       .traits = ORDERED | MRT_LINEAR);

const mrt_op mrt_op_where = {
  .name = "where", .number = MRT_OP_where, .cost = MRT_COST_pointwise,
  .doc = "z = x where c, else y",
  .min_inputs = 3, .max_inputs = 3,
  .infer = infer_where, .grad = where_grad, .flops = mrt_flops_one,
  .inplace = 6, .strided = 7, .width = MRT_FOLLOW, .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_standardize = {
  .name = "standardize", .number = MRT_OP_standardize, .cost = MRT_COST_norm,
  .doc = "z = (x - mean) * scale, all of one shape",
  .min_inputs = 3, .max_inputs = 3,
  .infer = mrt_infer_reals, .grad = standardize_grad, .flops = flops_two,
  .inplace = 7, .strided = 7, .width = MRT_WIDE,
  .traits = MRT_POINTWISE | MRT_LIBRARY, /* split_batch_norm makes it */
};
/* clang-format on */
