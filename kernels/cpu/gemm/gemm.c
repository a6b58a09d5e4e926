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
 * The order of the two outer loops is what keeps the bits of gemm.h: an element
 * of c meets the blocks of k in ascending order, whoever computes it.
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

#include "gemm/gemm.h"
#include "gemm/block.h"
#include "gemm/few.h"
#include "gemm/pack.h"

static bool takes_pairs(const mrt_gemm *g) {
  return takes_dots(g) || takes_tiles(g);
}

/* Does the tile of a mixed product read x's values as they are? */
static bool lies_well(const mrt_gemm *g, const mrt_matrix *x) {
  mrt_dtype wanted = takes_pairs(g) ? MRT_bf16 : MRT_REAL;
  bool rounds = g->compute != MRT_DTYPE_COUNT && g->compute != wanted;
  return x->dtype == wanted && !(rounds && mrt_is_narrow(g->compute));
}

/* For each value of x that is packed as rows (of a) or as columns (of b), whose
 * steps of k are `along` apart. */
static double pack_time(const mrt_gemm *g, const mrt_matrix *x, bool rows,
                        int64_t along, int64_t across) {
  enum { PLACED = 3, SPREAD = 4, GATHERED = 8 };
  if (!mrt_gemm_is_mixed(g))
    return rows ? (along == 1 ? 0 : GATHERED) : across == 1 ? PLACED : GATHERED;
  if (rows && along == 1) return lies_well(g, x) ? 0 : PLACED;
  return across == 1 ? SPREAD : GATHERED;
}

/* For each value of c that is put as a column's, once or for each block of k. */
static double put_time(const mrt_gemm *g) {
  enum { TURNED = 20, PUT = 40 };
  if (g->col == 1) return 0;
  if (mrt_dtypes[g->dtype].bytes == sizeof(uint16_t)) return TURNED;
  return PUT * (double)ceil_div(g->k, K_BLOCK);
}

/* Time in multiply-adds per step of k, as measured on Zen 4 and 5: tiles, of
 * which the narrowest is slower, and what is packed and put out of its
 * order. */
static double time_of(const mrt_gemm *g) {
  double n = (double)round_up(g->n, LANES), part = (double)(g->m % ROWS);
  double m = (double)(g->m / ROWS * ROWS);
  double k = (double)g->k / (takes_pairs(g) ? 2 : 1);
  m += part > 1 && part <= HALF ? HALF : part > 1 ? ROWS : part;
  double a = m * pack_time(g, &g->a, true, g->a.col, g->a.row);
  double b = n * pack_time(g, &g->b, false, g->b.row, g->b.col);
  if (g->n % COLS && g->n % COLS <= LANES) n += LANES / 2;
  return m * n * (1 + put_time(g) / k) + a + b;
}

/* So few columns leave most lanes empty, or a's rows lie well, b is much larger
 * and would have to be packed for few rows: take rows for columns. */
static bool is_turned(const mrt_gemm *g) {
  if (mrt_gemm_is_few(g)) return false;
  bool well = mrt_gemm_is_mixed(g) && g->a.col == 1 && lies_well(g, &g->a);
  if (g->n < LANES / 2 && g->n < g->m && !well) return true;
  if (g->m >= g->n) return false;
  mrt_gemm t = mrt_gemm_turned(g);
  return time_of(&t) < time_of(g);
}

/* Reals of what is packed of a: of rows that lie well, some at the end. */
static int64_t packed_reals(const mrt_gemm *g, int64_t k) {
  return a_reals(g->a.col == 1 ? least(g->m, ROWS) : g->m, k);
}

static size_t upright_bytes(const mrt_gemm *g) {
#ifndef MRT_F64
  if (mrt_gemm_is_mixed(g)) return mrt_gemm_mixed_bytes(g);
#endif
  int64_t k = k_block(g->k);
  int64_t reals = packed_reals(g, k) + b_reals(g->m, g->n, k);
  return (size_t)round_up(reals, 64) * sizeof(real);
}

size_t mrt_gemm_bytes(const mrt_gemm *g) {
  if (g->m == 0 || g->n == 0 || g->k == 0 || mrt_gemm_sums_narrow(g)) return 0;
  mrt_gemm t = mrt_gemm_turned(g);
  size_t upright = upright_bytes(g), other = upright_bytes(&t);
  size_t few = mrt_few_bytes(g), most = upright > other ? upright : other;
  return few > most ? few : most;
}

size_t mrt_gemm_bytes_below(const mrt_gemm *g) {
  size_t most = mrt_gemm_bytes(g);
  for (int64_t k = K_BLOCK; k <= 2 * K_BLOCK; k += K_BLOCK) {
    mrt_gemm one = *g; /* of one block, of single steps or of pairs */
    one.k = least(g->k, k);
    size_t bytes = mrt_gemm_bytes(&one);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Empty sums. */
static void clear(const mrt_gemm *g) {
  real *c = g->c;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++)
      c[i * g->row + j * g->col] =
          g->bias ? g->bias[i * g->bias_row + j * g->bias_col] : 0;
}

/* With columns of b where they lie, which are packed to b.keep. */
static void run_fresh(int vecs, int64_t k, const strip *a, const columns *b,
                      const tile_place *at) {
  tile_by_size(vecs, true, k, *a, *b, at);
}

/* A block of the product: k in [p, p + kc), c's columns [j, j + nc). */
typedef struct gemm_block {
  int64_t p, kc, j, nc;
} gemm_block;

/* Rows of the next strip, where so many are left: 8 are two strips of 4, not one
 * of 6 and one of which half is empty. */
static int64_t strip_rows(int64_t left) {
  return left > ROWS && left <= 2 * HALF ? HALF : least(ROWS, left);
}

/* Whole strips whose values of one row are side by side need no packing. */
static int64_t plain_rows(const mrt_gemm *g, int64_t mc) {
  int64_t last = mc % ROWS;
  if (g->a.col != 1) return 0;
  if (mc > ROWS && last && last <= 2 * HALF - ROWS) last += ROWS - HALF;
  return last == HALF ? mc : mc - last;
}

static const real *a_at(const mrt_gemm *g, int64_t i, int64_t p) {
  return (const real *)g->a.data + i * g->a.row + p * g->a.col;
}

static const real *b_at(const mrt_gemm *g, int64_t p, int64_t j) {
  return (const real *)g->b.data + p * g->b.row + j * g->b.col;
}

/* Strips whose values of one step are side by side, whole vectors, are packed
 * by the first tiles that read them; but with AVX2, on Zen 3, to copy them ahead
 * is 3 to 14 % quicker at 32 to 256 rows, and for gradients of weights. */
enum { FRESH = MRT_VECTOR_BYTES == 64 };
static int64_t fresh_columns(const mrt_gemm *g, int64_t nc) {
  if (!FRESH || g->b.col != 1) return 0;
  return nc % LANES ? nc / COLS * COLS : nc;
}

static tile_place place_at(const mrt_gemm *g, gemm_block b, int64_t i,
                           int64_t m, int64_t j, int64_t n) {
  tile_place at = {
    .c = mrt_gemm_to(g, i, b.j + j),
    .row = g->row,
    .col = g->col,
    .m = (int)least(ROWS, m),
    .n = (int)least(COLS, n),
    .add = g->add || b.p > 0,
    .bias_row = g->bias_row,
    .bias_col = g->bias_col,
  };
  if (b.p + b.kc == g->k && g->bias)
    at.bias = g->bias + i * g->bias_row + (b.j + j) * g->bias_col;
  return at;
}

static void run_block(const mrt_gemm *g, gemm_block b, int64_t i, int64_t mc,
                      const real *pa, real *pb) {
  int64_t plain = plain_rows(g, mc), fresh = i ? 0 : fresh_columns(g, b.nc);
  for (int64_t j = 0; j < b.nc; j += COLS)
    for (int64_t r = 0, rows; r < mc; r += rows) {
      rows = r < plain ? strip_rows(mc - r) : ROWS;
      tile_place at = place_at(g, b, i + r, least(rows, mc - r), j, b.nc - j);
      int vecs = (int)ceil_div(at.n, LANES);
      strip a = { a_at(g, i + r, b.p), g->a.row, 1 };
      if (r >= plain) a = (strip){ pa + (r - plain) * b.kc, 1, ROWS };
      columns y = { b_at(g, b.p, b.j + j), g->b.row, pb + j * b.kc };
      if (r == 0 && j + at.n <= fresh)
        run_fresh(vecs, b.kc, &a, &y, &at);
      else
        run_rows(vecs, b.kc, &a, y.keep, &at);
    }
}

/* Rows that lie well, if no more, are one block. */
enum { PLAIN_BLOCK = 768 / (int)sizeof(real) };
static bool is_one_block(const mrt_gemm *g) {
  return g->a.col == 1 && g->m <= PLAIN_BLOCK;
}

/* A strip of b that one block of rows reads is not read again once it has been
 * multiplied: what is packed at once stays in the first cache where its first
 * tile packs it, else in the second. */
static int64_t columns_at_once(const mrt_gemm *g) {
  enum { FEW_COLUMNS = (FRESH ? 2 : 16) * COLS };
  if (!is_one_block(g)) return equal_columns(g->m, g->n);
  return least(FEW_COLUMNS, n_block(g->m));
}

void mrt_gemm_run(const mrt_gemm *g, void *scratch) {
  if (g->m == 0 || g->n == 0) return;
#ifndef MRT_F64
  if (mrt_gemm_sums_narrow(g)) {
    mrt_gemm_narrow(g);
    return;
  }
#endif
  mrt_gemm t = g->n == 1 ? mrt_gemm_turned(g) : *g;
  bool usual = g->k == 0 || g->add;
  if (!usual && mrt_gemm_is_vector(&t)) {
    mrt_gemm_vector(&t, scratch);
    return;
  }
  if (!usual && mrt_gemm_is_few(&t)) {
    mrt_gemm_few(&t, scratch);
    return;
  }
#ifndef MRT_F64
  if (mrt_gemm_is_mixed(g)) {
    mrt_gemm_mixed(g, scratch);
    return;
  }
#endif
  if (g->k == 0) {
    if (!g->add) clear(g);
    return;
  }
  int64_t step = k_block(g->k), width = columns_at_once(g);
  int64_t rows = is_one_block(g) ? PLAIN_BLOCK : M_BLOCK;
  real *pa = scratch, *pb = pa + packed_reals(g, step);
  for (int64_t j = 0; j < g->n; j += width)
    for (int64_t p = 0; p < g->k; p += step) {
      gemm_block b = { p, least(step, g->k - p), j, least(width, g->n - j) };
      int64_t fresh = fresh_columns(g, b.nc);
      pack(pb + fresh * b.kc, COLS, LANES, b_at(g, p, j + fresh), g->b.col,
           g->b.row, b.kc, b.nc - fresh);
      for (int64_t i = 0; i < g->m; i += rows) {
        int64_t mc = least(rows, g->m - i);
        int64_t plain = plain_rows(g, mc);
        pack(pa, ROWS, ROWS, a_at(g, i + plain, p), g->a.row, g->a.col, b.kc,
             mc - plain);
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

size_t mrt_gemm_part_bytes(const mrt_gemm *whole, int parts) {
  mrt_gemm g = is_turned(whole) ? mrt_gemm_turned(whole) : *whole;
  int rows = grid_rows(&g, parts), cols = parts / rows;
  g.m = least(g.m, ceil_div(ceil_div(g.m, ROWS), rows) * ROWS);
  g.n = least(g.n, ceil_div(ceil_div(g.n, LANES), cols) * LANES);
  return mrt_gemm_bytes(&g);
}

mrt_gemm mrt_gemm_part(const mrt_gemm *whole, int part, int parts) {
  mrt_gemm g = is_turned(whole) ? mrt_gemm_turned(whole) : *whole;
  int rows = grid_rows(&g, parts), cols = parts / rows;
  int64_t i, i_end, j, j_end;
  share(g.m, ROWS, part / cols, rows, &i, &i_end);
  share(g.n, LANES, part % cols, cols, &j, &j_end);
  g.m = i_end - i, g.n = j_end - j;
  g.a.data = mrt_matrix_at(&g.a, i, 0);
  g.b.data = mrt_matrix_at(&g.b, 0, j);
  g.c = mrt_gemm_to(&g, i, j);
  if (g.bias) g.bias += i * g.bias_row + j * g.bias_col;
  return g;
}
