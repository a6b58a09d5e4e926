/* reduce.h -- options of the reductions
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_REDUCE_H
#define MRT_OP_REDUCE_H

#include "mrt/types.h"

typedef struct mrt_reduce_options {
  mrt_ints dim; /* sorted */
  bool keepdim;
} mrt_reduce_options;

/* Of a row: fused_reduce joins so what a program computes. */
typedef enum mrt_reduce_kind {
  MRT_FUSED_NONE,
  MRT_FUSED_SUM,
  MRT_FUSED_PROD,
  MRT_FUSED_MAX,
  MRT_FUSED_MIN,
  MRT_FUSED_COUNT
} mrt_reduce_kind;

/* No dim of argmax and argmin: over the flattened tensor. */
#define MRT_DIM_NONE INT64_MIN

typedef struct mrt_arg_options {
  int64_t dim;
  bool keepdim;
} mrt_arg_options;

#endif
