/* norm.h -- options of the norms over a row, and what the rows of all norms share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_NORM_H
#define MRT_OP_NORM_H

#include "op/build.h"

typedef struct mrt_norm_options {
  double eps; /* added to the variance */
} mrt_norm_options;

typedef struct mrt_norm_add_options {
  mrt_dtype round; /* of a copy of the sum, narrow; MRT_DTYPE_COUNT: none */
  mrt_dtype first; /* ditto: what dx is rounded to before it is added */
} mrt_norm_add_options;

/* Input 0 is real, of at least `rank` dimensions: one or two. */
mrt_status mrt_norm_want_x(mrt_infer *c, int rank);
/* Input i is one number for each entry of x's last dimension. */
mrt_status mrt_norm_want_channels(mrt_infer *c, int i);

/* Inputs x, `stats` statistics, dy[, w]; outputs dx and, with w, as many
 * gradients of parameters as there are statistics. */
mrt_status mrt_norm_infer_grad(mrt_infer *c, int stats);

double mrt_norm_flops(const mrt_signature *s);
double mrt_norm_grad_flops(const mrt_signature *s);

/* Sum over all dimensions but the last. */
mrt_tensor *mrt_norm_sum_rows(mrt_build *b, mrt_tensor *x);
/* The gradient rule of a norm of x[, w[, b]] -> y, statistics...: its `grad`
 * operator, of x, statistics..., dy[, w].  Where a gradient comes to the
 * statistics too, that of `parts`. */
void mrt_norm_gradient(mrt_build *b, int grad, const void *options,
                       mrt_decompose parts);

#endif
