/* batch_norm.c -- batch_norm, its gradient, and running statistics
 *
 * Rows are read in blocks that stay in the second-level cache: a block's means
 * are taken first, then squares about them, and blocks are joined in double
 * precision by the formula of Chan, Golub & LeVeque (1979), so that memory is
 * read once and nothing cancels.  Rows of few channels are read several at a
 * time, as one wide row, whose parts are added up at the end of a block.
 *
 * Each thread adds up blocks of its own; these sums are then joined in the
 * order of the threads.
 *
 * SPDX-License-Identifier: MIT */
#include "op/batch_norm.h"
#include "cpu.h"
#include "vmath.h"

enum {
  WIDE = 16 * LANES, /* a wide row is at least as long */
  BLOCK = 32 << 10,  /* elements of a block, about, */
  LEAST = 8          /* and wide rows at least */
};

typedef struct shape {
  int64_t rows, n, width, block; /* n: channels; block: rows of one */
  int team;
} shape;

static shape shape_of(const mrt_call *c, double ns) {
  shape s = { .rows = mrt_rows(&c->in[0]), .n = mrt_cols(&c->in[0]) };
  int64_t join = s.n ? (WIDE + s.n - 1) / s.n : 1; /* rows of a wide row */
  if (join > s.rows) join = s.rows > 0 ? s.rows : 1;
  s.width = join * s.n;
  int64_t most = s.n ? BLOCK / s.width : LEAST;
  s.block = join * (most < LEAST ? LEAST : most);
  s.team = mrt_team(c, ns * (double)s.rows * (double)s.n);
  return s;
}

/* What one thread works in; wide[] are wide rows. */
typedef struct room {
  double *first, *second; /* a sum per channel */
  int64_t count;          /* rows in them */
  real *wide[4];
} room;

static int64_t up(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static int64_t room_bytes(const shape *s) {
  return 2 * up(s->n * 8) + 4 * up(s->width * (int64_t)sizeof(real));
}

static size_t scratch(const mrt_call *c) {
  shape s = shape_of(c, 0);
  return (size_t)(c->threads * room_bytes(&s));
}

static room room_of(const mrt_call *c, const shape *s, int part) {
  char *at = (char *)c->scratch + part * room_bytes(s);
  int64_t from, to, wide = up(s->width * (int64_t)sizeof(real));
  room r = { .first = (double *)at, .second = (double *)(at + up(s->n * 8)) };
  at += 2 * up(s->n * 8);
  for (int k = 0; k < 4; k++) r.wide[k] = (real *)(at + k * wide);
  mrt_share((s->rows + s->block - 1) / s->block, part, s->team, &from, &to);
  from *= s->block, to *= s->block;
  r.count = (to < s->rows ? to : s->rows) - from;
  return r;
}

/* Elements [*from, *to) are the share of thread `part`: whole blocks. */
static void share(const shape *s, int part, int64_t *from, int64_t *to) {
  mrt_share((s->rows + s->block - 1) / s->block, part, s->team, from, to);
  *from *= s->block * s->n, *to *= s->block * s->n;
  if (*to > s->rows * s->n) *to = s->rows * s->n;
}

static void clear(real *x, int64_t n) { memset(x, 0, (size_t)n * sizeof *x); }

/* One number per channel, repeated along a wide row. */
static void repeat(const shape *s, real *wide) {
  for (int64_t i = s->n; i < s->width; i += s->n)
    memcpy(wide + i, wide, (size_t)s->n * sizeof *wide);
}

/* The parts of a wide row added up into its first n. */
static void add_up(const shape *s, real *wide) {
  for (int64_t i = s->n; i < s->width; i += s->n)
#pragma omp simd
    for (int64_t j = 0; j < s->n; j++) wide[j] += wide[i + j];
}

/* ---- forward ------------------------------------------------------------- */

/* sum[j] += what stands in column j of `count` elements in wide rows. */
static void add_block(const real *x, int64_t count, int64_t w, real *sum) {
  for (; count >= 4 * w; count -= 4 * w, x += 4 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++)
      sum[j] += (x[j] + x[j + w]) + (x[j + 2 * w] + x[j + 3 * w]);
  for (int64_t n; count > 0; count -= n, x += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sum[j] += x[j];
  }
}

static inline real square(real x) { return x * x; }

/* The same of squares about center[j]. */
static void add_squares(const real *x, const real *center, int64_t count,
                        int64_t w, real *sum) {
  for (; count >= 4 * w; count -= 4 * w, x += 4 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++)
      sum[j] +=
          (square(x[j] - center[j]) + square(x[j + w] - center[j])) +
          (square(x[j + 2 * w] - center[j]) + square(x[j + 3 * w] - center[j]));
  for (int64_t n; count > 0; count -= n, x += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sum[j] += square(x[j] - center[j]);
  }
}

/* Means and squares about them of `more` rows join those of `rows`. */
static void join(double *mean, double *square_sum, int64_t rows, double mean2,
                 double square_sum2, int64_t more) {
  double change = mean2 - *mean, all = (double)(rows + more);
  *mean += change * ((double)more / all);
  *square_sum +=
      square_sum2 + change * change * ((double)rows * (double)more / all);
}

static void measure_part(const real *x, const shape *s, int part, room *r) {
  int64_t from, to, rows = 0, step = s->block * s->n;
  real *center = r->wide[0], *sum = r->wide[1];
  memset(r->first, 0, (size_t)s->n * sizeof(double));
  memset(r->second, 0, (size_t)s->n * sizeof(double));
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += step) {
    int64_t count = to - i < step ? to - i : step, own = count / s->n;
    clear(center, s->width), clear(sum, s->width);
    add_block(x + i, count, s->width, center);
    add_up(s, center);
    for (int64_t j = 0; j < s->n; j++) center[j] /= (real)own;
    repeat(s, center);
    add_squares(x + i, center, count, s->width, sum);
    add_up(s, sum);
    for (int64_t j = 0; j < s->n; j++)
      join(&r->first[j], &r->second[j], rows, center[j], sum[j], own);
    rows += own;
  }
}

/* mean and rstd of the channels that `part` answers for. */
static void join_parts(const mrt_call *c, const shape *s, int part) {
  const mrt_batch_norm_options *o = c->options;
  real *mean = c->out[1].data, *rstd = c->out[2].data;
  int64_t from, to;
  mrt_share(s->n, part, s->team, &from, &to);
  for (int64_t j = from; j < to; j++) {
    double m = 0, squares = 0;
    int64_t rows = 0;
    for (int t = 0; t < s->team; t++) {
      room r = room_of(c, s, t);
      if (r.count <= 0) continue;
      join(&m, &squares, rows, r.first[j], r.second[j], r.count);
      rows += r.count;
    }
    mean[j] = (real)m;
    rstd[j] = (real)(1 / sqrt(squares / (double)(rows ? rows : 1) + o->eps));
  }
}

static void scale_part(const mrt_call *c, const shape *s, int part, room *r) {
  const real *x = c->in[0].data, *mean = c->out[1].data, *rstd = c->out[2].data;
  const real *w = c->nin > 1 ? c->in[1].data : NULL;
  const real *b = c->nin > 2 ? c->in[2].data : NULL;
  real *y = c->out[0].data, *center = r->wide[0], *scale = r->wide[1];
  real *shift = r->wide[2];
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
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      y[i + j] = (x[i + j] - center[j]) * scale[j] + shift[j];
  }
}

static void batch_norm(const mrt_call *c) {
  shape s = shape_of(c, 0.2);
  const real *x = c->in[0].data;
#pragma omp parallel num_threads(s.team)
  {
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) {
      room r = room_of(c, &s, part);
      measure_part(x, &s, part, &r);
    }
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) join_parts(c, &s, part);
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) {
      room r = room_of(c, &s, part);
      scale_part(c, &s, part, &r);
    }
  }
}

/* ---- gradient -------------------------------------------------------------- */

/* sum[j] += dy, product[j] += dy * (x - center[j]), column by column. */
static void add_products(const real *x, const real *dy, const real *center,
                         int64_t count, int64_t w, real *sum, real *product) {
  for (; count >= 2 * w; count -= 2 * w, x += 2 * w, dy += 2 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++) {
      sum[j] += dy[j] + dy[j + w];
      product[j] +=
          dy[j] * (x[j] - center[j]) + dy[j + w] * (x[j + w] - center[j]);
    }
  for (int64_t n; count > 0; count -= n, x += n, dy += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
      sum[j] += dy[j];
      product[j] += dy[j] * (x[j] - center[j]);
    }
  }
}

static void sum_part(const mrt_call *c, const shape *s, int part, room *r) {
  const real *x = c->in[0].data, *mean = c->in[1].data, *dy = c->in[3].data;
  int64_t from, to, step = s->block * s->n;
  real *center = r->wide[0], *sum = r->wide[1], *product = r->wide[2];
  memset(r->first, 0, (size_t)s->n * sizeof(double));
  memset(r->second, 0, (size_t)s->n * sizeof(double));
  memcpy(center, mean, (size_t)s->n * sizeof *mean);
  repeat(s, center);
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += step) {
    int64_t count = to - i < step ? to - i : step;
    clear(sum, s->width), clear(product, s->width);
    add_products(x + i, dy + i, center, count, s->width, sum, product);
    add_up(s, sum), add_up(s, product);
    for (int64_t j = 0; j < s->n; j++)
      r->first[j] += sum[j], r->second[j] += product[j];
  }
}

/* The sums of all parts, into those of the first; dw and db. */
static void join_sums(const mrt_call *c, const shape *s, int part) {
  const real *rstd = c->in[2].data;
  room all = room_of(c, s, 0);
  int64_t from, to;
  mrt_share(s->n, part, s->team, &from, &to);
  for (int64_t j = from; j < to; j++) {
    for (int t = 1; t < s->team; t++) {
      room r = room_of(c, s, t);
      all.first[j] += r.first[j], all.second[j] += r.second[j];
    }
    if (c->nout == 1) continue;
    ((real *)c->out[1].data)[j] = (real)(all.second[j] * (double)rstd[j]);
    ((real *)c->out[2].data)[j] = (real)all.first[j];
  }
}

/* dx = scale * (dy - mean of dy - (x - mean) * along). */
static void turn_part(const mrt_call *c, const shape *s, int part, room *r) {
  const real *x = c->in[0].data, *mean = c->in[1].data, *rstd = c->in[2].data;
  const real *dy = c->in[3].data, *w = c->nin > 4 ? c->in[4].data : NULL;
  real *dx = c->out[0].data, *center = r->wide[0], *scale = r->wide[1];
  real *middle = r->wide[2], *along = r->wide[3];
  room all = room_of(c, s, 0);
  double rows = s->rows ? (double)s->rows : 1;
  int64_t from, to;
  for (int64_t j = 0; j < s->n; j++) {
    center[j] = mean[j];
    scale[j] = w ? rstd[j] * w[j] : rstd[j];
    middle[j] = (real)(all.first[j] / rows);
    along[j] = (real)(all.second[j] / rows * (double)rstd[j] * (double)rstd[j]);
  }
  repeat(s, center), repeat(s, scale), repeat(s, middle), repeat(s, along);
  share(s, part, &from, &to);
  for (int64_t i = from; i < to; i += s->width) {
    int64_t n = to - i < s->width ? to - i : s->width;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
      dx[i + j] = scale[j] *
                  (dy[i + j] - middle[j] - (x[i + j] - center[j]) * along[j]);
  }
}

static void batch_norm_grad(const mrt_call *c) {
  shape s = shape_of(c, 0.4);
#pragma omp parallel num_threads(s.team)
  {
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) {
      room r = room_of(c, &s, part);
      sum_part(c, &s, part, &r);
    }
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) join_sums(c, &s, part);
#pragma omp for schedule(static)
    for (int part = 0; part < s.team; part++) {
      room r = room_of(c, &s, part);
      turn_part(c, &s, part, &r);
    }
  }
}

/* ---- running statistics ------------------------------------------------------ */

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
MRT_KERNEL(batch_norm_grad, .run = batch_norm_grad, .scratch = scratch);
MRT_KERNEL(running, .run = running);
