/* rope.h -- options of rotary position embedding, shared by row and kernel
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ROPE_H
#define MRT_OP_ROPE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_rope_options {
  double base;
  int64_t offset;   /* position of the first row */
  bool inverse;     /* rotate back: the gradient */
  bool interleaved; /* pairs (2i, 2i + 1); else (i, i + D / 2) */
} mrt_rope_options;

#endif
