/* winograd.h -- which convolutions have so few multiplications?
 *
 * For kernels and for what predicts their time: a function of shapes and dtypes
 * alone, but not of how many images there are.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_WINOGRAD_H
#define MRT_OP_WINOGRAD_H

#include "op/window.h"

/* In the order of their kinds of work, MRT_COST_convolution and so on. */
typedef enum mrt_winograd_way {
  MRT_WINOGRAD_Y,
  MRT_WINOGRAD_DX,
  MRT_WINOGRAD_DW
} mrt_winograd_way;

/* Places of the kernel that are inside the image, over all places of y in one
 * dimension. */
static inline int64_t mrt_winograd_spots(int64_t x, int64_t y,
                                         int64_t padding) {
  int64_t spots = 0;
  for (int64_t a = 0; a < 3; a++) {
    int64_t from = padding - a > 0 ? padding - a : 0;
    int64_t to = x + padding - a < y ? x + padding - a : y;
    spots += to > from ? to - from : 0;
  }
  return spots;
}

/* Can values of dtype `d` be read as f32, as they are multiplied? */
static inline bool mrt_winograd_reads(mrt_dtype d, const mrt_conv_options *o,
                                      bool widens) {
  bool rounds = o->compute != MRT_DTYPE_COUNT && o->compute != MRT_f32;
  return d == MRT_f32 ? !rounds : d == MRT_bf16 && widens;
}

/* Kernels of 3 x 3 without stride, in f32, channels enough and in vectors of
 * all instruction sets; and images whose tiles waste little: a product of a
 * tile stands for at most 0.75 of one of the kernel.  bf16 too where the device
 * `widens` it to multiply; weights may be rounded to it first. */
static inline bool mrt_winograd_takes(mrt_winograd_way way, const mrt_type *in0,
                                      const mrt_type *in1, const mrt_type *out,
                                      const mrt_conv_options *o, bool widens) {
  const mrt_type *x = way == MRT_WINOGRAD_DX ? out : in0;
  const mrt_type *w = way == MRT_WINOGRAD_DW ? out : in1;
  const mrt_type *y = way == MRT_WINOGRAD_Y    ? out
                      : way == MRT_WINOGRAD_DX ? in0
                                               : in1;
  mrt_dtype c = o->compute;
  if (c != MRT_DTYPE_COUNT && c != MRT_f32 && !(widens && c == MRT_bf16))
    return false;
  if (o->accumulate != MRT_DTYPE_COUNT && o->accumulate != MRT_f32)
    return false;
  if (!mrt_winograd_reads(in0->dtype, o, widens)) return false;
  if (way == MRT_WINOGRAD_DW && !mrt_winograd_reads(in1->dtype, o, widens))
    return false;
  const mrt_type *others[] = { in1, out };
  for (int i = 0; i < 2; i++)
    if (others[i]->dtype != MRT_f32 &&
        !(widens && others[i]->dtype == MRT_bf16))
      return false;
  if (w->dims[2] != 3 || w->dims[3] != 3 || o->groups != 1) return false;
  for (int i = 0; i < 2; i++)
    if (o->stride.at[i] != 1 || o->dilation.at[i] != 1 || o->padding.at[i] > 2)
      return false;
  if (x->dims[3] < 32 || x->dims[3] % 16 || y->dims[3] < 32 || y->dims[3] % 16)
    return false;
  const mrt_type *tiled = way == MRT_WINOGRAD_DX ? x : y;
  const int64_t *p = o->padding.at;
  double plain = (double)mrt_winograd_spots(x->dims[1], y->dims[1], p[0]) *
                 (double)mrt_winograd_spots(x->dims[2], y->dims[2], p[1]);
  double tall = (double)((tiled->dims[1] + 1) / 2);
  double wide = (double)((tiled->dims[2] + 1) / 2);
  return plain > 0 && 16 * tall * wide <= 0.75 * plain;
}

#endif
