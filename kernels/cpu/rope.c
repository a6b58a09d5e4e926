/* rope.c -- rotary position embedding
 *
 * Threads share out what has positions of its own: the rows of time, whose sines
 * and cosines serve all heads in all batches, or with positions for each sample
 * its rows too.  They are the same whatever the thread count.
 *
 * SPDX-License-Identifier: MIT */
#include "op/rope.h"
#include "floats.h"

/* [..., T, H, D]; everything before T is `lead` blocks.  `turns` rows differ in
 * position; each serves `blocks` of the blocks. */
typedef struct rope_shape {
  int64_t lead, T, H, D, half, turns, blocks;
  const mrt_operand *frequencies, *positions; /* or NULL */
} rope_shape;

static rope_shape shape_of(const mrt_call *c) {
  const mrt_rope_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  const int64_t *d = x->type.dims + x->type.rank - 3;
  rope_shape n = { .lead = 1, .T = d[0], .H = d[1], .D = d[2] };
  for (int i = 0; i < x->type.rank - 3; i++) n.lead *= x->type.dims[i];
  mrt_dtype second = c->in[c->nin > 1].type.dtype;
  int f = mrt_rope_frequencies(c->nin, second);
  int p = mrt_rope_positions(c->nin, second);
  n.half = o->width / 2;
  n.frequencies = f ? &c->in[f] : NULL, n.positions = p ? &c->in[p] : NULL;
  bool own = p && c->in[p].type.rank == 2;
  n.turns = own ? n.lead * n.T : n.T, n.blocks = own ? 1 : n.lead;
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
  rope_shape n = shape_of(c);
  return thread_bytes(c, &n) * (size_t)c->threads;
}

static double frequency(const mrt_rope_options *o, const rope_shape *n,
                        int64_t i) {
  const mrt_operand *f = n->frequencies;
  if (!f) return pow(o->base, -2.0 * (double)i / (double)o->width);
  return f->type.dtype == MRT_f64 ? ((const double *)f->data)[i]
                                  : (double)((const float *)f->data)[i];
}

static table table_of(const mrt_call *c, const rope_shape *n, int part) {
  const mrt_rope_options *o = c->options;
  char *at = (char *)c->scratch + (size_t)part * thread_bytes(c, n);
  table w = { .angle = (double *)at };
  w.cosine = (real *)(w.angle + n->D / 2);
  w.sine = w.cosine + n->D / 2;
  w.x = w.sine + n->D / 2, w.y = w.x + mrt_room_row(c, n->D);
  for (int64_t i = 0; i < n->half; i++) w.angle[i] = frequency(o, n, i);
  return w;
}

/* The angle at position p of a pair whose angle at 1 is f; `rounded`: as a
 * product in f32. */
static inline double angle_at(double p, double f, bool rounded) {
  return rounded ? (double)((float)p * (float)f) : p * f;
}

static void turn_to(const mrt_rope_options *o, const rope_shape *n,
                    int64_t turn, table *w) {
  const mrt_operand *p = n->positions, *f = n->frequencies;
  int64_t at = o->offset + turn;
  if (p) at = mrt_id(p->data, p->type.dtype, turn);
  bool rounded = f && f->type.dtype == MRT_f32;
  for (int64_t i = 0; i < n->half; i++) {
    double a = angle_at((double)at, w->angle[i], rounded);
    w->cosine[i] = (real)(o->scale * cos(a));
    w->sine[i] = (real)(o->scale * (o->inverse ? -sin(a) : sin(a)));
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

static void copy_rest(const real *x, int64_t stride, real *y, int64_t from,
                      int64_t D) {
  if (x == y) return;
  for (int64_t i = from; i < D; i++) y[i] = x[i * stride];
}

/* One head of one row. */
static void turn_head(const mrt_call *c, const rope_shape *n, int64_t at,
                      int64_t out, const table *w) {
  const mrt_rope_options *o = c->options;
  const mrt_operand *x = &c->in[0];
  int64_t last = x->strides[x->type.rank - 1];
  bool narrow = x->type.dtype != MRT_REAL;
  if (narrow) take(x, at, last, n->D, w->x);
  const real *from = narrow ? w->x : mrt_element(x, at);
  int64_t stride = narrow ? 1 : last;
  real *to = mrt_reals_place(&c->out[0], out, w->y);
  if (o->interleaved)
    rotate(from, stride, to, n->half, 2, 1, w);
  else if (stride == 1)
    rotate(from, 1, to, n->half, 1, n->half, w);
  else
    rotate(from, stride, to, n->half, 1, n->half, w);
  copy_rest(from, stride, to, 2 * n->half, n->D);
  mrt_reals_out(&c->out[0], out, n->D, to);
}

/* All heads of a row, in all blocks that it serves. */
static void turn_row(const mrt_call *c, const rope_shape *n, int64_t turn,
                     const table *w) {
  const mrt_operand *x = &c->in[0];
  const int64_t *strides = x->strides + x->type.rank - 3;
  int64_t t = turn % n->T, first = n->blocks == 1 ? turn / n->T : 0;
  for (int64_t i = 0; i < n->blocks * n->H; i++) {
    int64_t block = first + i / n->H, h = i % n->H;
    int64_t at = block_start(x, block) + t * strides[0] + h * strides[1];
    turn_head(c, n, at, ((block * n->T + t) * n->H + h) * n->D, w);
  }
}

static void turn_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const rope_shape *n = shared;
  table w = table_of(c, n, part);
  int64_t t, end;
  mrt_share(n->turns, part, parts, &t, &end);
  for (; t < end; t++) {
    turn_to(c->options, n, t, &w);
    turn_row(c, n, t, &w);
  }
}

static void run(const mrt_call *c) {
  rope_shape n = shape_of(c);
  int team = mrt_team(c, (double)(n.turns * n.D) *
                             ((double)(n.blocks * n.H) * 0.3 + 15));
  mrt_parallel(c, team, turn_part, &n);
}

MRT_KERNEL(rope, .run = run, .scratch = scratch);
