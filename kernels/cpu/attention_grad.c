/* attention_grad.c -- the gradient of attention, scores computed again
 *
 *   P  = exp(scale Q K' - lse)          dV = P' dO
 *   dS = P * (dO V' - delta) * scale    dQ = dS K,  dK = dS' Q
 *   delta = sum over Dv of o * do
 *
 * An item of work owns what it writes, so no sum crosses threads.  With enough
 * key heads an item is one of them: each pair of tiles is computed once and
 * serves dq, dk and dv.  With few, threads would be idle, so dq goes by tiles
 * of queries and then dk and dv by tiles of keys; this computes the scores and
 * dP twice.  The choice depends on the shape and the thread count only.
 *
 * SPDX-License-Identifier: MIT */
#include "attention.h"

/* A thread's scratch. */
typedef struct work {
  matrix qt, dot;         /* [D][TILE] scaled, [Dv][TILE] */
  matrix p, ds;           /* [TILE][TILE] */
  matrix dq;              /* [TILE][D] */
  real *q, *k, *v, *dout; /* copied tiles */
  real *part;             /* of dk or dv */
  real *lse, *delta;      /* [TILE] */
} work;

/* What an item computes: queries t .. t_end against keys s .. s_end of key
 * head h. */
typedef struct item {
  int64_t b, h, t, t_end, s, s_end;
  bool dq, dkv;
} item;

static work carve(const shape *n, uintptr_t *at) {
  int64_t d = wide(n->D), dv = wide(n->Dv);
  return (work){
    .qt = columns_of(take(at, d * TILE)),
    .dot = columns_of(take(at, dv * TILE)),
    .p = columns_of(take(at, TILE * TILE)),
    .ds = columns_of(take(at, TILE * TILE)),
    .dq = rows_of(take(at, TILE * d), n->D),
    .q = take(at, TILE * d),
    .k = take(at, TILE * d),
    .v = take(at, TILE * dv),
    .dout = take(at, TILE * dv),
    .part = take(at, TILE * (d > dv ? d : dv)),
    .lse = take(at, TILE),
    .delta = take(at, TILE),
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

/* lse and delta of a tile of queries.  A query that saw no key, and padding,
 * gets an lse that makes every P zero. */
static void row_terms(const mrt_call *c, const shape *n, place at, matrix dout,
                      work *w) {
  const real *lse = (real *)c->in[4].data + (at.b * n->H + at.h) * n->T + at.t;
  for (int64_t j = 0; j < TILE; j++) w->lse[j] = MRT_INF, w->delta[j] = 0;
  for (int64_t j = 0; j < at.queries; j++) {
    const real *o = head_at(&c->in[3], at.b, at.t + j, at.h);
    if (lse[j] != -MRT_INF) w->lse[j] = lse[j];
    w->delta[j] = row_dot(o, dout.p + j * dout.row, n->Dv);
  }
}

/* Scores to P, dP to dS. */
static void differentiate(const shape *n, const pair *p, work *w) {
  for (int64_t j = 0; j < row_end(p); j += LANES) {
    vec lse = vec_load(w->lse + j), delta = vec_load(w->delta + j);
    column_mask(p, j, w->p);
    for (int64_t i = 0; i < computed_for(p, j); i++) {
      real *s = w->p.p + i * TILE + j, *ds = w->ds.p + i * TILE + j;
      vec weight = vec_exp_down(vec_load(s) - lse);
      vec_store(s, weight);
      vec_store(ds, weight * (vec_load(ds) - delta) * n->scale);
    }
  }
}

/* dx[key] += sum over queries of s[key][query] y[query], rows of head h from s0
 * on: in place, or through `part` where dx has no room for padding. */
static void add_to_keys(const pair *p, matrix s, matrix y, mrt_operand *dx,
                        int64_t b, int64_t s0, int64_t h, real *part) {
  int64_t d = dx->type.dims[3];
  real *to = head_at(dx, b, s0, h);
  if (whole(dx, p->keys)) {
    pair_to_keys(p, d, s, y, (matrix){ to, dx->strides[1], 1 });
    return;
  }
  matrix sum = rows_of(part, d);
  memset(part, 0, (size_t)(TILE * sum.row) * sizeof *part);
  pair_to_keys(p, d, s, y, sum);
  for (int64_t i = 0; i < p->keys; i++, to += dx->strides[1])
    for (int64_t j = 0; j < d; j++) to[j] += sum.p[i * sum.row + j];
}

/* A tile of queries of one head against the item's keys. */
static void one_tile(const mrt_call *c, const shape *n, const item *m, place at,
                     work *w) {
  int64_t end = keys_seen_by(n, at.t + at.queries - 1);
  if (end > m->s_end) end = m->s_end;
  if (end <= m->s && !m->dq) return;
  matrix q = tile_of(&c->in[0], at.b, at.t, at.h, at.queries, w->q);
  matrix dout = tile_of(&c->in[5], at.b, at.t, at.h, at.queries, w->dout);
  columns_from(at.queries, n->D, n->scale, q, w->qt);
  columns_from(at.queries, n->Dv, 1, dout, w->dot);
  row_terms(c, n, at, dout, w);
  if (end <= m->s)
    memset(w->dq.p, 0, (size_t)(TILE * w->dq.row) * sizeof(real));
  for (int64_t s = m->s; s < end; s += TILE) {
    pair p = pair_at(n, at.t, at.queries, s, end);
    matrix k = tile_of(&c->in[1], m->b, s, m->h, p.keys, w->k);
    matrix v = tile_of(&c->in[2], m->b, s, m->h, p.keys, w->v);
    pair_scores(&p, n->D, k, w->qt, w->p);
    pair_scores(&p, n->Dv, v, w->dot, w->ds);
    differentiate(n, &p, w);
    if (m->dq) pair_to_queries(&p, n->D, w->ds, k, w->dq, s > m->s);
    if (!m->dkv) continue;
    add_to_keys(&p, w->ds, q, &c->out[1], m->b, s, m->h, w->part);
    add_to_keys(&p, w->p, dout, &c->out[2], m->b, s, m->h, w->part);
  }
  for (int64_t j = 0; m->dq && j < at.queries; j++)
    memcpy(head_at(&c->out[0], at.b, at.t + j, at.h), w->dq.p + j * w->dq.row,
           (size_t)n->D * sizeof(real));
}

static void compute(const mrt_call *c, const shape *n, const item *m, work *w) {
  for (int64_t s = m->s; m->dkv && s < m->s_end; s++) {
    memset(head_at(&c->out[1], m->b, s, m->h), 0, (size_t)n->D * sizeof(real));
    memset(head_at(&c->out[2], m->b, s, m->h), 0, (size_t)n->Dv * sizeof(real));
  }
  for (int64_t g = 0; g < n->group; g++)
    for (int64_t t = m->t; t < m->t_end; t += TILE)
      one_tile(c, n, m,
               (place){ .b = m->b,
                        .h = m->h * n->group + g,
                        .t = t,
                        .queries = m->t_end - t < TILE ? m->t_end - t : TILE },
               w);
}

static int64_t tiles_in(int64_t n) { return (n + TILE - 1) / TILE; }

/* Item i: whole key heads; or tiles of queries, then tiles of keys. */
static item item_at(const shape *n, bool split, int64_t i) {
  int64_t heads = n->B * n->Hk, by_t = tiles_in(n->T), by_s = tiles_in(n->S);
  item m = { .t_end = n->T, .s_end = n->S, .dq = true, .dkv = true };
  int64_t head = i;
  if (split && i < heads * by_t) {
    m.dkv = false, m.t = i % by_t * TILE, head = i / by_t;
    if (m.t + TILE < n->T) m.t_end = m.t + TILE;
  } else if (split) {
    i -= heads * by_t;
    m.dq = false, m.s = i % by_s * TILE, head = i / by_s;
    if (m.s + TILE < n->S) m.s_end = m.s + TILE;
  }
  m.b = head / n->Hk, m.h = head % n->Hk;
  return m;
}

/* Seven products on all threads, or five with some idle? */
static bool should_split(int64_t heads, int team) {
  int64_t rounds = (heads + team - 1) / team;
  return rounds * team * 5 > heads * 7;
}

static void run(const mrt_call *c) {
  shape n = shape_of(c);
  double flops = (6 * (double)n.D + 4 * (double)n.Dv) * seen_in_all(&n);
  int team = mrt_team(c, flops / 100);
  int64_t items = n.B * n.Hk;
  bool split = should_split(items, team);
  if (split) items *= tiles_in(n.T) + tiles_in(n.S);
#pragma omp parallel num_threads(team)
  {
    uintptr_t at = (uintptr_t)c->scratch +
                   (uintptr_t)omp_get_thread_num() * thread_bytes(&n);
    work w = carve(&n, &at);
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < items; i++) {
      item m = item_at(&n, split, i);
      compute(c, &n, &m, &w);
    }
  }
}

MRT_KERNEL(attention_grad, .run = run, .scratch = scratch);
