/* rope.h -- options of rotary position embedding, shared by row and kernel
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_ROPE_H
#define MRT_OP_ROPE_H

#include "op/op.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_rope_options {
  double base;
  int64_t offset;   /* position of the first row */
  bool inverse;     /* rotate back: the gradient */
  bool interleaved; /* pairs (2i, 2i + 1); else (i, i + width / 2) */
  int64_t width;    /* what turns of each head; once infer has run, > 0 or D */
  double scale;     /* of cosines and sines */
} mrt_rope_options;

/* The number of the input that holds frequencies, that holds positions; 0:
 * there is none. */
static inline int mrt_rope_frequencies(int nin, mrt_dtype second) {
  return nin > 1 && mrt_is_float(second) ? 1 : 0;
}
static inline int mrt_rope_positions(int nin, mrt_dtype second) {
  int i = 1 + mrt_rope_frequencies(nin, second);
  return nin > i ? i : 0;
}

#endif
