/* batch_norm.h -- options of batch_norm, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_BATCH_NORM_H
#define MRT_OP_BATCH_NORM_H

#include "base/dtype.h"

#include <stdint.h>

typedef struct mrt_batch_norm_options {
  double eps; /* added to the variance */
} mrt_batch_norm_options;

/* Bounds between which what follows has a gradient; INFINITY: none above. */
typedef struct mrt_within_options {
  double low, high;
  mrt_dtype dtype; /* what y was rounded to; a wide one: it was not */
} mrt_within_options;

typedef struct mrt_running_options {
  double momentum, eps; /* eps: of the batch_norm */
  int64_t count;        /* rows that the statistics are of */
} mrt_running_options;

#endif
