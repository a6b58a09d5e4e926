/* two_of_four.h -- options of a product with packed weights
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_TWO_OF_FOUR_H
#define MRT_OP_TWO_OF_FOUR_H

#include <stdbool.h>

#include "base/dtype.h"

typedef struct mrt_two_of_four_options {
  bool transposed;   /* y = x @ w */
  mrt_dtype compute; /* as of linear (matmul.h) */
} mrt_two_of_four_options;

#endif
