/* window.h -- windows that slide over images [N, H, W, C]
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_WINDOW_H
#define MRT_OP_WINDOW_H

#include "op/op.h"

/* conv2d, conv2d_dx, conv2d_dw.  Pairs are height and width; normalised, each
 * has two entries. */
typedef struct mrt_conv_options {
  mrt_ints stride, padding, dilation;
  int64_t groups;
  mrt_ints size; /* dx: of x; dw: of the kernel; conv2d: unused */
  mrt_dtype compute, accumulate; /* as of matmul (op/matmul.h) */
} mrt_conv_options;

/* The pools and their gradients. */
typedef struct mrt_pool_options {
  mrt_ints kernel, stride, padding, dilation;
  bool ceil_mode;         /* a last window may end past the padding */
  bool count_include_pad; /* avg: padding counts as zeros of the window */
  mrt_ints size;          /* of x, for the gradients; adaptive: of the result */
} mrt_pool_options;

/* Make `pair` two integers from `least` up: one stands for both; none is
 * `preset`. */
mrt_status mrt_want_pair(mrt_infer *c, mrt_ints *pair, const char *name,
                         int64_t least, int64_t preset);
/* Input i is an image [N, H, W, C] of the dtype of input 0, real. */
mrt_status mrt_want_image(mrt_infer *c, int i);

/* One dimension of a sliding window. */
typedef struct mrt_slide {
  int64_t size, kernel, stride, padding, dilation;
  bool ceil_mode;
} mrt_slide;
/* How many places the window takes; refused when there is none. */
mrt_status mrt_want_places(mrt_infer *c, const mrt_slide *s, int64_t *places);

#endif
