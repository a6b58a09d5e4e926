/* columns.c -- the windows of images as columns, and back
 *
 * Threads share out the planes of channels: a tap of the kernel is a row of
 * columns, of which the part inside x is copied or added line by line, in the
 * order of the taps.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"
#include "op/window.h"

typedef struct im2col_planes {
  int64_t planes, H, W, rows, cols; /* rows x cols places of the window */
  const mrt_pool_options *o;
  const real *from;
  real *to;
} columns;

/* Places [*first, *end) of the window along side `d` read x with tap `k`; the
 * first reads *at. */
static void inside(const columns *p, int d, int64_t k, int64_t *first,
                   int64_t *end, int64_t *at) {
  int64_t stride = p->o->stride.at[d], size = d ? p->W : p->H;
  int64_t count = d ? p->cols : p->rows;
  int64_t from = k * p->o->dilation.at[d] - p->o->padding.at[d];
  *first = from < 0 ? (-from + stride - 1) / stride : 0;
  *end = from < size ? (size - 1 - from) / stride + 1 : 0;
  if (*end > count) *end = count;
  if (*first > *end) *first = *end;
  *at = from + *first * stride;
}

static void gather_tap(const columns *p, const real *x, int64_t a, int64_t b,
                       real *y) {
  int64_t top, bottom, r, left, right, c, sh = p->o->stride.at[0];
  int64_t sw = p->o->stride.at[1], row = (int64_t)sizeof *y;
  inside(p, 0, a, &top, &bottom, &r);
  inside(p, 1, b, &left, &right, &c);
  memset(y, 0, (size_t)(top * p->cols * row));
  for (int64_t i = top; i < bottom; i++, r += sh) {
    real *to = y + i * p->cols;
    const real *from = x + r * p->W + c;
    for (int64_t j = 0; j < left; j++) to[j] = 0;
    if (sw == 1 && left < right)
      memcpy(to + left, from, (size_t)((right - left) * row));
    else
      for (int64_t j = 0; j < right - left; j++) to[left + j] = from[j * sw];
    for (int64_t j = right; j < p->cols; j++) to[j] = 0;
  }
  memset(y + bottom * p->cols, 0, (size_t)((p->rows - bottom) * p->cols * row));
}

static void add_tap(const columns *p, const real *y, int64_t a, int64_t b,
                    real *x) {
  int64_t top, bottom, r, left, right, c, sh = p->o->stride.at[0];
  int64_t sw = p->o->stride.at[1];
  inside(p, 0, a, &top, &bottom, &r);
  inside(p, 1, b, &left, &right, &c);
  for (int64_t i = top; i < bottom; i++, r += sh) {
    const real *from = y + i * p->cols + left;
    real *to = x + r * p->W + c;
    if (sw == 1)
      for (int64_t j = 0; j < right - left; j++) to[j] += from[j];
    else
      for (int64_t j = 0; j < right - left; j++) to[j * sw] += from[j];
  }
}

/* Planes and the rows of their kernels are shared out. */
static void gather_part(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const columns *p = shared;
  int64_t kh = p->o->kernel.at[0], kw = p->o->kernel.at[1], i, end;
  int64_t line = p->rows * p->cols;
  mrt_share(p->planes * kh, part, parts, &i, &end);
  for (; i < end; i++)
    for (int64_t b = 0; b < kw; b++)
      gather_tap(p, p->from + i / kh * p->H * p->W, i % kh, b,
                 p->to + (i * kw + b) * line);
}

static void add_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const columns *p = shared;
  int64_t kh = p->o->kernel.at[0], kw = p->o->kernel.at[1], i, end;
  int64_t line = p->rows * p->cols, plane = p->H * p->W;
  mrt_share(p->planes, part, parts, &i, &end);
  for (; i < end; i++) {
    real *x = p->to + i * plane;
    memset(x, 0, (size_t)plane * sizeof *x);
    for (int64_t k = 0; k < kh * kw; k++)
      add_tap(p, p->from + (i * kh * kw + k) * line, k / kw, k % kw, x);
  }
}

static void run(const mrt_call *c, const mrt_type *x, mrt_part *part) {
  const mrt_pool_options *o = c->options;
  columns p = { .planes = x->dims[0] * x->dims[1],
                .H = x->dims[2],
                .W = x->dims[3],
                .o = o,
                .from = c->in[0].data,
                .to = c->out[0].data };
  int64_t *count[] = { &p.rows, &p.cols };
  for (int d = 0; d < 2; d++) {
    int64_t span = o->dilation.at[d] * (o->kernel.at[d] - 1) + 1;
    int64_t room = x->dims[2 + d] + 2 * o->padding.at[d];
    *count[d] = (room - span) / o->stride.at[d] + 1;
  }
  if (mrt_type_count(&c->out[0].type) == 0) return;
  double moved = (double)mrt_type_count(&c->in[0].type) +
                 (double)mrt_type_count(&c->out[0].type);
  mrt_parallel(c, mrt_team(c, moved * 0.4), part, &p);
}

static void gather(const mrt_call *c) { run(c, &c->in[0].type, gather_part); }
static void add(const mrt_call *c) { run(c, &c->out[0].type, add_part); }

MRT_KERNEL(im2col, .run = gather);
MRT_KERNEL(col2im, .run = add);
