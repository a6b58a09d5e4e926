/* index.c -- gather, embedding and its gradient
 *
 * Where one id is for many elements in a row, the row is copied whole.  Where
 * places collide, the work is cut so that each place belongs to one
 * thread, which adds in the order of the index: no atomics, same bits for any
 * number of threads.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "floats.h"
#include "op/move.h"
#include "places.h"
#include "walk.h"

/* ---- gather -------------------------------------------------------------- */

/* The index, and in `along` the dimension that it replaces. */
typedef struct lookup {
  const mrt_call *call;
  const mrt_operand *index;
  int64_t n, along; /* positions of that dimension, their step */
} lookup;

enum { X, INDEX }; /* operands of the walk; y's places are counted */

/* `count` outputs; element j comes from x + j * xs + id * along, where id is
 * the index at i + j * is. */
typedef void gather_fn(lookup l, int64_t i, int64_t is, const void *x,
                       int64_t xs, void *y, int64_t count);

#define GATHER(T)                                                              \
  static void gather_##T(lookup l, int64_t i, int64_t is, const void *from,    \
                         int64_t xs, void *to, int64_t count) {                \
    const T *x = from;                                                         \
    T *y = to;                                                                 \
    const int64_t *ids = (const int64_t *)l.index->data + i;                   \
    int64_t j = 0;                                                             \
    if (l.index->type.dtype == MRT_i64 && is == 1 && xs == 0 && l.along == 1)  \
      for (; j < count && (uint64_t)ids[j] < (uint64_t)l.n; j++)               \
        y[j] = x[ids[j]];                                                      \
    for (; j < count; j++) {                                                   \
      int64_t id = mrt_id(l.index->data, l.index->type.dtype, i + j * is);     \
      id = mrt_checked_id(l.call, id, l.n);                                    \
      y[j] = x[j * xs + id * l.along];                                         \
    }                                                                          \
  }
GATHER(unit1)
GATHER(unit2)
GATHER(unit4)
GATHER(unit8)

static gather_fn *const gather_of[] = {
  [1] = gather_unit1, [2] = gather_unit2, [4] = gather_unit4, [8] = gather_unit8
};

static void gather_part(const mrt_call *c, const void *all, int part,
                        int parts) {
  const mrt_dim_options *o = c->options;
  const mrt_operand *x = &c->in[0], *index = &c->in[1];
  lookup l = { c, index, x->type.dims[o->dim], x->strides[o->dim] };
  int64_t size = (int64_t)mrt_size(x), from, to;
  walk w = *(const walk *)all;
  mrt_share(w.count, part, parts, &from, &to);
  walk_seek(&w, from);
  int64_t xs = w.step[X][w.rank - 1], is = w.step[INDEX][w.rank - 1];
  for (int64_t n; from < to; from += n, walk_next(&w)) {
    n = walk_row(&w, to - from);
    const char *row = (const char *)x->data + w.place[X] * size;
    char *y = (char *)c->out[0].data + from * size;
    if (is == 0 && xs == 1) { /* one id for all of them */
      int64_t id = mrt_id(index->data, index->type.dtype, w.place[INDEX]);
      row += mrt_checked_id(c, id, l.n) * l.along * size;
      walk_copy(y, row, n * size);
    } else
      gather_of[size](l, w.place[INDEX], is, row, xs, y, n);
  }
}

static void gather(const mrt_call *c) {
  const mrt_dim_options *o = c->options;
  const mrt_operand *x = &c->in[0], *index = &c->in[1];
  walk all = { .rank = index->type.rank };
  for (int i = 0; i < all.rank; i++) {
    all.dims[i] = index->type.dims[i];
    all.step[X][i] = i == o->dim ? 0 : x->strides[i];
    all.step[INDEX][i] = index->strides[i];
  }
  walk_join(&all);
  mrt_parallel(c, mrt_team(c, (double)all.count * 2), gather_part, &all);
}

/* ---- embedding ----------------------------------------------------------- */

enum { STRIP = 512 }; /* columns whose floats are converted together */

/* Row id of w to y, from element `at` on. */
static void copy_row(const mrt_operand *w, int64_t id, const mrt_operand *y,
                     int64_t at) {
  int64_t C = w->type.dims[1];
  real room[STRIP];
  if (C == 0) return;
  if (w->type.dtype == y->type.dtype) {
    memcpy(mrt_element(y, at), mrt_element(w, id * C), (size_t)C * mrt_size(w));
    return;
  }
  for (int64_t j = 0, n; j < C; j += n) {
    n = C - j < STRIP ? C - j : STRIP;
    real *to = mrt_reals_place(y, at + j, room);
    mrt_reals_out(y, at + j, n, mrt_reals_in(w, id * C + j, n, to));
  }
}

static void look_up(const mrt_call *c, const void *unused, int part,
                    int parts) {
  const mrt_operand *w = &c->in[0], *ids = &c->in[1];
  int64_t V = w->type.dims[0], C = w->type.dims[1], i, end;
  mrt_share(mrt_type_count(&ids->type), part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t id = mrt_checked_id(c, mrt_id(ids->data, ids->type.dtype, i), V);
    copy_row(w, id, &c->out[0], i * C);
  }
}

static void embedding(const mrt_call *c) {
  double bytes = (double)mrt_type_count(&c->out[0].type);
  bytes *= (double)mrt_size(&c->in[0]);
  mrt_parallel(c, mrt_team(c, bytes * 0.1), look_up, NULL);
}

/* A block of dw: rows [v0, v1), columns [c0, c1). */
typedef struct index_block {
  int64_t v0, v1, c0, c1;
} index_block;

static void add_rows(const mrt_call *c, index_block b) {
  const mrt_operand *ids = &c->in[0];
  real *dw = c->out[0].data, room[STRIP];
  int64_t V = c->out[0].type.dims[0], C = c->out[0].type.dims[1];
  int64_t N = mrt_type_count(&ids->type);
  for (int64_t v = b.v0; v < b.v1; v++)
    for (int64_t j = b.c0; j < b.c1; j++) dw[v * C + j] = 0;
  for (int64_t i = 0; i < N; i++) {
    int64_t id = mrt_id(ids->data, ids->type.dtype, i);
    /* a bad id was reported when it was looked up */
    id = id < 0 ? 0 : id < V ? id : V - 1;
    if (id < b.v0 || id >= b.v1) continue;
    for (int64_t at = b.c0, n; at < b.c1; at += n) {
      n = b.c1 - at < STRIP ? b.c1 - at : STRIP;
      const real *dy = mrt_reals_in(&c->in[1], i * C + at, n, room);
      for (int64_t j = 0; j < n; j++) dw[id * C + at + j] += dy[j];
    }
  }
}

/* Columns are cut first: ids are seldom spread evenly over the rows.  Empty
 * where there are too many parts. */
static index_block block_of(const mrt_call *c, int part, int parts) {
  enum { NARROWEST = 128 / sizeof(real) }; /* two cache lines */
  int64_t V = c->out[0].type.dims[0], C = c->out[0].type.dims[1];
  int64_t wide = C / NARROWEST;
  int across = wide < 1 ? 1 : wide < parts ? (int)wide : parts;
  int down = parts / across;
  index_block b = { 0 };
  if (part >= across * down) return b;
  mrt_share(V, part / across, down, &b.v0, &b.v1);
  mrt_share(wide, part % across, across, &b.c0, &b.c1);
  b.c0 *= NARROWEST, b.c1 *= NARROWEST;
  if (part % across == across - 1) b.c1 = C;
  return b;
}

static void add_block(const mrt_call *c, const void *unused, int part,
                      int parts) {
  add_rows(c, block_of(c, part, parts));
}

static void run_blocks(const mrt_call *c, const void *shared,
                       void (*run)(const mrt_call *, const void *, int, int)) {
  double moved = (double)mrt_type_count(&c->out[0].type) +
                 (double)mrt_type_count(&c->in[1].type);
  int team = mrt_team(c, moved * (double)sizeof(real) * 0.1);
  mrt_parallel(c, team, run, shared);
}

static void embedding_grad(const mrt_call *c) {
  run_blocks(c, NULL, add_block);
}

/* ---- embedding_add ------------------------------------------------------- */

static void add_to_block(const mrt_call *c, const void *shared, int part,
                         int parts) {
  int64_t C = c->out[0].type.dims[1];
  index_block b = block_of(c, part, parts);
  for (int64_t v = b.v0; v < b.v1; v++)
    for (int64_t at = b.c0, n; at < b.c1; at += n) {
      n = b.c1 - at < PLACES_STRIP ? b.c1 - at : PLACES_STRIP;
      add_places(shared, &c->in[1], C, v, at, n,
                 (const real *)c->in[2].data + v * C + at,
                 (real *)c->out[0].data + v * C + at);
    }
}

static void embedding_add(const mrt_call *c) {
  id_places p = find_places(&c->in[0], c->out[0].type.dims[0], c->scratch);
  run_blocks(c, &p, add_to_block);
}

static size_t embedding_add_scratch(const mrt_call *c) {
  return places_bytes(c->out[0].type.dims[0], &c->in[0]);
}

MRT_KERNEL(gather, .run = gather);
MRT_KERNEL(embedding, .run = embedding);
MRT_KERNEL(embedding_grad, .run = embedding_grad);
MRT_KERNEL(embedding_add, .run = embedding_add,
           .scratch = embedding_add_scratch);
