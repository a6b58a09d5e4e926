/* conv_direct.h -- convolutions of groups of few channels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CONV_DIRECT_H
#define MRT_CUDA_CONV_DIRECT_H

#include "device/kernel.h"

struct mrt_conv_walk;

/* conv2d, or conv2d_dx where walk->back. */
void mrt_conv_direct(const mrt_call *c, const mrt_conv_walk *walk);
size_t mrt_conv_direct_scratch(const mrt_call *c);

/* conv2d_dw, as sums over `parts` of the places of y: in scratch,
 * [parts, groups * Y, taps, X], f32 or f64. */
void mrt_conv_direct_dw(const mrt_call *c, const mrt_conv_walk *walk,
                        int64_t parts);
int64_t mrt_conv_direct_parts(const mrt_conv_walk *walk);

#endif
