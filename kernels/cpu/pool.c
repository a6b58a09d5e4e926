/* pool.c -- the largest and the mean of windows of images, channels last
 *
 * Threads share out the lines of the image that is written.  Gradients gather:
 * a place of dx asks every window that it is in, so that no two threads write
 * to one place and sums have one order.  Channels are side by side, so inner
 * loops are vectors.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"
#include "op/window.h"

typedef struct pool_side {
  int64_t x, y, kernel, stride, padding, dilation;
} pool_side;

typedef struct pool {
  pool_side h, w;
  int64_t N, C;
  bool count_padding;
} pool;

/* Only sizes, for windows that follow from them. */
static pool sizes_of(const mrt_operand *x, const mrt_operand *y) {
  const int64_t *in = x->type.dims, *out = y->type.dims;
  return (pool){ .h = { .x = in[1], .y = out[1], .kernel = in[1] / out[1] + 1 },
                 .w = { .x = in[2], .y = out[2], .kernel = in[2] / out[2] + 1 },
                 .N = in[0],
                 .C = in[3] };
}

static pool_side side_of(const mrt_pool_options *o, int i, const mrt_type *x,
                         const mrt_type *y) {
  return (pool_side){ x->dims[1 + i],  y->dims[1 + i],   o->kernel.at[i],
                      o->stride.at[i], o->padding.at[i], o->dilation.at[i] };
}

static pool pool_of(const mrt_call *c, const mrt_operand *x,
                    const mrt_operand *y) {
  const mrt_pool_options *o = c->options;
  return (pool){ .h = side_of(o, 0, &x->type, &y->type),
                 .w = side_of(o, 1, &x->type, &y->type),
                 .N = x->type.dims[0],
                 .C = x->type.dims[3],
                 .count_padding = o->count_include_pad };
}

/* Where row (column) `tap` of window i reads x, or -1 outside. */
static inline int64_t reads_at(const pool_side *s, int64_t i, int64_t tap) {
  int64_t at = i * s->stride + tap * s->dilation - s->padding;
  return at < s->x ? at : -1;
}
/* The window of which row (column) `tap` reads place i of x, or -1. */
static inline int64_t read_by(const pool_side *s, int64_t i, int64_t tap) {
  int64_t at = i + s->padding - tap * s->dilation;
  if (at < 0 || at % s->stride != 0) return -1;
  return at / s->stride < s->y ? at / s->stride : -1;
}

/* ---- one place ----------------------------------------------------------- */

enum { BLOCK = 256 }; /* channels at a time */

/* A place that is computed: channels [c, c + n) of image `image`, row i,
 * column j. */
typedef struct pool_place {
  int64_t image, i, j, c, n;
} pool_place;
typedef void place_fn(const mrt_call *call, const pool *p,
                      const pool_place *at);

static int64_t offset_x(const pool *p, const pool_place *at, int64_t i,
                        int64_t j) {
  return ((at->image * p->h.x + i) * p->w.x + j) * p->C + at->c;
}
static int64_t offset_y(const pool *p, const pool_place *at, int64_t i,
                        int64_t j) {
  return ((at->image * p->h.y + i) * p->w.y + j) * p->C + at->c;
}

static void take_larger(const real *x, int64_t n, ireal tap, real *most,
                        ireal *index) {
  for (int64_t c = 0; c < n; c++) {
    bool larger = x[c] > most[c] || x[c] != x[c];
    most[c] = larger ? x[c] : most[c];
    index[c] = larger ? tap : index[c];
  }
}

static void max_at(const mrt_call *call, const pool *p, const pool_place *at) {
  const mrt_operand *x = &call->in[0], *y = &call->out[0];
  int64_t to = offset_y(p, at, at->i, at->j);
  real room[2][BLOCK], *most = mrt_reals_place(y, to, room[0]);
  ireal index[BLOCK] = { 0 };
  for (int64_t c = 0; c < at->n; c++) most[c] = -MRT_INF;
  for (int64_t a = 0; a < p->h.kernel; a++) {
    int64_t i = reads_at(&p->h, at->i, a);
    for (int64_t b = 0; i >= 0 && b < p->w.kernel; b++) {
      int64_t j = reads_at(&p->w, at->j, b);
      if (j < 0) continue;
      take_larger(mrt_reals_in(x, offset_x(p, at, i, j), at->n, room[1]), at->n,
                  (ireal)(a * p->w.kernel + b), most, index);
    }
  }
  mrt_reals_out(y, to, at->n, most);
  if (call->out[1].type.dtype == MRT_u8)
    for (int64_t c = 0; c < at->n; c++)
      ((uint8_t *)call->out[1].data)[to + c] = (uint8_t)index[c];
  else
    for (int64_t c = 0; c < at->n; c++)
      ((int32_t *)call->out[1].data)[to + c] = (int32_t)index[c];
}

/* Is this tap the one that index points at?  For n channels from `from` on. */
static void points_at(const mrt_operand *index, int64_t from, int64_t n,
                      int64_t tap, bool *is) {
  const uint8_t *narrow = (const uint8_t *)index->data + from;
  const int32_t *wide = (const int32_t *)index->data + from;
  if (index->type.dtype == MRT_u8)
    for (int64_t c = 0; c < n; c++) is[c] = narrow[c] == tap;
  else
    for (int64_t c = 0; c < n; c++) is[c] = wide[c] == tap;
}

static void pick_at(const mrt_call *call, const pool *p, const pool_place *at) {
  const mrt_operand *x = &call->in[0];
  int64_t to = offset_y(p, at, at->i, at->j);
  real room[2][BLOCK], *y = mrt_reals_place(&call->out[0], to, room[0]);
  bool here[BLOCK];
  memset(y, 0, (size_t)at->n * sizeof *y);
  for (int64_t a = 0; a < p->h.kernel; a++) {
    int64_t i = reads_at(&p->h, at->i, a);
    for (int64_t b = 0; i >= 0 && b < p->w.kernel; b++) {
      int64_t j = reads_at(&p->w, at->j, b);
      if (j < 0) continue;
      const real *from = mrt_reals_in(x, offset_x(p, at, i, j), at->n, room[1]);
      points_at(&call->in[1], to, at->n, a * p->w.kernel + b, here);
      for (int64_t c = 0; c < at->n; c++) y[c] = here[c] ? from[c] : y[c];
    }
  }
  mrt_reals_out(&call->out[0], to, at->n, y);
}

static void max_grad_at(const mrt_call *call, const pool *p,
                        const pool_place *at) {
  int64_t to = offset_x(p, at, at->i, at->j);
  real room[2][BLOCK], *dx = mrt_reals_place(&call->out[0], to, room[0]);
  bool here[BLOCK];
  memset(dx, 0, (size_t)at->n * sizeof *dx);
  for (int64_t a = 0; a < p->h.kernel; a++) {
    int64_t i = read_by(&p->h, at->i, a);
    for (int64_t b = 0; i >= 0 && b < p->w.kernel; b++) {
      int64_t j = read_by(&p->w, at->j, b);
      if (j < 0) continue;
      int64_t from = offset_y(p, at, i, j);
      points_at(&call->in[1], from, at->n, a * p->w.kernel + b, here);
      const real *dy = mrt_reals_in(&call->in[0], from, at->n, room[1]);
      for (int64_t c = 0; c < at->n; c++) dx[c] += here[c] ? dy[c] : 0;
    }
  }
  mrt_reals_out(&call->out[0], to, at->n, dx);
}

/* ---- means --------------------------------------------------------------- */

/* Rows (columns) of window i: those inside x, or those inside x and padding. */
static int64_t extent(const pool_side *s, int64_t i, bool padding) {
  int64_t from = i * s->stride - s->padding, to = from + s->kernel;
  if (to > s->x + s->padding) to = s->x + s->padding;
  if (padding) return to - from;
  return (to < s->x ? to : s->x) - (from > 0 ? from : 0);
}
/* What a mean over the window divides by. */
static real divisor(const pool *p, int64_t i, int64_t j) {
  int64_t n =
      extent(&p->h, i, p->count_padding) * extent(&p->w, j, p->count_padding);
  return (real)(n ? n : 1); /* of an image of size 0 */
}

static void avg_at(const mrt_call *call, const pool *p, const pool_place *at) {
  const mrt_operand *x = &call->in[0];
  int64_t to = offset_y(p, at, at->i, at->j);
  real room[2][BLOCK], *y = mrt_reals_place(&call->out[0], to, room[0]);
  memset(y, 0, (size_t)at->n * sizeof *y);
  for (int64_t a = 0; a < p->h.kernel; a++) {
    int64_t i = reads_at(&p->h, at->i, a);
    for (int64_t b = 0; i >= 0 && b < p->w.kernel; b++) {
      int64_t j = reads_at(&p->w, at->j, b);
      if (j < 0) continue;
      const real *from = mrt_reals_in(x, offset_x(p, at, i, j), at->n, room[1]);
      for (int64_t c = 0; c < at->n; c++) y[c] += from[c];
    }
  }
  real by = divisor(p, at->i, at->j);
  for (int64_t c = 0; c < at->n; c++) y[c] /= by;
  mrt_reals_out(&call->out[0], to, at->n, y);
}

static void avg_grad_at(const mrt_call *call, const pool *p,
                        const pool_place *at) {
  int64_t to = offset_x(p, at, at->i, at->j);
  real room[2][BLOCK], *dx = mrt_reals_place(&call->out[0], to, room[0]);
  memset(dx, 0, (size_t)at->n * sizeof *dx);
  for (int64_t a = 0; a < p->h.kernel; a++) {
    int64_t i = read_by(&p->h, at->i, a);
    for (int64_t b = 0; i >= 0 && b < p->w.kernel; b++) {
      int64_t j = read_by(&p->w, at->j, b);
      if (j < 0) continue;
      const real *from =
          mrt_reals_in(&call->in[0], offset_y(p, at, i, j), at->n, room[1]);
      real by = divisor(p, i, j);
      for (int64_t c = 0; c < at->n; c++) dx[c] += from[c] / by;
    }
  }
  mrt_reals_out(&call->out[0], to, at->n, dx);
}

/* Window i of `to` that share out `from` places; the other way round, the
 * windows that place i is in. */
typedef struct pool_span {
  int64_t first, end;
} pool_span;
static pool_span span_of(int64_t i, int64_t from, int64_t to) {
  return (pool_span){ i * from / to, ((i + 1) * from + to - 1) / to };
}

static void adaptive_at(const mrt_call *call, const pool *p,
                        const pool_place *at) {
  int64_t to = offset_y(p, at, at->i, at->j);
  real room[2][BLOCK], *y = mrt_reals_place(&call->out[0], to, room[0]);
  pool_span h = span_of(at->i, p->h.x, p->h.y),
            w = span_of(at->j, p->w.x, p->w.y);
  real by = (real)((h.end - h.first) * (w.end - w.first));
  memset(y, 0, (size_t)at->n * sizeof *y);
  for (int64_t i = h.first; i < h.end; i++)
    for (int64_t j = w.first; j < w.end; j++) {
      const real *from =
          mrt_reals_in(&call->in[0], offset_x(p, at, i, j), at->n, room[1]);
      for (int64_t c = 0; c < at->n; c++) y[c] += from[c];
    }
  for (int64_t c = 0; c < at->n; c++) y[c] /= by;
  mrt_reals_out(&call->out[0], to, at->n, y);
}

static void adaptive_max_at(const mrt_call *call, const pool *p,
                            const pool_place *at) {
  int64_t to = offset_y(p, at, at->i, at->j);
  int64_t *index = (int64_t *)call->out[1].data + to;
  real room[2][BLOCK], *y = mrt_reals_place(&call->out[0], to, room[0]);
  pool_span h = span_of(at->i, p->h.x, p->h.y),
            w = span_of(at->j, p->w.x, p->w.y);
  for (int64_t c = 0; c < at->n; c++)
    y[c] = -MRT_INF, index[c] = h.first * p->w.x + w.first;
  for (int64_t i = h.first; i < h.end; i++)
    for (int64_t j = w.first; j < w.end; j++) {
      const real *from =
          mrt_reals_in(&call->in[0], offset_x(p, at, i, j), at->n, room[1]);
      for (int64_t c = 0; c < at->n; c++) {
        bool larger = from[c] > y[c] || from[c] != from[c];
        y[c] = larger ? from[c] : y[c];
        index[c] = larger ? i * p->w.x + j : index[c];
      }
    }
  mrt_reals_out(&call->out[0], to, at->n, y);
}

static void adaptive_grad_at(const mrt_call *call, const pool *p,
                             const pool_place *at) {
  int64_t to = offset_x(p, at, at->i, at->j);
  real room[2][BLOCK], *dx = mrt_reals_place(&call->out[0], to, room[0]);
  pool_span h = span_of(at->i, p->h.y, p->h.x),
            w = span_of(at->j, p->w.y, p->w.x);
  memset(dx, 0, (size_t)at->n * sizeof *dx);
  for (int64_t i = h.first; i < h.end; i++)
    for (int64_t j = w.first; j < w.end; j++) {
      pool_span a = span_of(i, p->h.x, p->h.y), b = span_of(j, p->w.x, p->w.y);
      real by = (real)((a.end - a.first) * (b.end - b.first));
      const real *from =
          mrt_reals_in(&call->in[0], offset_y(p, at, i, j), at->n, room[1]);
      for (int64_t c = 0; c < at->n; c++) dx[c] += from[c] / by;
    }
  mrt_reals_out(&call->out[0], to, at->n, dx);
}

/* ---- kernels ------------------------------------------------------------- */

/* What is visited: H lines of W places in each image. */
typedef struct pool_places {
  const pool *pool;
  int64_t H, W, lines;
  place_fn *visit;
} pool_places;

static void visit_part(const mrt_call *call, const void *shared, int part,
                       int parts) {
  const pool_places *s = shared;
  int64_t C = s->pool->C, line, end;
  mrt_share(s->lines, part, parts, &line, &end);
  for (; line < end; line++)
    for (int64_t j = 0; j < s->W; j++)
      for (int64_t c = 0; c < C; c += BLOCK) {
        int64_t n = C - c < BLOCK ? C - c : BLOCK;
        s->visit(call, s->pool,
                 &(pool_place){ line / s->H, line % s->H, j, c, n });
      }
}

static void each_place(const mrt_call *call, const pool *p, int64_t H,
                       int64_t W, place_fn *visit) {
  int64_t lines = p->C ? p->N * H : 0;
  double work = (double)lines * (double)W * (double)p->C;
  int team = mrt_team(call, work * (double)(p->h.kernel * p->w.kernel) / 8);
  pool_places s = { p, H, W, lines, visit };
  mrt_parallel(call, team, visit_part, &s);
}

static void forwards(const mrt_call *c, place_fn *visit) {
  pool p = pool_of(c, &c->in[0], &c->out[0]);
  each_place(c, &p, p.h.y, p.w.y, visit);
}
static void backwards(const mrt_call *c, place_fn *visit) {
  pool p = pool_of(c, &c->out[0], &c->in[0]);
  each_place(c, &p, p.h.x, p.w.x, visit);
}

static void adaptive(const mrt_call *c) {
  pool p = sizes_of(&c->in[0], &c->out[0]);
  each_place(c, &p, p.h.y, p.w.y, adaptive_at);
}
static void adaptive_grad(const mrt_call *c) {
  pool p = sizes_of(&c->out[0], &c->in[0]);
  each_place(c, &p, p.h.x, p.w.x, adaptive_grad_at);
}
static void adaptive_max(const mrt_call *c) {
  pool p = sizes_of(&c->in[0], &c->out[0]);
  each_place(c, &p, p.h.y, p.w.y, adaptive_max_at);
}
static void max(const mrt_call *c) { forwards(c, max_at); }
static void pick(const mrt_call *c) { forwards(c, pick_at); }
static void avg(const mrt_call *c) { forwards(c, avg_at); }
static void max_grad(const mrt_call *c) { backwards(c, max_grad_at); }
static void avg_grad(const mrt_call *c) { backwards(c, avg_grad_at); }

MRT_KERNEL(max_pool2d, .run = max);
MRT_KERNEL(max_pool2d_pick, .run = pick);
MRT_KERNEL(max_pool2d_grad, .run = max_grad);
MRT_KERNEL(avg_pool2d, .run = avg);
MRT_KERNEL(avg_pool2d_grad, .run = avg_grad);
MRT_KERNEL(adaptive_avg_pool2d, .run = adaptive);
MRT_KERNEL(adaptive_avg_pool2d_grad, .run = adaptive_grad);
MRT_KERNEL(adaptive_max_pool2d, .run = adaptive_max);
