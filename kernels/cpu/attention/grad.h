/* grad.h -- what the gradients of attention share
 *
 *   P  = exp(S - lse), S as attention's     dV = P' dO
 *   dS = P * (dO V' - delta)                dmask = sums of dS
 *   dQ = dS' K, dK = dS' Q for dS' = dS * scale, and of softcap * (1 - tanh^2)
 *   delta = sum over Dv of o * do
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ATTENTION_GRAD_H
#define MRT_ATTENTION_GRAD_H

#include "attention/dots.h"
#include "attention/mask.h"

/* A thread's scratch. */
typedef struct attention_grad_work {
  matrix qt, dot;         /* [D][TILE] scaled, [Dv][TILE] */
  matrix p, ds;           /* [TILE][TILE]; ds may be pairs of keys */
  matrix pq, dsq;         /* [TILE][TILE / 2], pairs of queries */
  matrix dq;              /* [TILE][D] */
  real *q, *k, *v, *dout; /* copied tiles */
  real *q2, *k2, *dout2;  /* the same in pairs of rows */
  real *part;             /* of dk or dv */
  matrix dk, dv;          /* sums of the item's keys, where these are narrow */
  real *lse, *delta;      /* [TILE] */
  real *row[2];           /* [Dv] */
  real *slope;            /* [TILE][TILE], of softcap */
  mask_work mask;
  real *sum; /* [TILE][TILE], of the mask's gradient */
} attention_grad_work;

/* How an operator's work is divided. */
typedef struct attention_job {
  shape n;
  int team;
  bool split;  /* into tiles of queries and tiles of keys */
  bool narrow; /* not all operands are reals */
} attention_job;

typedef attention_grad_work attention_carve(const attention_job *t,
                                            uintptr_t *at);

static inline int64_t tiles_in(int64_t n) { return (n + TILE - 1) / TILE; }

/* A row of o, or of lse. */
static inline const real *reals_of(const mrt_operand *x, const void *from,
                                   real *room, int64_t n) {
  if (x->type.dtype == MRT_REAL) return from;
  mrt_widen(x->type.dtype, from, room, n);
  return room;
}

/* lse and delta of a tile of queries.  A query that saw no key, and padding,
 * gets an lse that makes every P zero. */
static inline void row_terms(const mrt_call *c, const shape *n, const place *at,
                             matrix dout, attention_grad_work *w) {
  const mrt_operand *lses = &c->in[4], *os = &c->in[3];
  int64_t first = (at->b * n->H + at->h) * n->T + at->t;
  int64_t bytes = (int64_t)mrt_dtypes[lses->type.dtype].bytes;
  const real *lse = reals_of(lses, (const char *)lses->data + first * bytes,
                             w->lse, at->queries);
  for (int64_t j = 0; j < TILE; j++) {
    bool none = j >= at->queries || lse[j] == -MRT_INF;
    w->lse[j] = none ? MRT_INF : lse[j], w->delta[j] = 0;
  }
  for (int64_t j = 0; j < at->queries; j++) {
    const void *from = head_at(os, at->b, at->t + j, at->h);
    if (n->dots && os->type.dtype == MRT_bf16) {
      w->delta[j] = dots_row(from, dout.p + j * dout.row, n->Dv);
      continue;
    }
    const real *o = reals_of(os, from, w->row[0], n->Dv);
    const real *row = dout.p + j * dout.row;
    if (n->dots) {
      mrt_widen(MRT_bf16, row, w->row[1], n->Dv);
      row = w->row[1];
    }
    w->delta[j] = row_dot(o, row, n->Dv);
  }
}

/* A tile of queries: q and dout as tile_of gives them, turned in w, and the
 * terms of its rows. */
static inline void mrt_attention_load(const mrt_call *c, const shape *n,
                                      const place *at, attention_grad_work *w,
                                      matrix *q, matrix *dout) {
  for (int i = 0; i < 6; i++) /* q, o, do */
    if (i % 3 == 0 || i == 5) ask_for(n, &c->in[i], at->b, at->t + TILE, at->h);
  *q = right_tile_of(n, &c->in[0], at->b, at->t, at->h, at->queries, w->q);
  *dout =
      right_tile_of(n, &c->in[5], at->b, at->t, at->h, at->queries, w->dout);
  columns_from(n, at->queries, n->D, *q, w->qt, n->scale);
  columns_from(n, at->queries, n->Dv, *dout, w->dot, 1);
  row_terms(c, n, at, *dout, w);
}

/* Scores to P, dP to dS times `scale`. */
static inline void mrt_attention_weigh(const shape *n, const pair *p,
                                       real scale, attention_grad_work *w) {
  for (int64_t j = 0; j < row_end(p); j += LANES) {
    vec lse = vec_load(w->lse + j), delta = vec_load(w->delta + j);
    column_mask(p, j, w->p);
    for (int64_t i = 0; i < computed_for(p, j); i++) {
      real *s = w->p.p + i * TILE + j, *ds = w->ds.p + i * TILE + j;
      vec weight = vec_exp_down(vec_load(s) * n->unit - lse);
      vec_store(s, weight);
      vec_store(ds, weight * (vec_load(ds) - delta) * scale);
    }
  }
}

static inline void multiply_by_slope(const pair *p, attention_grad_work *w) {
  for (int64_t i = 0; i < p->keys; i++)
    for (int64_t j = row_start(p, i); j < row_end(p); j += LANES) {
      real *ds = w->ds.p + i * TILE + j;
      vec_store(ds, vec_load(ds) * vec_load(w->slope + i * TILE + j));
    }
}

/* The mask's gradient, output 3: by the job's team, each with the scratch that
 * `carve` divides. */
#define mrt_attention_mask_grad MRT_CPU(attention_mask_grad)
void mrt_attention_mask_grad(const mrt_call *c, const attention_job *t,
                             size_t thread_bytes, attention_carve *carve);

#endif
