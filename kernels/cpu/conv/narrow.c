/* narrow.c -- convolutions whose sums have few bits, as a policy asks for
 *
 * As gemm/narrow.c: each sum begins at 0 and is rounded to `accumulate` after
 * each term, then with the bias.  Terms come by rows and columns of the kernel,
 * then channels, for dw by images, rows and columns; those of the padding are
 * left out, which changes no sum.  Slow: a line of channels at a time.
 *
 * SPDX-License-Identifier: MIT */
#include "conv/operands.h"

#ifndef MRT_F64

/* What one part works with. */
typedef struct narrow_conv {
  const mrt_call *call;
  const mrt_conv_options *o;
  reader a, b;
  const mrt_type *x, *w, *y; /* of conv2d, whichever is written */
  int64_t group, filters;    /* channels and filters of a group */
} narrow_conv;

static narrow_conv narrow_of(const mrt_call *c, const mrt_type *x,
                             const mrt_type *w, const mrt_type *y) {
  const mrt_conv_options *o = c->options;
  return (narrow_conv){ .call = c,
                        .o = o,
                        .a = operand_of(c, 0, false),
                        .b = operand_of(c, 1, false),
                        .x = x,
                        .w = w,
                        .y = y,
                        .group = w->dims[1],
                        .filters = w->dims[0] / o->groups };
}

/* Element (n, i, j, k) of an image, (o, c, a, b) of the kernels. */
static int64_t at4(const mrt_type *t, int64_t n, int64_t i, int64_t j,
                   int64_t k) {
  const int64_t *d = t->dims;
  return ((n * d[1] + i) * d[2] + j) * d[3] + k;
}

/* The values of `r` from element `at` on, `step` apart. */
static void values_at(const reader *r, int64_t at, int64_t step, int64_t n,
                      real *to) {
  read_values(r, to, 0, at, step, n);
}

/* s = round(s + a * b) for n sums. */
static void add_term(const narrow_conv *t, real *sum, real a, const real *b,
                     int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += a * b[i];
  mrt_round_reals(t->o->accumulate, sum, n);
}

/* The place of x that row or column `i` of y reads with tap `a`; negative or
 * too large in the padding. */
static int64_t read_at(const narrow_conv *t, int dim, int64_t i, int64_t a) {
  const mrt_conv_options *o = t->o;
  return i * o->stride.at[dim] + a * o->dilation.at[dim] - o->padding.at[dim];
}

/* The place of y whose tap `a` reads row or column `i` of x; -1: none. */
static int64_t read_by(const narrow_conv *t, int dim, int64_t i, int64_t a) {
  const mrt_conv_options *o = t->o;
  int64_t from = i + o->padding.at[dim] - a * o->dilation.at[dim];
  if (from < 0 || from % o->stride.at[dim]) return -1;
  from /= o->stride.at[dim];
  return from < t->y->dims[1 + dim] ? from : -1;
}

static bool inside(const mrt_type *x, int64_t i, int64_t j) {
  return i >= 0 && i < x->dims[1] && j >= 0 && j < x->dims[2];
}

static void put_line(const narrow_conv *t, int64_t at, int64_t step,
                     const real *sum, int64_t n) {
  const mrt_operand *y = &t->call->out[0];
  int64_t each = step == 1 ? n : 1;
  for (int64_t i = 0; i < n; i += each)
    mrt_round(y->type.dtype, sum + i, mrt_element(y, at + i * step), each);
}

/* Filters [f, f + n) at a place of y, in one group. */
static void forward_line(const narrow_conv *t, const int64_t *p, int64_t f,
                         int64_t n) {
  real sum[CHUNK] = { 0 }, w[CHUNK], x;
  const real *bias = bias_of(t->call);
  int64_t first = f / t->filters * t->group;
  int64_t taps = t->w->dims[2] * t->w->dims[3], step = t->group * taps;
  for (int64_t a = 0; a < t->w->dims[2]; a++)
    for (int64_t b = 0; b < t->w->dims[3]; b++) {
      int64_t i = read_at(t, 0, p[1], a), j = read_at(t, 1, p[2], b);
      for (int64_t c = 0; c < t->group && inside(t->x, i, j); c++) {
        values_at(&t->a, at4(t->x, p[0], i, j, first + c), 1, 1, &x);
        values_at(&t->b, at4(t->w, f, c, a, b), step, n, w);
        add_term(t, sum, x, w, n);
      }
    }
  if (bias) {
    for (int64_t k = 0; k < n; k++) sum[k] += bias[f + k];
    mrt_round_reals(t->o->accumulate, sum, n);
  }
  put_line(t, at4(t->y, p[0], p[1], p[2], f), 1, sum, n);
}

/* Channels [c, c + n) at a place of x, in one group. */
static void back_line(const narrow_conv *t, const int64_t *p, int64_t c,
                      int64_t n) {
  real sum[CHUNK] = { 0 }, w[CHUNK], dy;
  int64_t g = c / t->group, taps = t->w->dims[2] * t->w->dims[3];
  for (int64_t a = 0; a < t->w->dims[2]; a++)
    for (int64_t b = 0; b < t->w->dims[3]; b++) {
      int64_t i = read_by(t, 0, p[1], a), j = read_by(t, 1, p[2], b);
      if (i < 0 || j < 0) continue;
      for (int64_t f = g * t->filters; f < (g + 1) * t->filters; f++) {
        values_at(&t->a, at4(t->y, p[0], i, j, f), 1, 1, &dy);
        values_at(&t->b, at4(t->w, f, c - g * t->group, a, b), taps, n, w);
        add_term(t, sum, dy, w, n);
      }
    }
  put_line(t, at4(t->x, p[0], p[1], p[2], c), 1, sum, n);
}

/* Channels [c, c + n) of the group, of filter f at tap (a, b). */
static void dw_line(const narrow_conv *t, const int64_t *p, int64_t c,
                    int64_t n) {
  real sum[CHUNK] = { 0 }, x[CHUNK], dy;
  int64_t first = p[0] / t->filters * t->group + c;
  for (int64_t k = 0; k < t->y->dims[0]; k++)
    for (int64_t i = 0; i < t->y->dims[1]; i++)
      for (int64_t j = 0; j < t->y->dims[2]; j++) {
        int64_t u = read_at(t, 0, i, p[1]), v = read_at(t, 1, j, p[2]);
        if (!inside(t->x, u, v)) continue;
        values_at(&t->b, at4(t->y, k, i, j, p[0]), 1, 1, &dy);
        values_at(&t->a, at4(t->x, k, u, v, first), 1, n, x);
        add_term(t, sum, dy, x, n);
      }
  put_line(t, at4(t->w, p[0], c, p[1], p[2]), t->w->dims[2] * t->w->dims[3],
           sum, n);
}

/* ---- all of it ----------------------------------------------------------- */

/* Lines of a result: places of three sizes, and groups of `line` numbers. */
typedef struct narrow_job {
  narrow_conv conv;
  int64_t places[3], groups, line;
  void (*run)(const narrow_conv *t, const int64_t *p, int64_t k, int64_t n);
} narrow_job;

static void run_lines(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const narrow_job *job = shared;
  const int64_t *d = job->places;
  int64_t at, end;
  mrt_share(d[0] * d[1] * d[2], part, parts, &at, &end);
  for (; at < end; at++) {
    int64_t p[] = { at / (d[1] * d[2]), at / d[2] % d[1], at % d[2] };
    for (int64_t g = 0; g < job->groups; g++)
      for (int64_t k = 0; k < job->line; k += CHUNK)
        job->run(&job->conv, p, g * job->line + k, least(CHUNK, job->line - k));
  }
}

void mrt_conv_narrow(const mrt_call *c, bool back) {
  const mrt_type *in = &c->in[0].type, *out = &c->out[0].type;
  const mrt_type *x = back ? out : in, *y = back ? in : out;
  narrow_job job = { .conv = narrow_of(c, x, &c->in[1].type, y),
                     .places = { out->dims[0], out->dims[1], out->dims[2] },
                     .run = back ? back_line : forward_line };
  job.groups = job.conv.o->groups;
  job.line = back ? job.conv.group : job.conv.filters;
  mrt_parallel(c, mrt_team(c, 1e6), run_lines, &job);
}

void mrt_conv_narrow_dw(const mrt_call *c) {
  const mrt_type *w = &c->out[0].type;
  narrow_job job = { .conv = narrow_of(c, &c->in[0].type, w, &c->in[1].type),
                     .places = { w->dims[0], w->dims[2], w->dims[3] },
                     .groups = 1,
                     .line = w->dims[1],
                     .run = dw_line };
  mrt_parallel(c, mrt_team(c, 1e6), run_lines, &job);
}
#endif
