/* winograd_dw.c -- the gradient of such a convolution with respect to its weights
 *
 *     for channels of y by COLUMNS
 *       for tiles, some at a time
 *         transform x and dy              tiles shared out among threads
 *         add to 16 products of matrices  these shared out
 *       transform the sums into dw
 *
 * Each sum is made by one thread, in the order of the tiles, whose blocks
 * depend on the shape alone: the bits do not depend on the threads.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#ifndef MRT_F64
#include "conv/winograd_tiles.h"

typedef struct winograd_dw {
  image x, dy;
  tile_grid at_x, at_dy;
  void *dw;
  bool dw_halves; /* bf16 */
  int64_t some;   /* tiles at a time */
  int64_t split;  /* parts of each of the 16 products, by rows */
  /* of this run */
  real *input, *output, *sums;
  char *products;
  size_t bytes;          /* of each part's scratch */
  int64_t from, count;   /* channels of y */
  int64_t first, length; /* tiles */
} winograd_dw;

static winograd_dw winograd_of(const mrt_call *call) {
  const mrt_conv_options *o = call->options;
  const int64_t *x = call->in[0].type.dims, *dy = call->in[1].type.dims;
  int64_t tall = ceil_div(dy[1], 2), wide = ceil_div(dy[2], 2);
  winograd_dw w = {
    .x = { call->in[0].data, x[1], x[2], x[3],
           call->in[0].type.dtype == MRT_bf16 },
    .dy = { call->in[1].data, dy[1], dy[2], dy[3],
            call->in[1].type.dtype == MRT_bf16 },
    .at_x = { x[0], tall, wide, o->padding.at[0], o->padding.at[1] },
    .at_dy = { x[0], tall, wide, 0, 0 },
    .dw = call->out[0].data,
    .dw_halves = call->out[0].type.dtype == MRT_bf16,
    .split = ceil_div(call->threads, PLANES),
  };
  int64_t tiles = tiles_of(&w.at_dy);
  int64_t some = least(most(128, 32768 / w.x.c / 8 * 8), 384);
  w.some = least(least(some, most(128, tiles / 4)), tiles);
  return w;
}

/* Sums of plane 0, [channels of y][channels of x], for k tiles. */
static mrt_gemm product_of(const winograd_dw *w, int64_t m, int64_t k) {
  return (mrt_gemm){ .m = m,
                     .n = w->x.c,
                     .k = k,
                     .a = { NULL, 1, w->count, MRT_f32 },
                     .b = { NULL, w->x.c, 1, MRT_f32 },
                     .compute = MRT_DTYPE_COUNT,
                     .accumulate = MRT_DTYPE_COUNT,
                     .row = w->x.c,
                     .col = 1,
                     .dtype = MRT_f32,
                     .add = true };
}

static void carve_all(winograd_dw *w, uintptr_t *at) {
  int64_t columns = least(w->dy.c, COLUMNS);
  w->count = columns;
  mrt_gemm g = product_of(w, columns, w->some);
  w->bytes = (size_t)round_up((int64_t)mrt_gemm_bytes_below(&g), 64);
  w->input = (real *)take(at, PLANES * plane_of(w->some, w->x.c), sizeof(real));
  w->output =
      (real *)take(at, PLANES * plane_of(w->some, columns), sizeof(real));
  w->sums = (real *)take(at, PLANES * plane_of(columns, w->x.c), sizeof(real));
  w->products = (char *)*at;
}

size_t mrt_winograd_dw_bytes(const mrt_call *call) {
  uintptr_t end = 0;
  winograd_dw w = winograd_of(call);
  carve_all(&w, &end);
  return end + w.bytes * (size_t)call->threads;
}

/* ---- tiles --------------------------------------------------------------- */

/* A of a column of two. */
INLINED void turn_output(vec a, vec b, vec to[4]) {
  to[0] = a, to[1] = a + b, to[2] = a - b, to[3] = -b;
}

/* A dy A' of a tile's channels, to the planes. */
INLINED void transform_output(bool halves, const patch *p, int64_t first,
                              int64_t channels, int64_t plane, real *to) {
  for (int64_t c = 0; c < channels; c += LANES) {
    vec half[2][4]; /* by column */
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++)
      turn_output(load_place(halves, p, j, first + c),
                  load_place(halves, p, 2 + j, first + c), half[j]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      vec row[4];
      turn_output(half[0][i], half[1][i], row);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++)
        vec_store(to + (i * 4 + j) * plane + c, row[j]);
    }
  }
}

static void transform_tiles(const mrt_call *call, const void *shared, int part,
                            int parts) {
  const winograd_dw *w = shared;
  int64_t from, to;
  (void)call;
  mrt_share(w->length, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++) {
    patch p;
    find_patch(&w->x, &w->at_x, w->first + i, 4, &p);
    transform_input(&w->x, &p, plane_of(w->some, w->x.c),
                    w->input + i * w->x.c);
    find_patch(&w->dy, &w->at_dy, w->first + i, 2, &p);
    int64_t plane = plane_of(w->some, w->count);
    real *output = w->output + i * w->count;
    if (w->dy.halves)
      transform_output(true, &p, w->from, w->count, plane, output);
    else
      transform_output(false, &p, w->from, w->count, plane, output);
  }
}

static void add_products(const mrt_call *call, const void *shared, int part,
                         int parts) {
  const winograd_dw *w = shared;
  int64_t from, to, rows = ceil_div(w->count, w->split);
  (void)call;
  mrt_share(PLANES * w->split, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++) {
    int64_t p = i / w->split, row = i % w->split * rows;
    mrt_gemm g = product_of(w, least(rows, w->count - row), w->length);
    if (g.m <= 0) continue;
    g.a.data = w->output + p * plane_of(w->some, w->count) + row;
    g.b.data = w->input + p * plane_of(w->some, w->x.c);
    g.c = w->sums + p * plane_of(w->count, w->x.c) + row * w->x.c;
    mrt_gemm_run(&g, w->products + (size_t)part * w->bytes);
  }
}

/* ---- sums ---------------------------------------------------------------- */

/* G' of a column of four. */
INLINED void turn_back(const vec m[4], vec to[3]) {
  vec sum = (m[1] + m[2]) * REAL(0.5);
  to[0] = m[0] + sum, to[1] = (m[1] - m[2]) * REAL(0.5), to[2] = sum + m[3];
}

/* G' m G of LANES channels of x, to dw from element `to` on. */
static void transform_sums(const winograd_dw *w, const real *sums,
                           int64_t plane, int64_t to) {
  real taps[9][LANES];
  vec half[4][3]; /* by column */
  for (int j = 0; j < 4; j++) {
    vec m[4];
    for (int i = 0; i < 4; i++) m[i] = vec_load(sums + (i * 4 + j) * plane);
    turn_back(m, half[j]);
  }
  for (int i = 0; i < 3; i++) {
    vec m[4] = { half[0][i], half[1][i], half[2][i], half[3][i] }, row[3];
    turn_back(m, row);
    for (int j = 0; j < 3; j++) vec_store(taps[i * 3 + j], row[j]);
  }
  for (int l = 0; l < LANES; l++)
    for (int i = 0; i < 9; i++, to++)
      if (w->dw_halves)
        ((uint16_t *)w->dw)[to] = float_to_bf16(taps[i][l]);
      else
        ((real *)w->dw)[to] = taps[i][l];
}

static void store_sums(const mrt_call *call, const void *shared, int part,
                       int parts) {
  const winograd_dw *w = shared;
  int64_t from, to, C = w->x.c;
  (void)call;
  mrt_share(w->count, part, parts, &from, &to);
  for (int64_t o = from; o < to; o++)
    for (int64_t c = 0; c < C; c += LANES)
      transform_sums(w, w->sums + o * C + c, plane_of(w->count, C),
                     ((w->from + o) * C + c) * 9);
}

void mrt_winograd_dw_run(const mrt_call *call) {
  winograd_dw w = winograd_of(call);
  int64_t tiles = tiles_of(&w.at_dy);
  uintptr_t at = (uintptr_t)call->scratch;
  carve_all(&w, &at);
  double products = (double)tiles * PLANES * (double)w.x.c;
  int team = mrt_team(call, products * (double)w.dy.c / 50);
  for (w.from = 0; w.from < w.dy.c; w.from += COLUMNS) {
    w.count = least(COLUMNS, w.dy.c - w.from);
    memset(w.sums, 0,
           (size_t)(PLANES * plane_of(w.count, w.x.c)) * sizeof(real));
    for (w.first = 0; w.first < tiles; w.first += w.some) {
      w.length = least(w.some, tiles - w.first);
      mrt_parallel(call, team, transform_tiles, &w);
      mrt_parallel(call, team, add_products, &w);
    }
    mrt_parallel(call, team, store_sums, &w);
  }
}

#endif
