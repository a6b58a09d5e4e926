/* amx.c -- matrix products of bf16 in tile registers
 *
 * Four registers hold GROUP x GROUP sums of c, two a's rows and two b's columns.
 * b is packed in strips of GROUP columns; rows of a whose pairs lie side by
 * side, whole registers of them, are read where they lie:
 *
 *     for rows of c by M_SUMS, where sums of c must be kept
 *       for columns of c by N_AT_ONCE
 *         for pairs of k by K_AT_ONCE    pack b
 *           for rows of c by GROUP       pack a, unless its rows lie well
 *             for columns by GROUP       one group, rounded at the last
 *
 * What is missing of a register is zero.  An element of c is the same function
 * of its row and column, as gemm.h says, of blocks of TILE pairs.
 *
 * Written without a processor that has them, proved by the model of amx.h, and
 * not timed; when a context opens it is tried (runtime/tiles.c).
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"

#if MRT_HAS_TILES
#include "gemm/amx.h"
#include "gemm/read.h"
#include "gemm/turn.h"

enum {
  GROUP = 2 * TILE,
  N_AT_ONCE = 256,
  K_AT_ONCE = 1024, /* with N_AT_ONCE 1 MiB, half of a second-level cache */
  M_SUMS = 1024
};

_Static_assert((int)LANES == (int)TILE, "what is turned is a register");
_Static_assert((int)SOME % (int)GROUP == 0, "strips are packed whole");
_Static_assert((int)GROUP <= (int)COLS, "rows of a group are those of a tile");

typedef struct amx_job {
  const mrt_gemm *g;
  reader a, b;
  int64_t k, step;            /* units, and of a block, whole registers */
  real *pa, *pb, *stage;      /* packed; what is being turned */
  real *sums;                 /* NULL: c, or a group */
  int64_t sums_i, sums_j, ld; /* where sums begin in c; their row */
} amx_job;

/* Not equal blocks: a longer sum never takes less scratch. */
static int64_t step_of(int64_t k) {
  return round_up(least(k, K_AT_ONCE), TILE);
}
static int64_t pairs_of(const mrt_gemm *g) { return ceil_div(g->k, 2); }
static int64_t columns_of(const mrt_gemm *g) {
  return round_up(least(g->n, N_AT_ONCE), GROUP);
}
/* A sum of several blocks is f32 until the last. */
static bool wants_sums(const mrt_gemm *g) {
  return g->dtype != MRT_f32 && pairs_of(g) > K_AT_ONCE;
}

/* Reals of rows of a, of b, of what is turned, of sums. */
static int64_t a_units(int64_t step) { return GROUP * step; }
static int64_t b_units(const mrt_gemm *g, int64_t step) {
  return columns_of(g) * step;
}
static int64_t stage_units(int64_t step) { return LANES * step; }

size_t mrt_gemm_tiles_bytes(const mrt_gemm *g) {
  int64_t step = step_of(pairs_of(g));
  int64_t reals = a_units(step) + b_units(g, step) + stage_units(step);
  if (wants_sums(g))
    reals += least(round_up(g->m, GROUP), M_SUMS) * columns_of(g);
  return (size_t)reals * sizeof(real);
}

static amx_job job_of(const mrt_gemm *g, void *scratch) {
  int64_t k = pairs_of(g), step = step_of(k);
  amx_job t = { .g = g, .k = k, .step = step, .pa = scratch };
  t.a = reader_of(&g->a, g->a.row, g->a.col, g->compute, true);
  t.b = reader_of(&g->b, g->b.col, g->b.row, g->compute, true);
  t.pb = t.pa + a_units(step);
  t.stage = t.pb + b_units(g, step);
  if (wants_sums(g)) t.sums = t.stage + stage_units(step);
  t.ld = columns_of(g);
  return t;
}

/* ---- packing, from unit p on ---------------------------------------------- */

static void pack_b(const amx_job *t, int64_t p, int64_t k, int64_t j,
                   int64_t n) {
  int64_t left = t->g->k - 2 * p;
  if (t->b.across == 1)
    pack_steps(&t->b, t->pb, GROUP, LANES, j, n, 2 * p, k, left);
  else
    pack_turned(&t->b, GROUP, t->pb, t->stage, j, n, 2 * p, k, left);
}

/* TILE rows out of steps: of each step the units of these rows are read, and
 * turned. */
static void pack_rows_of_steps(const amx_job *t, int64_t i, int64_t m,
                               int64_t p, int64_t k, real *to) {
  int64_t left = t->g->k - 2 * p;
  for (int64_t q = 0; q < k; q += TILE) {
    _Alignas(64) real steps[TILE * TILE];
    memset(steps, 0, sizeof steps);
    for (int s = 0; s < TILE; s++)
      read_step(&t->a, steps + s * TILE, i, 2 * (p + q + s), m,
                left - 2 * (q + s));
    vec v[TILE];
    for (int s = 0; s < TILE; s++) v[s] = vec_load(steps + s * TILE);
    transpose(v);
    for (int r = 0; r < TILE; r++) vec_store(to + r * k + q, v[r]);
  }
}

/* At most GROUP rows of k units, zeros after the last. */
static void pack_a(const amx_job *t, int64_t i, int64_t m, int64_t p,
                   int64_t k) {
  int64_t left = t->g->k - 2 * p;
  for (int64_t r = 0; r < m; r += TILE) {
    int64_t rows = least(TILE, m - r);
    real *to = t->pa + r * k;
    if (t->a.across == 1) {
      pack_rows_of_steps(t, i + r, rows, p, k, to);
      continue;
    }
    for (int64_t s = 0; s < rows; s++)
      read_row(&t->a, to + s * k, i + r + s, 2 * p, k, left);
    memset(to + rows * k, 0, (size_t)((TILE - rows) * k) * sizeof(real));
  }
}

/* Can registers be loaded from a itself, `m` rows of it? */
static bool lies_well(const amx_job *t, int64_t m) {
  const reader *a = &t->a;
  return a->plain && a->along == 1 && m % TILE == 0 &&
         t->g->k % (2 * TILE) == 0 && a->across % 2 == 0 &&
         (uintptr_t)a->data % sizeof(real) == 0;
}

/* ---- a group of registers -------------------------------------------------- */

/* Sums of two registers of rows `row` bytes apart, or one, and of columns. */
static inline __attribute__((always_inline)) WITH_AMX void
multiply(bool rows, bool columns, int64_t k, const char *a, int64_t row,
         const real *b, real *sums) {
  enum { SUMS = COLS * UNIT };
  int64_t width = columns ? GROUP : TILE, strip = width * UNIT;
  amx_zero(0);
  amx_zero(1);
  amx_zero(2);
  amx_zero(3);
  for (int64_t p = 0; p < k; p += TILE, a += TILE_ROW, b += TILE * width) {
    amx_load(4, a, row);
    amx_load(6, b, strip);
    amx_multiply(0, 4, 6);
    if (rows) {
      amx_load(5, a + TILE * row, row);
      amx_multiply(2, 5, 6);
    }
    if (columns) {
      amx_load(7, b + TILE, strip);
      amx_multiply(1, 4, 7);
    }
    if (rows && columns) amx_multiply(3, 5, 7);
  }
  amx_store(0, sums, SUMS);
  amx_store(1, sums + TILE, SUMS);
  amx_store(2, sums + TILE * COLS, SUMS);
  amx_store(3, sums + TILE * COLS + TILE, SUMS);
}

static WITH_AMX void multiply_group(int64_t m, int64_t n, int64_t k,
                                    const char *a, int64_t row, const real *b,
                                    real *sums) {
  if (m > TILE && n > TILE)
    multiply(true, true, k, a, row, b, sums);
  else if (m > TILE)
    multiply(true, false, k, a, row, b, sums);
  else if (n > TILE)
    multiply(false, true, k, a, row, b, sums);
  else
    multiply(false, false, k, a, row, b, sums);
}

/* What is contiguous along columns goes by vectors. */
static void put_rows(const real *sums, const tile_place *at) {
  bool each = at->bias && at->bias_col == 0;
  for (int i = 0; i < at->m; i++) {
    const real *from = sums + i * COLS;
    real *to = at->c + i * at->row, one = 0;
    const real *bias = at->bias ? at->bias + i * at->bias_row : NULL;
    if (each) one = *bias;
    if (at->add)
      for (int j = 0; j < at->n; j++) to[j] = to[j] + from[j];
    else if (to != from)
      memcpy(to, from, (size_t)at->n * sizeof *to);
    if (each)
      for (int j = 0; j < at->n; j++) to[j] += one;
    else if (bias)
      for (int j = 0; j < at->n; j++) to[j] += bias[j * at->bias_col];
  }
}

static void put_group(const amx_job *t, real *sums, int64_t i, int64_t j,
                      tile_place *at, bool last) {
  const mrt_gemm *g = t->g;
  at->c = sums, at->row = COLS, at->col = 1;
  if (t->sums) {
    at->c = t->sums + (i - t->sums_i) * t->ld + (j - t->sums_j);
    at->row = t->ld;
  } else if (g->dtype == MRT_f32) {
    at->c = mrt_gemm_to(g, i, j), at->row = g->row, at->col = g->col;
  }
  if (last && g->bias) at->bias = g->bias + i * g->bias_row + j * g->bias_col;
  bool along_m = !at->bias || (at->bias_row == 1 && at->bias_col == 0);
  if (at->col == 1)
    put_rows(sums, at);
  else if (at->row == 1 && along_m)
    put_columns(sums, at);
  else
    put_values(sums, at);
  if (last && g->dtype != MRT_f32) round_tile(g, at, i, j);
}

/* Rows [i, i + m), at most GROUP, of columns [j, j + n). */
static void run_rows_of(const amx_job *t, int64_t p, int64_t k, int64_t i,
                        int64_t m, int64_t j, int64_t n) {
  const mrt_gemm *g = t->g;
  bool well = lies_well(t, m), last = p + k >= t->k;
  const char *a = well ? element(&t->a, i, 2 * p) : (const char *)t->pa;
  int64_t row = well ? t->a.across * t->a.bytes : k * UNIT;
  if (!well) pack_a(t, i, m, p, k);
  for (int64_t s = 0; s < n; s += GROUP) {
    _Alignas(64) real sums[GROUP * COLS];
    tile_place at = { .m = (int)m,
                      .n = (int)least(GROUP, n - s),
                      .add = p > 0,
                      .bias_row = g->bias_row,
                      .bias_col = g->bias_col };
    multiply_group(m, at.n, k, a, row, t->pb + s * k, sums);
    put_group(t, sums, i, j + s, &at, last);
  }
}

/* Rows [i, i + m) of columns [j, j + n). */
static void run_columns(amx_job *t, int64_t i, int64_t m, int64_t j,
                        int64_t n) {
  int64_t p = 0;
  t->sums_i = i, t->sums_j = j;
  do { /* once for empty sums */
    int64_t k = round_up(least(t->step, t->k - p), TILE);
    pack_b(t, p, k, j, n);
    for (int64_t r = 0; r < m; r += GROUP)
      run_rows_of(t, p, k, i + r, least(GROUP, m - r), j, n);
    p += t->step;
  } while (p < t->k);
}

WITH_AMX void mrt_gemm_tiles(const mrt_gemm *g, void *scratch) {
  amx_job t = job_of(g, scratch);
  int64_t rows = t.sums ? M_SUMS : g->m;
  amx_begin();
  for (int64_t i = 0; i < g->m; i += rows)
    for (int64_t j = 0; j < g->n; j += N_AT_ONCE)
      run_columns(&t, i, least(rows, g->m - i), j, least(N_AT_ONCE, g->n - j));
  amx_end();
}
#endif
