/* single.h -- one query of each head: a step of a text that is being written
 *
 * A tile of queries would be padding but for one row, and heads that share keys
 * would each read them.  Here an item of work is a head of keys with all queries
 * that it serves: a tile of keys is read once, its scores with each query are
 * dot products, LANES keys at a time, and the results are sums of its rows.
 *
 * Keys are met in ascending order in tiles of TILE from the first that is seen.
 * Masks are left to the other path.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ATTENTION_SINGLE_H
#define MRT_ATTENTION_SINGLE_H

#include "attention/mask.h"

/* A thread's scratch, for the queries of a head of keys. */
typedef struct single_work {
  real *q, *o;            /* [group][D], scaled; [group][Dv] */
  real *s;                /* [group][TILE] */
  real *spare;            /* [TILE][D or Dv]: a copied tile */
  real *max, *sum, *keep; /* [group] */
} single_work;

static inline bool is_single(const shape *n) {
  return n->T == 1 && !n->mask && n->D > 0 && n->Dv > 0;
}

static inline single_work take_single(const shape *n, uintptr_t *at) {
  return (single_work){
    .q = take(at, n->group * wide(n->D)),
    .o = take(at, n->group * wide(n->Dv)),
    .s = take(at, n->group * TILE),
    .spare = take(at, TILE * wide(n->D > n->Dv ? n->D : n->Dv)),
    .max = take(at, padded(n->group, LANES)),
    .sum = take(at, padded(n->group, LANES)),
    .keep = take(at, padded(n->group, LANES)),
  };
}

/* n numbers in f32.  That of bf16 is here, as a call for each row would take
 * longer than the numbers. */
static inline void single_widen(mrt_dtype dtype, const void *from, real *to,
                                int64_t n) {
#ifndef MRT_F64
  if (dtype == MRT_bf16) {
    const uint16_t *x = from;
    for (int64_t i = 0; i < n; i++) {
      uint32_t bits = (uint32_t)x[i] << 16;
      memcpy(to + i, &bits, sizeof bits);
    }
    return;
  }
#endif
  mrt_widen(dtype, from, to, n);
}

/* Rows of a head will be read soon. */
static inline void single_ask_for(const shape *n, const mrt_operand *x,
                                  int64_t b, int64_t t, int64_t h,
                                  int64_t end) {
  if (is_paged(n, x)) return;
  int64_t bytes = x->type.dims[3] * (int64_t)mrt_dtypes[x->type.dtype].bytes;
  if (end - t > TILE) end = t + TILE;
  for (; t < end; t++)
    for (int64_t at = 0; at < bytes; at += 64)
      __builtin_prefetch((char *)head_at(x, b, t, h) + at);
}

/* Rows of a head in f32: where they lie, or copied with zeros at their ends. */
static inline matrix single_rows(const shape *n, const mrt_operand *x,
                                 int64_t b, int64_t t, int64_t h, int64_t count,
                                 real *spare) {
  int64_t d = x->type.dims[3], step = x->strides[3];
  bool near = x->type.dtype == MRT_REAL && step == 1 && d % LANES == 0;
  if (near && together(n, x, t, count))
    return (matrix){ row_of(n, x, b, t, h), x->strides[1], 1 };
  matrix tile = rows_of(spare, d);
  for (int64_t i = 0; i < count; i++) {
    const void *from = row_of(n, x, b, t + i, h);
    real *to = tile.p + i * tile.row;
    if (step == 1)
      single_widen(x->type.dtype, from, to, d);
    else
      mrt_widen_apart(x->type.dtype, from, step, to, d);
    for (int64_t j = d; j < tile.row; j++) to[j] = 0;
  }
  return tile;
}

/* s[i] = k[i] . q for `count` keys; rows are padded to vectors. */
static inline void single_scores(int64_t count, int64_t width, matrix k,
                                 const real *q, real *s) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    vec r[LANES];
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) r[l] = vec_all(0);
    for (int64_t d = 0; d < width; d += LANES) {
      vec at = vec_load(q + d);
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++)
        r[l] = vec_fma(vec_load(k.p + (i + l) * k.row + d), at, r[l]);
    }
    tile_turn_block(r);
    for (int half = LANES / 2; half; half /= 2)
#pragma GCC unroll 8
      for (int l = 0; l < half; l++) r[l] += r[l + half];
    vec_store(s + i, r[0]);
  }
  for (; i < count; i++) {
    vec r = vec_all(0);
    for (int64_t d = 0; d < width; d += LANES)
      r = vec_fma(vec_load(k.p + i * k.row + d), vec_load(q + d), r);
    s[i] = vec_sum(r);
  }
}

/* Scores become weights; the past weighs `*keep` now. */
static inline void single_soften(const shape *n, int64_t count, real *s,
                                 real *max, real *sum, real *keep) {
  for (int64_t i = 0; n->softcap > 0 && i < count; i++)
    s[i] = n->softcap * m_tanh(s[i] / n->softcap);
  for (int64_t i = count; i < padded(count, LANES); i++) s[i] = -MRT_INF;
  real most = row_max(s, count);
  most = most > *max ? most : *max;
  real shift = most == -MRT_INF ? 0 : most;
  vec all = vec_all(0);
  for (int64_t i = 0; i < count; i += LANES) {
    vec e = vec_exp_down(vec_load(s + i) - shift);
    vec_store(s + i, e);
    all += e;
  }
  vec past = vec_exp_down(vec_all(*max - shift));
  *keep = *max == -MRT_INF ? 0 : past[0];
  *sum = *sum * *keep + vec_sum(all);
  *max = most;
#ifndef MRT_F64
  if (n->rounds) mrt_round_reals(MRT_bf16, s, count);
#endif
}

/* o = keep o + the sum of v[i] s[i], VECS registers at a time. */
static inline __attribute__((always_inline)) void
single_sum_by(int vecs, int64_t count, const real *s, matrix v, real keep,
              real *o) {
  vec sum[8];
#pragma GCC unroll 8
  for (int j = 0; j < vecs; j++)
    sum[j] = keep == 0 ? vec_all(0) : vec_load(o + j * LANES) * keep;
  for (int64_t i = 0; i < count; i++) {
    vec weight = vec_all(s[i]);
#pragma GCC unroll 8
    for (int j = 0; j < vecs; j++)
      sum[j] = vec_fma(weight, vec_load(v.p + i * v.row + j * LANES), sum[j]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < vecs; j++) vec_store(o + j * LANES, sum[j]);
}
static inline void single_sum(int64_t count, int64_t width, const real *s,
                              matrix v, real keep, real *o) {
  int64_t d = 0;
  for (; d + 8 * LANES <= width; d += 8 * LANES)
    single_sum_by(8, count, s, matrix_at(v, 0, d), keep, o + d);
  for (; d + 4 * LANES <= width; d += 4 * LANES)
    single_sum_by(4, count, s, matrix_at(v, 0, d), keep, o + d);
  for (; d < width; d += LANES)
    single_sum_by(1, count, s, matrix_at(v, 0, d), keep, o + d);
}

/* The queries of key head h, scaled and padded by zeros. */
static inline void single_queries(const shape *n, int64_t b, int64_t h,
                                  single_work *w) {
  const mrt_operand *q = &n->c->in[0];
  int64_t width = wide(n->D);
  for (int64_t g = 0; g < n->group; g++) {
    real *to = w->q + g * width;
    mrt_widen_apart(q->type.dtype, head_at(q, b, 0, h * n->group + g),
                    q->strides[3], to, n->D);
    for (int64_t d = 0; d < n->D; d++) to[d] *= n->scale;
    for (int64_t d = n->D; d < width; d++) to[d] = 0;
    w->max[g] = -MRT_INF, w->sum[g] = 0;
  }
}

/* Weights and sums of all queries of key head h. */
static inline void single_attend(const shape *n, const place *at, int64_t h,
                                 single_work *w) {
  int64_t end = at->queries ? keys_seen_by(n, &at->m, 0) : 0;
  int64_t width = wide(n->D), values = wide(n->Dv);
  single_queries(n, at->b, h, w);
  for (int64_t t = keys_from(n, &at->m, 0); t < end; t += TILE) {
    int64_t count = end - t < TILE ? end - t : TILE;
    matrix k = single_rows(n, &n->c->in[1], at->b, t, h, count, w->spare);
    single_ask_for(n, &n->c->in[2], at->b, t, h, end);
    for (int64_t g = 0; g < n->group; g++) {
      single_scores(count, width, k, w->q + g * width, w->s + g * TILE);
      single_soften(n, count, w->s + g * TILE, w->max + g, w->sum + g,
                    w->keep + g);
    }
    matrix v = single_rows(n, &n->c->in[2], at->b, t, h, count, w->spare);
    single_ask_for(n, &n->c->in[1], at->b, t + TILE, h, end);
    for (int64_t g = 0; g < n->group; g++)
      single_sum(count, values, w->s + g * TILE, v, w->keep[g],
                 w->o + g * values);
  }
}

#endif
