/* norm.c -- layer_norm, rms_norm and their gradients, a row at a time
 *
 * A row is read for its mean, again for its variance and a third time to be
 * scaled, the last two times from cache.  The mean is taken of differences from
 * the row's first element: else what it is rounded by, times 1 / sqrt(eps), is
 * the result for a row that hardly varies.  Gradients of w and b are summed over
 * the rows of each thread in a scratch row of its own; these are then added in
 * the order of the threads.  Rows of narrow floats are computed in scratch.
 *
 * SPDX-License-Identifier: MIT */
#include "op/norm.h"
#include "floats.h"
#include "rows.h"

/* rms_norm is layer_norm about zero: one set of loops serves both. */
typedef struct norm_shape {
  int64_t rows, n;
  real count; /* n, but at least 1 */
  int team;
} norm_shape;

static norm_shape shape_of(const mrt_call *c, double ns) {
  norm_shape s = { mrt_rows(&c->in[0]), mrt_cols(&c->in[0]), 1, 1 };
  if (s.n) s.count = (real)s.n;
  s.team = mrt_team(c, ns * (double)s.rows * (double)s.n);
  return s;
}

/* ---- forward ------------------------------------------------------------- */

/* y = (x - mean) * rstd * w + b; w, or b, may be NULL. */
static void scale_row(const real *x, real mean, real rstd, const real *w,
                      const real *b, real *y, int64_t n) {
  if (b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd;
  }
}

static real mean_of(const real *x, const norm_shape *s) {
  return s->n ? x[0] + row_offsets(x, x[0], s->n) / s->count : 0;
}

/* 1 / sqrt(mean (x - mean)^2) where the squares overflow; eps is nothing beside
 * them.  0 if an element is infinite. */
static real rstd_of_large(const real *x, real mean, const norm_shape *s) {
  real most = 0, sum = 0;
  for (int64_t i = 0; i < s->n; i++) {
    real d = m_abs(x[i] - mean);
    most = d > most ? d : most;
  }
  if (most == MRT_INF) return 0;
  for (int64_t i = 0; i < s->n; i++) {
    real d = (x[i] - mean) / most;
    sum += d * d;
  }
  return 1 / (most * m_sqrt(sum / s->count));
}

static real rstd_of(const real *x, real mean, real eps, const norm_shape *s) {
  real variance = row_squares(x, mean, s->n) / s->count;
  return variance == MRT_INF ? rstd_of_large(x, mean, s)
                             : 1 / m_sqrt(variance + eps);
}

/* Room: w, b, then a row for each thread. */
static size_t scratch(const mrt_call *c) {
  return (size_t)((2 + c->threads) * mrt_room_row(c, mrt_cols(&c->in[0]))) *
         sizeof(real);
}

/* `means` is NULL for rms_norm; w and b may be. */
typedef struct norm_run {
  norm_shape shape;
  real *means, *rstds;
  const real *w, *b;
} norm_run;

static void forward_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const mrt_norm_options *o = c->options;
  const norm_run *f = shared;
  norm_shape s = f->shape;
  int64_t step = mrt_room_row(c, s.n), r, end;
  real *room = (real *)c->scratch + (2 + part) * step, eps = (real)o->eps;
  mrt_share(s.rows, part, parts, &r, &end);
  for (; r < end; r++) {
    const real *row = mrt_reals_in(&c->in[0], r * s.n, s.n, room);
    real *to = mrt_reals_place(&c->out[0], r * s.n, room);
    real mean = f->means ? mean_of(row, &s) : 0;
    real rstd = rstd_of(row, mean, eps, &s);
    scale_row(row, mean, rstd, f->w, f->b, to, s.n);
    mrt_reals_out(&c->out[0], r * s.n, s.n, to);
    if (f->means) f->means[r] = mean;
    f->rstds[r] = rstd;
  }
}

static void forward(const mrt_call *c, real *means, real *rstds) {
  norm_shape s = shape_of(c, 0.15);
  real *rooms = c->scratch;
  const real *w = c->nin > 1 ? mrt_reals_in(&c->in[1], 0, s.n, rooms) : NULL;
  const real *b =
      c->nin > 2 ? mrt_reals_in(&c->in[2], 0, s.n, rooms + mrt_room_row(c, s.n))
                 : NULL;
  mrt_parallel(c, s.team, forward_part, &(norm_run){ s, means, rstds, w, b });
}

static void layer_norm(const mrt_call *c) {
  forward(c, c->out[1].data, c->out[2].data);
}
static void rms_norm(const mrt_call *c) { forward(c, NULL, c->out[1].data); }

/* ---- gradients ----------------------------------------------------------- */

typedef struct gradient {
  norm_shape shape;
  const mrt_operand *x, *dy, *dx;
  const mrt_operand *c, *t; /* to be added to dx, and that rounded; or NULL */
  mrt_dtype first;          /* what dx is rounded to before, or not */
  const real *means, *rstds, *w; /* means, w: may be NULL */
  real *dw, *db;                 /* NULL without w, mean */
  real *partial;                 /* [part][dw, db], rows of `stride` */
  int64_t stride;
  real *rooms; /* [part][x, dy or dx], rows of `step` */
  int64_t step;
} gradient;

/* One row; dx may be x or dy. */
typedef struct norm_line {
  const real *x, *dy;
  real *dx, mean, rstd;
} norm_line;

/* Rows of partial sums do not share cache lines. */
static int64_t stride_of(int64_t n) { return (n + 15) / 16 * 16; }

/* Sums of g and g * norm over the row, and this row's share of dw and db. */
static void sum_row(const norm_line *l, const real *w, int64_t n, real *dw,
                    real *db, real *sum_g, real *sum_gn) {
  const real *x = l->x, *dy = l->dy;
  real mean = l->mean, rstd = l->rstd, a = 0, b = 0;
  if (!w) {
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < n; i++) {
      a += dy[i];
      b += dy[i] * ((x[i] - mean) * rstd);
    }
  } else {
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < n; i++) {
      real norm = (x[i] - mean) * rstd;
      a += dy[i] * w[i];
      b += dy[i] * w[i] * norm;
      dw[i] += dy[i] * norm;
      db[i] += dy[i];
    }
  }
  *sum_g = a, *sum_gn = b;
}

/* dx = rstd * (g - mean(g) - norm * mean(g * norm)). */
static void grad_row(const norm_line *l, const real *w, int64_t n, real mean_g,
                     real mean_gn) {
  const real *x = l->x, *dy = l->dy;
  real *dx = l->dx, mean = l->mean, rstd = l->rstd;
  if (!w) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      dx[i] = rstd * (dy[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
      dx[i] = rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
  }
}

/* c + dx, which is the caller's to overwrite as `room` is; elements from `at` on.
 * The sum may lie on c. */
static void add_row(const gradient *g, int64_t at, real *dx, real *room) {
  int64_t n = g->shape.n;
  if (mrt_is_narrow(g->first)) mrt_round_reals(g->first, dx, n);
  const real *c = mrt_reals_in(g->c, at, n, room);
  real *to = mrt_reals_place(g->dx, at, dx);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) to[i] = c[i] + dx[i];
  mrt_reals_out(g->dx, at, n, to);
  if (g->t) mrt_reals_out(g->t, at, n, to);
}

/* out[i] = sum of the threads' partial[i], in their order. */
static void combine(const real *partial, int64_t stride, int threads, real *out,
                    int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++) out[i] = 0;
  for (int t = 0; t < threads; t++)
#pragma omp simd
    for (int64_t i = from; i < to; i++) out[i] += partial[t * stride + i];
}

static void backward_part(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const gradient *g = shared;
  norm_shape s = g->shape;
  int64_t from, to;
  real *dw = g->partial + part * 2 * g->stride, *db = dw + g->stride;
  real *room = g->rooms + part * 2 * g->step, *second = room + g->step;
  if (g->w && g->stride) memset(dw, 0, 2 * (size_t)g->stride * sizeof(real));
  mrt_share(s.rows, part, parts, &from, &to);
  for (int64_t r = from; r < to; r++) {
    real sum_g, sum_gn;
    norm_line l = { .x = mrt_reals_in(g->x, r * s.n, s.n, room),
                    .dy = mrt_reals_in(g->dy, r * s.n, s.n, second),
                    .dx =
                        g->c ? second : mrt_reals_place(g->dx, r * s.n, second),
                    .mean = g->means ? g->means[r] : 0,
                    .rstd = g->rstds[r] };
    sum_row(&l, g->w, s.n, dw, db, &sum_g, &sum_gn);
    grad_row(&l, g->w, s.n, g->means ? sum_g / s.count : 0, sum_gn / s.count);
    if (g->c)
      add_row(g, r * s.n, l.dx, room);
    else
      mrt_reals_out(g->dx, r * s.n, s.n, l.dx);
  }
}

static void combine_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const gradient *g = shared;
  int64_t from, to;
  mrt_share(g->shape.n, part, parts, &from, &to);
  combine(g->partial, 2 * g->stride, parts, g->dw, from, to);
  if (g->db)
    combine(g->partial + g->stride, 2 * g->stride, parts, g->db, from, to);
}

/* Elements of a row in a room, where dx is to be added: there is always one. */
static int64_t added_row(int64_t n) { return stride_of(n); }

/* Inputs x, `stats` statistics, dy[, w] from `in` on. */
static void backward(const mrt_call *c, gradient *g, const mrt_operand *in,
                     int stats) {
  norm_shape s = shape_of(c, 0.3);
  int w = stats + 2;
  bool affine = in + w < c->in + c->nin;
  g->shape = s, g->x = in, g->dy = &in[stats + 1], g->dx = &c->out[0];
  g->means = stats > 1 ? in[1].data : NULL, g->rstds = in[stats].data;
  g->dw = affine ? c->out[1].data : NULL;
  g->db = affine && stats > 1 ? c->out[2].data : NULL;
  g->partial = c->scratch;
  g->stride = affine ? stride_of(s.n) : 0;
  g->step = g->c ? added_row(s.n) : mrt_room_row(c, s.n);
  g->rooms = g->partial + c->threads * 2 * g->stride;
  if (affine)
    g->w = mrt_reals_in(&in[w], 0, s.n, g->rooms + c->threads * 2 * g->step);
  mrt_parallel(c, s.team, backward_part, g);
  if (g->w) mrt_parallel(c, s.team, combine_part, g);
}
static void layer_norm_grad(const mrt_call *c) {
  backward(c, &(gradient){ 0 }, c->in, 2);
}
static void rms_norm_grad(const mrt_call *c) {
  backward(c, &(gradient){ 0 }, c->in, 1);
}

static void backward_add(const mrt_call *c, int stats) {
  const mrt_norm_add_options *o = c->options;
  bool rounds = o->round != MRT_DTYPE_COUNT;
  bool before = o->first != MRT_DTYPE_COUNT;
  gradient g = { .c = &c->in[0],
                 .t = rounds ? &c->out[c->nout - 1] : NULL,
                 .first = before ? o->first : MRT_REAL };
  backward(c, &g, c->in + 1, stats);
}
static void layer_norm_grad_add(const mrt_call *c) { backward_add(c, 2); }
static void rms_norm_grad_add(const mrt_call *c) { backward_add(c, 1); }

/* Partial sums of dw and db, and room: x and dy for each thread, and w. */
static size_t scratch_of(const mrt_call *c, int64_t row) {
  int64_t n = mrt_cols(&c->in[0]), sums = c->nout > 1 ? 2 * stride_of(n) : 0;
  return (size_t)(c->threads * (sums + 2 * row) + row) * sizeof(real);
}
static size_t grad_scratch(const mrt_call *c) {
  return scratch_of(c, mrt_room_row(c, mrt_cols(&c->in[0])));
}
static size_t add_scratch(const mrt_call *c) {
  return scratch_of(c, added_row(mrt_cols(&c->in[0])));
}

MRT_KERNEL(layer_norm, .run = layer_norm, .scratch = scratch);
MRT_KERNEL(layer_norm_grad, .run = layer_norm_grad, .scratch = grad_scratch);
MRT_KERNEL(rms_norm, .run = rms_norm, .scratch = scratch);
MRT_KERNEL(rms_norm_grad, .run = rms_norm_grad, .scratch = grad_scratch);
MRT_KERNEL(layer_norm_grad_add, .run = layer_norm_grad_add,
           .scratch = add_scratch);
MRT_KERNEL(rms_norm_grad_add, .run = rms_norm_grad_add, .scratch = add_scratch);
