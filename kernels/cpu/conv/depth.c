/* depth.c -- depthwise convolutions forwards, and dx
 *
 * Threads share out the lines of y.  A tile is up to PLACES places of a line by
 * a strip of channels.  What is left of a line or of the channels is a tile
 * that begins earlier and makes some places again, to the same bits.  Of narrow
 * floats, and what is rounded, lines are made reals first (conv/lines.h).
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

/* Seven by four vectors fill 28 of 32 registers, seven by two 14 of 16, and
 * networks halve 224. */
enum { PLACES = 7, FEW = 3 };

typedef struct depth {
  side h, w; /* in the terms of conv2d */
  int64_t N, C;
  const real *x, *bias;
  const mrt_operand *y;
  const real *weights; /* [kh kw][C] */
  bool copies, rounds; /* lines of x, of y */
  operands with;
} depth;

/* Places [from, to) of a line. */
typedef struct places {
  int64_t from, to;
} places;

/* A thread's scratch. */
typedef struct depth_room {
  spot *h, *w;
  places *inside;
  int64_t *rows;
  conv_lines x;
  real *y; /* a line of it, where that is rounded */
} depth_room;

/* A line of y and what it is made from. */
typedef struct depth_line {
  axis h, w;
  places *inside; /* x at each spot of w */
  int64_t *rows;  /* of x at each spot of h, or -1 */
  int64_t i;      /* its place in h */
  int64_t C, kernel_w;
  const real *x, *weights, *bias; /* x: row 0 */
  real *y;                        /* of place 0 of w */
} depth_line;

/* Channels from c on: `vecs` vectors, of which only n lanes are there where C
 * does not fill one. */
typedef struct depth_strip {
  int64_t c;
  int vecs, n;
} depth_strip;

/* The strip of the channels from c on; the last that do not fill a vector are
 * in one that begins earlier. */
static depth_strip strip_at(int64_t c, int64_t C) {
  if (C < LANES) return (depth_strip){ 0, 1, (int)C };
  int vecs = (int)least(VECS, (C - c) / LANES);
  return vecs ? (depth_strip){ c, vecs, LANES }
              : (depth_strip){ C - LANES, 1, LANES };
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
INLINED void make_tile(int vecs, int rows, bool whole, const depth_line *l,
                       int64_t j, const depth_strip *s) {
  vec sum[PLACES][VECS];
  const real *x[PLACES];
#pragma GCC unroll 7
  for (int p = 0; p < rows; p++) {
    x[p] = l->x + (j + p) * l->w.step * l->C + s->c;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) sum[p][v] = (vec){ 0 };
  }
  for (int64_t a = 0; a < l->h.spots; a++) {
    int64_t i = l->rows[a];
    if (i < 0) continue;
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
INLINED void make_tiles(int vecs, const depth_line *l, const depth_strip *s) {
  int64_t j = 0, n = l->w.count;
  for (; n - j >= PLACES; j += PLACES) make_tile(vecs, PLACES, true, l, j, s);
  if (n - j > FEW && n >= PLACES)
    make_tile(vecs, PLACES, true, l, n - PLACES, s), j = n;
  for (; j < n && n >= FEW; j += FEW)
    make_tile(vecs, FEW, true, l, least(j, n - FEW), s);
  for (; j < n; j++) make_tile(vecs, 1, true, l, j, s);
}

static void make_strip(const depth_line *l, const depth_strip *s) {
  if (s->n == LANES)
    BY_VECS(s->vecs, make_tiles, l, s);
  else
    for (int64_t j = 0; j < l->w.count; j++) make_tile(1, 1, false, l, j, s);
}

/* ---- lines --------------------------------------------------------------- */

static void make_line(const depth_line *l) {
  for (int64_t b = 0; b < l->w.spots; b++) {
    int64_t at = l->w.spot[b].at, left = l->w.size - at;
    int64_t to = left > 0 ? ceil_div(left, l->w.step) : 0;
    l->inside[b].from = at < 0 ? ceil_div(-at, l->w.step) : 0;
    l->inside[b].to = least(to, l->w.count);
  }
  for (int64_t c = 0; c < l->C;) {
    depth_strip s = strip_at(c, l->C);
    make_strip(l, &s);
    c = s.c + (int64_t)s.vecs * LANES;
  }
}

/* Where the rows of x lie that the line meets in image n. */
static void find_rows(const depth *d, depth_room *r, int64_t n, depth_line *l) {
  int64_t H = l->h.size;
  for (int64_t a = 0; a < l->h.spots; a++) {
    int64_t i = l->i * l->h.step + l->h.spot[a].at;
    r->rows[a] = i < 0 || i >= H ? -1 : d->copies ? n * H + i : i;
  }
  l->rows = r->rows;
  l->x = d->x + n * H * l->w.size * l->C;
  if (!d->copies) return;
  find_lines(&r->x, &d->with.a, r->rows, l->h.spots);
  l->x = r->x.at;
}

/* Line `index` of y, `size` elements. */
static real *line_of_y(const depth *d, const depth_room *r, int64_t index,
                       int64_t size) {
  return d->rounds ? r->y : (real *)d->y->data + index * size;
}
static void end_line(const depth *d, const depth_room *r, int64_t index,
                     int64_t size) {
  if (d->rounds) round_line(&d->with, d->y, index * size, size, r->y);
}

/* Line `index` of all images of y. */
static void run_forwards(const depth *d, int64_t index, depth_room *r) {
  int64_t H = d->h.y, n = index / H;
  depth_line l = { .h = axis_forward(&d->h, r->h),
                   .w = axis_forward(&d->w, r->w),
                   .inside = r->inside,
                   .i = index % H,
                   .C = d->C,
                   .kernel_w = d->w.kernel,
                   .weights = d->weights,
                   .bias = d->bias,
                   .y = line_of_y(d, r, index, d->w.y * d->C) };
  find_rows(d, r, n, &l);
  make_line(&l);
  end_line(d, r, index, d->w.y * d->C);
}

/* The same of dx: places of a line that are equal modulo the stride at once. */
static void run_back(const depth *d, int64_t index, depth_room *r) {
  int64_t H = d->h.x, n = index / H, i = index % H;
  depth_line l = { .h = axis_back(&d->h, i % d->h.stride, r->h),
                   .inside = r->inside,
                   .i = i / d->h.stride,
                   .C = d->C,
                   .kernel_w = d->w.kernel,
                   .weights = d->weights };
  real *y = line_of_y(d, r, index, d->w.x * d->C);
  l.w.size = d->w.y;
  find_rows(d, r, n, &l);
  for (int64_t rest = 0; rest < classes_of(&d->w); rest++) {
    l.w = axis_back(&d->w, rest, r->w);
    l.y = y + rest * d->C;
    make_line(&l);
  }
  end_line(d, r, index, d->w.x * d->C);
}

/* ---- the call ------------------------------------------------------------ */

static int64_t taps_of(const mrt_call *c) {
  return c->in[1].type.dims[2] * c->in[1].type.dims[3];
}
static int64_t weight_bytes(const mrt_call *c) {
  int64_t count = taps_of(c) * c->in[1].type.dims[0];
  return round_up(count * (int64_t)sizeof(real), 64);
}
/* Elements of a line of an image. */
static int64_t line_size(const mrt_operand *x) {
  return x->type.dims[2] * x->type.dims[3];
}

static depth_room carve(const mrt_call *c, uintptr_t *at) {
  const int64_t *kernel = c->in[1].type.dims + 2;
  int64_t slots = reads_lines(c) ? kernel[0] : 0, x = line_size(&c->in[0]);
  int64_t y = rounds_lines(c) ? line_size(&c->out[0]) : 0;
  depth_room r = { .h = (spot *)take(at, kernel[0], sizeof(spot)),
                   .w = (spot *)take(at, kernel[1], sizeof(spot)),
                   .inside = (places *)take(at, kernel[1], sizeof(places)),
                   .rows = (int64_t *)take(at, kernel[0], sizeof(int64_t)),
                   .y = (real *)take(at, y, sizeof(real)) };
  r.x = (conv_lines){ .slots = slots,
                      .size = x,
                      .held = (int64_t *)take(at, slots, sizeof(int64_t)),
                      .taken = (int64_t *)take(at, slots, sizeof(int64_t)),
                      .at = (real *)take(at, slots * x, sizeof(real)) };
  return r;
}

static int64_t room_bytes(const mrt_call *c) {
  uintptr_t end = 0;
  carve(c, &end);
  return (int64_t)end;
}
static int64_t shared_bytes(const mrt_call *c) {
  return (int64_t)bias_bytes(c) + weight_bytes(c);
}

size_t mrt_depth_bytes(const mrt_call *c) {
  return (size_t)(shared_bytes(c) + c->threads * room_bytes(c));
}

/* Weights of channels [from, end) as reals [taps][C]. */
static void read_weights(const mrt_call *c, const depth *d, int64_t from,
                         int64_t end, real *to) {
  enum { SOME = 64 };
  const real *w = c->in[1].data;
  int64_t taps = taps_of(c);
  for (; from < end; from++)
    for (int64_t t = 0; t < taps; t += SOME) {
      real room[SOME];
      const real *x = w + from * taps + t;
      int64_t n = least(SOME, taps - t);
      if (d->copies) read_line(&d->with.b, from * taps + t, n, room), x = room;
      for (int64_t i = 0; i < n; i++) to[(t + i) * d->C + from] = x[i];
    }
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
                  .bias = bias_of(c),
                  .y = &c->out[0],
                  .weights = (real *)((char *)c->scratch + bias_bytes(c)),
                  .copies = reads_lines(c),
                  .rounds = rounds_lines(c),
                  .with = wide_operands(c) };
}

typedef struct depth_run {
  const depth *depth;
  int64_t lines;
  real *packed;
  bool back;
} depth_run;

static depth_room room_of(const mrt_call *c, int part) {
  uintptr_t at = (uintptr_t)c->scratch + (uintptr_t)shared_bytes(c) +
                 (uintptr_t)(part * room_bytes(c));
  return carve(c, &at);
}

static void pack_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const depth_run *r = shared;
  int64_t from, to;
  mrt_share(r->depth->C, part, parts, &from, &to);
  read_weights(c, r->depth, from, to, r->packed);
}

static void run_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const depth_run *r = shared;
  depth_room room = room_of(c, part);
  int64_t from, to;
  forget_lines(&room.x);
  mrt_share(r->lines, part, parts, &from, &to);
  for (; from < to; from++)
    (r->back ? run_back : run_forwards)(r->depth, from, &room);
}

void mrt_depth_run(const mrt_call *c, bool back) {
  depth d = depth_of(c, back);
  int64_t taps = taps_of(c), count = d.N * (back ? d.h.x : d.h.y);
  real *packed = (real *)((char *)c->scratch + bias_bytes(c));
  read_bias(c);
  int team =
      mrt_team(c, (double)mrt_type_count(&c->out[0].type) * (double)taps / 30);
  depth_run r = { &d, count, packed, back };
  mrt_parallel(c, team, pack_part, &r);
  mrt_parallel(c, team, run_part, &r);
}
