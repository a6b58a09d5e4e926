/* resample.h -- options of resample and resample_grad
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_RESAMPLE_H
#define MRT_OP_RESAMPLE_H

#include "op/op.h"

typedef enum mrt_resample_mode {
  MRT_RESAMPLE_nearest,
  MRT_RESAMPLE_nearest_exact,
  MRT_RESAMPLE_linear,
  MRT_RESAMPLE_cubic
} mrt_resample_mode;

typedef struct mrt_resample_options {
  int64_t dim;   /* the first of the two */
  mrt_ints size; /* of both in the result; normalised, two entries */
  int mode;
  bool align_corners;
  double scale_h, scale_w; /* 0: what the sizes say */
} mrt_resample_options;

#endif
