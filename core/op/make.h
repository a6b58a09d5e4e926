/* make.h -- options of operators that make tensors from nothing
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MAKE_H
#define MRT_OP_MAKE_H

#include "mrt.h"

typedef struct mrt_full_options {
  mrt_ints shape;
  double value;
  mrt_dtype dtype;
} mrt_full_options;

typedef struct mrt_arange_options {
  double start, stop, step; /* start, start + step, ... short of stop */
  mrt_dtype dtype;
} mrt_arange_options;

#endif
