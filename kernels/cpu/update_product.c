/* update_product.c -- descend_product, sgd_product, rmsprop_product,
 * adamw_product: updates by a gradient that is never stored
 *
 *   method  So many rows of the product as fill part of the last cache are
 *           computed by all threads, into scratch; rows of a table that was
 *           looked up are added to them; then each thread updates its share.
 *           Memory has p and its state read and written, and nothing else.
 *   bits    those of matmul, whose elements are the same however it is cut
 *           (gemm/gemm.h), of embedding_add, and of the update
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"
#include "places.h"
#include "update_steps.h"

/* Elements of a gradient at a time; rows of it at least: b is packed for each. */
enum { CHUNK = 1 << 18, LEAST = 128 };

typedef struct product_update {
  mrt_gemm g; /* the whole */
  int written, team;
  int64_t rows; /* of a chunk */
  size_t bytes; /* scratch of a thread */
  real *sum;    /* the chunk */
  id_places places;
  const mrt_operand *ids, *dy; /* of a table; NULL: it was not looked up */
  int64_t begin, end;          /* rows of this chunk */
  elements *run;
  const void *step;
} product_update;

static mrt_matrix matrix_of(const mrt_operand *x) {
  return (mrt_matrix){ x->data, x->strides[0], x->strides[1], x->type.dtype };
}

static size_t up(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Threads' scratch, the chunk, places of ids: bytes of all. */
static size_t lay_out(const mrt_call *c, const mrt_product_gradient *o,
                      int written, product_update *u) {
  const mrt_operand *a = &c->in[written], *b = &c->in[written + 1];
  int64_t m = c->out[0].type.dims[0], n = c->out[0].type.dims[1];
  *u = (product_update){ .written = written,
                         .g = { .m = m,
                                .n = n,
                                .k = a->type.dims[1],
                                .a = matrix_of(a),
                                .b = matrix_of(b),
                                .compute = o->compute,
                                .accumulate = MRT_DTYPE_COUNT,
                                .dots = c->dots,
                                .tiles = c->tiles,
                                .dtype = MRT_REAL,
                                .row = n,
                                .col = 1 } };
  u->rows = n ? CHUNK / n + 1 : m;
  if (u->rows < LEAST) u->rows = LEAST;
  if (u->rows > m) u->rows = m;
  u->team = mrt_team(c, (double)m * (double)n * (double)(1 + u->g.k) / 50);
  mrt_gemm chunk = u->g;
  chunk.m = u->rows;
  u->bytes = up(mrt_gemm_bytes(&chunk));
  size_t at = (size_t)u->team * u->bytes;
  u->sum = (real *)((char *)c->scratch + at);
  at += up((size_t)(u->rows * n) * sizeof(real));
  u->places.first = (int64_t *)((char *)c->scratch + at);
  if (!o->rows) return at;
  u->ids = &c->in[written + 2], u->dy = &c->in[written + 3];
  return at + places_bytes(m, u->ids);
}

static void multiply_part(const mrt_call *c, const void *shared, int part,
                          int parts) {
  const product_update *u = shared;
  mrt_gemm chunk = u->g;
  chunk.a.data = mrt_matrix_at(&u->g.a, u->begin, 0);
  chunk.m = u->end - u->begin, chunk.c = u->sum;
  mrt_gemm own = mrt_gemm_part(&chunk, part, parts);
  mrt_gemm_run(&own, (char *)c->scratch + (size_t)part * u->bytes);
}

static void add_rows(const product_update *u, int64_t v, real *row) {
  for (int64_t at = 0, n; at < u->g.n; at += n) {
    n = u->g.n - at < PLACES_STRIP ? u->g.n - at : PLACES_STRIP;
    add_places(&u->places, u->dy, u->g.n, v, at, n, row + at, row + at);
  }
}

static void update_part(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const product_update *u = shared;
  int64_t from, to, n = u->g.n;
  mrt_share(u->end - u->begin, part, parts, &from, &to);
  if (from == to) return;
  real *sum = u->sum + from * n;
  for (int64_t v = from; u->ids && v < to; v++)
    add_rows(u, u->begin + v, u->sum + v * n);
  run_pieces_of(c, u->written, sum, 0, u->run, u->step, (u->begin + from) * n,
                (u->begin + to) * n);
}

/* `when`: the input. */
static void update(const mrt_call *c, const mrt_product_gradient *o,
                   int written, int when, elements *run, const void *step) {
  product_update u;
  if (!is_due(c, when)) return;
  lay_out(c, o, written, &u);
  u.run = run, u.step = step;
  if (u.ids) u.places = find_places(u.ids, u.g.m, u.places.first);
  for (u.begin = 0; u.begin < u.g.m && u.g.n > 0; u.begin = u.end) {
    u.end = u.begin + u.rows < u.g.m ? u.begin + u.rows : u.g.m;
    mrt_parallel(c, u.team, multiply_part, &u);
    mrt_parallel(c, u.team, update_part, &u);
  }
}

/* lr: how many inputs are between the gradient and the learning rate */
#define PRODUCT(name, written, lr)                                             \
  static void name##_product(const mrt_call *c) {                              \
    const mrt_##name##_product_options *o = c->options;                        \
    int at = (written) + 2 + 2 * o->gradient.rows;                             \
    name##_step s = name##_of(c, &o->step, at);                                \
    update(c, &o->gradient, written, at + (lr) + 2, name##_piece, &s);         \
  }                                                                            \
  static size_t name##_scratch(const mrt_call *c) {                            \
    const mrt_##name##_product_options *o = c->options;                        \
    product_update u;                                                          \
    return lay_out(c, &o->gradient, written, &u);                              \
  }                                                                            \
  MRT_KERNEL(name##_product, .run = name##_product, .scratch = name##_scratch)

PRODUCT(descend, 1, 0);
PRODUCT(sgd, 2, 0);
PRODUCT(rmsprop, 2, 0);
PRODUCT(adamw, 3, 1);
