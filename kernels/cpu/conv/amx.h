/* amx.h -- images as tile registers read them
 *
 * A register holds 32 channels of 16 places (gemm/amx.h).  Some lines of the
 * image are copied so that places beside each other in y read units beside each
 * other in the copy, by blocks of 32 channels:
 *
 *     [blocks][phases of a stride][units][32 channels]
 *
 * A spot of the kernel is a distance in units then, the same for all places.
 * With a stride, every step-th place of x is of the same phase.
 *
 * Large images, and a few: all lines of all images follow one another, with so
 * many zeros between that what is read past the end of a line is padding.
 * Places of y that lie there are not kept.  Small images of which there are
 * many: a place of GROUP images, then the next place; no padding, the spots
 * outside are left out.  The bits are the same, products with 0 change no sum.
 *
 * So few channels that a register would be half empty: a unit holds those of
 * all spots of a line of the kernel, and the other spots are lines.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_AMX_H
#define MRT_CONV_AMX_H

#include "base/narrow.h"
#include "conv/operands.h"
#include "gemm/gemm.h"

#define mrt_tiled_bytes    MRT_CPU(conv_tiled_bytes)
#define mrt_tiled_run      MRT_CPU(conv_tiled_run)
#define mrt_tiled_dw_bytes MRT_CPU(conv_tiled_dw_bytes)
#define mrt_tiled_dw_run   MRT_CPU(conv_tiled_dw_run)

/* conv2d, or with `back` its dx, in `scratch` of so many bytes; `bias`: of each
 * channel, or NULL. */
size_t mrt_tiled_bytes(const mrt_call *c, bool back);
void mrt_tiled_run(const mrt_call *c, bool back, const real *bias,
                   void *scratch);
size_t mrt_tiled_dw_bytes(const mrt_call *c);
void mrt_tiled_dw_run(const mrt_call *c);

enum { SIDE_MOST = 32, SPOTS_MOST = 256 }; /* of a kernel */

/* For the weights' type.  Channels by themselves, kernels of 1 x 1 and narrow
 * sums are made elsewhere. */
static inline bool is_tiled(const mrt_call *c, const mrt_type *w) {
#if MRT_HAS_TILES
  const mrt_conv_options *o = c->options;
  int64_t values = w->dims[0] * w->dims[1] * w->dims[2] * w->dims[3];
  return c->tiles &&
         are_bf16(c->in[0].type.dtype, c->in[1].type.dtype, o->compute) &&
         !sums_narrow(c) && values > 0 && w->dims[2] <= SIDE_MOST &&
         w->dims[3] <= SIDE_MOST && w->dims[2] * w->dims[3] <= SPOTS_MOST &&
         mrt_type_count(&c->in[0].type) > 0 &&
         mrt_type_count(&c->in[1].type) > 0 &&
         mrt_type_count(&c->out[0].type) > 0;
#else
  (void)c, (void)w;
  return false;
#endif
}

#endif
