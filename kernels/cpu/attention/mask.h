/* mask.h -- what becomes of a pair's scores before their softmax
 *
 *     s = cap tanh(s / cap)      softcap
 *     s = s + mask               floats; of bool 0 and -infinity
 *
 * A mask is read where it lies, a tile of it for each pair of tiles.  One that
 * is the same for all queries, or for all keys, is read as a row of TILE; else
 * its tile is transposed as it is added, for scores lie [key][query].  Pairs that a mask of
 * bool, or a row of -infinity, hides whole are not computed.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ATTENTION_MASK_H
#define MRT_ATTENTION_MASK_H

#include "attention/attention.h"

/* What the mask does to a pair: nothing, adds the same to all queries, the same
 * to all keys, each its own; hides all. */
typedef enum mask_kind {
  MASK_NONE,
  MASK_OF_KEYS,
  MASK_OF_QUERIES,
  MASK_OF_PAIRS,
  MASK_HIDES
} mask_kind;

typedef struct mask_work {
  real *row;   /* [TILE] */
  matrix room; /* [query][key] */
  matrix rows; /* the room, or where the mask lies */
} mask_work;

static inline mask_work take_mask(const shape *n, uintptr_t *at) {
  int64_t each = n->mask && n->mask_step[2] && n->mask_step[3] ? TILE : 0;
  return (mask_work){ .row = take(at, n->mask ? TILE : 0),
                      .room = columns_of(take(at, TILE * each)) };
}

/* Which of some numbers of bool are seen: any, all. */
typedef struct mask_seen {
  uint8_t any, all;
} mask_seen;

/* n numbers of the mask, `step` apart, as they are added. */
static inline void mask_numbers(mrt_dtype dtype, const char *from, int64_t step,
                                real *to, int64_t n, mask_seen *seen) {
  const uint8_t *b = (const uint8_t *)from;
  uint8_t any = 0, all = 1;
  if (dtype != MRT_bool) {
    mrt_widen_apart(dtype, from, step, to, n);
  } else if (step == 1) {
    for (int64_t i = 0; i < n; i++) any |= b[i], all &= b[i];
    for (int64_t i = 0; i < n; i++) to[i] = b[i] ? 0 : -MRT_INF;
  } else {
    for (int64_t i = 0; i < n; i++) {
      any |= b[i * step], all &= b[i * step];
      to[i] = b[i * step] ? 0 : -MRT_INF;
    }
  }
  seen->any |= any, seen->all &= all;
}

static inline mask_kind kind_of_row(const real *x, int64_t n, mask_kind kind) {
  bool none = true, all = true;
  for (int64_t i = 0; i < n; i++) {
    none &= x[i] == 0;
    all &= x[i] == -MRT_INF;
  }
  return none ? MASK_NONE : all ? MASK_HIDES : kind;
}

/* A tile that differs from query to query and from key to key. */
static inline mask_kind read_pairs(const shape *n, const pair *p,
                                   const char *from, mask_work *w) {
  const mrt_operand *x = n->mask;
  mrt_dtype dtype = x->type.dtype;
  const int64_t *step = n->mask_step;
  bool whole = p->queries % GRAIN == 0 && p->keys % GRAIN == 0;
  w->rows = w->room;
  if (whole && dtype == MRT_REAL && step[3] == 1) {
    w->rows = (matrix){ (real *)(uintptr_t)from, step[2], 1 };
    return MASK_OF_PAIRS;
  }
  mask_seen seen = { 0, 1 };
  int64_t bytes = step[2] * (int64_t)mrt_dtypes[dtype].bytes;
  if (!whole) memset(w->room.p, 0, (size_t)(TILE * TILE) * sizeof(real));
  for (int64_t j = 0; j < p->queries; j++)
    mask_numbers(dtype, from + j * bytes, step[3], w->room.p + j * TILE,
                 p->keys, &seen);
  if (dtype != MRT_bool) return MASK_OF_PAIRS;
  return seen.all ? MASK_NONE : seen.any ? MASK_OF_PAIRS : MASK_HIDES;
}

/* The tile of keys behind s will be read next. */
static inline void ask_for_mask(const shape *n, const pair *p, const place *at,
                                int64_t s) {
  const int64_t *step = n->mask_step;
  if (!n->mask || step[2] == 0 || step[3] != 1 || s + 2 * TILE > n->S) return;
  int64_t first = at->b * step[0] + at->h * step[1] + at->t * step[2];
  int64_t bytes = TILE * (int64_t)mrt_dtypes[n->mask->type.dtype].bytes;
  for (int64_t j = 0; j < p->queries; j++) {
    const char *row = mrt_element(n->mask, first + j * step[2] + s + TILE);
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i);
  }
}

/* The mask of queries from t and keys from s on. */
static inline mask_kind mask_read(const shape *n, const pair *p,
                                  const place *at, int64_t s, mask_work *w) {
  const mrt_operand *x = n->mask;
  const int64_t *step = n->mask_step;
  if (!x) return MASK_NONE;
  int64_t first =
      at->b * step[0] + at->h * step[1] + at->t * step[2] + s * step[3];
  const char *from = mrt_element(x, first);
  if (step[2] && step[3]) return read_pairs(n, p, from, w);
  bool keys = step[2] == 0;
  int64_t count = keys ? p->keys : p->queries;
  mask_seen seen = { 0, 1 };
  mask_numbers(x->type.dtype, from, keys ? step[3] : step[2], w->row, count,
               &seen);
  for (int64_t i = count; i < TILE; i++) w->row[i] = 0;
  mask_kind kind = keys ? MASK_OF_KEYS : MASK_OF_QUERIES;
  return kind_of_row(w->row, count, kind);
}

/* What was computed of s becomes cap tanh(s scale / cap); `slope`, if there is
 * any, the derivative by s scale. */
static inline void cap_scores(const shape *n, const pair *p, real scale,
                              matrix s, real *slope) {
  real part = scale / n->softcap;
  for (int64_t i = 0; i < p->keys; i++)
    for (int64_t j = row_start(p, i); j < row_end(p); j += LANES) {
      vec y = vec_load(s.p + i * s.row + j) * part;
      for (int l = 0; l < LANES; l++) y[l] = m_tanh(y[l]);
      vec_store(s.p + i * s.row + j, y * n->softcap);
      if (slope) vec_store(slope + i * TILE + j, 1 - y * y);
    }
}

/* s = s scale + mask, where the mask is the same for all queries or keys, or
 * there is none. */
static inline void add_row(const pair *p, real scale, mask_kind kind,
                           const mask_work *w, matrix s) {
  for (int64_t i = 0; i < p->keys; i++) {
    real *x = s.p + i * s.row;
    vec same = vec_all(kind == MASK_OF_KEYS ? w->row[i] : 0);
    for (int64_t j = row_start(p, i); j < row_end(p); j += LANES) {
      vec more = kind == MASK_OF_QUERIES ? vec_load(w->row + j) : same;
      vec_store(x + j, vec_load(x + j) * scale + more);
    }
  }
}

/* The same of pairs, transposed block by block; what was not computed of s is
 * changed too. */
static inline void add_pairs(const pair *p, real scale, matrix rows, matrix s) {
  for (int64_t j = 0; j < row_end(p); j += LANES)
    for (int64_t i = 0; i < computed_for(p, j); i += LANES) {
      vec r[LANES];
#pragma GCC unroll 16
      for (int k = 0; k < LANES; k++)
        r[k] = vec_load(rows.p + (j + k) * rows.row + i);
      tile_turn_block(r);
#pragma GCC unroll 16
      for (int k = 0; k < LANES; k++) {
        real *x = s.p + (i + k) * s.row + j;
        vec_store(x, vec_load(x) * scale + r[k]);
      }
    }
}

/* Scores as products gave them to exponents, but for `unit`. */
static inline void adjust(const shape *n, const pair *p, mask_kind kind,
                          const mask_work *w, matrix s, real *slope) {
  real scale = n->dots ? n->scale : 1;
  if (n->softcap > 0) cap_scores(n, p, scale, s, slope), scale = 1;
  bool scales = n->dots && n->mask && scale != 1;
  if (kind == MASK_OF_PAIRS)
    add_pairs(p, scale, w->rows, s);
  else if (kind != MASK_NONE || scales)
    add_row(p, scale, kind, w, s);
}

#endif
