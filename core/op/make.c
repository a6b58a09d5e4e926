/* make.c -- tensors from nothing: full, arange, rand, randn, randint
 *
 *   y      a new tensor; no inputs, so a chain that reads it fuses with it
 *   note   the random ones depend on seed, step, key and the element's index
 *          only; arange computes start + i step in double
 *   fails  EVALUE  a value that the dtype cannot hold; arange whose step is 0
 *                  or leads away from stop; randint without low < high
 *          EDTYPE  rand and randn: not f32 or f64
 *
 * SPDX-License-Identifier: MIT */
#include "op/make.h"
#include "op/pointwise.h"
#include "op/random.h"

#include <math.h>
#include <string.h>

static const mrt_option full_options[] = {
  MRT_OPTION(mrt_full_options, shape, MRT_OPT_INTS, .required = true),
  MRT_OPTION(mrt_full_options, value, MRT_OPT_NUM, .required = true),
  MRT_OPTION(mrt_full_options, dtype, MRT_OPT_DTYPE, .preset = MRT_f32),
};
static const mrt_option arange_options[] = {
  MRT_OPTION(mrt_arange_options, start, MRT_OPT_NUM, .preset = 0),
  MRT_OPTION(mrt_arange_options, stop, MRT_OPT_NUM, .required = true),
  MRT_OPTION(mrt_arange_options, step, MRT_OPT_NUM, .preset = 1),
  MRT_OPTION(mrt_arange_options, dtype, MRT_OPT_DTYPE, .preset = MRT_f32),
};
static const mrt_option rand_options[] = {
  MRT_OPTION(mrt_rand_options, key, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_rand_options, seed, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_rand_options, inner, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_rand_options, shape, MRT_OPT_INTS, .required = true),
  MRT_OPTION(mrt_rand_options, dtype, MRT_OPT_DTYPE, .preset = MRT_f32),
};
static const mrt_option randint_options[] = {
  MRT_OPTION(mrt_randint_options, key, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_randint_options, seed, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_randint_options, inner, MRT_OPT_HIDDEN),
  MRT_OPTION(mrt_randint_options, low, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_randint_options, high, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_randint_options, shape, MRT_OPT_INTS, .required = true),
  MRT_OPTION(mrt_randint_options, dtype, MRT_OPT_DTYPE, .preset = MRT_i64),
};

static mrt_status shaped(mrt_infer *c, const mrt_ints *shape, mrt_dtype dtype) {
  mrt_type *y = &c->out[0];
  *y = (mrt_type){ .dtype = dtype, .rank = shape->count };
  memcpy(y->dims, shape->at, (size_t)shape->count * sizeof *y->dims);
  return MRT_OK;
}

/* Integers hold whole numbers within their range, floats and bool anything. */
static mrt_status want_fit(mrt_infer *c, mrt_dtype dtype, double value) {
  double low = dtype == MRT_u8 ? 0 : dtype == MRT_i32 ? -0x1p31 : -0x1p63;
  double high = dtype == MRT_u8 ? 0x1p8 : dtype == MRT_i32 ? 0x1p31 : 0x1p63;
  if (!mrt_is_int(dtype) ||
      (value >= low && value < high && floor(value) == value))
    return MRT_OK;
  return mrt_refuse(c, MRT_EVALUE, "%s cannot hold %.17g",
                    mrt_dtype_name(dtype), value);
}

static mrt_status infer_full(mrt_infer *c) {
  const mrt_full_options *o = c->options;
  MRT_TRY(want_fit(c, o->dtype, o->value));
  return shaped(c, &o->shape, o->dtype);
}

static mrt_status infer_arange(mrt_infer *c) {
  const mrt_arange_options *o = c->options;
  double n = ceil((o->stop - o->start) / o->step);
  if (!(n >= 0 && n < 0x1p53)) /* NaN and inf too */
    return mrt_refuse(c, MRT_EVALUE, "from %g to %g in steps of %g", o->start,
                      o->stop, o->step);
  if (o->dtype == MRT_bool || mrt_is_narrow(o->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32, f64, i64, i32 or u8 wanted",
                      mrt_dtype_name(o->dtype));
  MRT_TRY(want_fit(c, o->dtype, o->start));
  MRT_TRY(want_fit(c, o->dtype, n > 1 ? o->start + (n - 1) * o->step : 0));
  if (mrt_is_int(o->dtype)) MRT_TRY(want_fit(c, MRT_i64, o->step));
  return shaped(c, &(mrt_ints){ 1, { (int64_t)n } }, o->dtype);
}

static mrt_status infer_rand(mrt_infer *c) {
  const mrt_rand_options *o = c->options;
  if (!mrt_is_real(o->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, f32 or f64 wanted",
                      mrt_dtype_name(o->dtype));
  return shaped(c, &o->shape, o->dtype);
}

static mrt_status infer_randint(mrt_infer *c) {
  const mrt_randint_options *o = c->options;
  if (!mrt_is_int(o->dtype))
    return mrt_refuse(c, MRT_EDTYPE, "%s, i64, i32 or u8 wanted",
                      mrt_dtype_name(o->dtype));
  if (o->low >= o->high)
    return mrt_refuse(c, MRT_EVALUE, "low %lld, high %lld, low < high wanted",
                      (long long)o->low, (long long)o->high);
  if (o->dtype != MRT_i64) {
    MRT_TRY(want_fit(c, o->dtype, (double)o->low));
    MRT_TRY(want_fit(c, o->dtype, (double)o->high - 1));
  }
  return shaped(c, &o->shape, o->dtype);
}

const mrt_op mrt_op_full = {
  .name = "full",
  .number = MRT_OP_full,
  .cost = MRT_COST_move,
  .doc = "y = value everywhere",
  MRT_OPTIONS(full_options, mrt_full_options),
  .infer = infer_full,
  .width = MRT_WIDE,
  .traits = MRT_POINTWISE | MRT_UNIFORM,
};
const mrt_op mrt_op_arange = {
  .name = "arange",
  .number = MRT_OP_arange,
  .cost = MRT_COST_move,
  .doc = "y = start, start + step, ... short of stop",
  MRT_OPTIONS(arange_options, mrt_arange_options),
  .infer = infer_arange,
  .flops = mrt_flops_one,
  .width = MRT_WIDE,
  .traits = MRT_POINTWISE,
};
const mrt_op mrt_op_rand = {
  .name = "rand",
  .number = MRT_OP_rand,
  .cost = MRT_COST_random,
  .doc = "y uniform in [0, 1)",
  MRT_OPTIONS(rand_options, mrt_rand_options),
  .infer = infer_rand,
  .flops = mrt_flops_ten,
  .width = MRT_WIDE,
  .traits = MRT_POINTWISE | MRT_RANDOM,
};
const mrt_op mrt_op_randn = {
  .name = "randn",
  .number = MRT_OP_randn,
  .cost = MRT_COST_random,
  .doc = "y normal, mean 0, variance 1",
  MRT_OPTIONS(rand_options, mrt_rand_options),
  .infer = infer_rand,
  .flops = mrt_flops_ten,
  .width = MRT_WIDE,
  .traits = MRT_POINTWISE | MRT_RANDOM,
};
const mrt_op mrt_op_randint = {
  .name = "randint",
  .number = MRT_OP_randint,
  .cost = MRT_COST_random,
  .doc = "y a whole number, low <= y < high, all alike",
  MRT_OPTIONS(randint_options, mrt_randint_options),
  .infer = infer_randint,
  .flops = mrt_flops_ten,
  .width = MRT_WIDE,
  .traits = MRT_POINTWISE | MRT_RANDOM,
};
