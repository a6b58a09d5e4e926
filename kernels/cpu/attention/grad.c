/* grad.c -- the gradient of attention, scores computed again
 *
 * grad.h has the formulas.
 *
 * An item of work owns what it writes, so no sum crosses threads.  With enough
 * key heads an item is one of them: each pair of tiles is computed once and
 * serves dq, dk and dv.  With few, threads would be idle, so dq goes by tiles
 * of queries and then dk and dv by tiles of keys; this computes the scores and
 * dP twice.  The choice depends on the shape and the thread count only.
 *
 * Narrow dk and dv are summed in f32: in scratch as long as the item's keys.
 * The gradient of a mask comes last and by itself (mask_grad.c).
 *
 * SPDX-License-Identifier: MIT */
#include "attention/grad.h"

/* What an item computes: queries t .. t_end against keys s .. s_end of key
 * head h. */
typedef struct item {
  int64_t b, h, t, t_end, s, s_end;
  bool dq, dkv;
} item;

/* Seven products on all threads, or five with some idle? */
static bool should_split(int64_t heads, int team) {
  int64_t rounds = (heads + team - 1) / team;
  return rounds * team * 5 > heads * 7;
}

static attention_job job_of(const mrt_call *c) {
  attention_job t = { .n = shape_of(c, MRT_ATTENTION_GRAD_AFTER) };
  const shape *n = &t.n;
  double flops = (6 * (double)n->D + 4 * (double)n->Dv) * seen_in_all(n);
  t.team = mrt_team(c, flops / 100);
  t.split = should_split(n->B * n->Hk, t.team);
  for (int i = 0; i < MRT_ATTENTION_GRAD_AFTER; i++)
    t.narrow = t.narrow || c->in[i].type.dtype != MRT_REAL;
  for (int i = 0; i < 3; i++)
    t.narrow = t.narrow || c->out[i].type.dtype != MRT_REAL;
  return t;
}

static attention_grad_work carve(const attention_job *t, uintptr_t *at) {
  const shape *n = &t->n;
  int64_t d = wide(n->D), dv = wide(n->Dv), half = n->dots ? TILE / 2 : 0;
  int64_t keys = t->split ? TILE : padded(n->S, TILE);
  int64_t sums = t->narrow ? keys : 0, row = t->narrow ? dv : 0;
  return (attention_grad_work){
    .qt = columns_of(take_tile(n, at, n->D)),
    .dot = columns_of(take_tile(n, at, n->Dv)),
    .p = columns_of(take(at, TILE * TILE)),
    .ds = columns_of(take(at, TILE * TILE)),
    .pq = (matrix){ take(at, TILE * half), half, 1 },
    .dsq = (matrix){ take(at, TILE * half), half, 1 },
    .dq = rows_of(take(at, TILE * d), n->D),
    .q = take_tile(n, at, n->D),
    .k = take_tile(n, at, n->D),
    .v = take_tile(n, at, n->Dv),
    .dout = take_tile(n, at, n->Dv),
    .q2 = take_paired(n, at, n->D),
    .k2 = take_paired(n, at, n->D),
    .dout2 = take_paired(n, at, n->Dv),
    .part = take(at, t->narrow ? 0 : TILE * (d > dv ? d : dv)),
    .dk = rows_of(take(at, sums * d), n->D),
    .dv = rows_of(take(at, sums * dv), n->Dv),
    .lse = take(at, TILE),
    .delta = take(at, TILE),
    .row = { take(at, row), take(at, row) },
    .slope = take(at, n->softcap > 0 ? TILE * TILE : 0),
    .mask = take_mask(n, at),
    .sum = take(at, n->mask ? TILE * TILE : 0),
  };
}

static size_t thread_bytes(const attention_job *t) {
  uintptr_t end = 0;
  carve(t, &end);
  return end;
}

static size_t scratch(const mrt_call *c) {
  attention_job t = job_of(c);
  return thread_bytes(&t) * (size_t)t.team;
}

/* Scores to P, dP to dS. */
static void differentiate(const shape *n, const pair *p,
                          attention_grad_work *w) {
  if (!n->dots) {
    mrt_attention_weigh(n, p, n->scale, w);
    if (n->softcap > 0) multiply_by_slope(p, w);
    if (n->rounds) round_scores(p, w->p), round_scores(p, w->ds);
    return;
  }
  for (int64_t j = 0; j < row_end(p); j += LANES) {
    vec lse = vec_load(w->lse + j), delta = vec_load(w->delta + j);
    column_mask(p, j, w->p);
    dots_differentiate(computed_for(p, j), n->unit, n->scale, lse, delta,
                       n->softcap > 0 ? w->slope + j : NULL,
                       matrix_at(w->p, 0, j), matrix_at(w->ds, 0, j),
                       matrix_at(w->pq, 0, j / 2), matrix_at(w->dsq, 0, j / 2));
  }
}

/* dx[key] += sum over queries of s[key][query] y[query], rows of head h from s0
 * on: in place, or through `part` where dx has no room for padding. */
static void add_to_keys(const shape *n, const pair *p, matrix s, matrix y,
                        mrt_operand *dx, int64_t b, int64_t s0, int64_t h,
                        real *part) {
  int64_t d = dx->type.dims[3];
  real *to = head_at(dx, b, s0, h);
  if (whole(dx, p->keys)) {
    pair_to_keys(n, p, d, s, y, (matrix){ to, dx->strides[1], 1 });
    return;
  }
  matrix sum = rows_of(part, d);
  memset(part, 0, (size_t)(TILE * sum.row) * sizeof *part);
  pair_to_keys(n, p, d, s, y, sum);
  for (int64_t i = 0; i < p->keys; i++, to += dx->strides[1])
    for (int64_t j = 0; j < d; j++) to[j] += sum.p[i * sum.row + j];
}

/* Rows of a block beyond the pair's keys: they belong to other keys' sums. */
static void clear_padding(const pair *p, matrix s) {
  int64_t rows = padded(p->keys, p->rows) - p->keys;
  memset(s.p + p->keys * s.row, 0, (size_t)(rows * s.row) * sizeof(real));
}

/* dk and dv of keys s .. s + p->keys, of which m is the item. */
static void add_keys(const mrt_call *c, const attention_job *t, const item *m,
                     const pair *p, int64_t s, matrix q, matrix dout,
                     attention_grad_work *w) {
  const shape *n = &t->n;
  matrix pq = n->dots ? w->pq : w->p, dsq = n->dots ? w->dsq : w->ds;
  if (t->narrow) {
    clear_padding(p, pq), clear_padding(p, dsq);
    pair_to_keys(n, p, n->D, dsq, q, matrix_at(w->dk, s - m->s, 0));
    pair_to_keys(n, p, n->Dv, pq, dout, matrix_at(w->dv, s - m->s, 0));
    return;
  }
  add_to_keys(n, p, dsq, q, &c->out[1], m->b, s, m->h, w->part);
  add_to_keys(n, p, pq, dout, &c->out[2], m->b, s, m->h, w->part);
}

static void store_queries(const mrt_call *c, const shape *n, const place *at,
                          attention_grad_work *w, bool any) {
  int64_t from = any ? at->queries : 0;
  memset(w->dq.p + from * w->dq.row, 0,
         (size_t)((TILE - from) * w->dq.row) * sizeof(real));
  for (int64_t j = 0; j < at->rows; j++)
    store_row(n, &c->out[0], at->b, at->t + j, at->h, w->dq.p + j * w->dq.row);
}

/* A pair of tiles, of whose sums this is perhaps the first. */
static void one_pair(const mrt_call *c, const attention_job *t, const item *m,
                     const place *at, const pair *p, int64_t s, mask_kind mask,
                     matrix q, matrix dout, attention_grad_work *w,
                     bool first) {
  const shape *n = &t->n;
  matrix k = right_tile_of(n, &c->in[1], m->b, s, m->h, p->keys, w->k);
  matrix v = tile_of(n, &c->in[2], m->b, s, m->h, p->keys, w->v);
  pair_scores(n, p, n->D, k, w->qt, w->p);
  pair_scores(n, p, n->Dv, v, w->dot, w->ds);
  adjust(n, p, mask, &w->mask, w->p, n->softcap > 0 ? w->slope : NULL);
  differentiate(n, p, w);
  if (m->dq) {
    k = summed_over(n, p->keys, n->D, k, w->k2);
    pair_to_queries(n, p, n->D, w->ds, k, w->dq, !first);
  }
  if (m->dkv) add_keys(c, t, m, p, s, q, dout, w);
}

/* A tile of queries of one head against the item's keys. */
static void one_tile(const mrt_call *c, const attention_job *t, const item *m,
                     place at, attention_grad_work *w) {
  const shape *n = &t->n;
  int64_t from = tiles_from(n, &at), end = tiles_end(n, &at);
  bool any = false;
  if (from < m->s) from = m->s;
  if (end > m->s_end) end = m->s_end;
  if (end <= from && !m->dq) return;
  matrix q, dout;
  mrt_attention_load(c, n, &at, w, &q, &dout);
  q = summed_over(n, at.queries, n->D, q, w->q2);
  dout = summed_over(n, at.queries, n->Dv, dout, w->dout2);
  for (int64_t s = from; s < end; s += TILE) {
    pair p = pair_at(n, &at, s, end);
    mask_kind mask = mask_read(n, &p, &at, s, &w->mask);
    ask_for_mask(n, &p, &at, s);
    if (mask == MASK_HIDES) continue;
    one_pair(c, t, m, &at, &p, s, mask, q, dout, w, !any);
    any = true;
  }
  if (m->dq) store_queries(c, n, &at, w, any);
}

/* Rows of dk, or of dv, from what was summed. */
static void store_keys(const shape *n, const mrt_operand *dx, const item *m,
                       matrix sum) {
  for (int64_t s = m->s; s < m->s_end; s++)
    store_row(n, dx, m->b, s, m->h, sum.p + (s - m->s) * sum.row);
}

static void clear_keys(const mrt_call *c, const attention_job *t, const item *m,
                       attention_grad_work *w) {
  size_t keys = (size_t)padded(m->s_end - m->s, TILE);
  size_t k = (size_t)t->n.D * sizeof(real), v = (size_t)t->n.Dv * sizeof(real);
  if (t->narrow) {
    memset(w->dk.p, 0, keys * (size_t)w->dk.row * sizeof(real));
    memset(w->dv.p, 0, keys * (size_t)w->dv.row * sizeof(real));
    return;
  }
  for (int64_t s = m->s; s < m->s_end; s++) {
    memset(head_at(&c->out[1], m->b, s, m->h), 0, k);
    memset(head_at(&c->out[2], m->b, s, m->h), 0, v);
  }
}

static void compute(const mrt_call *c, const attention_job *t, const item *m,
                    attention_grad_work *w) {
  const shape *n = &t->n;
  if (m->dkv) clear_keys(c, t, m, w);
  for (int64_t g = 0; g < n->group; g++)
    for (int64_t i = m->t; i < m->t_end; i += TILE)
      one_tile(c, t, m, place_of(n, m->b, m->h * n->group + g, i, m->t_end), w);
  if (!m->dkv || !t->narrow) return;
  store_keys(n, &c->out[1], m, w->dk);
  store_keys(n, &c->out[2], m, w->dv);
}

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

typedef struct grad_items {
  const attention_job *job;
  int64_t count;
  int64_t *next; /* handed out one by one: they differ in what they take */
} grad_items;

static void compute_some(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const grad_items *s = shared;
  const attention_job *t = s->job;
  uintptr_t at = (uintptr_t)c->scratch + (uintptr_t)part * thread_bytes(t);
  attention_grad_work w = carve(t, &at);
  begin_products(&t->n);
  for (;;) {
    int64_t i = __atomic_fetch_add(s->next, 1, __ATOMIC_RELAXED);
    if (i >= s->count) break;
    item m = item_at(&t->n, t->split, i);
    compute(c, t, &m, &w);
  }
  end_products(&t->n);
}

static void run(const mrt_call *c) {
  attention_job t = job_of(c);
  int64_t items = t.n.B * t.n.Hk;
  if (t.split) items *= tiles_in(t.n.T) + tiles_in(t.n.S);
  int64_t next = 0;
  grad_items s = { &t, items, &next };
  mrt_parallel(c, t.team, compute_some, &s);
  const mrt_attention_options *o = c->options;
  if (o->mask_grad) mrt_attention_mask_grad(c, &t, thread_bytes(&t), carve);
}

MRT_KERNEL(attention_grad, .run = run, .scratch = scratch, .spreads = true);
