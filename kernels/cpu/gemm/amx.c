/* amx.c -- matrix products of bf16 in tile registers
 *
 * Four registers hold GROUP x GROUP sums of c, two a's rows and two b's columns,
 * all packed (gemm/amx_pack.h):
 *
 *     for rows of c by M_SUMS, where sums of c must be kept
 *       for columns of c by columns_of
 *         for pairs of k by K_AT_ONCE       pack b
 *           for rows of c by GROUP
 *             for pairs of k by K_NEAR      pack a, ask for the next
 *               for columns by GROUP        one group of sums
 *
 * Of a what is packed stays in the first-level cache, of b in the second: to
 * multiply takes 16 cycles, to load a register from there 8 and 20, and from the
 * third level 110, so each is packed once and asked for well before.  Sums of
 * K_NEAR pairs go on from those before, with no rounding but their own.
 *
 * What is missing of a register is zero.  An element of c is the same function
 * of its row and column, as gemm.h says, of blocks of AMX_TILE pairs, and of blocks
 * of K_AT_ONCE of them.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"

#if MRT_HAS_TILES
#include "gemm/amx.h"
#include "gemm/amx_group.h"
#include "gemm/turn.h"

enum {
  K_AT_ONCE = 1024,
  K_NEAR = 256, /* GROUP rows of them: 32 KiB, of a first-level cache of 48 */
  B_UNITS = 256 * K_AT_ONCE, /* 1 MiB, half of a second-level cache */
  B_FEW_UNITS = B_UNITS / 4, /* for rows of one group: b is used once */
  N_MOST = B_UNITS / K_NEAR,
  M_SUMS = 1024,
  WIDE = 4 * GROUP
};

_Static_assert((int)LANES == (int)AMX_TILE, "what is turned is a register");
_Static_assert((int)GROUP <= (int)COLS, "rows of a group are those of a tile");
_Static_assert((int)B_FEW_UNITS / (int)K_AT_ONCE >= (int)GROUP, "a strip");

typedef struct amx_job {
  const mrt_gemm *g;
  reader a, b;
  int64_t k, step;            /* units, and of a block, whole registers */
  int64_t columns;            /* of c at once */
  real *pa, *pb;              /* packed */
  real *near;                 /* sums of a group of rows between K_NEAR */
  real *sums;                 /* NULL: c, or a group */
  int64_t sums_i, sums_j, ld; /* where sums begin in c; their row */
  real *rooms[2];             /* of sums of a group; which is the next */
  int room;
  amx_besides besides;
} amx_job;

/* Not equal blocks: a longer sum never takes less scratch. */
static int64_t step_of(int64_t k) {
  return round_up(least(k, K_AT_ONCE), AMX_TILE);
}
static int64_t pairs_of(const mrt_gemm *g) { return ceil_div(g->k, 2); }
/* A sum of several blocks is f32 until the last. */
static bool wants_sums(const mrt_gemm *g) {
  return g->dtype != MRT_f32 && pairs_of(g) > K_AT_ONCE;
}

static int64_t most_b_units(const mrt_gemm *g) {
  return g->m > GROUP ? B_UNITS : B_FEW_UNITS;
}
/* More where sums are short. */
static int64_t columns_of(const mrt_gemm *g, int64_t step) {
  int64_t all = round_up(g->n, GROUP), most = least(all, N_MOST);
  if (step == 0 || most * step <= most_b_units(g)) return most;
  return most_b_units(g) / step / GROUP * GROUP;
}

/* Are steps of a so far apart, and rows side by side, that lines of one group's
 * rows would push one another out of the second level before they are packed?
 * Then rows are packed by WIDE. */
static bool is_wide(const mrt_gemm *g) {
  enum { FAR = 2048 };
  int64_t step = g->a.col * (int64_t)mrt_dtypes[g->a.dtype].bytes;
  return g->a.row == 1 && step >= FAR;
}

/* Reals of rows of a, of b, of sums.  None is less for fewer terms, though there
 * may be more columns at once then. */
static int64_t a_units(const mrt_gemm *g, int64_t step) {
  if (is_wide(g)) return least(round_up(g->m, GROUP), WIDE) * step;
  return GROUP * least(step, K_NEAR);
}
static int64_t b_units(const mrt_gemm *g, int64_t step) {
  int64_t all = least(round_up(g->n, GROUP), N_MOST);
  return least(all * step, most_b_units(g));
}
static int64_t near_units(const mrt_gemm *g, int64_t step) {
  return step > K_NEAR ? GROUP * least(round_up(g->n, GROUP), N_MOST) : 0;
}

size_t mrt_gemm_tiles_bytes(const mrt_gemm *g) {
  int64_t step = step_of(pairs_of(g));
  int64_t reals = a_units(g, step) + b_units(g, step) + near_units(g, step);
  if (wants_sums(g))
    reals += least(round_up(g->m, GROUP), M_SUMS) * columns_of(g, step);
  return (size_t)reals * sizeof(real);
}

static amx_job job_of(const mrt_gemm *g, void *scratch) {
  int64_t k = pairs_of(g), step = step_of(k);
  amx_job t = { .g = g, .k = k, .step = step, .pa = scratch };
  t.a = reader_of(&g->a, g->a.row, g->a.col, g->compute, true);
  t.b = reader_of(&g->b, g->b.col, g->b.row, g->compute, true);
  t.columns = t.ld = columns_of(g, step);
  t.pb = t.pa + a_units(g, step);
  t.near = t.pb + b_units(g, step);
  if (wants_sums(g)) t.sums = t.near + near_units(g, step);
  return t;
}

/* ---- sums of a group ------------------------------------------------------- */

/* A rectangle of c, of at most GROUP rows, and the block of k that is added to
 * it. */
typedef struct amx_part {
  int64_t p, k; /* units */
  int64_t i, m, j, n;
  bool more;        /* rows after it */
  const real *wide; /* its rows of a, packed; or NULL */
} amx_part;

static bool is_last(const amx_job *t, const amx_part *x) {
  return x->p + x->k >= t->k;
}

static real *sums_at(const amx_job *t, int64_t i, int64_t j) {
  return t->sums + (i - t->sums_i) * t->ld + (j - t->sums_j);
}

/* Can rows of sums be put as they come, by vectors? */
static bool goes_by_rows(const amx_job *t, bool last) {
  const mrt_gemm *g = t->g;
  if (!last && t->sums) return true;
  bool by_column = !g->bias || (g->bias_row == 0 && g->bias_col == 1);
  return g->col == 1 && (g->dtype == MRT_f32 || g->dtype == MRT_bf16) &&
         (!last || by_column);
}

/* Columns [j, j + n) of a part's sums, of its last pairs. */
static amx_put put_of(const amx_job *t, const amx_part *x, const real *from,
                      int64_t j, int64_t n) {
  const mrt_gemm *g = t->g;
  bool last = is_last(t, x), to_sums = t->sums && !last;
  amx_put y = { .from = from, .left = x->m };
  y.columns = n < GROUP ? (1u << n) - 1 : ~0u;
  y.half = last && g->dtype == MRT_bf16;
  y.to = to_sums ? (char *)sums_at(t, x->i, j) : mrt_gemm_to(g, x->i, j);
  y.to_row =
      to_sums ? t->ld * UNIT : g->row * (int64_t)mrt_dtypes[g->dtype].bytes;
  if (last && g->bias) y.bias = g->bias + j;
  if (x->p == 0) return y;
  y.old = t->sums ? sums_at(t, x->i, j) : mrt_gemm_to(g, x->i, j);
  y.old_row = t->sums ? t->ld : g->row;
  return y;
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

/* The same at once, whatever c is. */
static void put_group(const amx_job *t, const amx_part *x, real *sums,
                      int64_t j, int64_t n) {
  const mrt_gemm *g = t->g;
  bool last = is_last(t, x);
  tile_place at = { .c = sums,
                    .row = COLS,
                    .col = 1,
                    .m = (int)x->m,
                    .n = (int)n,
                    .add = x->p > 0,
                    .bias_row = g->bias_row,
                    .bias_col = g->bias_col };
  if (t->sums)
    at.c = sums_at(t, x->i, j), at.row = t->ld;
  else if (g->dtype == MRT_f32)
    at.c = mrt_gemm_to(g, x->i, j), at.row = g->row, at.col = g->col;
  if (last && g->bias) at.bias = g->bias + x->i * g->bias_row + j * g->bias_col;
  bool along_m = !at.bias || (at.bias_row == 1 && at.bias_col == 0);
  if (at.col == 1)
    put_rows(sums, &at);
  else if (at.row == 1 && along_m)
    put_columns(sums, &at);
  else
    put_values(sums, &at);
  if (last && g->dtype != MRT_f32) round_tile(g, &at, x->i, j);
}

/* ---- rows of c ------------------------------------------------------------- */

/* Rows of a from (i, p) on, during `strips` groups. */
static amx_ask ask_for_a(const amx_job *t, int64_t i, int64_t p,
                         int64_t strips) {
  const reader *a = &t->a;
  bool along = a->along == 1;
  int64_t row = (along ? a->across : a->along) * a->bytes;
  return (amx_ask){ .data = element(a, i, p),
                    .row = row,
                    .next = along ? SIDE * a->bytes - GROUP * row : 0,
                    .left = GROUP,
                    .each = ceil_div(GROUP, strips),
                    .two = a->bytes > 2 };
}

/* Pairs [q, q + k) of a part. */
static void run_near(amx_job *t, const amx_part *x, int64_t q, int64_t k,
                     amx_rows a) {
  bool ends = q + k >= x->k, by_rows = goes_by_rows(t, is_last(t, x));
  for (int64_t s = 0; s < x->n; s += GROUP) {
    real *near = t->near + s * GROUP, *room = t->rooms[t->room];
    int64_t n = least(GROUP, x->n - s), j = x->j + s;
    amx_sums sums = { q ? near : NULL, ends ? room : near, GROUP,
                      ends && !by_rows ? COLS : GROUP };
    multiply_group(x->m, n, k, a, t->pb + s * x->k + q * GROUP, &sums,
                   &t->besides);
    if (!ends) continue;
    put_rest(&t->besides.put); /* there is some after empty sums only */
    if (by_rows)
      t->besides.put = put_of(t, x, room, j, n), t->room = !t->room;
    else
      put_group(t, x, room, j, n);
  }
}

/* Do GROUP rows of `lines` lines, `row` apart, stay in a first-level cache of 64
 * sets of 12 lines, beside others? */
static bool stays_near(int64_t row, int64_t lines) {
  enum { SETS = 64, MOST = 10 };
  int64_t apart = 1;
  while (apart < SETS && row % (2 * apart) == 0) apart *= 2;
  int64_t places = SETS / apart;
  return ceil_div(GROUP, places) * ceil_div(lines, apart) <= MOST;
}

/* Can registers be loaded from a itself, m rows of it?  Where they are loaded
 * once, or stay in the first-level cache. */
static bool lies_well(const amx_job *t, const amx_part *x) {
  const reader *a = &t->a;
  int64_t row = a->across * a->bytes;
  int64_t lines = least(x->k, K_NEAR) * UNIT / AMX_ROW;
  bool whole = a->plain && a->along == 1 && x->m % AMX_TILE == 0 &&
               t->g->k % SIDE == 0 && row % AMX_ROW == 0 &&
               (uintptr_t)a->data % AMX_ROW == 0;
  return whole && (x->n <= GROUP || stays_near(row / AMX_ROW, lines));
}

/* What is asked for while pairs [q, q + k) of a part are multiplied. */
static amx_ask next_of(const amx_job *t, const amx_part *x, int64_t q,
                       int64_t k) {
  int64_t strips = ceil_div(x->n, GROUP);
  if (q + k < x->k) return ask_for_a(t, x->i, 2 * (x->p + q + k), strips);
  if (x->more) return ask_for_a(t, x->i + GROUP, 2 * x->p, strips);
  return (amx_ask){ 0 };
}

/* Rows that lie well and are met once go on: the processor sees that they are
 * read in turn. */
static void run_rows_of(amx_job *t, const amx_part *x) {
  int64_t row = t->a.across * t->a.bytes, q = 0;
  bool well = lies_well(t, x), once = well && x->n <= GROUP;
  do { /* once for empty sums */
    int64_t k = once ? x->k : least(K_NEAR, x->k - q), p = 2 * (x->p + q);
    amx_rows a = { (const char *)t->pa, AMX_ROW, TILE_UNITS * UNIT,
                   BLOCK_UNITS * UNIT };
    if (x->wide)
      a.data = (const char *)(x->wide + q * GROUP);
    else if (well)
      a = (amx_rows){ element(&t->a, x->i, p), row, AMX_TILE * row, AMX_ROW };
    else
      pack_rows(&t->a, x->i, x->m, p, k, t->g->k - p, t->pa);
    t->besides.next = once || x->wide ? (amx_ask){ 0 } : next_of(t, x, q, k);
    run_near(t, x, q, k, a);
    q += k;
  } while (q < x->k);
}

/* Rows [i, i + m) of columns [j, j + n). */
static void run_columns(amx_job *t, int64_t i, int64_t m, int64_t j,
                        int64_t n) {
  int64_t p = 0;
  bool wide = is_wide(t->g);
  t->sums_i = i, t->sums_j = j;
  do { /* once for empty sums */
    int64_t k = round_up(least(t->step, t->k - p), AMX_TILE);
    int64_t left = t->g->k - 2 * p;
    pack_columns(&t->b, j, n, 2 * p, k, left, t->pb);
    for (int64_t r = 0; r < m; r += GROUP) {
      amx_part x = {
        p, k, i + r, least(GROUP, m - r), j, n, r + GROUP < m, NULL
      };
      if (wide && r % WIDE == 0)
        pack_wide(&t->a, x.i, least(WIDE, m - r), 2 * p, k, left, t->pa);
      if (wide) x.wide = t->pa + r % WIDE * k;
      run_rows_of(t, &x);
    }
    p += t->step;
  } while (p < t->k);
}

WITH_AMX void mrt_gemm_tiles(const mrt_gemm *g, void *scratch) {
  _Alignas(64) real rooms[2][GROUP * COLS];
  amx_job t = job_of(g, scratch);
  int64_t rows = t.sums ? M_SUMS : g->m;
  t.rooms[0] = rooms[0], t.rooms[1] = rooms[1];
  amx_begin();
  for (int64_t i = 0; i < g->m; i += rows)
    for (int64_t j = 0; j < g->n; j += t.columns)
      run_columns(&t, i, least(rows, g->m - i), j, least(t.columns, g->n - j));
  amx_end();
  put_rest(&t.besides.put);
}
#endif
