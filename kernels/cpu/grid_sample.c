/* grid_sample.c -- images read at places between their pixels
 *
 * Of a strip of places the four pixels and weights of each are worked out once,
 * for all channels.  What is outside has weight 0, so that every channel is four
 * reads without a branch.  The gradient adds up in the order of the places; a
 * channel belongs to one thread.
 *
 * SPDX-License-Identifier: MIT */
#include "op/grid_sample.h"
#include "vmath.h"

enum { STRIP = 128, TAPS = 4 };

/* Pixels of up to STRIP places, and what each counts. */
typedef struct grid_strip {
  int32_t at[TAPS][STRIP];
  real weight[TAPS][STRIP];
} strip;

typedef struct sampling {
  const mrt_grid_options *o;
  int64_t N, C, H, W, places;
  const real *x, *grid; /* x: dy of gradients */
  real *y;
} sampling;

/* One dimension of a place: two pixels. */
typedef struct grid_pair {
  int64_t at[2];
  real weight[2];
} pair;

/* x mirrored at low / 2 and high / 2, until it is between; *slope times what
 * that does to a small step. */
static real mirrored(real x, int64_t low, int64_t high, real *slope) {
  if (low == high) {
    *slope = 0;
    return 0;
  }
  real least = (real)low / 2, span = (real)(high - low) / 2;
  x -= least;
  if (x < 0) x = -x, *slope = -*slope;
  real over = (real)fmod((double)x, (double)span);
  double flips = floor((double)(x / span));
  if (fmod(flips, 2) == 0) return over + least;
  *slope = -*slope;
  return span - over + least;
}

/* Where the number g of the grid lies along a side of n pixels. */
static real place_of(const mrt_grid_options *o, real g, int64_t n,
                     real *slope) {
  real last = (real)(n - 1);
  *slope = (o->align_corners ? last : (real)n) / 2;
  real x = o->align_corners ? (g + 1) / 2 * last : ((g + 1) * (real)n - 1) / 2;
  if (!(x > -REAL(2e9) && x < REAL(2e9))) x = -100; /* no number, too */
  if (o->padding == MRT_GRID_ZEROS) return x;
  if (o->padding == MRT_GRID_REFLECTION)
    x = o->align_corners ? mirrored(x, 0, 2 * (n - 1), slope)
                         : mirrored(x, -1, 2 * n - 1, slope);
  if (x <= 0 || x >= last) *slope = 0;
  return x > 0 ? x < last ? x : last : 0;
}

static pair pixels_of(const mrt_grid_options *o, real g, int64_t n,
                      int64_t order) {
  real slope, x = place_of(o, g, n, &slope);
  pair p = { { 0, 0 }, { 0, 0 } };
  if (o->mode == MRT_GRID_NEAREST) {
    p.at[0] = (int64_t)rint((double)x);
    p.weight[0] = order == 0;
  } else {
    real first = (real)floor((double)x), t = x - first;
    p.at[0] = (int64_t)first, p.at[1] = p.at[0] + 1;
    if (order == 0) p.weight[0] = 1 - t, p.weight[1] = t;
    if (order == 1) p.weight[0] = -slope, p.weight[1] = slope;
  }
  for (int k = 0; k < 2; k++)
    if (p.at[k] < 0 || p.at[k] >= n) p.at[k] = 0, p.weight[k] = 0;
  return p;
}

/* The same for `count` places, two numbers apart, where nothing is mirrored or
 * differentiated: without a branch, so that places are done side by side. */
typedef struct side_pixels {
  int32_t at[2][STRIP];
  real weight[2][STRIP];
} side_pixels;
static void plain_pixels(const mrt_grid_options *o, const real *g, int64_t n,
                         int64_t count, side_pixels *to) {
  bool zeros = o->padding == MRT_GRID_ZEROS;
  real last = (real)(n - 1), low = zeros ? -2 : 0,
       high = zeros ? last + 2 : last;
  real scale = (o->align_corners ? last : (real)n) / 2, middle = last / 2;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    real x = g[2 * i] * scale + middle;
    x = x > low ? x : low; /* no number, too */
    x = x < high ? x : high;
    real first = m_floor(x), t = x - first;
    int32_t at = (int32_t)first;
    bool here = first >= 0 && first <= last, next = first >= -1 && first < last;
    to->at[0][i] = here ? at : 0, to->at[1][i] = next ? at + 1 : 0;
    to->weight[0][i] = here ? 1 - t : 0, to->weight[1][i] = next ? t : 0;
  }
}

static void look_up_plain(const sampling *s, const real *grid, int64_t count,
                          strip *to) {
  side_pixels x, y;
  plain_pixels(s->o, grid, s->W, count, &x);
  plain_pixels(s->o, grid + 1, s->H, count, &y);
  int32_t W = (int32_t)s->W;
  for (int k = 0; k < TAPS; k++)
    for (int64_t i = 0; i < count; i++) {
      to->at[k][i] = y.at[k / 2][i] * W + x.at[k % 2][i];
      to->weight[k][i] = y.weight[k / 2][i] * x.weight[k % 2][i];
    }
}

/* `count` places of image n from `first` on. */
static void look_up(const sampling *s, int64_t n, int64_t first, int64_t count,
                    strip *to) {
  const real *grid = s->grid + (n * s->places + first) * 2;
  const mrt_grid_options *o = s->o;
  if (o->mode == MRT_GRID_BILINEAR && o->padding != MRT_GRID_REFLECTION &&
      o->order_x == 0 && o->order_y == 0) {
    look_up_plain(s, grid, count, to);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    pair x = pixels_of(o, grid[2 * i], s->W, o->order_x);
    pair y = pixels_of(o, grid[2 * i + 1], s->H, o->order_y);
    for (int k = 0; k < TAPS; k++) {
      to->at[k][i] = (int32_t)(y.at[k / 2] * s->W + x.at[k % 2]);
      to->weight[k][i] = y.weight[k / 2] * x.weight[k % 2];
    }
  }
}

static void read_channel(const strip *s, int taps, const real *x, real *y,
                         int64_t count) {
  if (taps == 1) {
    for (int64_t i = 0; i < count; i++) {
      real w = s->weight[0][i];
      y[i] = w != 0 ? x[s->at[0][i]] : 0;
    }
    return;
  }
  for (int64_t i = 0; i < count; i++)
    y[i] = s->weight[0][i] * x[s->at[0][i]] + s->weight[1][i] * x[s->at[1][i]] +
           s->weight[2][i] * x[s->at[2][i]] + s->weight[3][i] * x[s->at[3][i]];
}

static int taps_of(const sampling *s) {
  return s->o->mode == MRT_GRID_NEAREST ? 1 : TAPS;
}

static void read_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const sampling *s = shared;
  int64_t strips = (s->places + STRIP - 1) / STRIP, k, end;
  strip at;
  mrt_share(s->N * strips, part, parts, &k, &end);
  for (; k < end; k++) {
    int64_t n = k / strips, first = k % strips * STRIP;
    int64_t count = s->places - first < STRIP ? s->places - first : STRIP;
    look_up(s, n, first, count, &at);
    for (int64_t i = n * s->C; i < (n + 1) * s->C; i++)
      read_channel(&at, taps_of(s), s->x + i * s->H * s->W,
                   s->y + i * s->places + first, count);
  }
}

/* Channels [from, to) of image n. */
static void add_channels(const sampling *s, int64_t n, int64_t from,
                         int64_t to) {
  int64_t area = s->H * s->W, taps = taps_of(s);
  strip at;
  for (int64_t i = n * s->C + from; i < n * s->C + to; i++)
    memset(s->y + i * area, 0, (size_t)area * sizeof(real));
  for (int64_t first = 0; first < s->places; first += STRIP) {
    int64_t count = s->places - first < STRIP ? s->places - first : STRIP;
    look_up(s, n, first, count, &at);
    for (int64_t i = n * s->C + from; i < n * s->C + to; i++) {
      const real *dy = s->x + i * s->places + first;
      real *dx = s->y + i * area;
      for (int64_t p = 0; p < count; p++)
        for (int64_t k = 0; k < taps; k++)
          dx[at.at[k][p]] += at.weight[k][p] * dy[p];
    }
  }
}

static void add_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const sampling *s = shared;
  int64_t i, end;
  mrt_share(s->N * s->C, part, parts, &i, &end);
  while (i < end) {
    int64_t n = i / s->C, from = i % s->C;
    int64_t to = s->C - from < end - i ? s->C : from + end - i;
    add_channels(s, n, from, to);
    i += to - from;
  }
}

static void run(const mrt_call *c, const mrt_type *x, mrt_part *part) {
  const mrt_type *grid = &c->in[1].type;
  sampling s = { .o = c->options,
                 .N = x->dims[0],
                 .C = x->dims[1],
                 .H = x->dims[2],
                 .W = x->dims[3],
                 .places = grid->dims[1] * grid->dims[2],
                 .x = c->in[0].data,
                 .grid = c->in[1].data,
                 .y = c->out[0].data };
  double work = (double)s.N * (double)s.places * (double)(2 * s.C + 10);
  mrt_parallel(c, mrt_team(c, work), part, &s);
}
static void forward(const mrt_call *c) { run(c, &c->in[0].type, read_part); }
static void backward(const mrt_call *c) { run(c, &c->out[0].type, add_part); }

MRT_KERNEL(grid_sample, .run = forward);
MRT_KERNEL(grid_sample_dx, .run = backward);
