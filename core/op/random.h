/* random.h -- options of operators that draw random numbers
 *
 * `key` comes first in the options of every RANDOM operator: the library gives
 * each traced node its own, and a clone or gradient that must draw the same
 * numbers keeps it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_RANDOM_H
#define MRT_OP_RANDOM_H

#include "mrt.h"

typedef struct mrt_rand_options {
  uint64_t key;
  mrt_ints shape;
  mrt_dtype dtype;
} mrt_rand_options;

typedef struct mrt_randint_options {
  uint64_t key;
  mrt_ints shape;
  int64_t low, high; /* low <= x < high */
  mrt_dtype dtype;
} mrt_randint_options;

typedef struct mrt_dropout_options {
  uint64_t key;
  double p; /* share dropped; the rest is scaled by 1 / (1 - p) */
} mrt_dropout_options;

#endif
