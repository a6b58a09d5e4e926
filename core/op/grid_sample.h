/* grid_sample.h -- options of grid_sample and grid_sample_dx
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_GRID_SAMPLE_H
#define MRT_OP_GRID_SAMPLE_H

#include "op/op.h"

typedef struct mrt_grid_options {
  int mode;    /* bilinear, nearest */
  int padding; /* zeros, border, reflection */
  bool align_corners;
  int64_t order_x, order_y; /* how often differentiated by the places */
  mrt_ints size;            /* dx: of the images */
} mrt_grid_options;

enum { MRT_GRID_BILINEAR, MRT_GRID_NEAREST };
enum { MRT_GRID_ZEROS, MRT_GRID_BORDER, MRT_GRID_REFLECTION };

#endif
