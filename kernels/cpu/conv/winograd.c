/* winograd.c -- conv2d and its dx by Winograd's F(2 x 2, 3 x 3)
 *
 *     for channels of y by COLUMNS
 *       transform the kernels, [16][channels of x][channels of y]
 *       for tiles, some at a time          shared out among threads
 *         transform x, multiply 16 matrices, transform into y
 *
 * Tiles at a time are few enough for the caches: 256 of 64 channels are a MiB.
 * And of small images so few that all threads' are about the images' own bytes,
 * of which theirs would be four times as many.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#ifndef MRT_F64
#include "conv/winograd_tiles.h"

typedef struct winograd {
  image x;
  tile_grid t;
  void *y;
  bool y_halves, w_halves; /* bf16 */
  bool rounds;             /* weights to bf16 */
  int64_t y_h, y_w, y_c;
  const void *weights;
  const real *bias;
  int64_t w_in, w_out; /* strides of the weights: channels of x, of y */
  bool turned;         /* the kernel's last place first */
  int64_t some;        /* tiles at a time */
  int64_t columns;     /* channels of y at a time, at most */
  /* of this run */
  real *kernels;
  char *parts;
  size_t bytes;        /* of each part's scratch */
  int64_t from, count; /* channels of y */
} winograd;

static winograd winograd_of(const mrt_call *call, bool back) {
  const mrt_conv_options *o = call->options;
  const int64_t *x = call->in[0].type.dims, *y = call->out[0].type.dims;
  const int64_t *p = o->padding.at, C = call->in[1].type.dims[1];
  winograd w = {
    .x = { call->in[0].data, x[1], x[2], x[3],
           call->in[0].type.dtype == MRT_bf16 },
    .y_halves = call->out[0].type.dtype == MRT_bf16,
    .w_halves = call->in[1].type.dtype == MRT_bf16,
    .rounds = o->compute == MRT_bf16,
    .t = { y[0], ceil_div(y[1], 2), ceil_div(y[2], 2), back ? 2 - p[0] : p[0],
           back ? 2 - p[1] : p[1] },
    .y = call->out[0].data,
    .y_h = y[1],
    .y_w = y[2],
    .y_c = y[3],
    .weights = call->in[1].data,
    .w_in = back ? C * 9 : 9,
    .w_out = back ? 9 : C * 9,
    .turned = back,
    .columns = least(y[3], COLUMNS),
  };
  int64_t tiles = tiles_of(&w.t), many = most(64, 16384 / w.x.c / 8 * 8);
  int64_t quarter = most(64, tiles / (4 * call->threads));
  w.some = least(least(many, quarter), tiles);
  return w;
}

/* Plane 0 of the product of one part: m tiles. */
static mrt_gemm product_of(const winograd *w, int64_t m, int64_t n) {
  return (mrt_gemm){ .m = m,
                     .n = n,
                     .k = w->x.c,
                     .a = { NULL, w->x.c, 1, MRT_f32 },
                     .b = { NULL, n, 1, MRT_f32 },
                     .compute = MRT_DTYPE_COUNT,
                     .accumulate = MRT_DTYPE_COUNT,
                     .row = n,
                     .col = 1,
                     .dtype = MRT_f32 };
}

typedef struct winograd_work {
  real *input, *sums;
  void *product;
} winograd_work;

static winograd_work carve_part(const winograd *w, uintptr_t *at) {
  mrt_gemm g = product_of(w, w->some, w->columns);
  return (winograd_work){
    .input = (real *)take(at, PLANES * plane_of(w->some, w->x.c), sizeof(real)),
    .sums =
        (real *)take(at, PLANES * plane_of(w->some, w->columns), sizeof(real)),
    .product = take(at, (int64_t)mrt_gemm_bytes(&g), 1),
  };
}

static size_t kernel_bytes(const winograd *w) {
  return (size_t)round_up(
      PLANES * plane_of(w->x.c, w->columns) * (int64_t)sizeof(real), 64);
}

static size_t part_bytes(const winograd *w) {
  uintptr_t end = 0;
  carve_part(w, &end);
  return end;
}

size_t mrt_winograd_bytes(const mrt_call *call, bool back) {
  winograd w = winograd_of(call, back);
  return kernel_bytes(&w) + part_bytes(&w) * (size_t)call->threads;
}

/* ---- kernels ------------------------------------------------------------- */

/* G of a column of three. */
INLINED void turn_kernel(const vec g[3], vec to[4]) {
  vec sum = (g[0] + g[2]) * REAL(0.5), middle = g[1] * REAL(0.5);
  to[0] = g[0], to[1] = sum + middle, to[2] = sum - middle, to[3] = g[2];
}

static inline real weight_at(const winograd *w, int64_t i) {
  const void *p = value_at(w->weights, w->w_halves, i);
  if (w->w_halves) return bf16_to_float(*(const uint16_t *)p);
  real x = *(const real *)p;
  return w->rounds ? bf16_to_float(float_to_bf16(x)) : x;
}

/* G g G' of LANES channels of y, to the planes. */
static void transform_kernel(const winograd *w, int64_t from, int64_t plane,
                             real *to) {
  real taps[9][LANES];
  for (int l = 0; l < LANES; l++)
    for (int i = 0; i < 9; i++)
      taps[w->turned ? 8 - i : i][l] = weight_at(w, from + l * w->w_out + i);
  vec half[3][4]; /* by column */
  for (int j = 0; j < 3; j++) {
    vec g[3];
    for (int i = 0; i < 3; i++) g[i] = vec_load(taps[i * 3 + j]);
    turn_kernel(g, half[j]);
  }
  for (int i = 0; i < 4; i++) {
    vec g[3] = { half[0][i], half[1][i], half[2][i] }, row[4];
    turn_kernel(g, row);
    for (int j = 0; j < 4; j++) vec_store(to + (i * 4 + j) * plane, row[j]);
  }
}

static void transform_kernels(const mrt_call *call, const void *shared,
                              int part, int parts) {
  const winograd *w = shared;
  int64_t from, to, plane = plane_of(w->x.c, w->count);
  (void)call;
  mrt_share(w->x.c, part, parts, &from, &to);
  for (int64_t j = 0; j < w->count; j += LANES)
    for (int64_t i = from; i < to; i++)
      transform_kernel(w, i * w->w_in + (w->from + j) * w->w_out, plane,
                       w->kernels + i * w->count + j);
}

/* ---- tiles --------------------------------------------------------------- */

/* A' of a column of four. */
INLINED void turn_sums(const vec m[4], vec to[2]) {
  to[0] = m[0] + m[1] + m[2];
  to[1] = m[1] - m[2] - m[3];
}

INLINED void store_place(bool halves, const winograd *w, int64_t i, vec x) {
  store_values(halves, (char *)w->y + i * (halves ? 2 : (int)sizeof(real)), x);
}

/* A' m A of tile `i`, to its places of y. */
INLINED void transform_sums(bool halves, const winograd *w, const real *sums,
                            int64_t plane, int64_t i) {
  const tile_grid *t = &w->t;
  int64_t n = i / (t->tall * t->wide), r = i / t->wide % t->tall;
  int64_t row = 2 * r, column = 2 * (i % t->wide);
  int64_t y = ((n * w->y_h + row) * w->y_w + column) * w->y_c + w->from;
  bool below = row + 1 < w->y_h, beside = column + 1 < w->y_w;
  for (int64_t c = 0; c < w->count; c += LANES) {
    vec half[4][2], out[2][2]; /* half: by column */
    vec bias = w->bias ? vec_load(w->bias + w->from + c) : (vec){ 0 };
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) {
      vec m[4];
#pragma GCC unroll 4
      for (int a = 0; a < 4; a++)
        m[a] = vec_load(sums + (a * 4 + b) * plane + c);
      turn_sums(m, half[b]);
    }
#pragma GCC unroll 2
    for (int a = 0; a < 2; a++) {
      vec m[4] = { half[0][a], half[1][a], half[2][a], half[3][a] };
      turn_sums(m, out[a]);
      out[a][0] += bias, out[a][1] += bias;
    }
    store_place(halves, w, y + c, out[0][0]);
    if (beside) store_place(halves, w, y + w->y_c + c, out[0][1]);
    if (below) store_place(halves, w, y + w->y_w * w->y_c + c, out[1][0]);
    if (below && beside)
      store_place(halves, w, y + (w->y_w + 1) * w->y_c + c, out[1][1]);
  }
}

static void run_tiles(const winograd *w, const winograd_work *room,
                      int64_t first, int64_t m) {
  int64_t in = plane_of(w->some, w->x.c), out = plane_of(w->some, w->count);
  int64_t kernel = plane_of(w->x.c, w->count);
  for (int64_t i = 0; i < m; i++) {
    patch p;
    find_patch(&w->x, &w->t, first + i, 4, &p);
    transform_input(&w->x, &p, in, room->input + i * w->x.c);
  }
  mrt_gemm g = product_of(w, m, w->count);
  for (int p = 0; p < PLANES; p++) {
    g.a.data = room->input + p * in;
    g.b.data = w->kernels + p * kernel;
    g.c = room->sums + p * out;
    mrt_gemm_run(&g, room->product);
  }
  for (int64_t i = 0; i < m; i++)
    if (w->y_halves)
      transform_sums(true, w, room->sums + i * w->count, out, first + i);
    else
      transform_sums(false, w, room->sums + i * w->count, out, first + i);
}

static void run_part(const mrt_call *call, const void *shared, int part,
                     int parts) {
  const winograd *w = shared;
  uintptr_t at = (uintptr_t)w->parts + (uintptr_t)part * w->bytes;
  winograd_work room = carve_part(w, &at);
  int64_t from, to;
  (void)call;
  mrt_share(tiles_of(&w->t), part, parts, &from, &to);
  for (int64_t i = from; i < to; i += w->some)
    run_tiles(w, &room, i, least(w->some, to - i));
}

void mrt_winograd_run(const mrt_call *call, bool back, const real *bias,
                      void *scratch) {
  winograd w = winograd_of(call, back);
  w.bias = bias, w.kernels = scratch;
  w.parts = (char *)scratch + kernel_bytes(&w), w.bytes = part_bytes(&w);
  double products = (double)tiles_of(&w.t) * PLANES * (double)w.x.c;
  int team = mrt_team(call, products * (double)w.y_c / 50);
  for (w.from = 0; w.from < w.y_c; w.from += COLUMNS) {
    w.count = least(COLUMNS, w.y_c - w.from);
    mrt_parallel(call, team, transform_kernels, &w);
    mrt_parallel(call, team, run_part, &w);
  }
}

#endif
