/* piecewise.h -- options of activations made of pieces
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_PIECEWISE_H
#define MRT_OP_PIECEWISE_H

typedef struct mrt_clamp_options {
  double min, max;
} mrt_clamp_options;

typedef struct mrt_hardtanh_options {
  double min_val, max_val;
} mrt_hardtanh_options;

typedef struct mrt_slope_options {
  double negative_slope;
} mrt_slope_options;

typedef struct mrt_elu_options {
  double alpha, scale, input_scale;
} mrt_elu_options;

typedef struct mrt_shrink_options {
  double lambd;
} mrt_shrink_options;

typedef struct mrt_threshold_options {
  double threshold, value;
} mrt_threshold_options;

#endif
