/* dw.c -- the gradient of a convolution with respect to its weights
 *
 * dw[o,c,tap] is a sum over all places of y: dy's channels fill vectors, x's
 * are taken one by one.  A tile is ROWS channels of x by a strip of dy's for
 * one tap; tiles are shared out among threads, so that every sum is made by one
 * thread, in one order.  A thread takes as many tiles at a time as its cache
 * holds, and for them
 *
 *     for blocks of places of y
 *       for strips of dy                  copy the strip
 *         for taps of the kernel          list the stretches of places at which
 *                                         the tap is inside the image
 *           for tiles of the tap          add to the tile
 *
 * Of narrow floats, and what is rounded, the stretches of a tap are copied as
 * units, pairs of places with dot products: conv/dw_mixed.h.
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "conv/amx.h"
#include "conv/depth.h"
#include "conv/operands.h"
#include "conv/products.h"
#include "conv/winograd.h"

enum {
  UNITS = 64, /* of a block: its strip of dy is 16 KiB with AVX-512 */
  TILE = ROWS * COLS,
  TILES = 192 * 1024 / (TILE * (int)sizeof(real)) /* of a chunk: 192 KiB */
};

/* `count` places (units of them, where x is copied) from x on, and from row
 * `dy` of the block. */
typedef struct stretch {
  const char *x;
  int64_t dy, count;
} stretch;

typedef struct dw_conv {
  side h, w;
  int64_t N, groups, k, n; /* channels of x, dy in a group */
  int64_t x_c, y_c;        /* in all */
  int64_t tall;            /* tiles that the channels of x make */
  int64_t x_bytes;         /* of an element */
  const char *x;
  const void *dy;
  void *dw;
  bool mixed, lines; /* lines: conv/dw_lines.h */
  operands with;
} dw_conv;

/* A thread's scratch. */
typedef struct dw_work {
  real *dy;    /* [UNITS][COLS] */
  real *tiles; /* [TILES][ROWS][COLS] */
  stretch *stretches;
  real *reads; /* of a tap, or lines of x, as units */
  stretch *copied;
  int64_t first_line; /* of x, in reads */
} dw_work;

/* Tiles [from, to) of a group of channels: by strip, tap, channels of x. */
typedef struct chunk {
  int64_t group, from, to;
} chunk;

/* One of them: channels [k, k + rows) of x, columns [n, n + count) of dy. */
typedef struct dw_tile {
  int64_t tap, k, n;
  int rows, count, width;
} dw_tile;

static void set_columns(const dw_conv *c, dw_tile *t, int64_t n) {
  t->n = n;
  t->count = (int)least(COLS, c->n - n);
  t->width = (int)round_up(t->count, LANES);
}
static void set_rows(const dw_conv *c, dw_tile *t, int64_t k) {
  t->k = k;
  t->rows = (int)least(ROWS, c->k - k);
}

static dw_tile tile_of(const dw_conv *c, int64_t i) {
  int64_t taps = c->h.kernel * c->w.kernel;
  dw_tile t = { .tap = i / c->tall % taps };
  set_columns(c, &t, i / c->tall / taps * COLS);
  set_rows(c, &t, i % c->tall * ROWS);
  return t;
}
static void advance(const dw_conv *c, dw_tile *t) {
  set_rows(c, t, t->k + ROWS);
  if (t->k < c->k) return;
  set_rows(c, t, 0);
  if (++t->tap < c->h.kernel * c->w.kernel) return;
  t->tap = 0;
  set_columns(c, t, t->n + COLS);
}

/* Channels of x that a chunk reads at a tap. */
static int64_t read_channels(const dw_conv *c) {
  return round_up(least(c->k, TILES * ROWS), LANES);
}

/* Places of y in a block. */
static int64_t places_of(const dw_conv *c) {
  return UNITS * most(1, c->with.each);
}

static int64_t reals_of_lines(const dw_conv *c);

static dw_work carve(const dw_conv *c, uintptr_t *at) {
  dw_work w = { .dy = (real *)*at };
  w.tiles = w.dy + UNITS * COLS;
  w.reads = w.tiles + TILES * TILE;
  w.stretches = (stretch *)w.reads;
  int64_t reads =
      c->lines ? round_up(reals_of_lines(c), LANES) : UNITS * read_channels(c);
  if (c->mixed) w.stretches = (stretch *)(w.reads + reads);
  w.copied = w.stretches + places_of(c);
  *at = (uintptr_t)(w.copied + (c->mixed ? places_of(c) : 0));
  *at = (uintptr_t)round_up((int64_t)*at, 64);
  return w;
}

/* ---- tiles --------------------------------------------------------------- */

/* rows and vecs are constants, so that the sums are registers. */
INLINED void add_products(int vecs, int rows, const stretch *s, int count,
                          int64_t c, int64_t step, const real *dy, real *to) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  for (; count--; s++) {
    const real *x = (const real *)s->x + c, *d = dy + s->dy * vecs * LANES;
    for (int64_t p = 0; p < s->count; p++, x += step, d += vecs * LANES) {
      vec y[VECS];
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++) y[j] = vec_load(d + j * LANES);
#pragma GCC unroll 6
      for (int i = 0; i < rows; i++) {
        vec xi = vec_all(x[i]);
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++) sum[i][j] += xi * y[j];
      }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) {
      real *at = to + (i * vecs + j) * LANES;
      vec_store(at, vec_load(at) + sum[i][j]);
    }
}

INLINED void add_rows(int vecs, int rows, const stretch *s, int count,
                      int64_t c, int64_t step, const real *dy, real *to) {
  if (rows == ROWS) add_products(vecs, ROWS, s, count, c, step, dy, to);
  if (rows == 1) add_products(vecs, 1, s, count, c, step, dy, to);
  if (rows == 2) add_products(vecs, 2, s, count, c, step, dy, to);
  if (rows == 3) add_products(vecs, 3, s, count, c, step, dy, to);
  if (rows == 4) add_products(vecs, 4, s, count, c, step, dy, to);
  if (rows == 5) add_products(vecs, 5, s, count, c, step, dy, to);
}

#include "conv/dw_mixed.h"

#include "conv/dw_lines.h"

/* ---- stretches ----------------------------------------------------------- */

/* [*from, *to) of y at which offset `at` is inside x. */
static void inside(const side *s, int64_t at, int64_t *from, int64_t *to) {
  *from = at < 0 ? ceil_div(-at, s->stride) : 0;
  *to = at < s->x ? least(s->y, (s->x - 1 - at) / s->stride + 1) : 0;
}

/* The stretches of places [p, end) for a tap; how many there are.  One that
 * goes on where the last ended is joined to it. */
static int list_stretches(const dw_conv *c, const chunk *of, int64_t tap,
                          int64_t p, int64_t end, stretch *list) {
  int64_t a = tap / c->w.kernel, b = tap % c->w.kernel, from, to;
  int64_t down = a * c->h.dilation - c->h.padding;
  int64_t right = b * c->w.dilation - c->w.padding;
  int64_t step = c->w.stride * c->x_c * c->x_bytes;
  int64_t group = of->group * c->k * c->x_bytes;
  int count = 0;
  inside(&c->w, right, &from, &to);
  for (int64_t line = p / c->w.y; line * c->w.y < end; line++) {
    int64_t start = line * c->w.y, n = line / c->h.y;
    int64_t i = line % c->h.y * c->h.stride + down;
    int64_t first = most(p, start + from), last = least(end, start + to);
    if (i < 0 || i >= c->h.x || first >= last) continue;
    int64_t j = (first - start) * c->w.stride + right;
    int64_t place = (n * c->h.x + i) * c->w.x + j;
    const char *x = c->x + place * c->x_c * c->x_bytes + group;
    stretch *before = count ? &list[count - 1] : NULL;
    if (before && before->x + before->count * step == x &&
        before->dy + before->count == first - p)
      before->count += last - first;
    else
      list[count++] = (stretch){ x, first - p, last - first };
  }
  return count;
}

#include "conv/dw_store.h"

/* ---- a chunk ------------------------------------------------------------- */

static void copy_strip(const dw_conv *c, const chunk *of, const dw_tile *t,
                       int64_t p, int64_t end, real *to) {
  const real *from = (const real *)c->dy + p * c->y_c + of->group * c->n + t->n;
  for (; p < end; p++, from += c->y_c, to += t->width)
    for (int j = 0; j < t->width; j += LANES)
      vec_store(to + j, t->count - j >= LANES
                            ? vec_load(from + j)
                            : load_some(from + j, t->count - j));
}

static void add_block(const dw_conv *c, const chunk *of, int64_t p, int64_t end,
                      dw_work *w) {
  int64_t step = c->w.stride * c->x_c, base = 0;
  const stretch *list = c->mixed ? w->copied : w->stretches;
  int count = 0;
  dw_tile t = tile_of(c, of->from);
  if (c->lines) pair_lines(c, of, p, end, w), step = c->k;
  for (int64_t i = of->from; i < of->to; i++, advance(c, &t)) {
    real *to = w->tiles + (i - of->from) * TILE;
    int vecs = t.width / LANES;
    bool first = i == of->from || t.k == 0;
    if (first && (i == of->from || t.tap == 0))
      (c->mixed ? copy_units : copy_strip)(c, of, &t, p, end, w->dy);
    if (first && c->lines)
      count = list_lines(c, t.tap, p, end, w);
    else if (first)
      count = list_stretches(c, of, t.tap, p, end, w->stretches);
    if (first && c->mixed && !c->lines) {
      base = t.k, step = least(c->k - base, (of->to - i) * ROWS);
      count = copy_reads(c, base, step, count, w);
    }
    if (c->mixed && c->with.each > 1)
      run_dots(vecs, t.rows, list, count, t.k - base, step, w->dy, to);
    else
      BY_VECS(vecs, add_rows, t.rows, list, count, t.k - base, step, w->dy, to);
  }
}

static void store(const dw_conv *c, const chunk *of, const real *tiles) {
  for (int64_t i = of->from, run; i < of->to; i += run, tiles += run * TILE) {
    dw_tile t = tile_of(c, i);
    run = least(of->to - i, c->tall - t.k / ROWS);
    store_rows(c, of, &t, least(run * ROWS, c->k - t.k), tiles);
  }
}

static void run_chunk(const dw_conv *c, const chunk *of, dw_work *w) {
  int64_t places = c->N * c->h.y * c->w.y, block = places_of(c);
  memset(w->tiles, 0, (size_t)((of->to - of->from) * TILE) * sizeof(real));
  for (int64_t p = 0; p < places; p += block)
    add_block(c, of, p, least(p + block, places), w);
  round_tiles(c, of->to - of->from, w->tiles);
  store(c, of, w->tiles);
}

/* ---- the kernel ---------------------------------------------------------- */

static dw_conv conv_of(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  const mrt_type *x = &call->in[0].type, *dy = &call->in[1].type;
  const mrt_type *w = &call->out[0].type;
  int64_t O = w->dims[0], C = w->dims[1], g = o->groups;
  dw_conv c = { .h = side_of(o, 0, x, w, dy),
                .w = side_of(o, 1, x, w, dy),
                .N = x->dims[0],
                .groups = g,
                .k = C,
                .n = O / g,
                .x_c = x->dims[3],
                .y_c = O,
                .tall = ceil_div(C, ROWS),
                .x = call->in[0].data,
                .dy = call->in[1].data,
                .dw = call->out[0].data,
                .x_bytes = (int64_t)mrt_dtypes[x->dtype].bytes };
  set_operands(call, &c);
  c.lines = pairs_lines(&c);
  return c;
}

static size_t bytes_of_thread(const dw_conv *c) {
  uintptr_t end = 0;
  carve(c, &end);
  return end;
}

static bool in_depth(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  return is_depth(o->groups, &call->out[0].type);
}

static size_t scratch(const mrt_call *call) {
  if (in_depth(call)) return mrt_depth_dw_bytes(call);
  if (is_products_dw(call)) return mrt_products_dw_bytes(call);
  if (is_tiled(call, &call->out[0].type)) return mrt_tiled_dw_bytes(call);
  if (is_winograd(call, MRT_WINOGRAD_DW)) return mrt_winograd_dw_bytes(call);
  dw_conv c = conv_of(call);
  return bytes_of_thread(&c) * (size_t)call->threads;
}

/* Tiles [from, to) of all, a chunk at a time. */
static void run_tiles(const dw_conv *c, int64_t in_group, int64_t from,
                      int64_t to, dw_work *w) {
  while (from < to) {
    int64_t group = from / in_group, begin = group * in_group;
    int64_t end = least(least(to, begin + in_group), from + TILES);
    run_chunk(c, &(chunk){ group, from - begin, end - begin }, w);
    from = end;
  }
}

typedef struct dw_run {
  const dw_conv *conv;
  int64_t tiles, in_group; /* of all groups, of one */
} dw_run;

static void run_part(const mrt_call *call, const void *shared, int part,
                     int parts) {
  const dw_run *r = shared;
  uintptr_t at =
      (uintptr_t)call->scratch + (uintptr_t)part * bytes_of_thread(r->conv);
  dw_work w = carve(r->conv, &at);
  int64_t from, to;
  mrt_share(r->tiles, part, parts, &from, &to);
  run_tiles(r->conv, r->in_group, from, to, &w);
}

static void run(const mrt_call *call) {
  if (sums_narrow(call)) {
    mrt_conv_narrow_dw(call);
    return;
  }
  if (in_depth(call)) {
    mrt_depth_dw_run(call);
    return;
  }
  if (is_products_dw(call)) {
    mrt_products_dw_run(call);
    return;
  }
  if (is_tiled(call, &call->out[0].type)) {
    mrt_tiled_dw_run(call);
    return;
  }
  if (is_winograd(call, MRT_WINOGRAD_DW)) {
    mrt_winograd_dw_run(call);
    return;
  }
  dw_conv c = conv_of(call);
  int64_t in_group = ceil_div(c.n, COLS) * c.tall * c.h.kernel * c.w.kernel;
  int64_t tiles = c.groups * in_group;
  double ns = (double)mrt_rows(&call->in[1]) * (double)tiles * TILE / 50;
  mrt_parallel(call, mrt_team(call, ns), run_part,
               &(dw_run){ &c, tiles, in_group });
}

MRT_KERNEL(conv2d_dw, .run = run, .scratch = scratch);
