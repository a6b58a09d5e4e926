/* norm.h -- options of the norms over a row, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_NORM_H
#define MRT_OP_NORM_H

typedef struct mrt_norm_options {
  double eps; /* added to the variance */
} mrt_norm_options;

#endif
