/* attention.c -- attention without its matrix of scores
 *
 * One item of work is a tile of queries of one head.  It walks the tiles of
 * keys with a running maximum and sum per query (online softmax), so that
 * scratch does not grow with T or S.  Items do not meet, so any thread may
 * take any.
 *
 * SPDX-License-Identifier: MIT */
#include "attention.h"

/* A thread's scratch. */
typedef struct work {
  matrix qt;          /* [D][TILE], scaled */
  matrix s;           /* [TILE][TILE] */
  matrix o;           /* [TILE][Dv] */
  real *spare;        /* [TILE][D or Dv]: a copied tile */
  real *max, *sum;    /* [TILE], of what was seen so far */
  real *shift, *keep; /* [TILE]: what is subtracted; weight of the past */
} work;

static work carve(const shape *n, uintptr_t *at) {
  int64_t larger = wide(n->D > n->Dv ? n->D : n->Dv);
  return (work){
    .qt = columns_of(take(at, wide(n->D) * TILE)),
    .s = columns_of(take(at, TILE * TILE)),
    .o = rows_of(take(at, TILE * wide(n->Dv)), n->Dv),
    .spare = take(at, TILE * larger),
    .max = take(at, TILE),
    .sum = take(at, TILE),
    .shift = take(at, TILE),
    .keep = take(at, TILE),
  };
}

static size_t thread_bytes(const shape *n) {
  uintptr_t end = 0;
  carve(n, &end);
  return end;
}

static size_t scratch(const mrt_call *c) {
  shape n = shape_of(c);
  return thread_bytes(&n) * (size_t)c->threads;
}

/* Take the pair's scores into max; shift and keep follow. */
static void raise_max(const pair *p, work *w) {
  int64_t end = row_end(p);
  memcpy(w->keep, w->max, TILE * sizeof(real));
  for (int64_t i = 0; i < p->keys; i++) {
    const real *s = w->s.p + i * TILE;
    for (int64_t j = row_start(p, i); j < end; j++)
      w->max[j] = s[j] > w->max[j] ? s[j] : w->max[j];
  }
  for (int64_t j = 0; j < end; j++) {
    w->shift[j] = w->max[j] == -MRT_INF ? 0 : w->max[j]; /* saw nothing */
    w->keep[j] = m_exp(w->keep[j] - w->shift[j]);
    w->sum[j] *= w->keep[j];
  }
}

static void exponentials(const pair *p, work *w) {
  int64_t end = row_end(p);
  for (int64_t i = 0; i < p->keys; i++) {
    real *s = w->s.p + i * TILE;
    for (int64_t j = row_start(p, i); j < end; j++) {
      s[j] = m_exp(s[j] - w->shift[j]);
      w->sum[j] += s[j];
    }
  }
}

/* What was summed before the maximum rose weighs less now. */
static void fade(const pair *p, work *w) {
  for (int64_t j = 0; j < p->queries; j++)
    for (int64_t d = 0; d < w->o.row; d++)
      w->o.p[j * w->o.row + d] *= w->keep[j];
}

/* The sums become o and lse; a query that saw no key gets 0 and -infinity. */
static void store(const mrt_call *c, const shape *n, place at, const work *w) {
  real *lse = (real *)c->out[1].data + (at.b * n->H + at.h) * n->T + at.t;
  for (int64_t j = 0; j < at.queries; j++) {
    real *o = head_at(&c->out[0], at.b, at.t + j, at.h);
    const real *from = w->o.p + j * w->o.row;
    real sum = w->sum[j];
    for (int64_t d = 0; d < n->Dv; d++) o[d] = sum == 0 ? 0 : from[d] / sum;
    lse[j] = w->max[j] + m_log(sum);
  }
}

static void attend(const mrt_call *c, const shape *n, place at, work *w) {
  int64_t h = at.h / n->group, end = keys_seen_by(n, at.t + at.queries - 1);
  matrix q = tile_of(&c->in[0], at.b, at.t, at.h, at.queries, w->spare);
  columns_from(at.queries, n->D, n->scale, q, w->qt);
  for (int64_t j = 0; j < TILE; j++) w->max[j] = -MRT_INF, w->sum[j] = 0;
  for (int64_t s = 0; s < end; s += TILE) {
    pair p = pair_at(n, at.t, at.queries, s, end);
    matrix k = tile_of(&c->in[1], at.b, s, h, p.keys, w->spare);
    pair_scores(&p, n->D, k, w->qt, w->s);
    pair_mask(&p, w->s);
    raise_max(&p, w);
    exponentials(&p, w);
    if (s > 0) fade(&p, w);
    matrix v = tile_of(&c->in[2], at.b, s, h, p.keys, w->spare);
    pair_to_queries(&p, n->Dv, w->s, v, w->o, s > 0);
  }
  store(c, n, at, w);
}

static void run(const mrt_call *c) {
  shape n = shape_of(c);
  int64_t tiles = (n.T + TILE - 1) / TILE, items = n.B * n.H * tiles;
  int team = mrt_team(c, 2 * (double)(n.D + n.Dv) * seen_in_all(&n) / 100);
#pragma omp parallel num_threads(team)
  {
    uintptr_t at = (uintptr_t)c->scratch +
                   (uintptr_t)omp_get_thread_num() * thread_bytes(&n);
    work w = carve(&n, &at);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < items; i++)
      attend(c, &n, place_at(&n, i, tiles), &w);
  }
}

MRT_KERNEL(attention, .run = run, .scratch = scratch);
