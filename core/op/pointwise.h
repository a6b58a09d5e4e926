/* pointwise.h -- what the rows of pointwise operators share
 *
 * A set of element types is a bit per dtype; `mrt_want_among` refuses the
 * others and says which were wanted.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_POINTWISE_H
#define MRT_OP_POINTWISE_H

#include "op/build.h"

enum {
  MRT_REALS = 1 << MRT_f32 | 1 << MRT_f64,
  MRT_SIGNED = MRT_REALS | 1 << MRT_i64 | 1 << MRT_i32,
  MRT_NUMBERS = MRT_SIGNED | 1 << MRT_u8,
  MRT_PLAIN = MRT_NUMBERS | 1 << MRT_bool,
};

mrt_status mrt_want_among(mrt_infer *c, int input, unsigned dtypes);
/* Input 0 is one of `dtypes`, the others have its type; so has the output. */
mrt_status mrt_infer_among(mrt_infer *c, unsigned dtypes);
mrt_status mrt_infer_numbers(mrt_infer *c); /* mrt_infer_among MRT_NUMBERS */
mrt_status mrt_infer_reals(mrt_infer *c);
mrt_status mrt_infer_bools(mrt_infer *c);

/* One flop an element, or the ten or so that a function like exp takes. */
double mrt_flops_one(const mrt_signature *s);
double mrt_flops_ten(const mrt_signature *s);

/* A tensor of x's type filled with k. */
mrt_tensor *mrt_full_like(mrt_build *b, mrt_tensor *x, double k);
/* Gradient rule of what is constant almost everywhere. */
void mrt_grad_zero(mrt_build *b);

#endif
