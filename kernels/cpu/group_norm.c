/* group_norm.c -- group_norm and its gradient, a sample at a time
 *
 * Sums are taken per channel (channels.h) and the channels of a group added up
 * after each block.  A sample is one thread's; gradients of w and b are summed
 * over the samples of each thread and joined in the order of the threads.
 * Blocks of narrow floats are computed on in scratch.
 *
 * SPDX-License-Identifier: MIT */
#include "op/group_norm.h"
#include "channels.h"

/* What one thread works in: numbers per channel (or group), and wide rows. */
typedef struct group_norm_room {
  double *sum[4];
  real *wide[4];
  real *block[2]; /* where x, dy are narrow */
} group_norm_room;

typedef struct task {
  channels_shape s;             /* of one sample */
  int64_t samples, groups, own; /* own: channels of a group */
  int64_t block;                /* elements of room.block */
} task;

static task task_of(const mrt_call *c, double ns) {
  const mrt_group_norm_options *o = c->options;
  int64_t n = mrt_cols(&c->in[0]), samples = c->in[0].type.dims[0];
  int64_t rows = samples ? mrt_rows(&c->in[0]) / samples : 0;
  task t = { .samples = samples, .groups = o->groups, .own = n / o->groups };
  t.s = shape_of(rows, n);
  t.s.team = mrt_team(c, ns * (double)(samples * rows) * (double)n);
  t.block = block_room(c, &t.s);
  return t;
}

/* There may be no channels, but groups. */
static int64_t sum_bytes(const task *t) {
  return up((t->s.n > t->groups ? t->s.n : t->groups) * 8);
}
static int64_t wide_bytes(const task *t) {
  return up(t->s.width * (int64_t)sizeof(real));
}
static int64_t room_bytes(const task *t) {
  return 4 * sum_bytes(t) + 4 * wide_bytes(t) +
         2 * t->block * (int64_t)sizeof(real);
}

static size_t scratch(const mrt_call *c) {
  task t = task_of(c, 0);
  return (size_t)(c->threads * room_bytes(&t));
}

static group_norm_room room_of(const mrt_call *c, const task *t, int part) {
  char *at = (char *)c->scratch + part * room_bytes(t);
  group_norm_room r;
  for (int k = 0; k < 4; k++, at += sum_bytes(t)) r.sum[k] = (double *)at;
  for (int k = 0; k < 4; k++, at += wide_bytes(t)) r.wide[k] = (real *)at;
  r.block[0] = (real *)at, r.block[1] = r.block[0] + t->block;
  return r;
}

static void zero(double *x, int64_t n) { memset(x, 0, (size_t)n * sizeof *x); }

/* ---- forward ------------------------------------------------------------- */

/* The sum of each group's channels, times scale, for all its channels. */
static void spread_groups(const task *t, real *wide, real scale) {
  for (int64_t j = 0; j < t->s.n; j += t->own) {
    real sum = 0;
    for (int64_t i = 0; i < t->own; i++) sum += wide[j + i];
    for (int64_t i = 0; i < t->own; i++) wide[j + i] = sum * scale;
  }
}

/* r->sum[0], [1]: means of the groups, squares about them. */
static void measure(const task *t, const mrt_operand *x, int64_t at,
                    group_norm_room *r) {
  const channels_shape *s = &t->s;
  real *center = r->wide[0], *sum = r->wide[1], *base = r->wide[2];
  int64_t all = s->rows * s->n, step = s->block * s->n, seen = 0;
  zero(r->sum[0], t->groups), zero(r->sum[1], t->groups);
  for (int64_t i = 0; i < all; i += step) {
    int64_t count = all - i < step ? all - i : step;
    int64_t own = count / s->n * t->own;
    const real *block = mrt_reals_in(x, at + i, count, r->block[0]);
    clear(center, s->width), clear(sum, s->width);
    for (int64_t j = 0; j < s->n; j++) base[j] = block[j - j % t->own];
    repeat(s, base);
    add_block(block, base, count, s->width, center);
    add_up(s, center);
    spread_groups(t, center, 1 / (real)own);
    for (int64_t j = 0; j < s->n; j++) center[j] += base[j];
    repeat(s, center);
    add_squares(block, center, count, s->width, sum);
    add_up(s, sum);
    spread_groups(t, sum, 1);
    for (int64_t g = 0; g < t->groups; g++)
      join(&r->sum[0][g], &r->sum[1][g], seen, center[g * t->own],
           sum[g * t->own], own);
    seen += own;
  }
}

static void forward(const mrt_call *c, const task *t, int64_t sample,
                    group_norm_room *r) {
  const mrt_group_norm_options *o = c->options;
  const channels_shape *s = &t->s;
  int64_t all = s->rows * s->n, count = s->rows * t->own;
  const real *w = c->nin > 1 ? c->in[1].data : NULL;
  const real *b = c->nin > 2 ? c->in[2].data : NULL;
  real *mean = (real *)c->out[1].data + sample * t->groups;
  real *rstd = (real *)c->out[2].data + sample * t->groups;
  real *center = r->wide[0], *scale = r->wide[1], *shift = r->wide[2];
  measure(t, &c->in[0], sample * all, r);
  for (int64_t g = 0; g < t->groups; g++) {
    double var = r->sum[1][g] / (double)(count ? count : 1);
    mean[g] = (real)r->sum[0][g];
    rstd[g] = rstd_of(var, o->eps);
    for (int64_t j = g * t->own; j < (g + 1) * t->own; j++) {
      center[j] = mean[g];
      scale[j] = w ? rstd[g] * w[j] : rstd[g];
      shift[j] = b ? b[j] : 0;
    }
  }
  repeat(s, center), repeat(s, scale), repeat(s, shift);
  for (int64_t i = 0; i < all; i += s->width) {
    int64_t n = all - i < s->width ? all - i : s->width, at = sample * all + i;
    const real *x = mrt_reals_in(&c->in[0], at, n, r->block[0]);
    real *y = mrt_reals_place(&c->out[0], at, r->block[0]);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      y[j] = (x[j] - center[j]) * scale[j] + shift[j];
    mrt_reals_out(&c->out[0], at, n, y);
  }
}

static void forward_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const task *t = shared;
  group_norm_room r = room_of(c, t, part);
  int64_t from, to;
  mrt_share(t->samples, part, parts, &from, &to);
  for (; from < to; from++) forward(c, t, from, &r);
}

static void group_norm(const mrt_call *c) {
  task t = task_of(c, 0.2);
  mrt_parallel(c, t.s.team, forward_part, &t);
}

/* ---- gradient ------------------------------------------------------------ */

/* r->sum[0], [1]: per channel, sums of dy and of dy (x - mean); wide[0]: mean. */
static void sums(const task *t, const mrt_operand *x, const mrt_operand *dy,
                 int64_t at, const real *mean, group_norm_room *r) {
  const channels_shape *s = &t->s;
  real *center = r->wide[0], *sum = r->wide[1], *product = r->wide[2];
  int64_t all = s->rows * s->n, step = s->block * s->n;
  zero(r->sum[0], s->n), zero(r->sum[1], s->n);
  for (int64_t g = 0; g < t->groups; g++)
    for (int64_t j = 0; j < t->own; j++) center[g * t->own + j] = mean[g];
  repeat(s, center);
  for (int64_t i = 0; i < all; i += step) {
    int64_t count = all - i < step ? all - i : step;
    clear(sum, s->width), clear(product, s->width);
    add_products(mrt_reals_in(x, at + i, count, r->block[0]),
                 mrt_reals_in(dy, at + i, count, r->block[1]), center, count,
                 s->width, sum, product);
    add_up(s, sum), add_up(s, product);
    for (int64_t j = 0; j < s->n; j++)
      r->sum[0][j] += sum[j], r->sum[1][j] += product[j];
  }
}

/* dx = scale dy - middle - (x - mean) along: the coefficients of a group. */
static void weigh(const task *t, int64_t g, double rstd, const real *w,
                  group_norm_room *r) {
  double sum = 0, product = 0, count = (double)(t->s.rows * t->own);
  for (int64_t j = g * t->own; j < (g + 1) * t->own; j++) {
    double k = w ? (double)w[j] : 1;
    sum += k * r->sum[0][j], product += k * r->sum[1][j];
    r->sum[2][j] += r->sum[1][j] * rstd;
    r->sum[3][j] += r->sum[0][j];
  }
  if (count == 0) count = 1;
  for (int64_t j = g * t->own; j < (g + 1) * t->own; j++) {
    r->wide[1][j] = (real)(w ? rstd * (double)w[j] : rstd);
    r->wide[2][j] = (real)(rstd * (sum / count));
    r->wide[3][j] = (real)(rstd * rstd * rstd * (product / count));
  }
}

static void backward(const mrt_call *c, const task *t, int64_t sample,
                     group_norm_room *r) {
  const channels_shape *s = &t->s;
  int64_t all = s->rows * s->n;
  const real *mean = (const real *)c->in[1].data + sample * t->groups;
  const real *rstd = (const real *)c->in[2].data + sample * t->groups;
  const real *w = c->nin > 4 ? c->in[4].data : NULL;
  real **wide = r->wide;
  const real *center = wide[0], *scale = wide[1], *middle = wide[2];
  const real *along = wide[3];
  sums(t, &c->in[0], &c->in[3], sample * all, mean, r);
  for (int64_t g = 0; g < t->groups; g++) weigh(t, g, rstd[g], w, r);
  for (int k = 1; k < 4; k++) repeat(s, wide[k]);
  for (int64_t i = 0; i < all; i += s->width) {
    int64_t n = all - i < s->width ? all - i : s->width, at = sample * all + i;
    const real *x = mrt_reals_in(&c->in[0], at, n, r->block[0]);
    const real *dy = mrt_reals_in(&c->in[3], at, n, r->block[1]);
    real *dx = mrt_reals_place(&c->out[0], at, r->block[1]);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      dx[j] = dy[j] * scale[j] - middle[j] - (x[j] - center[j]) * along[j];
    mrt_reals_out(&c->out[0], at, n, dx);
  }
}

static void backward_part(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const task *t = shared;
  group_norm_room r = room_of(c, t, part);
  int64_t from, to;
  zero(r.sum[2], t->s.n), zero(r.sum[3], t->s.n);
  mrt_share(t->samples, part, parts, &from, &to);
  for (; from < to; from++) backward(c, t, from, &r);
}

/* dw and db: the parts' sums, in their order. */
static void join_parts(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const task *t = shared;
  int64_t from, to;
  mrt_share(t->s.n, part, parts, &from, &to);
  for (int64_t j = from; j < to; j++) {
    double dw = 0, db = 0;
    for (int k = 0; k < parts; k++) {
      group_norm_room r = room_of(c, t, k);
      dw += r.sum[2][j], db += r.sum[3][j];
    }
    ((real *)c->out[1].data)[j] = (real)dw;
    ((real *)c->out[2].data)[j] = (real)db;
  }
}

static void group_norm_grad(const mrt_call *c) {
  task t = task_of(c, 0.4);
  mrt_parallel(c, t.s.team, backward_part, &t);
  if (c->nout > 1) mrt_parallel(c, t.s.team, join_parts, &t);
}

MRT_KERNEL(group_norm, .run = group_norm, .scratch = scratch);
MRT_KERNEL(group_norm_grad, .run = group_norm_grad, .scratch = scratch);
