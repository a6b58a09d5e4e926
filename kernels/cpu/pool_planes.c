/* pool_planes.c -- windows of images of one channel: planes
 *
 * Nothing is side by side but the places of a line.  Where a line of y is long,
 * one place of all its windows is read at a time: a vector.  Where it is short,
 * windows of several planes are gone through together, a place at a time, and
 * rows of wide windows are searched for what is larger than all before.  Sums
 * have the order that they have in pool.c, and so the same bits.  Gradients
 * scatter, a plane at a time, in the order in which pool.c gathers.
 *
 * SPDX-License-Identifier: MIT */
#include "pool.h"

enum {
  LINE = 512, /* columns of y together */
  SHORT = 16, /* a line of y of fewer is gone through window by window */
  TAPS = 64,  /* as is one of wider windows */
  GROUP = 8,  /* planes together */
  LONG = 16   /* rows of windows as wide are searched, so many at a time */
};

bool mrt_pool_planes(const mrt_call *c, const pool *p) {
  return p->C == 1 && !mrt_any_narrow(c) && p->h.x * p->w.x <= INT32_MAX;
}

/* ---- windows --------------------------------------------------------------- */

/* The rows (columns) of a window that are inside x: n from `at` on, `step`
 * apart; `tap` of them are outside before. */
typedef struct reach {
  int64_t at, n, step, tap;
} reach;

static reach reach_of(const pool_side *s, int64_t i) {
  if (s->stride == 0) {
    pool_span span = span_of(i, s->x, s->y);
    return (reach){ span.first, span.end - span.first, 1, 0 };
  }
  int64_t from = i * s->stride - s->padding, d = s->dilation;
  int64_t tap = from < 0 ? -from : 0, end = s->x - from;
  if (d != 1) tap = (tap + d - 1) / d, end = (end + d - 1) / d;
  if (end > s->kernel) end = s->kernel;
  if (tap >= end) return (reach){ 0, 0, d, 0 };
  return (reach){ from + tap * d, end - tap, d, tap };
}

/* Columns [from, to) of y whose windows have their tap b inside x. */
typedef struct tap_columns {
  int64_t from, to;
} tap_columns;

static tap_columns columns_of(const pool_side *s, int64_t b) {
  int64_t shift = s->padding - b * s->dilation; /* column j reads j s - shift */
  int64_t last = s->x - 1 + shift;
  tap_columns c = { shift > 0 ? (shift + s->stride - 1) / s->stride : 0,
                    last < 0 ? 0 : last / s->stride + 1 };
  if (c.to > s->y) c.to = s->y;
  return c;
}

static real divisor_of(const pool *p, int64_t i, int64_t j, const reach *h,
                       const reach *w) {
  return p->w.stride ? divisor(p, i, j) : (real)(h->n * w->n);
}

/* What is noted of a place: its tap, or where it is in an image whose windows
 * follow from sizes. */
static ireal note_of(const pool *p, const reach *h, const reach *w,
                     int64_t row) {
  if (p->w.stride == 0) return (ireal)((h->at + row) * p->w.x + w->at);
  return (ireal)((h->tap + row) * p->w.kernel + w->tap);
}

static __attribute__((noinline)) void note(const mrt_operand *index, int64_t at,
                                           int64_t n, const ireal *from) {
  void *to = index->data;
  if (index->type.dtype == MRT_u8)
    for (int64_t j = 0; j < n; j++) ((uint8_t *)to)[at + j] = (uint8_t)from[j];
  else if (index->type.dtype == MRT_i32)
    for (int64_t j = 0; j < n; j++) ((int32_t *)to)[at + j] = (int32_t)from[j];
  else
    for (int64_t j = 0; j < n; j++) ((int64_t *)to)[at + j] = from[j];
}

/* ---- a line of y, a tap at a time ------------------------------------------ */

/* Columns [j0, j0 + n) of line i of y, and the image x that they are of. */
typedef struct line {
  const pool *p;
  const tap_columns *taps;
  const real *x;
  int64_t i, j0, n;
} line;

static tap_columns within(const line *l, int64_t b) {
  tap_columns c = l->taps[b];
  if (c.from < l->j0) c.from = l->j0;
  if (c.to > l->j0 + l->n) c.to = l->j0 + l->n;
  return c;
}

/* Every `stride`th of x side by side. */
static void pack(const real *x, int64_t stride, int64_t n, real *room) {
  if (stride == 2)
    for (int64_t j = 0; j < n; j++) room[j] = x[2 * j];
  else
    for (const real *end = room + n; room < end; x += stride) *room++ = *x;
}

static void add_tap(const real *x, int64_t n, real *y) {
  for (int64_t j = 0; j < n; j++) y[j] += x[j];
}

static void larger_tap(const real *x, int64_t n, ireal tap, real *most,
                       ireal *index) {
  for (int64_t j = 0; j < n; j++) {
    bool larger = x[j] > most[j] || x[j] != x[j];
    most[j] = larger ? x[j] : most[j];
    index[j] = larger ? tap : index[j];
  }
}

/* y of them, and index, where there is one. */
static void line_taps(const line *l, real *y, ireal *index) {
  const pool_side *s = &l->p->w;
  reach h = reach_of(&l->p->h, l->i);
  real room[LINE];
  for (int64_t a = 0; a < h.n; a++) {
    const real *row = l->x + (h.at + a * h.step) * s->x;
    for (int64_t b = 0; b < s->kernel; b++) {
      tap_columns in = within(l, b);
      if (in.from >= in.to) continue;
      const real *x = row + in.from * s->stride + b * s->dilation - s->padding;
      int64_t at = in.from - l->j0, n = in.to - in.from;
      ireal tap = (ireal)((h.tap + a) * s->kernel + b);
      if (s->stride != 1) pack(x, s->stride, n, room), x = room;
      if (index)
        larger_tap(x, n, tap, y + at, index + at);
      else
        add_tap(x, n, y + at);
    }
  }
}

/* The first tap inside x, should none be larger than -inf. */
static void first_taps(const line *l, ireal *index) {
  const pool_side *s = &l->p->w;
  reach h = reach_of(&l->p->h, l->i);
  for (int64_t j = 0; j < l->n; j++) index[j] = (ireal)(h.tap * s->kernel);
  for (int64_t j = 0; j < l->n && (l->j0 + j) * s->stride < s->padding; j++)
    index[j] += (ireal)reach_of(s, l->j0 + j).tap;
}

/* By the same number, but at the ends. */
static void divide(const line *l, real *y) {
  int64_t from = within(l, 0).from - l->j0;
  int64_t to = within(l, l->p->w.kernel - 1).to - l->j0;
  for (int64_t j = 0, end; j < l->n; j = end) {
    end = j >= from && j < to ? to : j + 1;
    real by = divisor(l->p, l->i, l->j0 + j);
    for (int64_t k = j; k < end; k++) y[k] /= by;
  }
}

static void max_line(const mrt_call *c, const line *l, int64_t to) {
  real *y = (real *)c->out[0].data + to;
  ireal index[LINE];
  for (int64_t j = 0; j < l->n; j++) y[j] = -MRT_INF;
  first_taps(l, index);
  line_taps(l, y, index);
  note(&c->out[1], to, l->n, index);
}

static void mean_line(const mrt_call *c, const line *l, int64_t to) {
  real *y = (real *)c->out[0].data + to;
  memset(y, 0, (size_t)l->n * sizeof *y);
  line_taps(l, y, NULL);
  divide(l, y);
}

/* ---- a window of several planes -------------------------------------------- */

/* Window i, j of planes [first, first + n): `x` of each, the last repeated. */
typedef struct windows {
  const pool *p;
  const real *x[GROUP];
  int64_t first, n, i, j;
  reach h, w;
} windows;

static const real *place_in(const windows *g, int k, int64_t a) {
  return g->x[k] + (g->h.at + a * g->h.step) * g->p->w.x + g->w.at;
}

static void max_together(const windows *g, real *most, ireal *index) {
  for (int64_t a = 0; a < g->h.n; a++) {
    const real *x[GROUP];
    ireal tap = note_of(g->p, &g->h, &g->w, a);
    for (int k = 0; k < GROUP; k++) x[k] = place_in(g, k, a);
    for (int64_t b = 0; b < g->w.n; b++) {
      real v[GROUP];
      for (int k = 0; k < GROUP; k++) v[k] = x[k][b * g->w.step];
      for (int k = 0; k < GROUP; k++) {
        bool larger = v[k] > most[k] || v[k] != v[k];
        most[k] = larger ? v[k] : most[k];
        index[k] = larger ? tap + (ireal)b : index[k];
      }
    }
  }
}

/* Is any of LONG elements larger, or NaN? */
static bool any_larger(const real *x, real most) {
  ireal any = 0;
  for (int k = 0; k < LONG; k++) any |= !(x[k] <= most);
  return any;
}

static void search(const real *x, ireal tap, real *most, ireal *index) {
  for (int b = 0; b < LONG; b++)
    if (x[b] > *most || x[b] != x[b]) *most = x[b], *index = tap + b;
}

static void max_alone(const windows *g, int k, real *most, ireal *index) {
  real best = *most; /* nothing else points at it */
  for (int64_t a = 0; a < g->h.n; a++) {
    const real *x = place_in(g, k, a);
    ireal tap = note_of(g->p, &g->h, &g->w, a);
    int64_t b = 0;
    for (; b < g->w.n; b += LONG) { /* the last ones perhaps again */
      if (b > g->w.n - LONG) b = g->w.n - LONG;
      if (any_larger(x + b, best)) search(x + b, tap + (ireal)b, &best, index);
    }
  }
  *most = best;
}

static void max_windows(const mrt_call *c, const windows *g) {
  real most[GROUP];
  ireal index[GROUP];
  for (int k = 0; k < GROUP; k++)
    most[k] = -MRT_INF, index[k] = note_of(g->p, &g->h, &g->w, 0);
  if (g->w.n < LONG || g->w.step != 1)
    max_together(g, most, index);
  else
    for (int k = 0; k < g->n; k++) max_alone(g, k, &most[k], &index[k]);
  for (int64_t k = 0; k < g->n; k++) {
    int64_t at = ((g->first + k) * g->p->h.y + g->i) * g->p->w.y + g->j;
    ((real *)c->out[0].data)[at] = most[k];
    note(&c->out[1], at, 1, &index[k]);
  }
}

static void mean_windows(const mrt_call *c, const windows *g) {
  real sum[GROUP] = { 0 }, by = divisor_of(g->p, g->i, g->j, &g->h, &g->w);
  for (int64_t a = 0; a < g->h.n; a++) {
    const real *x[GROUP];
    for (int k = 0; k < GROUP; k++) x[k] = place_in(g, k, a);
    for (int64_t b = 0; b < g->w.n; b++)
      for (int k = 0; k < GROUP; k++) sum[k] += x[k][b * g->w.step];
  }
  for (int64_t k = 0; k < g->n; k++) {
    int64_t at = ((g->first + k) * g->p->h.y + g->i) * g->p->w.y + g->j;
    ((real *)c->out[0].data)[at] = sum[k] / by;
  }
}

/* ---- all of y -------------------------------------------------------------- */

typedef void line_fn(const mrt_call *c, const line *l, int64_t to);
typedef void windows_fn(const mrt_call *c, const windows *g);

typedef struct forward {
  const pool *p;
  line_fn *line;
  windows_fn *windows;
  int64_t count; /* of lines, or of lines of groups */
} forward;

static void each_line(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const forward *f = shared;
  const pool *p = f->p;
  tap_columns taps[TAPS];
  int64_t k, end;
  mrt_share(f->count, part, parts, &k, &end);
  for (int64_t b = 0; b < p->w.kernel; b++) taps[b] = columns_of(&p->w, b);
  for (; k < end; k++) {
    line l = { .p = p, .taps = taps, .i = k % p->h.y };
    l.x = (const real *)c->in[0].data + k / p->h.y * p->h.x * p->w.x;
    for (; l.j0 < p->w.y; l.j0 += LINE) {
      l.n = p->w.y - l.j0 < LINE ? p->w.y - l.j0 : LINE;
      f->line(c, &l, k * p->w.y + l.j0);
    }
  }
}

static void each_window(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const forward *f = shared;
  const pool *p = f->p;
  int64_t t, end;
  mrt_share(f->count, part, parts, &t, &end);
  for (; t < end; t++) {
    windows g = { .p = p, .first = t / p->h.y * GROUP, .i = t % p->h.y };
    g.n = p->N - g.first < GROUP ? p->N - g.first : GROUP;
    g.h = reach_of(&p->h, g.i);
    for (int64_t k = 0; k < GROUP; k++)
      g.x[k] = (const real *)c->in[0].data +
               (g.first + (k < g.n ? k : g.n - 1)) * p->h.x * p->w.x;
    for (; g.j < p->w.y; g.j++) {
      g.w = reach_of(&p->w, g.j);
      f->windows(c, &g);
    }
  }
}

static void each(const mrt_call *c, const pool *p, line_fn *line,
                 windows_fn *windows) {
  bool lines = p->w.stride && p->w.y >= SHORT && p->w.kernel <= p->w.y &&
               p->w.kernel <= TAPS;
  forward f = { p, line, windows, p->N };
  if (!lines) f.count = (f.count + GROUP - 1) / GROUP;
  f.count *= p->h.y;
  double work = (double)p->N * (double)(p->h.y * p->w.y);
  work *= (double)(p->h.kernel * p->w.kernel);
  int team = mrt_team(c, work / (lines ? 8 : 2));
  mrt_parallel(c, team, lines ? each_line : each_window, &f);
}

void mrt_pool_planes_max(const mrt_call *c, const pool *p) {
  each(c, p, max_line, max_windows);
}
void mrt_pool_planes_mean(const mrt_call *c, const pool *p) {
  each(c, p, mean_line, mean_windows);
}

/* ---- back ------------------------------------------------------------------ */

static int64_t index_at(const mrt_operand *index, int64_t at) {
  return index->type.dtype == MRT_u8 ? ((const uint8_t *)index->data)[at]
                                     : ((const int32_t *)index->data)[at];
}

/* The place in its image that the index of window i, j points at, or -1. */
static int64_t pointed(const pool *p, int64_t tap, int64_t i, int64_t j) {
  int64_t a = tap / p->w.kernel, b = tap % p->w.kernel;
  int64_t row = i * p->h.stride + a * p->h.dilation - p->h.padding;
  int64_t column = j * p->w.stride + b * p->w.dilation - p->w.padding;
  bool inside = row >= 0 && row < p->h.x && column >= 0 && column < p->w.x;
  return inside ? row * p->w.x + column : -1;
}

static void pick_planes(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const pool *p = shared;
  int64_t k, end;
  mrt_share(p->N * p->h.y, part, parts, &k, &end);
  for (; k < end; k++) {
    const real *x = c->in[0].data;
    x += k / p->h.y * p->h.x * p->w.x;
    for (int64_t j = 0, to = k * p->w.y; j < p->w.y; j++, to++) {
      int64_t at = pointed(p, index_at(&c->in[1], to), k % p->h.y, j);
      ((real *)c->out[0].data)[to] = at < 0 ? 0 : x[at];
    }
  }
}

void mrt_pool_planes_pick(const mrt_call *c, const pool *p) {
  double work = (double)p->N * (double)(p->h.y * p->w.y);
  mrt_parallel(c, mrt_team(c, work * 4), pick_planes, p);
}

/* dx += dy of window i, j of means. */
static void spread(const pool *p, int64_t i, int64_t j, real dy, real *dx) {
  reach h = reach_of(&p->h, i), w = reach_of(&p->w, j);
  real each = dy / divisor_of(p, i, j, &h, &w);
  for (int64_t a = 0; a < h.n; a++) {
    real *row = dx + (h.at + a * h.step) * p->w.x + w.at;
    for (int64_t b = 0; b < w.n; b++) row[b * w.step] += each;
  }
}

/* Windows that follow from sizes are added from the first on, others from the
 * last: the order of pool.c. */
static void back_plane(const mrt_call *c, const pool *p, int64_t n) {
  int64_t H = p->h.y, W = p->w.y, from = n * H * W;
  const real *dy = (const real *)c->in[0].data + from;
  real *dx = (real *)c->out[0].data + n * p->h.x * p->w.x;
  memset(dx, 0, (size_t)(p->h.x * p->w.x) * sizeof *dx);
  if (c->nin == 2) {
    for (int64_t k = H * W; k-- > 0;) {
      int64_t at = pointed(p, index_at(&c->in[1], from + k), k / W, k % W);
      if (at >= 0) dx[at] += dy[k];
    }
  } else if (p->w.stride == 0) {
    for (int64_t k = 0; k < H * W; k++) spread(p, k / W, k % W, dy[k], dx);
  } else {
    for (int64_t k = H * W; k-- > 0;) spread(p, k / W, k % W, dy[k], dx);
  }
}

static void back_planes(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const pool *p = shared;
  int64_t n, end;
  mrt_share(p->N, part, parts, &n, &end);
  for (; n < end; n++) back_plane(c, p, n);
}

void mrt_pool_planes_back(const mrt_call *c, const pool *p) {
  double work = (double)p->N * (double)(p->h.x * p->w.x);
  mrt_parallel(c, mrt_team(c, work * 2), back_planes, p);
}
