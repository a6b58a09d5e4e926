/* batch_norm.h -- options of batch_norm, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_BATCH_NORM_H
#define MRT_OP_BATCH_NORM_H

#include <stdint.h>

typedef struct mrt_batch_norm_options {
  double eps; /* added to the variance */
} mrt_batch_norm_options;

typedef struct mrt_running_options {
  double momentum, eps; /* eps: of the batch_norm */
  int64_t count;        /* rows that the statistics are of */
} mrt_running_options;

#endif
