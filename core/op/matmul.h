/* matmul.h -- what rows of products of matrices share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MATMUL_H
#define MRT_OP_MATMUL_H

#include "op/op.h"

typedef struct mrt_matmul_options {
  mrt_dtype
      compute; /* inputs are rounded to it; MRT_DTYPE_COUNT: they are not */
  mrt_dtype accumulate; /* each sum is rounded to it after each term;
                           MRT_DTYPE_COUNT: sums are f32 (f64) */
  bool keep; /* of linear_gelu: what it takes the GELU of is a result too */
} mrt_matmul_options;

/* A sum of so many terms or fewer is a whole before it is added to anything:
 * matmul_add has the bits of add and matmul. */
enum { MRT_ADDED_AT_ONCE = 384 };

/* Does linear_gelu round its bias to `y`, the dtype of its results? */
static inline bool mrt_gelu_rounds_bias(mrt_dtype y) {
  return y == MRT_f16 || y == MRT_bf16;
}

/* `compute` may stand beside a first input of its dtype. */
mrt_status mrt_want_compute(mrt_infer *c, mrt_dtype compute);
/* So may `accumulate`; what sums are in anyway becomes MRT_DTYPE_COUNT. */
mrt_status mrt_want_sums(mrt_infer *c, mrt_dtype *accumulate);
/* All inputs are floats and may be rounded to `compute`; *y is the dtype of
 * their product. */
mrt_status mrt_want_factors(mrt_infer *c, mrt_dtype compute, mrt_dtype *y);

/* For rows that go on from a product: out[0] is its type, whatever the options
 * but `compute` and `accumulate` are. */
mrt_status mrt_infer_matmul(mrt_infer *c);
mrt_status mrt_infer_linear(mrt_infer *c);
/* Fill b->din, as those of linear with these inputs and options, for `dy`. */
void mrt_linear_gradients(struct mrt_build *b, mrt_tensor *dy);
double mrt_matmul_flops(const mrt_signature *s);
mrt_product mrt_matmul_product(const mrt_signature *s);

#endif
