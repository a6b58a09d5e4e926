/* sample.h -- options of operators that draw from a distribution
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_SAMPLE_H
#define MRT_OP_SAMPLE_H

#include "op/random.h"

typedef struct mrt_sample_options {
  uint64_t key, seed; /* mrt_draw */
  int64_t inner;
} mrt_sample_options;

#endif
