/* mask_grad.c -- the gradient of a mask that attention adds to its scores
 *
 *     dmask = dS, summed over what the mask is 1 of
 *
 * An item of work is a tile of the mask, at most TILE queries against TILE keys,
 * and everything that reads it: it computes scores and dP of those pairs once
 * more and adds up dS, so no score is stored and no sum crosses threads.  Where
 * the mask is 1 of the queries (or keys), tiles of all of these are added up in
 * one, which is summed in the end.
 *
 * SPDX-License-Identifier: MIT */
#include "attention/grad.h"

/* What an item reads: from .. before end of each; of t and s by tiles. */
typedef struct mask_item {
  int64_t from[4], end[4]; /* b, h, t, s */
} mask_item;

typedef struct mask_items {
  const attention_job *job;
  attention_carve *carve;
  size_t thread_bytes;
  int64_t tiles[4], count;
  int64_t *next;
} mask_items;

static mask_item mask_item_at(const mask_items *m, int64_t i) {
  const shape *n = &m->job->n;
  int64_t all[] = { n->B, n->H, n->T, n->S };
  mask_item x;
  for (int d = 4; d-- > 0; i /= m->tiles[d]) {
    int64_t at = i % m->tiles[d], unit = d < 2 ? 1 : TILE;
    bool whole = n->mask->type.dims[d] == 1;
    x.from[d] = whole ? 0 : at * unit;
    x.end[d] = whole || x.from[d] + unit > all[d] ? all[d] : x.from[d] + unit;
  }
  return x;
}

/* dS of a pair, which nobody rounds, added to `sum`. */
static void add_pair(const mrt_call *c, const shape *n, const place *at,
                     const pair *p, int64_t s, mask_kind mask,
                     attention_grad_work *w, matrix sum) {
  int64_t h = at->h / n->group;
  matrix k = tile_of(n, &c->in[1], at->b, s, h, p->keys, w->k);
  matrix v = tile_of(n, &c->in[2], at->b, s, h, p->keys, w->v);
  pair_scores(n, p, n->D, k, w->qt, w->p);
  pair_scores(n, p, n->Dv, v, w->dot, w->ds);
  adjust(n, p, mask, &w->mask, w->p, NULL);
  mrt_attention_weigh(n, p, 1, w);
  for (int64_t j = 0; j < row_end(p); j += LANES)
    for (int64_t i = 0; i < computed_for(p, j); i++) {
      real *to = sum.p + i * sum.row + j;
      vec_store(to, vec_load(to) + vec_load(w->ds.p + i * TILE + j));
    }
}

/* A tile of queries against the item's keys. */
static void add_queries(const mrt_call *c, const shape *n, const mask_item *m,
                        place at, attention_grad_work *w, matrix sum) {
  int64_t from = tiles_from(n, &at), end = tiles_end(n, &at);
  matrix q, dout;
  if (from < m->from[3]) from = m->from[3];
  if (end > m->end[3]) end = m->end[3];
  if (from >= end) return;
  mrt_attention_load(c, n, &at, w, &q, &dout);
  for (int64_t s = from; s < end; s += TILE) {
    pair p = pair_at(n, &at, s, end);
    mask_kind mask = mask_read(n, &p, &at, s, &w->mask);
    if (mask != MASK_HIDES) add_pair(c, n, &at, &p, s, mask, w, sum);
  }
}

/* The item's part of dmask from sums [key][query]; padding has sums of 0. */
static void put(const mrt_call *c, const mask_item *m, matrix sum) {
  const mrt_operand *y = &c->out[3];
  const int64_t *d = y->type.dims;
  int64_t b = d[0] == 1 ? 0 : m->from[0], h = d[1] == 1 ? 0 : m->from[1];
  int64_t queries = d[2] == 1 ? 1 : m->end[2] - m->from[2];
  int64_t keys = d[3] == 1 ? 1 : m->end[3] - m->from[3];
  for (int64_t i = 0; d[2] == 1 && i < TILE; i++)
    for (int64_t j = 1; j < TILE; j++)
      sum.p[i * sum.row] += sum.p[i * sum.row + j];
  for (int64_t j = 0; d[3] == 1 && j < queries; j++)
    for (int64_t i = 1; i < TILE; i++) sum.p[j] += sum.p[i * sum.row + j];
  for (int64_t j = 0; j < queries; j++) {
    real row[TILE];
    int64_t t = d[2] == 1 ? 0 : m->from[2] + j, s = d[3] == 1 ? 0 : m->from[3];
    for (int64_t i = 0; i < keys; i++) row[i] = sum.p[i * sum.row + j];
    int64_t at = ((b * d[1] + h) * d[2] + t) * d[3] + s;
    mrt_round(y->type.dtype, row, mrt_element(y, at), keys);
  }
}

static void compute(const mrt_call *c, const shape *n, const mask_item *m,
                    attention_grad_work *w) {
  matrix sum = columns_of(w->sum);
  memset(w->sum, 0, sizeof(real) * TILE * TILE);
  for (int64_t b = m->from[0]; b < m->end[0]; b++)
    for (int64_t h = m->from[1]; h < m->end[1]; h++)
      for (int64_t t = m->from[2]; t < m->end[2]; t += TILE)
        add_queries(c, n, m, place_of(n, b, h, t, m->end[2]), w, sum);
  put(c, m, sum);
}

static void compute_some(const mrt_call *c, const void *shared, int part,
                         int parts) {
  const mask_items *m = shared;
  uintptr_t at = (uintptr_t)c->scratch + (uintptr_t)part * m->thread_bytes;
  attention_grad_work w = m->carve(m->job, &at);
  begin_products(&m->job->n);
  for (;;) {
    int64_t i = __atomic_fetch_add(m->next, 1, __ATOMIC_RELAXED);
    if (i >= m->count) break;
    mask_item x = mask_item_at(m, i);
    compute(c, &m->job->n, &x, &w);
  }
  end_products(&m->job->n);
}

void mrt_attention_mask_grad(const mrt_call *c, const attention_job *t,
                             size_t thread_bytes, attention_carve *carve) {
  const int64_t *d = c->out[3].type.dims;
  int64_t next = 0;
  mask_items m = { .job = t,
                   .carve = carve,
                   .thread_bytes = thread_bytes,
                   .tiles = { d[0], d[1], tiles_in(d[2]), tiles_in(d[3]) },
                   .next = &next };
  m.count = m.tiles[0] * m.tiles[1] * m.tiles[2] * m.tiles[3];
  mrt_parallel(c, t->team, compute_some, &m);
}
