/* attention.h -- what attention and its gradient share: tiles of heads
 *
 * Work goes by pairs of tiles, at most TILE keys against at most TILE queries.
 * Scores are kept transposed, [key][query]: then keys, the left factor, are
 * read where they lie, the queries are transposed once for all keys, and
 * maxima and sums over keys run along lanes.
 *
 *             query ->              key i is seen by query j
 *        key  1 1 1 1 1 1            when i + edge <= j
 *         |   . 1 1 1 1 1
 *         v   . . 1 1 1 1            (here edge = 0: a tile on the diagonal)
 *
 * What is never seen is not computed, but for blocks that touch the diagonal;
 * tiles that a window, the lengths of a sample or a mask hide whole are not met.
 *
 * Tiles of narrow floats are read as f32.  Where all factors are bf16 or f8,
 * weights and the gradients of scores are rounded to bf16 before they are
 * multiplied, as in flash attention in bf16 (Dao, arXiv:2205.14135), and where
 * the processor can, tiles are pairs of bf16 (tile_dots.h, tile_amx.h): a row of
 * D numbers is then units(D) reals.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_ATTENTION_H
#define MRT_CPU_ATTENTION_H

#include "base/narrow.h"
#include "floats.h"
#include "op/attention.h"
#include "rows.h"
#include "tile_amx.h"

enum {
  TILE = 64,
  GRAIN = LANES > 8 ? LANES : 8 /* tiles are padded: LANES and TILE_ROWS */
};

/* B batches, T queries of H heads, S keys of Hk heads of D, values of Dv. */
typedef struct shape {
  int64_t B, T, H, D, S, Hk, Dv;
  int64_t group;               /* query heads that share a key head */
  int64_t left, right, offset; /* as in op/attention.h, FAR where all is seen */
  bool rounds;                 /* all factors are bf16 or f8 */
  bool dots;  /* tiles are pairs of bf16; scores come out unscaled, so that the
                scale must be positive for the largest to stay that */
  bool tiles; /* their products go by tile registers */
  real scale;
  real softcap; /* 0: none */
  real unit;    /* what scores must still be multiplied by to be exponents */
  const mrt_call *c;
  const mrt_operand *mask, *queries, *keys, *at; /* NULL: absent */
  const mrt_operand *pages;                      /* of k and v; NULL: none */
  int64_t mask_step[4]; /* elements; 0 along what it is 1 of */
} shape;

static inline bool fits_bf16(const mrt_operand *x) {
  return mrt_is_narrow(x->type.dtype) && x->type.dtype != MRT_f16;
}

/* The inputs that may be absent, behind `after` others. */
static inline void find_optional(shape *n, int after) {
  const mrt_attention_options *o = n->c->options;
  const mrt_operand **place[] = { &n->mask, &n->queries, &n->keys, &n->at };
  for (int i = 0; i < 4; i++)
    if (o->has >> i & 1) *place[i] = &n->c->in[after++];
  for (int d = 0; d < 4 && n->mask; d++)
    n->mask_step[d] = n->mask->type.dims[d] == 1 ? 0 : n->mask->strides[d];
}

static inline shape shape_of(const mrt_call *c, int after) {
  const mrt_attention_options *o = c->options;
  const int64_t *q = c->in[0].type.dims, *k = c->in[1].type.dims;
  bool paged = after == MRT_ATTENTION_PAGED_AFTER;
  bool rounds = true;
  for (int i = 0; i < after; i++) /* o, lse and pages are no factors */
    rounds = rounds && (i == 3 || i == 4 || fits_bf16(&c->in[i]));
  bool dots = TILE_DOTS && rounds && (c->dots || c->tiles) && o->scale > 1e-30;
  bool adjusts = (o->has & MRT_ATTENTION_MASK) || o->softcap > 0;
  shape n = { .B = q[0],
              .T = q[1],
              .H = q[2],
              .D = q[3],
              .S = paged ? c->in[3].type.dims[1] * k[1] : k[1],
              .Hk = k[2],
              .Dv = c->in[2].type.dims[3],
              .group = k[2] ? q[2] / k[2] : 0,
              .left = mrt_attention_left(o),
              .right = mrt_attention_right(o),
              .offset = o->offset,
              .rounds = rounds,
              .dots = dots,
              .tiles = dots && c->tiles,
              .scale = (real)o->scale,
              .softcap = (real)o->softcap,
              .unit = dots && !adjusts ? (real)o->scale : 1,
              .c = c,
              .pages = paged ? &c->in[3] : NULL };
  find_optional(&n, after);
  return n;
}

/* What is there of sample b: queries, keys; and where query 0 stands. */
typedef struct sample {
  int64_t T, S, at;
} sample;

static inline int64_t integer_of(const mrt_operand *x, int64_t b) {
  return mrt_id(x->data, x->type.dtype, b * x->strides[0]);
}
static inline sample sample_of(const shape *n, int64_t b) {
  sample m = { n->T, n->S, n->offset };
  if (n->queries)
    m.T = mrt_checked_id(n->c, integer_of(n->queries, b), n->T + 1);
  if (n->keys) m.S = mrt_checked_id(n->c, integer_of(n->keys, b), n->S + 1);
  if (n->at)
    m.at = mrt_attention_near(integer_of(n->at, b));
  else if (n->offset == MRT_ATTENTION_AT_END)
    m.at = m.S - m.T;
  return m;
}

/* Reals that hold k numbers along the summed dimension. */
static inline int64_t units(const shape *n, int64_t k) {
  return n->dots ? (k + 1) / 2 : k;
}

static inline int64_t within(int64_t x, int64_t end) {
  return x < 0 ? 0 : x > end ? end : x;
}
/* Query t sees keys keys_from .. keys_seen_by - 1. */
static inline int64_t keys_seen_by(const shape *n, const sample *m, int64_t t) {
  return within(t + m->at + n->right + 1, m->S);
}
static inline int64_t keys_from(const shape *n, const sample *m, int64_t t) {
  return within(t + m->at - n->left, m->S);
}

/* About how many pairs of a query and a key are seen, for costs. */
static inline double seen_in_all(const shape *n) {
  double each = (double)n->S;
  double window = (double)n->left + (double)n->right + 1;
  if (n->right < MRT_ATTENTION_FAR) each /= 2;
  return (double)(n->B * n->H * n->T) * (window < each ? window : each);
}

/* A tile of queries of head h: t .. t + queries, and padding up to `rows`. */
typedef struct place {
  int64_t b, h, t, queries, rows;
  sample m;
} place;

static inline place place_of(const shape *n, int64_t b, int64_t h, int64_t t,
                             int64_t end) {
  place at = { .b = b, .h = h, .t = t, .m = sample_of(n, b) };
  at.rows = end - t < TILE ? end - t : TILE;
  at.queries = within(at.m.T - t, at.rows);
  return at;
}
/* The i-th of all tiles; `tiles` for each head. */
static inline place place_at(const shape *n, int64_t i, int64_t tiles) {
  return place_of(n, i / tiles / n->H, i / tiles % n->H, i % tiles * TILE,
                  n->T);
}
/* The tiles of keys that some query of it sees, from a multiple of TILE. */
static inline int64_t tiles_from(const shape *n, const place *at) {
  return at->queries ? keys_from(n, &at->m, at->t) / TILE * TILE : 0;
}
static inline int64_t tiles_end(const shape *n, const place *at) {
  if (!at->queries) return 0;
  return keys_seen_by(n, &at->m, at->t + at->queries - 1);
}

/* ---- scratch ------------------------------------------------------------- */

/* Reals that start on a cache line; `at` counts from 0 to learn the size. */
static inline real *take(uintptr_t *at, int64_t count) {
  real *p = (real *)*at;
  *at += (uintptr_t)padded(count * (int64_t)sizeof(real), 64);
  return p;
}

/* A row of a head's tile is as wide as it takes whole registers. */
static inline int64_t wide(int64_t d) { return padded(d, LANES); }

static inline matrix rows_of(real *p, int64_t width) {
  return (matrix){ p, wide(width), 1 };
}
/* [any][TILE] */
static inline matrix columns_of(real *p) { return (matrix){ p, TILE, 1 }; }

/* ---- tiles of operands --------------------------------------------------- */

/* Row t of a head. */
static inline void *head_at(const mrt_operand *x, int64_t b, int64_t t,
                            int64_t h) {
  int64_t i = b * x->strides[0] + t * x->strides[1] + h * x->strides[2];
  return (char *)x->data + i * (int64_t)mrt_dtypes[x->type.dtype].bytes;
}

static inline bool is_paged(const shape *n, const mrt_operand *x) {
  return n->pages && x != &n->c->in[0];
}
/* Row t of a head that may lie in pages. */
static inline void *row_of(const shape *n, const mrt_operand *x, int64_t b,
                           int64_t t, int64_t h) {
  if (!is_paged(n, x)) return head_at(x, b, t, h);
  const mrt_operand *pages = n->pages;
  int64_t page = x->type.dims[1];
  int64_t at = b * pages->strides[0] + t / page * pages->strides[1];
  int64_t id = mrt_id(pages->data, pages->type.dtype, at);
  return head_at(x, mrt_checked_id(n->c, id, x->type.dims[0]), t % page, h);
}
/* Do rows t .. t + count lie as those of one operand do? */
static inline bool together(const shape *n, const mrt_operand *x, int64_t t,
                            int64_t count) {
  int64_t page = x->type.dims[1];
  return !is_paged(n, x) || t / page == (t + count - 1) / page;
}

/* The tile that begins at row t of a head will be read soon: products of pairs
 * do not hide as much of the memory as those of reals. */
static inline void ask_for(const shape *n, const mrt_operand *x, int64_t b,
                           int64_t t, int64_t h) {
  if (is_paged(n, x)) return;
  int64_t bytes = x->type.dims[3] * (int64_t)mrt_dtypes[x->type.dtype].bytes;
  int64_t end = x->type.dims[1] - t < TILE ? x->type.dims[1] : t + TILE;
  for (; n->dots && t < end; t++)
    for (int64_t at = 0; at < bytes; at += 64)
      __builtin_prefetch((char *)head_at(x, b, t, h) + at);
}

/* Whether products can work on the operand's own memory: no padding. */
static inline bool whole(const mrt_operand *x, int64_t n) {
  return x->type.dtype == MRT_REAL && x->strides[3] == 1 &&
         x->type.dims[3] % LANES == 0 && n % GRAIN == 0;
}
/* The same for pairs, which are aligned as reals. */
static inline bool whole_pairs(const mrt_operand *x, int64_t n) {
  int64_t odd = x->strides[0] | x->strides[1] | x->strides[2];
  return x->type.dtype == MRT_bf16 && x->strides[3] == 1 && odd % 2 == 0 &&
         (uintptr_t)x->data % sizeof(real) == 0 &&
         x->type.dims[3] % (2 * LANES) == 0 && n % GRAIN == 0;
}

/* n numbers `step` apart, rounded to bf16. */
static inline void row_to_bf16(mrt_dtype dtype, const char *from, int64_t step,
                               uint16_t *to, int64_t n) {
  enum { SOME = 64 };
  if (dtype == MRT_bf16 && step == 1) {
    memcpy(to, from, (size_t)n * sizeof *to);
    return;
  }
  int64_t bytes = step * (int64_t)mrt_dtypes[dtype].bytes;
  for (int64_t i = 0; i < n; i += SOME) {
    real some[SOME];
    int64_t count = n - i < SOME ? n - i : SOME;
    mrt_widen_apart(dtype, from + i * bytes, step, some, count);
    mrt_round(MRT_bf16, some, to + i, count);
  }
}

/* Do the rows of a tile share places in the first-level cache, whose ways are 64
 * sets of 64 bytes?  Rows 4 KiB apart have one place: most of the tile is lost
 * before it is read again, and products take up to twice their time.  Enough is
 * where the places of all rows fill half of a way. */
static inline bool shares_places(const mrt_operand *x) {
  enum { LINE_BYTES = 64, SETS = 64, ENOUGH = LINE_BYTES * SETS / 2 };
  int64_t step = x->strides[1] * (int64_t)sizeof(real);
  int64_t width = x->type.dims[3] * (int64_t)sizeof(real);
  int64_t places = SETS, apart = LINE_BYTES;
  while (places > 1 && step % (2 * apart) == 0) apart *= 2, places /= 2;
  return places * width < ENOUGH;
}

/* Rows t .. t + count of a head, copied to `spare` with zeros around. */
static inline matrix tile_copied(const shape *n, const mrt_operand *x,
                                 int64_t b, int64_t t, int64_t h, int64_t count,
                                 real *spare) {
  int64_t d = x->type.dims[3], step = x->strides[3];
  mrt_dtype dtype = x->type.dtype;
  matrix tile = rows_of(spare, units(n, d));
  if (tile.row != units(n, d) || d % 2 || count % GRAIN)
    memset(spare, 0, (size_t)(padded(count, GRAIN) * tile.row) * sizeof(real));
  for (int64_t i = 0; i < count; i++) {
    const void *from = row_of(n, x, b, t + i, h);
    real *to = tile.p + i * tile.row;
    if (n->dots)
      row_to_bf16(dtype, from, step, (uint16_t *)to, d);
    else
      mrt_widen_apart(dtype, from, step, to, d);
  }
  return tile;
}

/* The same where they lie, if products can read that. */
static inline matrix tile_of(const shape *n, const mrt_operand *x, int64_t b,
                             int64_t t, int64_t h, int64_t count, real *spare) {
  bool near = together(n, x, t, count);
  if (n->dots && near && whole_pairs(x, count))
    return (matrix){ row_of(n, x, b, t, h), x->strides[1] / 2, 1 };
  if (near && whole(x, count))
    return (matrix){ row_of(n, x, b, t, h), x->strides[1], 1 };
  return tile_copied(n, x, b, t, h, count, spare);
}
/* For a right factor, whose rows are read again and again. */
static inline matrix right_tile_of(const shape *n, const mrt_operand *x,
                                   int64_t b, int64_t t, int64_t h,
                                   int64_t count, real *spare) {
  if (whole(x, count) && shares_places(x))
    return tile_copied(n, x, b, t, h, count, spare);
  return tile_of(n, x, b, t, h, count, spare);
}
/* Scratch for one. */
static inline real *take_tile(const shape *n, uintptr_t *at, int64_t d) {
  return take(at, TILE * wide(units(n, d)));
}

/* y = scale x', x[m][k] as tile_of gives it; pairs are not scaled. */
static inline void columns_from(const shape *n, int64_t m, int64_t k, matrix x,
                                matrix y, real scale) {
  if (n->dots)
    tile_turn(padded(m, GRAIN), wide(units(n, k)), x, y);
  else
    tile_transpose(padded(m, GRAIN), wide(k), scale, x, y);
}

/* x[m][d], as tile_of gives it, to be summed over its rows: of pairs in
 * `paired`, which has half as many rows. */
static inline matrix summed_over(const shape *n, int64_t m, int64_t d, matrix x,
                                 real *paired) {
  if (!n->dots) return x;
  matrix y = rows_of(paired, d);
  tile_pair_rows(padded(m, 2), y.row, x, y);
  return y;
}
static inline real *take_paired(const shape *n, uintptr_t *at, int64_t d) {
  return n->dots ? take(at, TILE / 2 * wide(d)) : NULL;
}

/* c[m][n] = a b over k units, added to c if `add`. */
static inline void multiply(const shape *s, int64_t m, int64_t n, int64_t k,
                            matrix a, matrix b, matrix c, bool add) {
  if (s->tiles)
    tile_amx_multiply(m, n, k, a, b, c, add);
  else if (s->dots)
    dots_multiply(m, n, k, a, b, c, add);
  else
    tile_multiply(m, n, k, a, b, c, add);
}

/* What a thread does before it multiplies, and after. */
static inline void begin_products(const shape *n) {
  if (n->tiles) tile_amx_begin();
}
static inline void end_products(const shape *n) {
  if (n->tiles) tile_amx_end();
}

/* ---- pairs of tiles ------------------------------------------------------ */

typedef struct pair {
  int64_t keys, queries; /* counts */
  int64_t edge;          /* key i is seen by query j when i + edge <= j */
  int64_t floor;         /* and j + floor <= i */
  int64_t rows;          /* of a block of products on the diagonal */
} pair;

static inline int64_t near_tile(int64_t x) {
  return x < -TILE ? -TILE : x > TILE ? TILE : x;
}
/* Keys from s on, before `end`. */
static inline pair pair_at(const shape *n, const place *at, int64_t s,
                           int64_t end) {
  int64_t first = at->t + at->m.at; /* where query 0 of the tile stands */
  return (pair){ .keys = end - s < TILE ? end - s : TILE,
                 .queries = at->queries,
                 .edge = near_tile(s - first - n->right),
                 .floor = near_tile(first - n->left - s),
                 .rows = n->tiles ? TILE_AMX_ROWS : TILE_ROWS };
}
static inline int64_t first_query(const pair *p, int64_t key) {
  int64_t j = key + p->edge;
  return j < 0 ? 0 : j > p->queries ? p->queries : j;
}
static inline int64_t keys_seen(const pair *p, int64_t query) {
  int64_t n = query - p->edge + 1;
  return n < 0 ? 0 : n > p->keys ? p->keys : n;
}
/* Rows at a time: all when everything is seen, else as few as may be, for
 * each such block stops at the diagonal. */
static inline int64_t block_rows(const pair *p, int64_t rows) {
  return first_query(p, p->keys - 1) > 0 ? p->rows : padded(rows, p->rows);
}

/* Where the computed part of a row of scores starts: one place for all rows of
 * a block. */
static inline int64_t row_start(const pair *p, int64_t key) {
  return first_query(p, key / p->rows * p->rows) / GRAIN * GRAIN;
}
static inline int64_t row_end(const pair *p) {
  return padded(p->queries, GRAIN);
}

/* s[key][query] = x[key] y[query] over k numbers, x in rows, y in columns. */
static inline void pair_scores(const shape *n, const pair *p, int64_t k,
                               matrix x, matrix y, matrix s) {
  int64_t step = block_rows(p, p->keys);
  for (int64_t i = 0; i < p->keys; i += step) {
    int64_t j = row_start(p, i);
    multiply(n, step, row_end(p) - j, units(n, k), matrix_at(x, i, 0),
             matrix_at(y, 0, j), matrix_at(s, i, j), false);
  }
}

/* y[query] += sum over keys of s[key][query] x[key], or = .  Of pairs, both are
 * pairs of keys. */
static inline void pair_to_queries(const shape *n, const pair *p, int64_t d,
                                   matrix s, matrix x, matrix y, bool add) {
  int64_t step = block_rows(p, p->queries);
  for (int64_t j = 0; j < p->queries; j += step)
    multiply(n, step, wide(d), units(n, keys_seen(p, j + step - 1)),
             matrix_transposed(matrix_at(s, 0, j)), x, matrix_at(y, j, 0), add);
}

/* y[key] += sum over queries of s[key][query] x[query].  Of pairs, both are
 * pairs of queries; one that is not seen counts for nothing. */
static inline void pair_to_keys(const shape *n, const pair *p, int64_t d,
                                matrix s, matrix x, matrix y) {
  int64_t step = block_rows(p, p->keys), all = units(n, p->queries);
  for (int64_t i = 0; i < p->keys; i += step) {
    int64_t j = first_query(p, i) / (n->dots ? 2 : 1);
    multiply(n, step, wide(d), all - j, matrix_at(s, i, j), matrix_at(x, j, 0),
             matrix_at(y, i, 0), true);
  }
}

/* The elementwise work between products goes by columns of LANES queries: of
 * those from j on, keys 0 .. computed_for were computed and keys 0 .. seen_by
 * are seen by all. */
static inline int64_t computed_for(const pair *p, int64_t j) {
  int64_t n = padded(j / GRAIN * GRAIN + GRAIN - p->edge, p->rows);
  return n < 0 ? 0 : n > p->keys ? p->keys : n;
}

/* Scores that are not seen become -infinity in LANES queries from j on. */
static inline void column_mask(const pair *p, int64_t j, matrix s) {
  for (int64_t i = keys_seen(p, j); i < computed_for(p, j); i++) {
    real *at = s.p + i * s.row + j;
    int64_t from = i + p->edge - j;
    for (int l = 0; l < LANES; l++) at[l] = l < from ? -MRT_INF : at[l];
  }
  int64_t end = j + LANES - 1 + p->floor, all = computed_for(p, j);
  for (int64_t i = 0; i < end && i < all; i++) {
    real *at = s.p + i * s.row + j;
    int64_t last = i - p->floor - j;
    for (int l = 0; l < LANES; l++) at[l] = l > last ? -MRT_INF : at[l];
  }
}

/* What was computed of s, rounded to bf16. */
static inline void round_scores(const pair *p, matrix s) {
  for (int64_t j = 0; j < row_end(p); j += LANES)
    for (int64_t i = 0; i < computed_for(p, j); i++) {
      real *at = s.p + i * s.row + j;
      for (int l = 0; l < LANES; l++)
        at[l] = bf16_to_float(float_to_bf16(at[l]));
    }
}

static inline vec vec_exp_down(vec x) {
  for (int l = 0; l < LANES; l++) x[l] = exp_down(x[l]);
  return x;
}

#endif
