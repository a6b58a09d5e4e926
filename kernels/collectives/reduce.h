/* reduce.h -- the one reduction, whatever carried the operands
 *
 * The ranks' elements are taken in the order of the ranks: f32 in f32, f64 in
 * f64, 16-bit floats in f32 and rounded once at the end, integers exactly
 * (modulo 2^bits).  Each element is computed alone, so the bits do not depend
 * on how elements are cut into pieces.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_REDUCE_H
#define MRT_COLLECTIVES_REDUCE_H

#include "device/communicator.h"

size_t mrt_collective_dtype_bytes(mrt_dtype dtype);

/* to[0 .. nto - 1][i] = from[0][i] + .. + from[ranks - 1][i] for `count`
 * elements; the reduction must be one that mrt_collect lets pass.  A place of
 * `to` is one of `from` or does not overlap any. */
void mrt_reduce(mrt_reduction reduction, mrt_dtype dtype,
                const void *const *from, int ranks, void *const *to, int nto,
                int64_t count);
/* The same of some of `all` ranks: by them a mean is divided. */
void mrt_reduce_part(mrt_reduction reduction, mrt_dtype dtype,
                     const void *const *from, int ranks, void *const *to,
                     int nto, int64_t count, int all);

#endif
