/* random.h -- options of operators that draw random numbers
 *
 * A draw comes first in the options of every RANDOM operator: the library gives
 * each node its own, and a clone or gradient that must draw the same numbers
 * keeps it.  A node of a trace draws under the seed and step of the run; one
 * made outside draws under the seed there was when it was made, whenever it is
 * computed.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_RANDOM_H
#define MRT_OP_RANDOM_H

#include "mrt/types.h"

typedef struct mrt_draw {
  uint64_t key; /* the node's; with MRT_DRAW_PINNED when `seed` counts */
  uint64_t seed;
  int64_t inner; /* in a plan over a part of the batch: elements of a row; 0:
                    every part draws the same */
} mrt_draw;

#define MRT_DRAW_PINNED (UINT64_C(1) << 32)

typedef struct mrt_rand_options {
  uint64_t key, seed; /* mrt_draw */
  int64_t inner;
  mrt_ints shape;
  mrt_dtype dtype;
} mrt_rand_options;

typedef struct mrt_randint_options {
  uint64_t key, seed;
  int64_t inner;
  mrt_ints shape;
  int64_t low, high; /* low <= x < high */
  mrt_dtype dtype;
} mrt_randint_options;

typedef struct mrt_dropout_options {
  uint64_t key, seed;
  int64_t inner;
  double p; /* share dropped; the rest is scaled by 1 / (1 - p) */
} mrt_dropout_options;

#endif
