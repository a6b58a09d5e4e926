/* matmul.h -- options of products of matrices
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MATMUL_H
#define MRT_OP_MATMUL_H

#include "mrt.h"

typedef struct mrt_matmul_options {
  mrt_dtype
      compute; /* inputs are rounded to it; MRT_DTYPE_COUNT: they are not */
} mrt_matmul_options;

#endif
