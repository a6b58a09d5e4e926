/* winograd.h -- convolutions of 3 x 3 with 2.25 times fewer multiplications
 *
 * Of each 4 x 4 tile of x, two places apart, and of each kernel, 16 values are
 * made by additions; products of these, summed over channels, give 2 x 2 places
 * of y.  With d, g, y a tile's values, for each pair of channels
 *
 *     y = A' [ (B' d B) . (G g G') ] A          . : value by value
 *
 * so that a convolution is 16 products of matrices.  dx is the same of dy with
 * kernels turned around; dw its adjoint: G' [ (B' d B) . (A dy A') ] G.
 *
 * Narrow values are widened, which dot products of bf16 would be quicker than;
 * the bits are those of cast, kernel, cast.
 *
 * Where: op/winograd.h says, by shapes and dtypes alone, never by how many
 * images there are, so a batch has the bits of its parts.  MRT_WINOGRAD=off:
 * nowhere.
 *
 * How exact: from 32 to 512 channels, of normal values, the root mean square of
 * errors is 2e-7 to 6e-7 of that of the result, a plain sum's 1e-7 to 6e-7.
 * Where one value of a tile is infinite, all four places are NaN.
 *
 * How quick: 1.2 to 2.4 times on Zen 3 (`mrt bench conv`), most where images are
 * large.
 *
 *   from  Lavin & Gray, Fast Algorithms for Convolutional Neural Networks, CVPR
 *         2016; for dw, Winograd's transposition, as in Blahut, Fast Algorithms
 *         for Signal Processing, 2010
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_WINOGRAD_H
#define MRT_CONV_WINOGRAD_H

#include "conv/conv.h"
#include "op/winograd.h"

#ifdef MRT_F64
static inline bool is_winograd(const mrt_call *c, mrt_winograd_way way) {
  (void)c, (void)way;
  return false;
}
#else
static inline bool is_winograd(const mrt_call *c, mrt_winograd_way way) {
  return c->winograd &&
         mrt_winograd_takes(way, &c->in[0].type, &c->in[1].type,
                            &c->out[0].type, c->options, !c->dots);
}
#endif

#define mrt_winograd_bytes    MRT_CPU(winograd_bytes)
#define mrt_winograd_run      MRT_CPU(winograd_run)
#define mrt_winograd_dw_bytes MRT_CPU(winograd_dw_bytes)
#define mrt_winograd_dw_run   MRT_CPU(winograd_dw_run)

/* conv2d, or with `back` its dx, in `scratch` of so many bytes; `bias`: of each
 * channel, or NULL. */
size_t mrt_winograd_bytes(const mrt_call *c, bool back);
void mrt_winograd_run(const mrt_call *c, bool back, const real *bias,
                      void *scratch);
size_t mrt_winograd_dw_bytes(const mrt_call *c);
void mrt_winograd_dw_run(const mrt_call *c);

#endif
