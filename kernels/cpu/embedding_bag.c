/* embedding_bag.c -- rows of a table added up by bags, and the gradient
 *
 * Bags are shared out among threads; the gradient's columns are, so that rows
 * are added up in the order of the ids whatever the number of threads.
 *
 * SPDX-License-Identifier: MIT */
#include "op/embedding_bag.h"
#include "bags.h"
#include "floats.h"

static bags bags_in(const mrt_call *c) {
  return bags_of(c, &c->in[1], c->nin > 2 ? &c->in[2] : NULL);
}

static void add(real *y, const real *row, real scale, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++) y[j] += scale * row[j];
}

/* NaN wins, as in amax. */
static void take_larger(real *y, int64_t *won, const real *row, int64_t id,
                        int64_t n) {
  for (int64_t j = 0; j < n; j++)
    if (won[j] < 0 || row[j] > y[j] || (row[j] != row[j] && y[j] == y[j]))
      y[j] = row[j], won[j] = id;
}

enum {
  STRIP = 512,     /* columns done together */
  CACHED = 1 << 16 /* elements of a table whose rows need not be fetched */
};

static int64_t strip_at(int64_t j, int64_t end) {
  return end - j < STRIP ? end - j : STRIP;
}

/* What row `k` of the list needs, some rows ahead of its turn; the next bag's ids
 * follow this one's. */
static void fetch(const bags *b, int64_t k, int64_t j, int64_t n) {
  enum { LINE = 64, AHEAD = 12 };
  const mrt_operand *w = &b->call->in[0];
  int64_t V = w->type.dims[0], C = w->type.dims[1];
  if (k + AHEAD >= b->all) return;
  int64_t id = id_of(b, k + AHEAD, V, false);
  const char *row = mrt_element(w, id * C + j);
  int64_t bytes = n * (int64_t)mrt_dtypes[w->type.dtype].bytes;
  for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(row + i);
}

/* Columns [j, j + n) of bag i, ids [from, to). */
static void fill_strip(const bags *b, int mode, int64_t i, int64_t from,
                       int64_t to, int64_t j, int64_t n) {
  const mrt_call *c = b->call;
  int64_t V = c->in[0].type.dims[0], C = c->in[0].type.dims[1];
  real sums[STRIP], room[STRIP];
  real *y = mrt_reals_place(&c->out[0], i * C + j, sums);
  int64_t *won = NULL;
  if (mode == MRT_BAG_MAX) won = (int64_t *)c->out[1].data + i * C + j;
  for (int64_t k = 0; k < n; k++) y[k] = 0;
  for (int64_t k = 0; won && k < n; k++) won[k] = -1;
  for (int64_t k = from; k < to; k++) {
    int64_t id = id_of(b, k, V, true);
    fetch(b, k, j, n);
    const real *row = mrt_reals_in(&c->in[0], id * C + j, n, room);
    if (won)
      take_larger(y, won, row, id, n);
    else
      add(y, row, 1, n);
  }
  if (mode == MRT_BAG_MEAN && to - from > 1)
    for (int64_t k = 0; k < n; k++) y[k] /= (real)(to - from);
  mrt_reals_out(&c->out[0], i * C + j, n, y);
}

enum { SUMS = 4 * LANES }; /* columns whose sums are in registers */

/* The same of SUMS columns that are added up, in real. */
static void add_up(const bags *b, int mode, int64_t i, int64_t from, int64_t to,
                   int64_t j) {
  const mrt_call *c = b->call;
  int64_t V = c->in[0].type.dims[0], C = c->in[0].type.dims[1];
  const real *w = (const real *)c->in[0].data + j;
  real *y = (real *)c->out[0].data + i * C + j;
  vec sum[4] = { { 0 } };
  for (int64_t k = from; k < to; k++) {
    const real *row = w + id_of(b, k, V, true) * C;
    if (V * C > CACHED) fetch(b, k, j, SUMS);
    for (int t = 0; t < 4; t++) sum[t] += vec_load(row + t * LANES);
  }
  vec by =
      vec_all((real)(mode == MRT_BAG_MEAN && to - from > 1 ? to - from : 1));
  for (int t = 0; t < 4; t++) vec_store(y + t * LANES, sum[t] / by);
}

static void fill_bag(const bags *b, int mode, int64_t i) {
  int64_t C = b->call->in[0].type.dims[1], from, to, j = 0;
  bag(b, i, true, &from, &to);
  if (mode != MRT_BAG_MAX && !mrt_any_narrow(b->call))
    for (; j + SUMS <= C; j += SUMS) add_up(b, mode, i, from, to, j);
  for (; j < C; j += STRIP) fill_strip(b, mode, i, from, to, j, strip_at(j, C));
}

static void fill_bags(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const mrt_bag_options *o = c->options;
  const bags *b = shared;
  int64_t i, end;
  mrt_share(b->count, part, parts, &i, &end);
  for (; i < end; i++) fill_bag(b, o->mode, i);
}

static void embedding_bag(const mrt_call *c) {
  bags b = bags_in(c);
  int team = mrt_team(c, 0.3 * (double)b.all * (double)c->in[0].type.dims[1]);
  mrt_parallel(c, team, fill_bags, &b);
}

/* Columns [c0, c1) of dw; bad ids were reported when they were looked up. */
static void add_columns(const bags *b, int mode, int64_t c0, int64_t c1) {
  const mrt_call *c = b->call;
  real *dw = c->out[0].data, room[STRIP];
  int64_t V = c->out[0].type.dims[0], n = c->out[0].type.dims[1], from, to;
  if (c0 == c1) return;
  for (int64_t v = 0; v < V; v++)
    memset(dw + v * n + c0, 0, (size_t)(c1 - c0) * sizeof(real));
  for (int64_t i = 0; i < b->count; i++) {
    bag(b, i, false, &from, &to);
    real scale = mode == MRT_BAG_MEAN && to > from ? 1 / (real)(to - from) : 1;
    for (int64_t j = c0; j < c1; j += STRIP) {
      int64_t m = strip_at(j, c1);
      const real *dy = mrt_reals_in(&c->in[0], i * n + j, m, room);
      for (int64_t k = from; k < to; k++)
        add(dw + id_of(b, k, V, false) * n + j, dy, scale, m);
    }
  }
}

static void add_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  enum { NARROWEST = 128 / sizeof(real) }; /* two cache lines */
  const mrt_bag_grad_options *o = c->options;
  int64_t n = c->out[0].type.dims[1], c0, c1;
  mrt_share((n + NARROWEST - 1) / NARROWEST, part, parts, &c0, &c1);
  c0 *= NARROWEST, c1 *= NARROWEST;
  add_columns(shared, o->mode, c0 < n ? c0 : n, c1 < n ? c1 : n);
}

static void embedding_bag_grad(const mrt_call *c) {
  bags b = bags_in(c);
  int64_t V = c->out[0].type.dims[0], n = c->out[0].type.dims[1];
  int team = mrt_team(c, 0.3 * (double)(V + b.all) * (double)n);
  mrt_parallel(c, team, add_part, &b);
}

MRT_KERNEL(embedding_bag, .run = embedding_bag);
MRT_KERNEL(embedding_bag_grad, .run = embedding_bag_grad);
