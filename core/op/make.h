/* make.h -- options of operators that make tensors from nothing
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_MAKE_H
#define MRT_OP_MAKE_H

#include "mrt/types.h"

/* `value` comes first: the constant of a UNIFORM operator. */
typedef struct mrt_full_options {
  double value;
  mrt_ints shape;
  mrt_dtype dtype;
} mrt_full_options;

typedef struct mrt_arange_options {
  double start, stop, step; /* start, start + step, ... short of stop */
  mrt_dtype dtype;
} mrt_arange_options;

#endif
