/* rope.c -- rotary position embedding
 *
 * Threads share out the rows of time: the sines and cosines of a row serve all
 * its heads in all batches, and are the same whatever the thread count.
 *
 * SPDX-License-Identifier: MIT */
#include "op/rope.h"
#include "floats.h"

/* [..., T, H, D]; everything before T is `lead` blocks. */
typedef struct rope_shape {
  int64_t lead, T, H, D;
} rope_shape;

static rope_shape shape_of(const mrt_operand *x) {
  const int64_t *d = x->type.dims + x->type.rank - 3;
  rope_shape n = { 1, d[0], d[1], d[2] };
  for (int i = 0; i < x->type.rank - 3; i++) n.lead *= x->type.dims[i];
  return n;
}

/* A part's scratch: the angle of each pair at position 1; sines, cosines;
 * a row of x and one of y, where they are narrow. */
typedef struct table {
  double *angle;
  real *cosine, *sine, *x, *y;
} table;

/* 3/2 D doubles hold D / 2 angles and D reals; rounded up to cache lines. */
static size_t thread_bytes(const mrt_call *c, const rope_shape *n) {
  size_t rows = 2 * (size_t)mrt_room_row(c, n->D) * sizeof(real);
  return ((size_t)n->D * sizeof(double) * 3 / 2 + rows + 63) / 64 * 64;
}

static size_t scratch(const mrt_call *c) {
  rope_shape n = shape_of(&c->in[0]);
  return thread_bytes(c, &n) * (size_t)c->threads;
}

static table table_of(const mrt_call *c, const rope_shape *n, int part) {
  const mrt_rope_options *o = c->options;
  char *at = (char *)c->scratch + (size_t)part * thread_bytes(c, n);
  table w = { .angle = (double *)at };
  w.cosine = (real *)(w.angle + n->D / 2);
  w.sine = w.cosine + n->D / 2;
  w.x = w.sine + n->D / 2, w.y = w.x + mrt_room_row(c, n->D);
  for (int64_t i = 0; i < n->D / 2; i++)
    w.angle[i] = pow(o->base, -2.0 * (double)i / (double)n->D);
  return w;
}

static void turn_to(const mrt_rope_options *o, int64_t t, int64_t half,
                    table *w) {
  double position = (double)(o->offset + t) * (o->inverse ? -1 : 1);
  for (int64_t i = 0; i < half; i++) {
    double a = position * w->angle[i];
    w->cosine[i] = (real)cos(a), w->sine[i] = (real)sin(a);
  }
}

/* Pair i is at i * step and `apart` further on.  y may be x. */
static inline void rotate(const real *x, int64_t stride, real *y, int64_t half,
                          int64_t step, int64_t apart, const table *w) {
#pragma omp simd
  for (int64_t i = 0; i < half; i++) {
    real x0 = x[i * step * stride], x1 = x[(i * step + apart) * stride];
    y[i * step] = x0 * w->cosine[i] - x1 * w->sine[i];
    y[i * step + apart] = x0 * w->sine[i] + x1 * w->cosine[i];
  }
}

/* Where block `i` of the leading dimensions starts. */
static int64_t block_start(const mrt_operand *x, int64_t i) {
  int64_t at = 0;
  for (int k = x->type.rank - 4; k >= 0; k--) {
    at += i % x->type.dims[k] * x->strides[k];
    i /= x->type.dims[k];
  }
  return at;
}

/* D elements from `at` on, `stride` apart, side by side. */
static void take(const mrt_operand *x, int64_t at, int64_t stride, int64_t D,
                 real *to) {
  if (stride == 1)
    mrt_widen(x->type.dtype, mrt_element(x, at), to, D);
  else
    for (int64_t i = 0; i < D; i++)
      mrt_widen(x->type.dtype, mrt_element(x, at + i * stride), to + i, 1);
}

/* Row t of all blocks. */
static void turn_row(const mrt_call *c, const rope_shape *n, int64_t t,
                     const table *w) {
  const mrt_rope_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  const int64_t *strides = x->strides + x->type.rank - 3, half = n->D / 2;
  bool narrow = x->type.dtype != MRT_REAL;
  for (int64_t i = 0; i < n->lead * n->H; i++) {
    int64_t block = i / n->H, h = i % n->H, stride = narrow ? 1 : strides[2];
    int64_t at = block_start(x, block) + t * strides[0] + h * strides[1];
    int64_t out = ((block * n->T + t) * n->H + h) * n->D;
    if (narrow) take(x, at, strides[2], n->D, w->x);
    const real *from = narrow ? w->x : mrt_element(x, at);
    real *to = mrt_reals_place(&c->out[0], out, w->y);
    if (o->interleaved)
      rotate(from, stride, to, half, 2, 1, w);
    else if (stride == 1)
      rotate(from, 1, to, half, 1, half, w);
    else
      rotate(from, stride, to, half, 1, half, w);
    mrt_reals_out(&c->out[0], out, n->D, to);
  }
}

static void turn_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const rope_shape *n = shared;
  table w = table_of(c, n, part);
  int64_t t, end;
  mrt_share(n->T, part, parts, &t, &end);
  for (; t < end; t++) {
    turn_to(c->options, t, n->D / 2, &w);
    turn_row(c, n, t, &w);
  }
}

static void run(const mrt_call *c) {
  rope_shape n = shape_of(&c->in[0]);
  int team =
      mrt_team(c, (double)(n.T * n.D) * ((double)(n.lead * n.H) * 0.3 + 15));
  mrt_parallel(c, team, turn_part, &n);
}

MRT_KERNEL(rope, .run = run, .scratch = scratch);
