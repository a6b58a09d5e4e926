/* attention.c -- attention without its matrix of scores
 *
 * One item of work is a tile of queries of one head.  It walks the tiles of
 * keys with a running maximum and sum per query (online softmax), so that
 * scratch does not grow with T or S.  Items do not meet, so any thread may
 * take any.  Scores of pairs of bf16 are softened in powers of 2.
 *
 * Keys are met in ascending order and in tiles that begin at multiples of TILE,
 * whoever has the item, so the thread changes no bit.  Tiles of keys that
 * causality, a window or lengths hide whole are not met at all.
 *
 * Keys in pages are those of one operand to all but tile_of: it copies tiles
 * that go over the end of a page.
 *
 * Where each sample has one query, single.h does it.
 *
 * SPDX-License-Identifier: MIT */
#include "attention/dots.h"
#include "attention/mask.h"
#include "attention/single.h"

/* A thread's scratch. */
typedef struct attention_work {
  matrix qt;          /* [D][TILE], scaled */
  matrix s;           /* [TILE][TILE]; weights may be pairs of keys */
  matrix o;           /* [TILE][Dv] */
  real *spare;        /* [TILE][D or Dv]: a copied tile */
  real *paired;       /* [TILE / 2][Dv], of pairs */
  real *max, *sum;    /* [TILE], of what was seen so far */
  real *shift, *keep; /* [TILE]: what is subtracted; weight of the past */
  mask_work mask;
} attention_work;

static attention_work carve(const shape *n, uintptr_t *at) {
  return (attention_work){
    .qt = columns_of(take_tile(n, at, n->D)),
    .s = columns_of(take(at, TILE * TILE)),
    .o = rows_of(take(at, TILE * wide(n->Dv)), n->Dv),
    .spare = take_tile(n, at, n->D > n->Dv ? n->D : n->Dv),
    .paired = take_paired(n, at, n->Dv),
    .max = take(at, TILE),
    .sum = take(at, TILE),
    .shift = take(at, TILE),
    .keep = take(at, TILE),
    .mask = take_mask(n, at),
  };
}

static size_t thread_bytes(const shape *n) {
  uintptr_t end = 0;
  if (is_single(n))
    take_single(n, &end);
  else
    carve(n, &end);
  return end;
}

static vec column_max(matrix s, int64_t n, vec max) {
  vec m[4] = { max, max, max, max };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++)
      m[k] = vec_larger(vec_load(s.p + (i + k) * s.row), m[k]);
  for (; i < n; i++) m[0] = vec_larger(vec_load(s.p + i * s.row), m[0]);
  return vec_larger(vec_larger(m[0], m[1]), vec_larger(m[2], m[3]));
}

/* s becomes exp(s - shift); the sum. */
static vec column_exp(matrix s, int64_t n, vec shift) {
  vec sum = { 0 };
  for (int64_t i = 0; i < n; i++) {
    vec e = vec_exp_down(vec_load(s.p + i * s.row) - shift);
    vec_store(s.p + i * s.row, e);
    sum += e;
  }
  return sum;
}

/* The pair's scores become weights, for a maximum that may rise; `keep` is
 * what the weights of earlier pairs must be multiplied by. */
static void soften(const shape *n, const pair *p, attention_work *w) {
  for (int64_t j = 0; j < row_end(p); j += LANES) {
    matrix s = matrix_at(w->s, 0, j);
    int64_t m = computed_for(p, j);
    column_mask(p, j, w->s);
    vec old = vec_load(w->max + j), max = column_max(s, m, old), shift;
    if (n->dots) max = dots_raise(n->unit, old, max);
    for (int l = 0; l < LANES; l++) /* a query that saw no key yet */
      shift[l] = max[l] == -MRT_INF ? 0 : max[l];
    vec keep, sum = vec_load(w->sum + j);
    if (n->dots) {
      sum = dots_soften(s, m, n->unit, shift, old, sum, &keep);
    } else {
      keep = vec_exp_down(old - shift);
      sum = sum * keep + column_exp(s, m, shift);
    }
    vec_store(w->max + j, max);
    vec_store(w->keep + j, keep);
    vec_store(w->sum + j, sum);
  }
  if (n->rounds && !n->dots) round_scores(p, w->s);
}

/* What was summed before the maximum rose weighs less now. */
static void fade(const pair *p, attention_work *w) {
  for (int64_t j = 0; j < p->queries; j++) {
    real keep = w->keep[j], *o = w->o.p + j * w->o.row;
    for (int64_t d = 0; keep != 1 && d < w->o.row; d++) o[d] *= keep;
  }
}

/* The sums become o and lse; a query that saw no key gets 0 and -infinity, and
 * so does padding. */
static void store(const mrt_call *c, const shape *n, const place *at,
                  attention_work *w) {
  real *lse = (real *)c->out[1].data + (at->b * n->H + at->h) * n->T + at->t;
  for (int64_t j = at->queries; j < at->rows; j++)
    w->max[j] = -MRT_INF, w->sum[j] = 0;
  for (int64_t j = 0; j < at->rows; j++)
    lse[j] = w->max[j] * n->unit + m_log(w->sum[j]);
  bool wide = c->out[0].type.dtype == MRT_REAL;
  for (int64_t j = 0; j < at->rows; j++) {
    real *from = w->o.p + j * w->o.row, part = 1 / w->sum[j];
    real *o = wide ? head_at(&c->out[0], at->b, at->t + j, at->h) : from;
    if (w->sum[j] == 0)
      memset(o, 0, (size_t)n->Dv * sizeof *o);
    else
      for (int64_t d = 0; d < n->Dv; d++) o[d] = from[d] * part;
    if (!wide) store_row(n, &c->out[0], at->b, at->t + j, at->h, o);
  }
}

static void attend(const mrt_call *c, const shape *n, place at,
                   attention_work *w) {
  int64_t h = at.h / n->group, end = tiles_end(n, &at);
  bool first = true;
  ask_for(n, &c->in[1], at.b, 0, h);
  ask_for(n, &c->in[0], at.b, at.t + TILE, at.h);
  matrix q = tile_of(n, &c->in[0], at.b, at.t, at.h, at.queries, w->spare);
  columns_from(n, at.queries, n->D, q, w->qt, n->scale);
  for (int64_t j = 0; j < TILE; j++) w->max[j] = -MRT_INF, w->sum[j] = 0;
  for (int64_t s = tiles_from(n, &at); s < end; s += TILE) {
    pair p = pair_at(n, &at, s, end);
    mask_kind mask = mask_read(n, &p, &at, s, &w->mask);
    ask_for_mask(n, &p, &at, s);
    if (mask == MASK_HIDES) continue;
    matrix k = tile_of(n, &c->in[1], at.b, s, h, p.keys, w->spare);
    ask_for(n, &c->in[2], at.b, s, h);
    pair_scores(n, &p, n->D, k, w->qt, w->s);
    adjust(n, &p, mask, &w->mask, w->s, NULL);
    soften(n, &p, w);
    if (!first) fade(&p, w);
    ask_for(n, &c->in[1], at.b, s + TILE, h);
    matrix v = right_tile_of(n, &c->in[2], at.b, s, h, p.keys, w->spare);
    v = summed_over(n, p.keys, n->Dv, v, w->paired);
    pair_to_queries(n, &p, n->Dv, w->s, v, w->o, !first);
    first = false;
  }
  store(c, n, &at, w);
}

/* ---- one query to each sample -------------------------------------------- */

/* Item i is a head of keys of a sample. */
static void attend_single(const mrt_call *c, const shape *n, int64_t i,
                          single_work *w) {
  int64_t b = i / n->Hk, h = i % n->Hk;
  place at = place_of(n, b, h * n->group, 0, 1);
  single_attend(n, &at, h, w);
  for (int64_t g = 0; g < n->group; g++, at.h++) {
    attention_work one = { .o = rows_of(w->o + g * wide(n->Dv), n->Dv),
                           .max = w->max + g,
                           .sum = w->sum + g };
    store(c, n, &at, &one);
  }
}

static void single_some(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const shape *n = shared;
  uintptr_t at = (uintptr_t)c->scratch + (uintptr_t)part * thread_bytes(n);
  single_work w = take_single(n, &at);
  int64_t i, end;
  mrt_share(n->B * n->Hk, part, parts, &i, &end);
  for (; i < end; i++) attend_single(c, n, i, &w);
}

/* ---- tiles of queries ---------------------------------------------------- */

/* Items are handed out, `chunk` at a time: they differ in what they take. */
typedef struct attention_items {
  const shape *n;
  int64_t tiles, count, chunk;
  int64_t *next;
} attention_items;

static void attend_some(const mrt_call *c, const void *shared, int part,
                        int parts) {
  const attention_items *s = shared;
  uintptr_t at = (uintptr_t)c->scratch + (uintptr_t)part * thread_bytes(s->n);
  attention_work w = carve(s->n, &at);
  begin_products(s->n);
  for (;;) {
    int64_t i = __atomic_fetch_add(s->next, s->chunk, __ATOMIC_RELAXED);
    int64_t end = s->count - i < s->chunk ? s->count : i + s->chunk;
    if (i >= s->count) break;
    for (; i < end; i++) attend(c, s->n, place_at(s->n, i, s->tiles), &w);
  }
  end_products(s->n);
}

static void run_behind(const mrt_call *c, int after) {
  shape n = shape_of(c, after);
  if (is_single(&n)) {
    double ns = (double)(n.D + n.Dv) * seen_in_all(&n) / 40;
    n.dots = false, n.unit = 1;
    mrt_parallel(c, mrt_team(c, ns), single_some, &n);
    return;
  }
  int64_t tiles = (n.T + TILE - 1) / TILE, items = n.B * n.H * tiles;
  int team = mrt_team(c, 2 * (double)(n.D + n.Dv) * seen_in_all(&n) / 100);
  /* A thread best keeps to a head, whose keys are then in its cache. */
  int64_t chunk = n.B * n.H >= 4 * team && tiles ? tiles : 1;
  int64_t next = 0;
  attention_items s = { &n, tiles, items, chunk, &next };
  mrt_parallel(c, team, attend_some, &s);
}
static size_t scratch_behind(const mrt_call *c, int after) {
  shape n = shape_of(c, after);
  return thread_bytes(&n) * (size_t)c->threads;
}

static void run(const mrt_call *c) { run_behind(c, MRT_ATTENTION_AFTER); }
static size_t scratch(const mrt_call *c) {
  return scratch_behind(c, MRT_ATTENTION_AFTER);
}
static void run_paged(const mrt_call *c) {
  run_behind(c, MRT_ATTENTION_PAGED_AFTER);
}
static size_t scratch_paged(const mrt_call *c) {
  return scratch_behind(c, MRT_ATTENTION_PAGED_AFTER);
}

MRT_KERNEL(attention, .run = run, .scratch = scratch);
MRT_KERNEL(paged_attention, .run = run_paged, .scratch = scratch_paged);
