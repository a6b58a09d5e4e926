/* pointwise_options.h -- options of nan_to_num and lerp
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_POINTWISE_OPTIONS_H
#define MRT_OP_POINTWISE_OPTIONS_H

/* What stands for what is no finite number; an infinite one for the largest of
 * the dtype. */
typedef struct mrt_nan_to_num_options {
  double nan, posinf, neginf;
} mrt_nan_to_num_options;

typedef struct mrt_lerp_options {
  double weight;
} mrt_lerp_options;

#endif
