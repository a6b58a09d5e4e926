/* resample.c -- images at other sizes
 *
 * What a row (column) of the larger or smaller image reads is worked out once
 * in scratch, as places and weights.  A row of y is first summed down the
 * columns, all of them side by side, then along the row.  The gradient goes the
 * same way back: a row of dy is spread along the row, then added to the rows of
 * dx that were read, each of which belongs to one thread and takes rows of dy in
 * their order.
 *
 * SPDX-License-Identifier: MIT */
#include "op/resample.h"
#include "cpu.h"

enum { TAPS = 4 };

/* x has `in` rows (columns), y `out`; row i of y reads `at[a][i]` with weight
 * `weight[a][i]`. */
typedef struct resample_side {
  int64_t in, out;
  int taps;
  bool same; /* row i reads row i alone */
  int32_t *at[TAPS];
  real *weight[TAPS];
} side;

typedef struct resample {
  side h, w;
  int64_t outer, inner;
  const real *from;
  real *to;
  real *room; /* a row of x for each thread */
} resample;

/* ---- places and weights -------------------------------------------------- */

static real step_of(const side *s, double scale, bool align) {
  if (align) return s->out > 1 ? (real)(s->in - 1) / (real)(s->out - 1) : 0;
  return scale > 0 ? (real)(1 / scale) : (real)s->in / (real)s->out;
}

/* Keys' cubic at distance t, within 1 and from 1 to 2. */
static real cubic_near(real t) {
  const real a = REAL(-0.75);
  return ((a + 2) * t - (a + 3)) * t * t + 1;
}
static real cubic_far(real t) {
  const real a = REAL(-0.75);
  return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

static int32_t inside(const side *s, real i) {
  return i > 0 ? i < (real)(s->in - 1) ? (int32_t)i : (int32_t)(s->in - 1) : 0;
}

static void fill_linear(side *s, int64_t i, real place) {
  place = place > 0 ? place : 0;
  int32_t at = inside(s, place);
  real t = place - (real)at;
  t = t < 1 ? t : 1;
  s->at[0][i] = at, s->weight[0][i] = 1 - t;
  s->at[1][i] = at + (at < s->in - 1), s->weight[1][i] = t;
}

static void fill_cubic(side *s, int64_t i, real place) {
  real first = (real)floor((double)place), t = place - first;
  for (int a = 0; a < TAPS; a++) s->at[a][i] = inside(s, first + (real)(a - 1));
  s->weight[0][i] = cubic_far(t + 1), s->weight[1][i] = cubic_near(t);
  s->weight[2][i] = cubic_near(1 - t), s->weight[3][i] = cubic_far(2 - t);
}

/* In float whatever x is, and of twice as many rows each is read twice, whatever
 * the scale: as PyTorch has it, so that rows at a boundary are the same. */
static void fill_nearest(side *s, int mode, double scale) {
  float step = scale > 0 ? (float)(1 / scale) : (float)s->in / (float)s->out;
  bool twice = mode == MRT_RESAMPLE_nearest && s->out == 2 * s->in;
  float half = mode == MRT_RESAMPLE_nearest ? 0 : 0.5f;
  for (int64_t i = 0; i < s->out; i++) {
    float place = floorf(((float)i + half) * step);
    s->at[0][i] = s->same ? (int32_t)i
                  : twice ? (int32_t)(i / 2)
                          : inside(s, (real)place);
  }
}

static void fill(side *s, const mrt_resample_options *o, double scale) {
  if (s->taps == 1) {
    fill_nearest(s, o->mode, scale);
    return;
  }
  real step = step_of(s, scale, o->align_corners), half = REAL(0.5);
  for (int64_t i = 0; i < s->out; i++) {
    real place =
        o->align_corners ? (real)i * step : ((real)i + half) * step - half;
    (s->taps == 2 ? fill_linear : fill_cubic)(s, i, place);
  }
}

static int taps_of(int mode) {
  if (mode == MRT_RESAMPLE_cubic) return 4;
  return mode == MRT_RESAMPLE_linear ? 2 : 1;
}

static size_t up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* The tables of a side from `room` on, which may be NULL; their bytes. */
static size_t lay_out(side *s, int mode, double scale, char *room) {
  size_t used = 0, n = (size_t)s->out;
  s->same = s->in == s->out &&
            (scale == 0 || scale == 1 || mode == MRT_RESAMPLE_nearest);
  s->taps = s->same ? 1 : taps_of(mode);
  for (int a = 0; a < s->taps; a++) {
    if (room) s->at[a] = (int32_t *)(void *)(room + used);
    used += up(n * sizeof(int32_t));
    if (room) s->weight[a] = (real *)(void *)(room + used);
    used += up(n * sizeof(real));
  }
  return used;
}

/* x is what is resampled, y the result; their tables in scratch. */
static size_t set_up(const mrt_call *c, const mrt_type *x, const mrt_type *y,
                     resample *r) {
  const mrt_resample_options *o = c->options;
  char *room = c->scratch;
  *r = (resample){ .outer = 1, .inner = 1 };
  for (int i = 0; i < x->rank; i++) {
    if (i < o->dim) r->outer *= x->dims[i];
    if (i > o->dim + 1) r->inner *= x->dims[i];
  }
  r->h.in = x->dims[o->dim], r->h.out = y->dims[o->dim];
  r->w.in = x->dims[o->dim + 1], r->w.out = y->dims[o->dim + 1];
  size_t used = lay_out(&r->h, o->mode, o->scale_h, room);
  used += lay_out(&r->w, o->mode, o->scale_w, room ? room + used : NULL);
  r->room = room ? (real *)(void *)(room + used) : NULL;
  return used;
}

/* Reals of a row of x, in lines of the cache. */
static int64_t row_room(const resample *r) {
  return (r->w.in * r->inner + 15) / 16 * 16;
}

/* ---- forward ------------------------------------------------------------- */

/* The rows of x that row i reads, summed, n columns side by side: in y, or the
 * one row itself. */
static const real *sum_rows(const side *h, int64_t i, const real *x, int64_t n,
                            real *y) {
  const real *r[TAPS];
  for (int a = 0; a < h->taps; a++) r[a] = x + (int64_t)h->at[a][i] * n;
  if (h->taps == 1) return r[0];
  real u = h->weight[0][i], v = h->weight[1][i];
  if (h->taps == 2) {
    for (int64_t k = 0; k < n; k++) y[k] = u * r[0][k] + v * r[1][k];
    return y;
  }
  real s = h->weight[2][i], t = h->weight[3][i];
  for (int64_t k = 0; k < n; k++)
    y[k] = u * r[0][k] + v * r[1][k] + s * r[2][k] + t * r[3][k];
  return y;
}

/* The same along a row, of pixels of several neighbours. */
static void sum_pixels(const side *w, int64_t inner, const real *x, real *y) {
  for (int64_t j = 0; j < w->out; j++, y += inner) {
    const real *at = x + (int64_t)w->at[0][j] * inner;
    if (w->taps == 1) {
      memcpy(y, at, (size_t)inner * sizeof *y);
      continue;
    }
    real weight = w->weight[0][j];
    for (int64_t c = 0; c < inner; c++) y[c] = weight * at[c];
    for (int a = 1; a < w->taps; a++) {
      at = x + (int64_t)w->at[a][j] * inner;
      weight = w->weight[a][j];
      for (int64_t c = 0; c < inner; c++) y[c] += weight * at[c];
    }
  }
}

static void sum_columns(const side *w, int64_t inner, const real *x, real *y) {
  const int32_t *p = w->at[0], *q = w->at[1], *r = w->at[2], *s = w->at[3];
  const real *t = w->weight[0], *u = w->weight[1], *v = w->weight[2];
  const real *z = w->weight[3];
  if (w->same)
    memcpy(y, x, (size_t)(w->out * inner) * sizeof *y);
  else if (inner > 1)
    sum_pixels(w, inner, x, y);
  else if (w->taps == 1)
    for (int64_t j = 0; j < w->out; j++) y[j] = x[p[j]];
  else if (w->taps == 2)
    for (int64_t j = 0; j < w->out; j++) y[j] = t[j] * x[p[j]] + u[j] * x[q[j]];
  else
    for (int64_t j = 0; j < w->out; j++)
      y[j] = t[j] * x[p[j]] + u[j] * x[q[j]] + v[j] * x[r[j]] + z[j] * x[s[j]];
}

static void forward_part(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const resample *r = shared;
  real *room = r->room + part * row_room(r);
  int64_t n = r->w.in * r->inner, m = r->w.out * r->inner, row, end;
  mrt_share(r->outer * r->h.out, part, parts, &row, &end);
  for (int64_t first = row; row < end; row++) {
    int64_t i = row % r->h.out, outer = row / r->h.out;
    real *y = r->to + row * m;
    if (r->h.taps == 1 && row > first && i > 0 &&
        r->h.at[0][i] == r->h.at[0][i - 1]) {
      memcpy(y, y - m, (size_t)m * sizeof *y);
      continue;
    }
    const real *x = r->from + outer * r->h.in * n;
    sum_columns(&r->w, r->inner, sum_rows(&r->h, i, x, n, room), y);
  }
}

/* ---- backward ------------------------------------------------------------ */

/* What a row of dy is worth to a row of x: in dx, or dy itself. */
static const real *spread(const side *w, int64_t inner, const real *dy,
                          real *dx) {
  if (w->same) return dy;
  memset(dx, 0, (size_t)(w->in * inner) * sizeof *dx);
  if (inner == 1 && w->taps == 1) {
    for (int64_t j = 0; j < w->out; j++) dx[w->at[0][j]] += dy[j];
    return dx;
  }
  for (int64_t j = 0; j < w->out; j++)
    for (int a = 0; a < w->taps; a++) {
      real *to = dx + (int64_t)w->at[a][j] * inner;
      const real *from = dy + j * inner;
      real weight = w->taps == 1 ? 1 : w->weight[a][j];
      for (int64_t c = 0; c < inner; c++) to[c] += weight * from[c];
    }
  return dx;
}

/* The first row of y that reads row `at` of x or one after it: what they read
 * does not go back. */
static int64_t first_reader(const side *h, int64_t at) {
  const int32_t *last = h->at[h->taps - 1];
  int64_t low = 0, high = h->out;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (last[middle] < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Rows [from, to) of dx, of one image. */
static void add_rows(const resample *r, int64_t outer, int64_t from, int64_t to,
                     real *room) {
  const side *h = &r->h;
  int64_t n = r->w.in * r->inner, m = r->w.out * r->inner;
  real *dx = r->to + outer * h->in * n;
  memset(dx + from * n, 0, (size_t)((to - from) * n) * sizeof *dx);
  for (int64_t i = first_reader(h, from); i < h->out && h->at[0][i] < to; i++) {
    const real *dy =
        spread(&r->w, r->inner, r->from + (outer * h->out + i) * m, room);
    for (int a = 0; a < h->taps; a++) {
      int64_t row = h->at[a][i];
      if (row < from || row >= to) continue;
      real *sum = dx + row * n, weight = h->taps == 1 ? 1 : h->weight[a][i];
      for (int64_t k = 0; k < n; k++) sum[k] += weight * dy[k];
    }
  }
}

static void backward_part(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const resample *r = shared;
  int64_t row, end, H = r->h.in;
  mrt_share(r->outer * H, part, parts, &row, &end);
  while (row < end) {
    int64_t outer = row / H, from = row % H;
    int64_t to = H - from < end - row ? H : from + end - row;
    add_rows(r, outer, from, to, r->room + part * row_room(r));
    row += to - from;
  }
}

/* ---- kernels ------------------------------------------------------------- */

static void run(const mrt_call *c, const mrt_type *x, const mrt_type *y,
                mrt_part *part) {
  const mrt_resample_options *o = c->options;
  resample r;
  set_up(c, x, y, &r);
  if (r.outer * r.inner == 0) return;
  fill(&r.h, o, o->scale_h);
  fill(&r.w, o, o->scale_w);
  r.from = c->in[0].data, r.to = c->out[0].data;
  double work = (double)mrt_type_count(x) + (double)mrt_type_count(y);
  mrt_parallel(c, mrt_team(c, work), part, &r);
}
static void forward(const mrt_call *c) {
  run(c, &c->in[0].type, &c->out[0].type, forward_part);
}
static void backward(const mrt_call *c) {
  run(c, &c->out[0].type, &c->in[0].type, backward_part);
}

static size_t bytes_of(const mrt_call *c, const mrt_type *x,
                       const mrt_type *y) {
  resample r;
  mrt_call without = *c;
  without.scratch = NULL;
  size_t tables = set_up(&without, x, y, &r);
  return tables + (size_t)(row_room(&r) * c->threads) * sizeof(real);
}
static size_t forward_scratch(const mrt_call *c) {
  return bytes_of(c, &c->in[0].type, &c->out[0].type);
}
static size_t backward_scratch(const mrt_call *c) {
  return bytes_of(c, &c->out[0].type, &c->in[0].type);
}

MRT_KERNEL(resample, .run = forward, .scratch = forward_scratch);
MRT_KERNEL(resample_grad, .run = backward, .scratch = backward_scratch);
