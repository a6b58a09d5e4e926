/* group_norm.h -- options of group_norm, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_GROUP_NORM_H
#define MRT_OP_GROUP_NORM_H

#include <stdint.h>

typedef struct mrt_group_norm_options {
  int64_t groups;
  double eps; /* added to the variance */
} mrt_group_norm_options;

#endif
