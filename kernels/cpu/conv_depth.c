/* conv_depth.c -- depthwise convolutions forwards, and dx
 *
 * Threads share out the lines of y.  A tile is up to PLACES places of a line by
 * a strip of channels.  What is left of a line or of the channels is a tile
 * that begins earlier and makes some places again, to the same bits.
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "conv_depth.h"
#include "conv_tile.h"

/* Seven by four vectors fill 28 of 32 registers, seven by two 14 of 16, and
 * networks halve 224. */
enum { PLACES = 7, FEW = 3 };

typedef struct depth {
  side h, w; /* in the terms of conv2d */
  int64_t N, C;
  const real *x, *bias;
  real *y;
  const real *weights; /* [kh kw][C] */
} depth;

/* Places [from, to) of a line. */
typedef struct places {
  int64_t from, to;
} places;

/* A thread's scratch. */
typedef struct room {
  spot *h, *w;
  places *inside;
} room;

/* A line of y and what it is made from. */
typedef struct line {
  axis h, w;
  places *inside; /* x at each spot of w */
  int64_t i;      /* its place in h */
  int64_t C, kernel_w;
  const real *x, *weights, *bias; /* x: its image */
  real *y;                        /* of place 0 of w */
} line;

/* Channels from c on: `vecs` vectors, of which only n lanes are there where C
 * does not fill one. */
typedef struct strip {
  int64_t c;
  int vecs, n;
} strip;

/* The strip of the channels from c on; the last that do not fill a vector are
 * in one that begins earlier. */
static strip strip_at(int64_t c, int64_t C) {
  if (C < LANES) return (strip){ 0, 1, (int)C };
  int vecs = (int)least(VECS, (C - c) / LANES);
  return vecs ? (strip){ c, vecs, LANES } : (strip){ C - LANES, 1, LANES };
}

/* ---- tiles --------------------------------------------------------------- */

/* One spot of the kernel for `rows` places, of which [from, to) are inside x.
 *  vecs, rows, whole, edge are constants. */
INLINED void add_spot(int vecs, int rows, bool whole, bool edge, int64_t from,
                      int64_t to, const real *const *x, int64_t offset,
                      const real *w, int n, vec sum[PLACES][VECS]) {
  vec k[VECS];
#pragma GCC unroll 4
  for (int v = 0; v < vecs; v++)
    k[v] = whole ? vec_load(w + v * LANES) : load_some(w, n);
#pragma GCC unroll 7
  for (int p = 0; p < rows; p++) {
    if (edge && (p < from || p >= to)) continue;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
      const real *at = x[p] + (offset + v * LANES);
      sum[p][v] += (whole ? vec_load(at) : load_some(at, n)) * k[v];
    }
  }
}

/* `rows` places from j on. */
INLINED void make_tile(int vecs, int rows, bool whole, const line *l, int64_t j,
                       const strip *s) {
  vec sum[PLACES][VECS];
  const real *x[PLACES];
#pragma GCC unroll 7
  for (int p = 0; p < rows; p++) {
    x[p] = l->x + (j + p) * l->w.step * l->C + s->c;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) sum[p][v] = (vec){ 0 };
  }
  for (int64_t a = 0; a < l->h.spots; a++) {
    int64_t i = l->i * l->h.step + l->h.spot[a].at;
    if (i < 0 || i >= l->h.size) continue;
    for (int64_t b = 0; b < l->w.spots; b++) {
      int64_t offset = (i * l->w.size + l->w.spot[b].at) * l->C;
      int64_t tap = l->h.spot[a].tap * l->kernel_w + l->w.spot[b].tap;
      int64_t from = l->inside[b].from - j, to = l->inside[b].to - j;
      const real *w = l->weights + tap * l->C + s->c;
      if (from <= 0 && to >= rows)
        add_spot(vecs, rows, whole, false, from, to, x, offset, w, s->n, sum);
      else
        add_spot(vecs, rows, whole, true, from, to, x, offset, w, s->n, sum);
    }
  }
  if (l->bias) {
    const real *bias = l->bias + s->c;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
      vec b = whole ? vec_load(bias + v * LANES) : load_some(bias, s->n);
#pragma GCC unroll 7
      for (int p = 0; p < rows; p++) sum[p][v] += b;
    }
  }
  real *y = l->y + j * l->w.every * l->C + s->c;
  int64_t every = l->w.every * l->C;
  int n = whole ? LANES : s->n;
#pragma GCC unroll 7
  for (int p = 0; p < rows; p++, y += every)
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
      put(y + v * LANES, sum[p][v], n, NULL, false);
}

/* All places of the line. */
INLINED void make_tiles(int vecs, const line *l, const strip *s) {
  int64_t j = 0, n = l->w.count;
  for (; n - j >= PLACES; j += PLACES) make_tile(vecs, PLACES, true, l, j, s);
  if (n - j > FEW && n >= PLACES)
    make_tile(vecs, PLACES, true, l, n - PLACES, s), j = n;
  for (; j < n && n >= FEW; j += FEW)
    make_tile(vecs, FEW, true, l, least(j, n - FEW), s);
  for (; j < n; j++) make_tile(vecs, 1, true, l, j, s);
}

static void make_strip(const line *l, const strip *s) {
  if (s->n == LANES)
    BY_VECS(s->vecs, make_tiles, l, s);
  else
    for (int64_t j = 0; j < l->w.count; j++) make_tile(1, 1, false, l, j, s);
}

/* ---- lines --------------------------------------------------------------- */

static void make_line(const line *l) {
  for (int64_t b = 0; b < l->w.spots; b++) {
    int64_t at = l->w.spot[b].at, left = l->w.size - at;
    int64_t to = left > 0 ? ceil_div(left, l->w.step) : 0;
    l->inside[b].from = at < 0 ? ceil_div(-at, l->w.step) : 0;
    l->inside[b].to = least(to, l->w.count);
  }
  for (int64_t c = 0; c < l->C;) {
    strip s = strip_at(c, l->C);
    make_strip(l, &s);
    c = s.c + (int64_t)s.vecs * LANES;
  }
}

/* Line `index` of all images of y. */
static void run_forwards(const depth *d, int64_t index, const room *r) {
  int64_t H = d->h.y, n = index / H;
  line l = { .h = axis_forward(&d->h, r->h),
             .w = axis_forward(&d->w, r->w),
             .inside = r->inside,
             .i = index % H,
             .C = d->C,
             .kernel_w = d->w.kernel,
             .x = d->x + n * d->h.x * d->w.x * d->C,
             .weights = d->weights,
             .bias = d->bias,
             .y = d->y + index * d->w.y * d->C };
  make_line(&l);
}

/* The same of dx: places of a line that are equal modulo the stride at once. */
static void run_back(const depth *d, int64_t index, const room *r) {
  int64_t H = d->h.x, n = index / H, i = index % H;
  line l = { .h = axis_back(&d->h, i % d->h.stride, r->h),
             .inside = r->inside,
             .i = i / d->h.stride,
             .C = d->C,
             .kernel_w = d->w.kernel,
             .x = d->x + n * d->h.y * d->w.y * d->C,
             .weights = d->weights };
  for (int64_t rest = 0; rest < classes_of(&d->w); rest++) {
    l.w = axis_back(&d->w, rest, r->w);
    l.y = d->y + (index * d->w.x + rest) * d->C;
    make_line(&l);
  }
}

/* ---- the call ------------------------------------------------------------ */

static int64_t taps_of(const mrt_call *c) {
  return c->in[1].type.dims[2] * c->in[1].type.dims[3];
}
static int64_t weight_bytes(const mrt_call *c) {
  int64_t count = taps_of(c) * c->in[1].type.dims[0];
  return round_up(count * (int64_t)sizeof(real), 64);
}
static int64_t room_bytes(const mrt_call *c) {
  const int64_t *kernel = c->in[1].type.dims + 2;
  int64_t bytes = (kernel[0] + kernel[1]) * (int64_t)sizeof(spot);
  return round_up(bytes + kernel[1] * (int64_t)sizeof(places), 64);
}
static room room_of(const mrt_call *c, int part) {
  const int64_t *kernel = c->in[1].type.dims + 2;
  char *at = (char *)c->scratch + weight_bytes(c) + part * room_bytes(c);
  spot *h = (spot *)at, *w = h + kernel[0];
  return (room){ h, w, (places *)(w + kernel[1]) };
}

size_t mrt_depth_bytes(const mrt_call *c) {
  return (size_t)(weight_bytes(c) + c->threads * room_bytes(c));
}

static depth depth_of(const mrt_call *c, bool back) {
  const mrt_type *x = &c->in[0].type, *w = &c->in[1].type;
  const mrt_type *y = &c->out[0].type;
  if (back) x = &c->out[0].type, y = &c->in[0].type;
  return (depth){ .h = side_of(c->options, 0, x, w, y),
                  .w = side_of(c->options, 1, x, w, y),
                  .N = x->dims[0],
                  .C = w->dims[0],
                  .x = c->in[0].data,
                  .bias = c->nin == 3 ? c->in[2].data : NULL,
                  .y = c->out[0].data,
                  .weights = c->scratch };
}

void mrt_depth_run(const mrt_call *c, bool back) {
  depth d = depth_of(c, back);
  int64_t taps = taps_of(c), lines = d.N * (back ? d.h.x : d.h.y);
  const real *w = c->in[1].data;
  real *packed = c->scratch;
  int team =
      mrt_team(c, (double)mrt_type_count(&c->out[0].type) * (double)taps / 30);
#pragma omp parallel num_threads(team)
  {
    int me = omp_get_thread_num();
    room r = room_of(c, me);
    int64_t from, to;
#pragma omp for schedule(static)
    for (int64_t t = 0; t < taps; t++)
      for (int64_t i = 0; i < d.C; i++) packed[t * d.C + i] = w[i * taps + t];
    mrt_share(lines, me, omp_get_num_threads(), &from, &to);
    for (; from < to; from++) (back ? run_back : run_forwards)(&d, from, &r);
  }
}
