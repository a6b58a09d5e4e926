/* distance.h -- options of cdist
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_DISTANCE_H
#define MRT_OP_DISTANCE_H

typedef struct mrt_cdist_options {
  double p; /* 0 or more, or infinite */
} mrt_cdist_options;

#endif
