/* point.c -- conv2d and its dx with kernels of 1 x 1
 *
 * Without a stride one product, cut as any other.  With one, threads share the
 * places of y, and take some at a time: for y those of x are copied before the
 * product, for dx its rows go to their places after it, among zeros.
 *
 * SPDX-License-Identifier: MIT */
#include "conv/products.h"
#include "gemm/gemm.h"

enum { SOME = 256 }; /* places at a time */

typedef struct point {
  mrt_gemm g; /* rows are places of y */
  bool back, strided;
  int64_t places, h, w; /* of y; its sides */
  int64_t x_h, x_w, step_h, step_w;
  char *scratch;
  size_t bytes; /* of each part */
} point;

static point point_of(const mrt_call *call, bool back, const real *bias) {
  const mrt_conv_options *o = call->options;
  const mrt_operand *in = &call->in[0], *out = &call->out[0];
  const int64_t *x = (back ? out : in)->type.dims;
  const int64_t *y = (back ? in : out)->type.dims;
  int64_t C = x[3], O = y[3], from = back ? O : C, to = back ? C : O;
  mrt_matrix w = { call->in[1].data, back ? C : 1, back ? 1 : C,
                   call->in[1].type.dtype };
  return (point){ .g = { .m = y[0] * y[1] * y[2],
                         .n = to,
                         .k = from,
                         .a = { in->data, from, 1, in->type.dtype },
                         .b = w,
                         .compute = o->compute,
                         .dots = call->dots,
                         .tiles = call->tiles,
                         .accumulate = MRT_DTYPE_COUNT,
                         .c = out->data,
                         .row = to,
                         .col = 1,
                         .dtype = out->type.dtype,
                         .bias = bias,
                         .bias_col = 1 },
                  .back = back,
                  .strided = is_strided(call),
                  .places = y[0] * y[1] * y[2],
                  .h = y[1],
                  .w = y[2],
                  .x_h = x[1],
                  .x_w = x[2],
                  .step_h = o->stride.at[0],
                  .step_w = o->stride.at[1] };
}

/* Bytes of a row of x. */
static int64_t row_of_x(const point *p) {
  mrt_dtype d = p->back ? p->g.dtype : p->g.a.dtype;
  return (p->back ? p->g.n : p->g.k) * (int64_t)mrt_dtypes[d].bytes;
}

/* Rows of x, for one part; behind them is the product's scratch. */
static int64_t copied(const point *p) {
  return p->strided ? round_up(least(SOME, p->places) * row_of_x(p), 64) : 0;
}

static size_t part_bytes(const point *p) {
  mrt_gemm g = p->g;
  if (p->strided) g.m = least(SOME, g.m);
  return (size_t)(copied(p) + round_up((int64_t)mrt_gemm_bytes(&g), 64));
}

size_t mrt_point_bytes(const mrt_call *call, bool back) {
  point p = point_of(call, back, NULL);
  return part_bytes(&p) * (size_t)call->threads;
}

/* The place of x that place `i` of y reads. */
static int64_t place_of_x(const point *p, int64_t i) {
  int64_t n = i / (p->h * p->w), row = i / p->w % p->h;
  return (n * p->x_h + row * p->step_h) * p->x_w + i % p->w * p->step_w;
}

static void *row_at(const point *p, int64_t i) {
  const char *x = p->back ? p->g.c : p->g.a.data;
  return (char *)x + place_of_x(p, i) * row_of_x(p);
}

/* Places [first, first + m) of y. */
static void run_some(const point *p, int64_t first, int64_t m, char *rows) {
  size_t bytes = (size_t)row_of_x(p);
  mrt_gemm g = p->g;
  g.m = m;
  g.a.data = p->back ? mrt_matrix_at(&p->g.a, first, 0) : rows;
  g.c = p->back ? (void *)rows : mrt_gemm_to(&p->g, first, 0);
  for (int64_t i = 0; !p->back && i < m; i++)
    memcpy(rows + (size_t)i * bytes, row_at(p, first + i), bytes);
  mrt_gemm_run(&g, rows + copied(p));
  for (int64_t i = 0; p->back && i < m; i++)
    memcpy(row_at(p, first + i), rows + (size_t)i * bytes, bytes);
}

static void run_part(const mrt_call *call, const void *shared, int part,
                     int parts) {
  const point *p = shared;
  char *scratch = p->scratch + (size_t)part * p->bytes;
  int64_t from, to;
  (void)call;
  if (!p->strided) {
    mrt_gemm piece = mrt_gemm_part(&p->g, part, parts);
    mrt_gemm_run(&piece, scratch);
    return;
  }
  mrt_share(p->places, part, parts, &from, &to);
  for (int64_t i = from; i < to; i += SOME)
    run_some(p, i, least(SOME, to - i), scratch);
}

/* Places of x that nothing reads are worth nothing. */
static void clear_part(const mrt_call *call, const void *shared, int part,
                       int parts) {
  const point *p = shared;
  int64_t rows = mrt_rows(&call->out[0]), bytes = row_of_x(p), from, to;
  mrt_share(rows, part, parts, &from, &to);
  memset((char *)p->g.c + from * bytes, 0, (size_t)((to - from) * bytes));
}

void mrt_point_run(const mrt_call *call, bool back, const real *bias,
                   void *scratch) {
  point p = point_of(call, back, bias);
  p.scratch = scratch, p.bytes = part_bytes(&p);
  double products = (double)p.g.m * (double)p.g.n * (double)p.g.k;
  int team = mrt_team(call, products / 50);
  if (back && p.strided) mrt_parallel(call, team, clear_part, &p);
  mrt_parallel(call, team, run_part, &p);
}
