/* few.c -- products of few rows, a panel of columns at a time
 *
 *   needs  columns that can be put, turned, into a piece (few.h)
 *   gives  the bits of gemm.c and mixed.c
 *   cost   each column is read once; 30 KiB of stack, scratch for rows of x
 *          that are not units already
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "gemm/few.h"
#include "floats.h"
#include "gemm/block.h"
#include "gemm/dots.h"
#ifndef MRT_F64
#include "units.h"
#endif

enum { STEPS = MRT_FEW_STEPS, WIDTH = MRT_FEW_VECS * LANES };

/* What is being computed: all rows of a panel of columns. */
typedef struct panel {
  const mrt_few_product *f;
  int64_t j, n;    /* columns */
  int64_t k, step; /* units of k, and of a block */
  mrt_units x;
  real now[MRT_FEW][WIDTH]; /* sums of the block under way */
  real all[MRT_FEW][WIDTH]; /* of the blocks before */
  real piece[STEPS * WIDTH];
} panel;

/* ---- sums ---------------------------------------------------------------- */

/* sum[rows][vecs] += `steps` units of x, and of b, whose steps are `width`
 * apart; rows and vecs are constants, so that the sums are registers. */
#define ADD_STEPS(name, attributes, unit, load, broadcast, multiply)           \
  static inline __attribute__((always_inline)) attributes void name(           \
      int rows, int vecs, int64_t steps, const real *x, int64_t x_row,         \
      const real *b, int64_t width, real *sum) {                               \
    vec s[4][8];                                                               \
    _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++)                     \
        _Pragma("GCC unroll 8") for (int v = 0; v < vecs; v++) s[i][v] =       \
            vec_load(sum + i * WIDTH + v * LANES);                             \
    for (int64_t q = 0; q < steps; q++, b += width) {                          \
      unit y[8];                                                               \
      _Pragma("GCC unroll 8") for (int v = 0; v < vecs; v++) y[v] =            \
          load(b + v * LANES);                                                 \
      _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++) {                 \
        unit xi = broadcast(x + i * x_row + q);                                \
        _Pragma("GCC unroll 8") for (int v = 0; v < vecs; v++) s[i][v] =       \
            multiply(s[i][v], xi, y[v]);                                       \
      }                                                                        \
    }                                                                          \
    _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++)                     \
        _Pragma("GCC unroll 8") for (int v = 0; v < vecs; v++)                 \
            vec_store(sum + i * WIDTH + v * LANES, s[i][v]);                   \
  }
/* All of a panel's vectors for some rows: for one of them side by side, for
 * more in as many turns as the registers ask for. */
#define ADD_ROWS(name, attributes, steps_of)                                   \
  static attributes void name(int vecs, int64_t m, int64_t steps,              \
                              const real *x, int64_t x_row, const real *b,     \
                              real *sum) {                                     \
    enum { FOUR = MRT_VECTOR_BYTES == 64 ? 4 : 2 };                            \
    int64_t width = vecs * LANES, i = 0;                                       \
    for (; i + 4 <= m; i += 4, x += 4 * x_row, sum += 4 * WIDTH)               \
      if (vecs % FOUR)                                                         \
        for (int v = 0; v < vecs; v++)                                         \
          steps_of(4, 1, steps, x, x_row, b + v * LANES, width,                \
                   sum + v * LANES);                                           \
      else                                                                     \
        for (int v = 0; v < vecs; v += FOUR)                                   \
          steps_of(4, FOUR, steps, x, x_row, b + v * LANES, width,             \
                   sum + v * LANES);                                           \
    for (; i + 2 <= m; i += 2, x += 2 * x_row, sum += 2 * WIDTH)               \
      if (vecs == MRT_FEW_VECS)                                                \
        for (int v = 0; v < vecs; v += 4)                                      \
          steps_of(2, 4, steps, x, x_row, b + v * LANES, width,                \
                   sum + v * LANES);                                           \
      else                                                                     \
        steps_of(2, MRT_FEW_WIDE_VECS, steps, x, x_row, b, width, sum);        \
    if (i < m && vecs == MRT_FEW_VECS)                                         \
      steps_of(1, MRT_FEW_VECS, steps, x, x_row, b, width, sum);               \
    else if (i < m)                                                            \
      steps_of(1, MRT_FEW_WIDE_VECS, steps, x, x_row, b, width, sum);          \
  }

#define BROADCAST(p)      vec_all(*(p))
#define MULTIPLY(s, x, y) ((s) + (x) * (y))
ADD_STEPS(add_steps, , vec, vec_load, BROADCAST, MULTIPLY)
ADD_ROWS(add_rows, , add_steps)

#if defined(MRT_DOTS) && !defined(MRT_F64)
#define LOAD_PAIRS(p)           ((__m512bh)_mm512_loadu_si512(p))
#define BROADCAST_PAIR(p)       ((__m512bh)_mm512_set1_epi32(*(const pair *)(p)))
#define MULTIPLY_PAIRS(s, x, y) ((vec)_mm512_dpbf16_ps((__m512)(s), (x), (y)))
ADD_STEPS(dot_steps, WITH_DOTS, __m512bh, LOAD_PAIRS, BROADCAST_PAIR,
          MULTIPLY_PAIRS)
ADD_ROWS(dot_rows, WITH_DOTS, dot_steps)
#else
#define dot_rows add_rows
#endif

/* ---- rows of x ----------------------------------------------------------- */

static int64_t units_of(const mrt_gemm *g, bool dots) {
  return dots ? ceil_div(g->k, 2) : g->k;
}

size_t mrt_few_bytes(const mrt_gemm *g) {
  int64_t m = least(g->m, MRT_FEW), n = least(g->n, MRT_FEW);
  return (size_t)round_up((m > n ? m : n) * g->k, 64) * sizeof(real);
}

mrt_units mrt_few_units(const mrt_gemm *g, bool dots, void *scratch) {
  bool rounds = g->compute != MRT_DTYPE_COUNT && g->compute != MRT_REAL;
  if (g->a.dtype == MRT_REAL && g->a.col == 1 && !rounds && !dots)
    return (mrt_units){ g->a.data, g->a.row };
  mrt_units x = { scratch, units_of(g, dots) };
  real *to = scratch;
#ifdef MRT_F64
  for (int64_t i = 0; i < g->m; i++, to += x.row)
    for (int64_t q = 0; q < g->k; q++)
      to[q] = *(const real *)mrt_matrix_at(&g->a, i, q);
#else
  reader a = reader_of(&g->a, g->a.row, g->a.col, g->compute, dots);
  for (int64_t i = 0; i < g->m; i++, to += x.row)
    read_row(&a, to, i, 0, x.row, g->k);
#endif
  return x;
}

/* ---- a panel ------------------------------------------------------------- */

/* The block that ends before unit p is complete. */
static void end_block(panel *t, int64_t p) {
  int vecs = t->f->vecs;
  for (int64_t i = 0; i < t->f->g->m; i++)
    for (int v = 0; v < vecs; v++) {
      vec now = vec_load(t->now[i] + v * LANES);
      if (p > t->step) now = vec_load(t->all[i] + v * LANES) + now;
      vec_store(t->all[i] + v * LANES, now);
      vec_store(t->now[i] + v * LANES, (vec){ 0 });
    }
}

/* Add units [q, to) of the piece from unit p on. */
static void add_units(panel *t, int64_t p, int64_t q, int64_t to,
                      bool *filled) {
  const mrt_few_product *f = t->f;
  const real *x = t->x.data + q;
  if (f->add && f->g->m == 1 && f->add(f, t->j, q, to, x, t->now[0])) return;
  if (!*filled) f->fill(f, t->j, p, t->piece), *filled = true;
  (f->dots ? dot_rows : add_rows)(f->vecs, f->g->m, to - q, x, t->x.row,
                                  t->piece + (q - p) * f->vecs * LANES,
                                  t->now[0]);
}

/* A piece from unit p on: blocks may end within. */
static void run_piece(panel *t, int64_t p) {
  int64_t end = least(p + STEPS, t->k);
  bool filled = false;
  for (int64_t q = p, to; q < end; q = to) {
    int64_t block_end = least(q / t->step * t->step + t->step, t->k);
    to = least(end, block_end);
    add_units(t, p, q, to, &filled);
    if (to == block_end) end_block(t, to);
  }
}

void mrt_few_put(const mrt_gemm *g, int64_t i, int64_t j, int64_t n,
                 real *sum) {
  int64_t size = (int64_t)mrt_dtypes[g->dtype].bytes;
  int64_t each = g->col == 1 ? n : 1;
  char *to = mrt_gemm_to(g, i, j);
  const real *bias = g->bias;
  if (bias) bias += i * g->bias_row + j * g->bias_col;
  for (int64_t q = 0; bias && q < n; q++) sum[q] += bias[q * g->bias_col];
  for (int64_t q = 0; q < n; q += each)
    if (g->dtype == MRT_REAL)
      memcpy(to + q * g->col * size, sum + q, (size_t)each * sizeof *sum);
    else
      mrt_round(g->dtype, sum + q, to + q * g->col * size, each);
}

void mrt_few_run(const mrt_few_product *f, void *scratch) {
  panel t;
  int64_t width = f->vecs * LANES;
  t.f = f, t.x = mrt_few_units(f->g, f->dots, scratch);
  t.k = units_of(f->g, f->dots);
  t.step = k_block(t.k);
  memset(t.now, 0, (size_t)f->g->m * sizeof t.now[0]);
  for (t.j = 0; t.j < f->g->n; t.j += width) {
    t.n = least(width, f->g->n - t.j);
    if (t.n < width) memset(t.piece, 0, sizeof t.piece);
    for (int64_t p = 0; p < t.k; p += STEPS) run_piece(&t, p);
    for (int64_t i = 0; i < f->g->m; i++)
      mrt_few_put(f->g, i, t.j, t.n, t.all[i]);
  }
}
