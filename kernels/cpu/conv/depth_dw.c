/* depth_dw.c -- depthwise: the gradient with respect to the weights
 *
 * dw[c,tap] is a sum over all places of y.  Threads share out the lines of y
 * and their sums are joined in the order of the threads.  Of a line, up to TAPS
 * places of a row of the kernel by a strip of channels are summed in registers
 * and then added to what earlier lines gave.  Of narrow floats, and what is
 * rounded, lines are made reals first (conv/lines.h).
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "conv/depth.h"
#include "conv/lines.h"

enum { TAPS = 3 };

typedef struct dw_depth {
  side h, w;
  int64_t N, C;
  int64_t whole, width; /* channels in whole vectors; C rounded up to vectors */
  const real *x, *dy;
  real *sums; /* of thread t at t taps width: [kh kw][width] */
  int team;
  bool copies; /* lines of x and dy */
  operands with;
} dw_depth;

/* A thread's lines, where they are copied. */
typedef struct depth_dw_room {
  conv_lines x;
  real *dy;
  int64_t *rows; /* of x at each row of the kernel */
} depth_dw_room;

/* A line of dy, and the row of x that it meets, at the first of some taps. */
typedef struct depth_dw_line {
  const real *x, *dy;
  int64_t step, across;      /* in x, from place to place and from tap to tap */
  int64_t at, stride, apart; /* the same in columns, and the first */
  int64_t size, count;       /* columns of x, places */
  int64_t from, to;          /* places inside x at each of the taps */
  int64_t C, width;
} depth_dw_line;

/* ---- sums ---------------------------------------------------------------- */

/* sum += dy x of place p, where it is inside x. */
INLINED void add_place(int vecs, int taps, bool whole, bool edge,
                       const depth_dw_line *l, int64_t p, int64_t c, int n,
                       vec sum[TAPS][VECS]) {
  const real *x = l->x + p * l->step + c, *dy = l->dy + p * l->C + c;
  vec d[VECS];
#pragma GCC unroll 4
  for (int v = 0; v < vecs; v++)
    d[v] = whole ? vec_load(dy + v * LANES) : load_some(dy, n);
#pragma GCC unroll 3
  for (int t = 0; t < taps; t++, x += l->across) {
    int64_t column = l->at + p * l->stride + t * l->apart;
    if (edge && (column < 0 || column >= l->size)) continue;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
      sum[t][v] += (whole ? vec_load(x + v * LANES) : load_some(x, n)) * d[v];
  }
}

/* Channels from c on are added to `to`. */
INLINED void add_line(int vecs, int taps, bool whole, const depth_dw_line *l,
                      int64_t c, int n, real *to) {
  vec sum[TAPS][VECS];
  int64_t p = 0;
#pragma GCC unroll 3
  for (int t = 0; t < taps; t++)
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) sum[t][v] = (vec){ 0 };
  for (; p < l->from; p++) add_place(vecs, taps, whole, true, l, p, c, n, sum);
  for (; p < l->to; p++) add_place(vecs, taps, whole, false, l, p, c, n, sum);
  for (; p < l->count; p++) add_place(vecs, taps, whole, true, l, p, c, n, sum);
#pragma GCC unroll 3
  for (int t = 0; t < taps; t++)
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
      real *at = to + t * l->width + v * LANES;
      vec_store(at, vec_load(at) + sum[t][v]);
    }
}

INLINED void add_taps(int vecs, const depth_dw_line *l, int taps, int64_t c,
                      real *to) {
  if (taps == 1) add_line(vecs, 1, true, l, c, LANES, to);
  if (taps == 2) add_line(vecs, 2, true, l, c, LANES, to);
  if (taps == 3) add_line(vecs, 3, true, l, c, LANES, to);
}

/* All channels; the last that do not fill a vector are in one that begins
 * earlier. */
static void add_channels(const dw_depth *d, const depth_dw_line *l, int taps,
                         real *to) {
  for (int t = 0; t < taps && d->C < LANES; t++) {
    depth_dw_line one = *l;
    one.x += t * l->across, one.at += t * l->apart, one.to = one.from = 0;
    add_line(1, 1, false, &one, 0, (int)d->C, to + t * l->width);
  }
  if (d->C < LANES) return;
  for (int64_t c = 0; c < d->whole; c += COLS) {
    int vecs = (int)least(VECS, (d->whole - c) / LANES);
    BY_VECS(vecs, add_taps, l, taps, c, to + c);
  }
  if (d->whole < d->C) add_taps(1, l, taps, d->C - LANES, to + d->whole);
}

/* ---- lines --------------------------------------------------------------- */

/* Places at which column `at` and the one of the last tap are inside x. */
static void set_inside(depth_dw_line *l, int64_t taps) {
  int64_t last = l->at + (taps - 1) * l->apart, left = l->size - last;
  l->from = l->at < 0 ? ceil_div(-l->at, l->stride) : 0;
  l->from = least(l->from, l->count);
  l->to = left > 0 ? least(l->count, ceil_div(left, l->stride)) : 0;
  l->to = most(l->from, l->to);
}

/* The lines of x that line `index` of dy meets, -1 outside. */
static void find_rows(const dw_depth *d, int64_t index, int64_t *rows) {
  int64_t n = index / d->h.y, i = index % d->h.y;
  for (int64_t a = 0; a < d->h.kernel; a++) {
    int64_t row = i * d->h.stride - d->h.padding + a * d->h.dilation;
    rows[a] = row < 0 || row >= d->h.x ? -1 : n * d->h.x + row;
  }
}

/* Line `index` of all images of dy. */
static void run_line(const dw_depth *d, int64_t index, depth_dw_room *r,
                     real *sums) {
  int64_t size = d->w.y * d->C;
  const real *x = d->x, *dy = d->dy + index * size;
  find_rows(d, index, r->rows);
  if (d->copies) {
    find_lines(&r->x, &d->with.a, r->rows, d->h.kernel);
    read_line(&d->with.b, index * size, size, r->dy);
    x = r->x.at, dy = r->dy;
  }
  for (int64_t a = 0; a < d->h.kernel; a++) {
    if (r->rows[a] < 0) continue;
    for (int64_t b = 0; b < d->w.kernel; b += TAPS) {
      int64_t taps = least(TAPS, d->w.kernel - b);
      depth_dw_line l = { .dy = dy,
                          .step = d->w.stride * d->C,
                          .across = d->w.dilation * d->C,
                          .at = b * d->w.dilation - d->w.padding,
                          .stride = d->w.stride,
                          .apart = d->w.dilation,
                          .size = d->w.x,
                          .count = d->w.y,
                          .C = d->C,
                          .width = d->width };
      l.x = x + (r->rows[a] * d->w.x + l.at) * d->C;
      set_inside(&l, taps);
      add_channels(d, &l, (int)taps, sums + (a * d->w.kernel + b) * d->width);
    }
  }
}

/* ---- the call ------------------------------------------------------------ */

static int64_t sum_reals(const dw_depth *d) {
  return d->h.kernel * d->w.kernel * d->width;
}

static dw_depth depth_of(const mrt_call *c) {
  const mrt_type *x = &c->in[0].type, *dy = &c->in[1].type;
  const mrt_type *w = &c->out[0].type;
  int64_t C = w->dims[0];
  return (dw_depth){ .h = side_of(c->options, 0, x, w, dy),
                     .w = side_of(c->options, 1, x, w, dy),
                     .N = x->dims[0],
                     .C = C,
                     .whole = C / LANES * LANES,
                     .width = round_up(C, LANES),
                     .x = c->in[0].data,
                     .dy = c->in[1].data,
                     .sums = c->scratch,
                     .team = c->threads,
                     .copies = reads_lines(c),
                     .with = wide_operands(c) };
}

static depth_dw_room carve(const dw_depth *d, uintptr_t *at) {
  int64_t slots = d->copies ? d->h.kernel : 0, x = d->w.x * d->C;
  int64_t dy = d->copies ? d->w.y * d->C : 0;
  depth_dw_room r = { .dy = (real *)take(at, dy, sizeof(real)),
                      .rows =
                          (int64_t *)take(at, d->h.kernel, sizeof(int64_t)) };
  r.x = (conv_lines){ .slots = slots,
                      .size = x,
                      .held = (int64_t *)take(at, slots, sizeof(int64_t)),
                      .taken = (int64_t *)take(at, slots, sizeof(int64_t)),
                      .at = (real *)take(at, slots * x, sizeof(real)) };
  return r;
}

static size_t sum_bytes(const dw_depth *d) {
  int64_t bytes = sum_reals(d) * d->team * (int64_t)sizeof(real);
  return (size_t)round_up(bytes, 64);
}

size_t mrt_depth_dw_bytes(const mrt_call *c) {
  dw_depth d = depth_of(c);
  uintptr_t end = 0;
  carve(&d, &end);
  return sum_bytes(&d) + (size_t)d.team * end;
}

static void run_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const dw_depth *d = shared;
  real *sums = d->sums + part * sum_reals(d);
  uintptr_t size = 0, at;
  carve(d, &size);
  at = (uintptr_t)d->sums + sum_bytes(d) + (uintptr_t)part * size;
  depth_dw_room r = carve(d, &at);
  int64_t from, to;
  forget_lines(&r.x);
  memset(sums, 0, (size_t)sum_reals(d) * sizeof *sums);
  mrt_share(d->N * d->h.y, part, parts, &from, &to);
  for (; from < to; from++) run_line(d, from, &r, sums);
}

/* dw of channel c: the parts' sums, in their order. */
static void join_channel(const dw_depth *d, int64_t c, const mrt_operand *dw) {
  int64_t taps = d->h.kernel * d->w.kernel, at = c;
  bool rounds = dw->type.dtype != MRT_REAL;
  if (c >= d->whole && d->C >= LANES) at += d->whole + LANES - d->C;
  for (int64_t t = 0; t < taps; t++) {
    real sum = d->sums[t * d->width + at];
    for (int k = 1; k < d->team; k++)
      sum += d->sums[k * sum_reals(d) + t * d->width + at];
    if (rounds)
      round_line(&d->with, dw, c * taps + t, 1, &sum);
    else
      ((real *)dw->data)[c * taps + t] = sum;
  }
}

static void join_parts(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const dw_depth *d = shared;
  int64_t from, to;
  mrt_share(d->C, part, parts, &from, &to);
  for (; from < to; from++) join_channel(d, from, &c->out[0]);
}

void mrt_depth_dw_run(const mrt_call *c) {
  dw_depth d = depth_of(c);
  double products = (double)mrt_type_count(&c->in[1].type) *
                    (double)(d.h.kernel * d.w.kernel);
  d.team = mrt_team(c, products / 30);
  mrt_parallel(c, d.team, run_part, &d);
  mrt_parallel(c, d.team, join_parts, &d);
}
