/* matmul.h -- options and dtypes of products of matrices
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MATMUL_H
#define MRT_OP_MATMUL_H

#include "op/op.h"

typedef struct mrt_matmul_options {
  mrt_dtype
      compute; /* inputs are rounded to it; MRT_DTYPE_COUNT: they are not */
} mrt_matmul_options;

/* `compute` may stand beside a first input of its dtype. */
mrt_status mrt_want_compute(mrt_infer *c, mrt_dtype compute);
/* All inputs are floats and may be rounded to `compute`; *y is the dtype of
 * their product. */
mrt_status mrt_want_factors(mrt_infer *c, mrt_dtype compute, mrt_dtype *y);

#endif
