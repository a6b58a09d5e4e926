/* pool.c -- the largest and the mean of windows of images, channels last
 *
 * Threads share out the lines of the image that is written.  Gradients gather:
 * a place of dx asks every window that it is in, so that no two threads write
 * to one place and sums have one order.  Channels are side by side, so inner
 * loops are vectors; images of one channel are pool_planes.c's.
 *
 * SPDX-License-Identifier: MIT */
#include "pool.h"

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

/* A window, and its row (column) that reads some place of x; tap = kernel:
 * there are no more. */
typedef struct pool_tap {
  int64_t tap, window;
} pool_tap;

/* The first from `tap` on that reads place i, where rows are apart. */
static pool_tap seek_tap(const pool_side *s, int64_t i, int64_t tap) {
  for (; tap < s->kernel; tap++) {
    int64_t at = i + s->padding - tap * s->dilation;
    if (at < 0) break;
    if (at % s->stride == 0 && at / s->stride < s->y)
      return (pool_tap){ tap, at / s->stride };
  }
  return (pool_tap){ s->kernel, -1 };
}
/* The same where they are not: windows come one before the other. */
static inline pool_tap tap_inside(const pool_side *s, pool_tap t) {
  for (; t.window >= s->y; t.window--) t.tap += s->stride;
  if (t.window < 0 || t.tap > s->kernel) t.tap = s->kernel;
  return t;
}
static inline pool_tap first_of(const pool_side *s, int64_t i) {
  if (s->dilation != 1) return seek_tap(s, i, 0);
  int64_t at = i + s->padding, window = at / s->stride;
  return tap_inside(s, (pool_tap){ at - window * s->stride, window });
}
static inline pool_tap next_of(const pool_side *s, int64_t i, pool_tap t) {
  if (s->dilation != 1) return seek_tap(s, i, t.tap + 1);
  return tap_inside(s, (pool_tap){ t.tap + s->stride, t.window - 1 });
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

/* Where nothing is larger than -inf, the index is that of the first inside x. */
static ireal first_tap(const pool *p, const pool_place *at) {
  int64_t a = 0, b = 0;
  while (a < p->h.kernel && reads_at(&p->h, at->i, a) < 0) a++;
  while (b < p->w.kernel && reads_at(&p->w, at->j, b) < 0) b++;
  return (ireal)(a % p->h.kernel * p->w.kernel + b % p->w.kernel);
}

static void max_at(const mrt_call *call, const pool *p, const pool_place *at) {
  const mrt_operand *x = &call->in[0], *y = &call->out[0];
  int64_t to = offset_y(p, at, at->i, at->j);
  real room[2][BLOCK], *most = mrt_reals_place(y, to, room[0]);
  ireal index[BLOCK], first = first_tap(p, at);
  for (int64_t c = 0; c < at->n; c++) most[c] = -MRT_INF, index[c] = first;
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

/* dx += dy where the index, n values from `from` on, points at this tap. */
static void add_pointed(const mrt_operand *index, int64_t from, int64_t n,
                        int64_t tap, const real *dy, real *dx) {
  const uint8_t *narrow = (const uint8_t *)index->data + from;
  const int32_t *wide = (const int32_t *)index->data + from;
  if (index->type.dtype == MRT_u8)
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
      dx[c] += (ireal)narrow[c] == (ireal)tap ? dy[c] : 0;
  else
    for (int64_t c = 0; c < n; c++) dx[c] += wide[c] == tap ? dy[c] : 0;
}

static void max_grad_at(const mrt_call *call, const pool *p,
                        const pool_place *at) {
  const pool_side *h = &p->h, *w = &p->w;
  int64_t to = offset_x(p, at, at->i, at->j);
  real room[2][BLOCK], *dx = mrt_reals_place(&call->out[0], to, room[0]);
  memset(dx, 0, (size_t)at->n * sizeof *dx);
  for (pool_tap a = first_of(h, at->i); a.tap < h->kernel;
       a = next_of(h, at->i, a))
    for (pool_tap b = first_of(w, at->j); b.tap < w->kernel;
         b = next_of(w, at->j, b)) {
      int64_t from = offset_y(p, at, a.window, b.window);
      const real *dy = mrt_reals_in(&call->in[0], from, at->n, room[1]);
      add_pointed(&call->in[1], from, at->n, a.tap * w->kernel + b.tap, dy, dx);
    }
  mrt_reals_out(&call->out[0], to, at->n, dx);
}

/* ---- means --------------------------------------------------------------- */

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
  const pool_side *h = &p->h, *w = &p->w;
  int64_t to = offset_x(p, at, at->i, at->j);
  real room[2][BLOCK], *dx = mrt_reals_place(&call->out[0], to, room[0]);
  memset(dx, 0, (size_t)at->n * sizeof *dx);
  for (pool_tap a = first_of(h, at->i); a.tap < h->kernel;
       a = next_of(h, at->i, a))
    for (pool_tap b = first_of(w, at->j); b.tap < w->kernel;
         b = next_of(w, at->j, b)) {
      const real *from = mrt_reals_in(
          &call->in[0], offset_y(p, at, a.window, b.window), at->n, room[1]);
      real by = divisor(p, a.window, b.window);
      for (int64_t c = 0; c < at->n; c++) dx[c] += from[c] / by;
    }
  mrt_reals_out(&call->out[0], to, at->n, dx);
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

typedef void planes_fn(const mrt_call *c, const pool *p);

static void forwards(const mrt_call *c, pool p, place_fn *visit,
                     planes_fn *planes) {
  if (mrt_pool_planes(c, &p))
    planes(c, &p);
  else
    each_place(c, &p, p.h.y, p.w.y, visit);
}
static void backwards(const mrt_call *c, pool p, place_fn *visit) {
  if (mrt_pool_planes(c, &p))
    mrt_pool_planes_back(c, &p);
  else
    each_place(c, &p, p.h.x, p.w.x, visit);
}

static pool from_x(const mrt_call *c) {
  return pool_of(c, &c->in[0], &c->out[0]);
}
static pool from_y(const mrt_call *c) {
  return pool_of(c, &c->out[0], &c->in[0]);
}
static void adaptive(const mrt_call *c) {
  forwards(c, sizes_of(&c->in[0], &c->out[0]), adaptive_at,
           mrt_pool_planes_mean);
}
static void adaptive_grad(const mrt_call *c) {
  backwards(c, sizes_of(&c->out[0], &c->in[0]), adaptive_grad_at);
}
static void adaptive_max(const mrt_call *c) {
  forwards(c, sizes_of(&c->in[0], &c->out[0]), adaptive_max_at,
           mrt_pool_planes_max);
}
static void max(const mrt_call *c) {
  forwards(c, from_x(c), max_at, mrt_pool_planes_max);
}
static void pick(const mrt_call *c) {
  forwards(c, from_x(c), pick_at, mrt_pool_planes_pick);
}
static void avg(const mrt_call *c) {
  forwards(c, from_x(c), avg_at, mrt_pool_planes_mean);
}
static void max_grad(const mrt_call *c) {
  backwards(c, from_y(c), max_grad_at);
}
static void avg_grad(const mrt_call *c) {
  backwards(c, from_y(c), avg_grad_at);
}

MRT_KERNEL(max_pool2d, .run = max);
MRT_KERNEL(max_pool2d_pick, .run = pick);
MRT_KERNEL(max_pool2d_grad, .run = max_grad);
MRT_KERNEL(avg_pool2d, .run = avg);
MRT_KERNEL(avg_pool2d_grad, .run = avg_grad);
MRT_KERNEL(adaptive_avg_pool2d, .run = adaptive);
MRT_KERNEL(adaptive_avg_pool2d_grad, .run = adaptive_grad);
MRT_KERNEL(adaptive_max_pool2d, .run = adaptive_max);
