/* conv.h -- the geometry of a convolution, in one direction
 *
 * Forwards, and for dx, each place of the written image y is a sum over places
 * of the read image x:
 *
 *     y[n, first + i every, ...] = sum over spots of x[n, i step + spot, ...] w
 *
 * in both dimensions.  Forwards that is all of y in one go.  For dx with a
 * stride, places that are the same modulo the stride read the same places of
 * the kernel: they are a class of their own, without holes.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_H
#define MRT_CONV_H

#include "cpu.h"
#include "op/window.h"

/* Reads at `at`, with the weights of row (or column) `tap` of the kernel. */
typedef struct spot {
  int64_t at, tap;
} spot;

typedef struct axis {
  int64_t count, first, every; /* places of y */
  int64_t step, size;          /* of x */
  int64_t spots;
  spot *spot;
} axis;

/* One dimension of conv2d. */
typedef struct side {
  int64_t x, y, kernel, stride, padding, dilation;
} side;

/* `i` is 0 for height, 1 for width. */
static inline side side_of(const mrt_conv_options *o, int i, const mrt_type *x,
                           const mrt_type *w, const mrt_type *y) {
  return (side){ x->dims[1 + i],  y->dims[1 + i],   w->dims[2 + i],
                 o->stride.at[i], o->padding.at[i], o->dilation.at[i] };
}

/* y from x: all of y is one class.  Fills room[kernel]. */
static inline axis axis_forward(const side *s, spot *room) {
  for (int64_t a = 0; a < s->kernel; a++)
    room[a] = (spot){ a * s->dilation - s->padding, a };
  return (axis){ s->y, 0, 1, s->stride, s->x, s->kernel, room };
}

/* How many classes the places of dx fall into. */
static inline int64_t classes_of(const side *s) {
  return s->stride < s->x ? s->stride : s->x;
}

/* dx from dy: the places that are `rest` modulo the stride. */
static inline axis axis_back(const side *s, int64_t rest, spot *room) {
  int64_t n = 0;
  for (int64_t a = 0; a < s->kernel; a++) {
    int64_t at = rest + s->padding - a * s->dilation;
    if (at % s->stride == 0) room[n++] = (spot){ at / s->stride, a };
  }
  int64_t count = (s->x - rest + s->stride - 1) / s->stride;
  return (axis){ count, rest, s->stride, 1, s->y, n, room };
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

/* Scratch: `count` of `size` bytes, a multiple of 64, from *at on. */
static inline char *take(uintptr_t *at, int64_t count, size_t size) {
  char *p = (char *)*at;
  *at += (uintptr_t)round_up(count * (int64_t)size, 64);
  return p;
}

#endif
