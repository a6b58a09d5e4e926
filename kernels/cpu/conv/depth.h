/* depth.h -- convolutions whose groups have one channel each
 *
 * Every channel of y is made from the same channel of x, so nothing is summed
 * over channels: vectors are channels throughout.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_DEPTH_H
#define MRT_CONV_DEPTH_H

#include "conv/conv.h"

/* For groups, and weights [O,C,kh,kw]. */
static inline bool is_depth(int64_t groups, const mrt_type *w) {
  return groups > 1 && w->dims[1] == 1 && w->dims[0] == groups;
}

#define mrt_depth_bytes    MRT_CPU(depth_bytes)
#define mrt_depth_run      MRT_CPU(depth_run)
#define mrt_depth_dw_bytes MRT_CPU(depth_dw_bytes)
#define mrt_depth_dw_run   MRT_CPU(depth_dw_run)

/* Scratch in bytes of conv2d or conv2d_dx; of conv2d_dw. */
size_t mrt_depth_bytes(const mrt_call *c);
size_t mrt_depth_dw_bytes(const mrt_call *c);
/* conv2d where `back` is false, else conv2d_dx. */
void mrt_depth_run(const mrt_call *c, bool back);
void mrt_depth_dw_run(const mrt_call *c);

#endif
