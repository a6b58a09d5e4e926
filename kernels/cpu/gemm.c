/* gemm.c -- the packed, blocked matrix product
 *
 * Blocks of b (K_BLOCK x N_BLOCK) and of a (M_BLOCK x K_BLOCK) are packed into
 * strips that tiles read from first to last; a's block stays in the second
 * level cache while every strip of b passes by:
 *
 *     for columns of c by N_BLOCK
 *       for k by K_BLOCK               pack b
 *         for rows of c by M_BLOCK     pack a, unless its rows lie well
 *           for strips of b, for strips of a: one tile of c
 *
 * Packing takes any strides, so a transposed view costs what a copy costs and
 * gives the same bits.
 *
 *   from  Goto & van de Geijn, Anatomy of High-Performance Matrix
 *         Multiplication, ACM TOMS 34(3), 2008; Van Zee & van de Geijn, BLIS
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "gemm.h"
#include "gemm_pack.h"
#include "gemm_tile.h"

/* A strip of b (74 KiB) is about as large as the first-level cache and passes
 * by a block of a (288 KiB with AVX-512, 144 KiB else) that leaves room in the
 * second level.  Measured on Zen 5 at token rows of 128 to 3072: blocks of k of
 * 256 and 512 and half the rows or columns are 1 to 3 % slower. */
enum {
  K_BLOCK = 384,
  M_BLOCK = (MRT_VECTOR_BYTES == 64 ? 768 : 384) / (int)sizeof(real),
  N_BLOCK = 3072 / (int)sizeof(real),
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* Equal blocks of k; their length is a function of k alone. */
static int64_t k_block(int64_t k) { return ceil_div(k, ceil_div(k, K_BLOCK)); }

/* A packed block of b that serves one strip of rows need not be kept. */
static int64_t n_block(int64_t m) { return m <= ROWS ? 2 * COLS : N_BLOCK; }

/* Reals of a packed block of a, a multiple of 64 bytes. */
static int64_t a_reals(int64_t m, int64_t k) {
  return round_up(round_up(least(m, M_BLOCK), ROWS) * k, 64);
}
static int64_t b_reals(int64_t m, int64_t n, int64_t k) {
  return round_up(least(n, n_block(m)), LANES) * k;
}

/* So few columns leave most lanes empty: take the rows for columns. */
static bool is_narrow(int64_t m, int64_t n) { return n < LANES / 2 && n < m; }

static int64_t reals(int64_t m, int64_t n, int64_t k) {
  return round_up(a_reals(m, k) + b_reals(m, n, k), 64);
}

size_t mrt_gemm_bytes(int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  int64_t upright = reals(m, n, k_block(k)), turned = 0;
  if (is_narrow(m, n)) turned = reals(n, m, k_block(k));
  return (size_t)(upright > turned ? upright : turned) * sizeof(real);
}

static mrt_gemm turned(const mrt_gemm *g) {
  return (mrt_gemm){
    .m = g->n,
    .n = g->m,
    .k = g->k,
    .a = { g->b.data, g->b.col, g->b.row },
    .b = { g->a.data, g->a.col, g->a.row },
    .c = g->c,
    .row = g->col,
    .col = g->row,
    .bias = g->bias,
    .bias_row = g->bias_col,
    .bias_col = g->bias_row,
  };
}

/* An empty sum. */
static void clear(const mrt_gemm *g) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++)
      g->c[i * g->row + j * g->col] =
          g->bias ? g->bias[i * g->bias_row + j * g->bias_col] : 0;
}

/* A block of the product: k in [p, p + kc), c's columns [j, j + nc). */
typedef struct block {
  int64_t p, kc, j, nc;
} block;

/* Whole strips whose values of one row are side by side need no packing. */
static int64_t plain_rows(const mrt_gemm *g, int64_t mc) {
  return g->a.col == 1 ? mc / ROWS * ROWS : 0;
}

static const real *a_at(const mrt_gemm *g, int64_t i, int64_t p) {
  return g->a.data + i * g->a.row + p * g->a.col;
}

static const real *b_at(const mrt_gemm *g, int64_t p, int64_t j) {
  return g->b.data + p * g->b.row + j * g->b.col;
}

static void run_block(const mrt_gemm *g, block b, int64_t i, int64_t mc,
                      const real *pa, const real *pb) {
  bool last = b.p + b.kc == g->k;
  int64_t plain = plain_rows(g, mc);
  for (int64_t j = 0; j < b.nc; j += COLS) {
    int n = (int)least(COLS, b.nc - j);
    for (int64_t r = 0; r < mc; r += ROWS) {
      place at = {
        .c = g->c + (i + r) * g->row + (b.j + j) * g->col,
        .row = g->row,
        .col = g->col,
        .m = (int)least(ROWS, mc - r),
        .n = n,
        .add = b.p > 0,
        .bias_row = g->bias_row,
        .bias_col = g->bias_col,
      };
      if (last && g->bias)
        at.bias = g->bias + (i + r) * g->bias_row + (b.j + j) * g->bias_col;
      int vecs = (int)ceil_div(n, LANES);
      if (r < plain)
        run_rows(vecs, b.kc, a_at(g, i + r, b.p), g->a.row, pb + j * b.kc, &at);
      else
        run_packed(vecs, b.kc, pa + r * b.kc, pb + j * b.kc, &at);
    }
  }
}

void mrt_gemm_run(const mrt_gemm *g, void *scratch) {
  if (g->m == 0 || g->n == 0) return;
  if (g->k == 0) {
    clear(g);
    return;
  }
  int64_t step = k_block(g->k);
  real *pa = scratch, *pb = pa + a_reals(g->m, step);
  for (int64_t j = 0; j < g->n; j += n_block(g->m))
    for (int64_t p = 0; p < g->k; p += step) {
      block b = { p, least(step, g->k - p), j, least(n_block(g->m), g->n - j) };
      pack(pb, COLS, LANES, b_at(g, p, j), g->b.col, g->b.row, b.kc, b.nc);
      for (int64_t i = 0; i < g->m; i += M_BLOCK) {
        int64_t mc = least(M_BLOCK, g->m - i);
        int64_t plain = plain_rows(g, mc);
        pack(pa + plain * b.kc, ROWS, ROWS, a_at(g, i + plain, p), g->a.row,
             g->a.col, b.kc, mc - plain);
        run_block(g, b, i, mc, pa, pb);
      }
    }
}

/* Rows of the grid of `parts` rectangles.  Time of the slowest part, counted in
 * multiply-adds per step of k: its tiles, and 16 for each value packed. */
static int grid_rows(const mrt_gemm *g, int parts) {
  int best = 1;
  int64_t least_time = INT64_MAX;
  for (int rows = 1; rows <= parts; rows++) {
    if (parts % rows) continue;
    int64_t m = ceil_div(ceil_div(g->m, ROWS), rows) * ROWS;
    int64_t n = ceil_div(ceil_div(g->n, LANES), parts / rows) * LANES;
    int64_t time = m * n + 16 * (m + n);
    if (time < least_time) least_time = time, best = rows;
  }
  return best;
}

/* [*from, *to) of n in steps of `unit`. */
static void share(int64_t n, int64_t unit, int part, int parts, int64_t *from,
                  int64_t *to) {
  mrt_share(ceil_div(n, unit), part, parts, from, to);
  *from = least(*from * unit, n), *to = least(*to * unit, n);
}

mrt_gemm mrt_gemm_part(const mrt_gemm *whole, int part, int parts) {
  mrt_gemm g = is_narrow(whole->m, whole->n) ? turned(whole) : *whole;
  int rows = grid_rows(&g, parts), cols = parts / rows;
  int64_t i, i_end, j, j_end;
  share(g.m, ROWS, part / cols, rows, &i, &i_end);
  share(g.n, LANES, part % cols, cols, &j, &j_end);
  g.m = i_end - i, g.n = j_end - j;
  g.a.data += i * g.a.row;
  g.b.data += j * g.b.col;
  g.c += i * g.row + j * g.col;
  if (g.bias) g.bias += i * g.bias_row + j * g.bias_col;
  return g;
}
