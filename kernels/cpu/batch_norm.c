/* batch_norm.c -- batch_norm, its gradient, and running statistics
 *
 * Rows are read in blocks that stay in the second-level cache: a block's means
 * are taken first, then squares about them, and blocks are joined in double
 * precision, so that memory is read once and nothing cancels (channels.h).
 *
 * Each thread adds up blocks of its own; these sums are then joined in the
 * order of the threads.  Blocks of narrow floats are computed on in scratch.
 *
 * Where dy counts between bounds of y alone, y is computed again for each block.
 *
 * SPDX-License-Identifier: MIT */
#include "op/batch_norm.h"
#include "channels.h"

/* What one thread works in; wide[] are wide rows. */
typedef struct batch_norm_room {
  double *first, *second; /* a sum per channel */
  int64_t count;          /* rows in them */
  real *wide[4];
  real *block[2]; /* where x, dy are narrow */
  real *within;   /* dy where y is between bounds: a block */
  real *to_y[3];  /* center, scale, shift: wide rows */
  real low, high; /* where y counts; nothing is at NaN or above it */
} batch_norm_room;

static channels_shape shape_of_call(const mrt_call *c, double ns) {
  channels_shape s = shape_of(mrt_rows(&c->in[0]), mrt_cols(&c->in[0]));
  s.team = mrt_team(c, ns * (double)s.rows * (double)s.n);
  return s;
}

/* Elements of a block, or a wide row. */
static int64_t longest(const channels_shape *s) {
  int64_t rows = s->block < s->rows ? s->block : s->rows;
  return rows * s->n > s->width ? rows * s->n : s->width;
}

static int64_t room_bytes(const mrt_call *c, const channels_shape *s) {
  int64_t wide = up(s->width * (int64_t)sizeof(real));
  return 2 * up(s->n * 8) + 4 * wide +
         2 * block_room(c, s) * (int64_t)sizeof(real) +
         (c->nin > 5 ? 3 * wide + up(longest(s) * (int64_t)sizeof(real)) : 0);
}

static size_t scratch(const mrt_call *c) {
  channels_shape s = shape_of_call(c, 0);
  return (size_t)(c->threads * room_bytes(c, &s));
}

static batch_norm_room room_of(const mrt_call *c, const channels_shape *s,
                               int part) {
  char *at = (char *)c->scratch + part * room_bytes(c, s);
  int64_t from, to, wide = up(s->width * (int64_t)sizeof(real));
  batch_norm_room r = { .first = (double *)at,
                        .second = (double *)(at + up(s->n * 8)) };
  at += 2 * up(s->n * 8);
  for (int k = 0; k < 4; k++) r.wide[k] = (real *)(at + k * wide);
  r.block[0] = (real *)(at + 4 * wide);
  r.block[1] = r.block[0] + block_room(c, s);
  at = (char *)(r.block[1] + block_room(c, s));
  for (int k = 0; k < 3; k++) r.to_y[k] = (real *)(at + k * wide);
  r.within = (real *)(at + 3 * wide);
  mrt_share((s->rows + s->block - 1) / s->block, part, s->team, &from, &to);
  from *= s->block, to *= s->block;
  r.count = (to < s->rows ? to : s->rows) - from;
  return r;
}

/* Elements [*from, *to) are the share of thread `part`: whole blocks. */
static void share(const channels_shape *s, int part, int64_t *from,
                  int64_t *to) {
  mrt_share((s->rows + s->block - 1) / s->block, part, s->team, from, to);
  *from *= s->block * s->n, *to *= s->block * s->n;
  if (*to > s->rows * s->n) *to = s->rows * s->n;
}

/* ---- forward ------------------------------------------------------------- */

static void measure_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const channels_shape *s = shared;
  batch_norm_room r = room_of(c, s, part);
  int64_t from, to, rows = 0, step = s->block * s->n;
  real *center = r.wide[0], *sum = r.wide[1], *base = r.wide[2];
  memset(r.first, 0, (size_t)s->n * sizeof(double));
  memset(r.second, 0, (size_t)s->n * sizeof(double));
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += step) {
    int64_t count = to - i < step ? to - i : step, own = count / s->n;
    const real *block = mrt_reals_in(&c->in[0], i, count, r.block[0]);
    clear(center, s->width), clear(sum, s->width);
    memcpy(base, block, (size_t)s->n * sizeof *base), repeat(s, base);
    add_block(block, base, count, s->width, center);
    add_up(s, center);
    for (int64_t j = 0; j < s->n; j++)
      center[j] = base[j] + center[j] / (real)own;
    repeat(s, center);
    add_squares(block, center, count, s->width, sum);
    add_up(s, sum);
    for (int64_t j = 0; j < s->n; j++)
      join(&r.first[j], &r.second[j], rows, center[j], sum[j], own);
    rows += own;
  }
}

/* mean and rstd of the channels that `part` answers for. */
static void join_parts(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const channels_shape *s = shared;
  const mrt_batch_norm_options *o = c->options;
  real *mean = c->out[c->nout - 2].data, *rstd = c->out[c->nout - 1].data;
  int64_t from, to;
  mrt_share(s->n, part, parts, &from, &to);
  for (int64_t j = from; j < to; j++) {
    double m = 0, squares = 0;
    int64_t rows = 0;
    for (int t = 0; t < parts; t++) {
      batch_norm_room r = room_of(c, s, t);
      if (r.count <= 0) continue;
      join(&m, &squares, rows, r.first[j], r.second[j], r.count);
      rows += r.count;
    }
    mean[j] = (real)m;
    rstd[j] = rstd_of(squares / (double)(rows ? rows : 1), o->eps);
  }
}

static void scale_part(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const channels_shape *s = shared;
  batch_norm_room r = room_of(c, s, part);
  const real *mean = c->out[1].data, *rstd = c->out[2].data;
  const real *w = c->nin > 1 ? c->in[1].data : NULL;
  const real *b = c->nin > 2 ? c->in[2].data : NULL;
  real *center = r.wide[0], *scale = r.wide[1], *shift = r.wide[2];
  int64_t from, to;
  for (int64_t j = 0; j < s->n; j++) {
    center[j] = mean[j];
    scale[j] = w ? rstd[j] * w[j] : rstd[j];
    shift[j] = b ? b[j] : 0;
  }
  repeat(s, center), repeat(s, scale), repeat(s, shift);
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += s->width) {
    int64_t n = to - i < s->width ? to - i : s->width;
    const real *x = mrt_reals_in(&c->in[0], i, n, r.block[0]);
    real *y = mrt_reals_place(&c->out[0], i, r.block[0]);
    if (b)
#pragma omp simd
      for (int64_t j = 0; j < n; j++)
        y[j] = (x[j] - center[j]) * scale[j] + shift[j];
    else
#pragma omp simd
      for (int64_t j = 0; j < n; j++) y[j] = (x[j] - center[j]) * scale[j];
    mrt_reals_out(&c->out[0], i, n, y);
  }
}

static void batch_norm(const mrt_call *c) {
  channels_shape s = shape_of_call(c, 0.2);
  if (s.n == 0) return;
  mrt_parallel(c, s.team, measure_part, &s);
  mrt_parallel(c, s.team, join_parts, &s);
  mrt_parallel(c, s.team, scale_part, &s);
}

/* In as many parts as batch_norm, so that the bits are the same. */
static void batch_stats(const mrt_call *c) {
  channels_shape s = shape_of_call(c, 0.2);
  if (s.n == 0) return;
  mrt_parallel(c, s.team, measure_part, &s);
  mrt_parallel(c, s.team, join_parts, &s);
}

/* ---- gradient ------------------------------------------------------------ */

/* The k-th float from 0 on, of those below if k < 0. */
static real kth(int32_t k) {
  uint32_t bits = k < 0 ? (uint32_t)-k | UINT32_C(1) << 31 : (uint32_t)k;
  float x;
  memcpy(&x, &bits, sizeof x);
  return (real)x;
}

/* The least float that, rounded to `dtype`, is above the bound, or at it: to
 * round keeps the order, so that y need not be rounded to be compared. */
static real least_above(mrt_dtype dtype, double bound, bool or_at) {
  const int32_t inf = 0x7f800000;
  if (!mrt_is_narrow(dtype) && sizeof(real) > sizeof(float))
    return or_at ? (real)bound : (real)nextafter(bound, INFINITY);
  int32_t below = -inf, at = inf;
  while (at - 1 > below) {
    int32_t half = below / 2 + at / 2 + (below % 2 + at % 2) / 2;
    if (half <= below || half >= at) half = at - 1;
    real y = kth(half);
    if (mrt_is_narrow(dtype)) mrt_round_reals(dtype, &y, 1);
    if (or_at ? y >= (real)bound : y > (real)bound)
      at = half;
    else
      below = half;
  }
  return kth(at);
}

/* What y is made of, ahead of a thread's blocks. */
static void prepare_y(const mrt_call *c, const channels_shape *s,
                      batch_norm_room *r) {
  const mrt_within_options *o = c->options;
  const real *mean = c->in[1].data, *rstd = c->in[2].data;
  const real *w = c->in[4].data, *b = c->in[5].data;
  for (int64_t j = 0; j < s->n; j++) {
    r->to_y[0][j] = mean[j], r->to_y[1][j] = rstd[j] * w[j];
    r->to_y[2][j] = b[j];
  }
  for (int k = 0; k < 3; k++) repeat(s, r->to_y[k]);
  r->low = least_above(o->dtype, o->low, false);
  r->high =
      o->high < INFINITY ? least_above(o->dtype, o->high, true) : (real)NAN;
}

/* `n` elements of dy that begin a row of channels, 0 where y is not from r->low
 * to below r->high. */
static void keep_within(const batch_norm_room *r, const real *x, const real *dy,
                        int64_t n, real *to) {
  const real *center = r->to_y[0], *scale = r->to_y[1], *shift = r->to_y[2];
  const real low = r->low, high = r->high;
#pragma omp simd
  for (int64_t j = 0; j < n; j++) {
    real y = (x[j] - center[j]) * scale[j] + shift[j];
    to[j] = (y >= low) & !(y >= high) ? dy[j] : 0;
  }
}

/* Elements [i, i + n) of dy that count; they begin a wide row, and x has the
 * same of the input. */
static const real *dy_of(const mrt_call *c, const channels_shape *s,
                         const batch_norm_room *r, const real *x, int64_t i,
                         int64_t n) {
  const real *dy = mrt_reals_in(&c->in[3], i, n, r->block[1]);
  if (c->nin < 6) return dy;
  for (int64_t at = 0; at < n; at += s->width)
    keep_within(r, x + at, dy + at, n - at < s->width ? n - at : s->width,
                r->within + at);
  return r->within;
}

static void sum_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const channels_shape *s = shared;
  batch_norm_room r = room_of(c, s, part);
  const real *mean = c->in[1].data;
  int64_t from, to, step = s->block * s->n;
  real *center = r.wide[0], *sum = r.wide[1], *product = r.wide[2];
  memset(r.first, 0, (size_t)s->n * sizeof(double));
  memset(r.second, 0, (size_t)s->n * sizeof(double));
  memcpy(center, mean, (size_t)s->n * sizeof *mean);
  repeat(s, center);
  if (c->nin > 5) prepare_y(c, s, &r);
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += step) {
    int64_t count = to - i < step ? to - i : step;
    clear(sum, s->width), clear(product, s->width);
    const real *x = mrt_reals_in(&c->in[0], i, count, r.block[0]);
    add_products(x, dy_of(c, s, &r, x, i, count), center, count, s->width, sum,
                 product);
    add_up(s, sum), add_up(s, product);
    for (int64_t j = 0; j < s->n; j++)
      r.first[j] += sum[j], r.second[j] += product[j];
  }
}

/* The sums of all parts, into those of the first; dw and db. */
static void join_sums(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const channels_shape *s = shared;
  const real *rstd = c->in[2].data;
  batch_norm_room all = room_of(c, s, 0);
  int64_t from, to;
  mrt_share(s->n, part, parts, &from, &to);
  for (int64_t j = from; j < to; j++) {
    for (int t = 1; t < parts; t++) {
      batch_norm_room r = room_of(c, s, t);
      all.first[j] += r.first[j], all.second[j] += r.second[j];
    }
    if (c->nout == 1) continue;
    ((real *)c->out[1].data)[j] = (real)(all.second[j] * (double)rstd[j]);
    ((real *)c->out[2].data)[j] = (real)all.first[j];
  }
}

/* dx = scale * (dy - mean of dy - (x - mean) * along). */
static void turn_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const channels_shape *s = shared;
  batch_norm_room r = room_of(c, s, part);
  const real *mean = c->in[1].data, *rstd = c->in[2].data;
  const real *w = c->nin > 4 ? c->in[4].data : NULL;
  real *center = r.wide[0], *scale = r.wide[1];
  real *middle = r.wide[2], *along = r.wide[3];
  batch_norm_room all = room_of(c, s, 0);
  double rows = s->rows ? (double)s->rows : 1;
  int64_t from, to;
  for (int64_t j = 0; j < s->n; j++) {
    center[j] = mean[j];
    scale[j] = w ? rstd[j] * w[j] : rstd[j];
    middle[j] = (real)(all.first[j] / rows);
    along[j] = (real)(all.second[j] / rows * (double)rstd[j] * (double)rstd[j]);
  }
  repeat(s, center), repeat(s, scale), repeat(s, middle), repeat(s, along);
  if (c->nin > 5) prepare_y(c, s, &r);
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += s->width) {
    int64_t n = to - i < s->width ? to - i : s->width;
    const real *x = mrt_reals_in(&c->in[0], i, n, r.block[0]);
    const real *dy = dy_of(c, s, &r, x, i, n);
    real *dx = mrt_reals_place(&c->out[0], i, r.block[1]);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      dx[j] = scale[j] * (dy[j] - middle[j] - (x[j] - center[j]) * along[j]);
    mrt_reals_out(&c->out[0], i, n, dx);
  }
}

static void batch_norm_grad(const mrt_call *c) {
  channels_shape s = shape_of_call(c, 0.4);
  if (s.n == 0) return;
  mrt_parallel(c, s.team, sum_part, &s);
  mrt_parallel(c, s.team, join_sums, &s);
  mrt_parallel(c, s.team, turn_part, &s);
}

/* ---- running statistics -------------------------------------------------- */

static void running(const mrt_call *c) {
  const mrt_running_options *o = c->options;
  const real *mean = c->in[2].data, *rstd = c->in[3].data;
  real *running_mean = c->out[0].data, *running_var = c->out[1].data;
  if (c->nin > 4 && !*(const uint8_t *)c->in[4].data) return;
  double unbias = (double)o->count / (double)(o->count - 1);
  double keep = 1 - o->momentum;
  for (int64_t j = 0; j < mrt_type_count(&c->out[0].type); j++) {
    double r = rstd[j], var = 1 / (r * r) - o->eps;
    running_mean[j] =
        (real)(keep * (double)running_mean[j] + o->momentum * (double)mean[j]);
    running_var[j] = (real)(keep * (double)running_var[j] +
                            o->momentum * unbias * (var > 0 ? var : 0));
  }
}

MRT_KERNEL(batch_norm, .run = batch_norm, .scratch = scratch);
MRT_KERNEL(batch_stats, .run = batch_stats, .scratch = scratch);
MRT_KERNEL(batch_norm_grad, .run = batch_norm_grad, .scratch = scratch);
MRT_KERNEL(batch_norm_grad_within, .run = batch_norm_grad, .scratch = scratch);
MRT_KERNEL(running, .run = running);
