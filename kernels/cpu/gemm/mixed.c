/* mixed.c -- matrix products of narrow floats, of f32 that is rounded
 *
 * As gemm.c, but every operand is packed, as f32 or as pairs of bf16
 * (gemm/read.h), and a narrow c of several blocks of k is summed in scratch:
 *
 *     for rows of c by M_SUMS, where they are
 *       for columns of c by N_BLOCK
 *         for k by K_BLOCK               pack b
 *           for rows of c by M_BLOCK     pack a
 *             for strips of b, for strips of a: one tile, rounded at the last
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "gemm/gemm.h"

#ifndef MRT_F64
#include "gemm/dots.h"
#include "gemm/read.h"
#include "gemm/turn.h"

enum { M_SUMS = 2 * M_BLOCK };

typedef struct mixed_job {
  const mrt_gemm *g;
  reader a, b;
  bool dots;
  int64_t k, step;            /* units, and of a block */
  real *pa, *pb, *stage;      /* packed; what is being turned */
  real *sums;                 /* NULL: c, or a tile */
  int64_t sums_i, sums_j, ld; /* where sums begin in c; their row */
} mixed_job;

static int64_t units(const mrt_gemm *g) {
  return takes_dots(g) ? ceil_div(g->k, 2) : g->k;
}

static int64_t stage_reals(int64_t step) {
  return LANES * round_up(step, LANES);
}

/* A sum of several blocks is f32 until the last. */
static bool wants_sums(const mrt_gemm *g, int64_t k) {
  return g->dtype != MRT_f32 && k > K_BLOCK;
}
static int64_t sums_row(const mrt_gemm *g) {
  return round_up(least(g->n, n_block(g->m)), LANES);
}

size_t mrt_gemm_mixed_bytes(const mrt_gemm *g) {
#if MRT_HAS_TILES
  if (takes_tiles(g)) return mrt_gemm_tiles_bytes(g);
#endif
  int64_t k = units(g), step = k_block(k);
  int64_t reals = a_reals(g->m, step) + stage_reals(step) +
                  round_up(b_reals(g->m, g->n, step), LANES);
  if (wants_sums(g, k))
    reals += least(round_up(g->m, ROWS), M_SUMS) * sums_row(g);
  return (size_t)round_up(reals, 64) * sizeof(real);
}

static mixed_job job_of(const mrt_gemm *g, void *scratch) {
  mixed_job t = { .g = g, .dots = takes_dots(g), .k = units(g) };
  t.step = t.k ? k_block(t.k) : 1;
  t.a = reader_of(&g->a, g->a.row, g->a.col, g->compute, t.dots);
  t.b = reader_of(&g->b, g->b.col, g->b.row, g->compute, t.dots);
  t.pa = scratch;
  t.stage = t.pa + a_reals(g->m, t.step);
  t.pb = t.stage + stage_reals(t.step);
  t.ld = sums_row(g);
  if (wants_sums(g, t.k))
    t.sums = t.pb + round_up(b_reals(g->m, g->n, t.step), LANES);
  return t;
}

/* Steps of k from unit p on. */
static int64_t steps_left(const mixed_job *t, int64_t *p) {
  if (t->dots) *p *= 2;
  return t->g->k - *p;
}

static void pack_b(const mixed_job *t, int64_t p, int64_t k, int64_t j,
                   int64_t n) {
  int64_t left = steps_left(t, &p);
  if (t->b.across == 1)
    pack_steps(&t->b, t->pb, COLS, LANES, j, n, p, k, left);
  else
    pack_turned(&t->b, COLS, t->pb, t->stage, j, n, p, k, left);
}

/* Whole strips of rows that are units already need no packing. */
static int64_t plain_rows(const mixed_job *t, int64_t m) {
  const reader *a = &t->a;
  if (!a->plain || a->along != 1) return 0;
  bool whole = !t->dots || ((t->g->k | a->across) % 2 == 0 &&
                            (uintptr_t)a->data % sizeof(real) == 0);
  return whole ? m / ROWS * ROWS : 0;
}

/* Steps side by side become strips, anything else rows. */
static void pack_a(const mixed_job *t, int64_t p, int64_t k, int64_t i,
                   int64_t m) {
  int64_t left = steps_left(t, &p), all = round_up(m, ROWS);
  int64_t steps = least(t->a.pairs ? 2 * k : k, left);
  if (t->a.across == 1) {
    pack_steps(&t->a, t->pa, ROWS, ROWS, i, m, p, k, left);
    return;
  }
  for (int64_t r = plain_rows(t, m); r < m; r++) {
    ask_for(element(&t->a, i + r + AHEAD, p), steps * t->a.bytes);
    read_row(&t->a, t->pa + r * k, i + r, p, k, left);
  }
  if (k) memset(t->pa + m * k, 0, (size_t)((all - m) * k) * sizeof(real));
}

/* Rows [i + r, i + r + ROWS) of a block from row i, unit p on. */
static strip strip_of(const mixed_job *t, int64_t i, int64_t r, int64_t m,
                      int64_t p, int64_t k) {
  int each = t->dots ? 2 : 1;
  if (r < plain_rows(t, m))
    return (strip){ (const real *)element(&t->a, i + r, p * each),
                    t->a.across / each, 1 };
  if (t->a.across == 1) return (strip){ t->pa + r * k, 1, ROWS };
  return (strip){ t->pa + r * k, k, 1 };
}

static void run_tile(const mixed_job *t, int vecs, int64_t k, const strip *a,
                     const real *b, const tile_place *at) {
#ifdef MRT_DOTS
  if (t->dots) {
    run_dots(vecs, k, a, b, at);
    return;
  }
#endif
  run_rows(vecs, k, a, b, at);
}

/* Where the sums of the tile at row i, column j are while k runs. */
static void find_sums(const mixed_job *t, real *tile, int64_t i, int64_t j,
                      tile_place *at) {
  const mrt_gemm *g = t->g;
  at->c = tile, at->row = COLS, at->col = 1;
  if (t->sums) {
    at->c = t->sums + (i - t->sums_i) * t->ld + (j - t->sums_j);
    at->row = t->ld;
  } else if (g->dtype == MRT_f32) {
    at->c = mrt_gemm_to(g, i, j), at->row = g->row, at->col = g->col;
  }
}

/* Is what is added one number for a column, or nothing? */
static bool is_by_column(const tile_place *at) {
  return !at->bias || (at->bias_row == 0 && at->bias_col == 1);
}

/* A tile of fewer columns than its vectors have may be put whole, by vectors,
 * where it has room: `bias` is theirs then, zeros after the last. */
static void widen_place(int vecs, real *bias, tile_place *at) {
  int all = vecs * LANES;
  if (at->bias) {
    for (int j = 0; j < all; j++) bias[j] = j < at->n ? at->bias[j] : 0;
    at->bias = bias;
  }
  at->n = all;
}

static void run_block(const mixed_job *t, int64_t p, int64_t k, int64_t i,
                      int64_t m, int64_t j, int64_t n) {
  const mrt_gemm *g = t->g;
  bool last = p + k == t->k;
  real tile[ROWS * COLS];
  for (int64_t s = 0; s < n; s += COLS)
    for (int64_t r = 0; r < m; r += ROWS) {
      tile_place at = { .m = (int)least(ROWS, m - r),
                        .n = (int)least(COLS, n - s),
                        .add = p > 0,
                        .bias_row = g->bias_row,
                        .bias_col = g->bias_col };
      find_sums(t, tile, i + r, j + s, &at);
      if (last && g->bias)
        at.bias = g->bias + (i + r) * g->bias_row + (j + s) * g->bias_col;
      strip a = strip_of(t, i, r, m, p, k);
      int vecs = (int)ceil_div(at.n, LANES);
      real bias[COLS];
      tile_place own = at;
      if (own.c == tile && is_by_column(&at)) widen_place(vecs, bias, &own);
      run_tile(t, vecs, k, &a, t->pb + s * k, &own);
      if (last && g->dtype != MRT_f32) round_tile(g, &at, i + r, j + s);
    }
}

/* Rows [i, i + m) of columns [j, j + n). */
static void run_columns(mixed_job *t, int64_t i, int64_t m, int64_t j,
                        int64_t n) {
  int64_t p = 0;
  t->sums_i = i, t->sums_j = j;
  do { /* once for empty sums */
    int64_t k = least(t->step, t->k - p);
    pack_b(t, p, k, j, n);
    for (int64_t r = 0; r < m; r += M_BLOCK) {
      int64_t rows = least(M_BLOCK, m - r);
      pack_a(t, p, k, i + r, rows);
      run_block(t, p, k, i + r, rows, j, n);
    }
    p += t->step;
  } while (p < t->k);
}

void mrt_gemm_mixed(const mrt_gemm *g, void *scratch) {
#if MRT_HAS_TILES
  if (takes_tiles(g)) {
    mrt_gemm_tiles(g, scratch);
    return;
  }
#endif
  mixed_job t = job_of(g, scratch);
  int64_t rows = t.sums ? M_SUMS : g->m;
  int64_t cols = equal_columns(g->m, g->n);
  for (int64_t i = 0; i < g->m; i += rows)
    for (int64_t j = 0; j < g->n; j += cols)
      run_columns(&t, i, least(rows, g->m - i), j, least(cols, g->n - j));
}
#endif
