/* narrow.c -- matrix products whose sums have few bits, as a script asks for
 *
 *     s = 0;  for p in [0, k): s = round(s + a[i,p] b[p,j]);  s = round(s + bias)
 *
 * for each element of c, rounded to `accumulate`.  The product of two 16-bit
 * floats is exact in f32, the addition rounds to f32 first.  There is one
 * order, so the bits depend on nothing else; it is 10 to 50 times as slow as
 * sums in f32, which processors have instructions for.
 *
 * Rows of c by ROWS_AT_ONCE, columns by CHUNK: sums stay in the first level of
 * the cache while k passes by, and every sum of a row is rounded at once.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"

#ifndef MRT_F64
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

#include "units.h"

enum { ROWS_AT_ONCE = 8 };

/* Rows [i, i + m) of columns [j, j + n) of c. */
typedef struct narrow_block {
  int64_t i, j;
  int m, n;
} narrow_block;

static void round_sums(const mrt_gemm *g, const narrow_block *at,
                       float sum[ROWS_AT_ONCE][CHUNK]) {
  for (int i = 0; i < at->m; i++) mrt_round_reals(g->accumulate, sum[i], at->n);
}

static void add_terms(const mrt_gemm *g, const reader *a, const reader *b,
                      const narrow_block *at, float sum[ROWS_AT_ONCE][CHUNK]) {
  for (int64_t p = 0; p < g->k; p++) {
    float x[ROWS_AT_ONCE], y[CHUNK];
    read_values(a, x, at->i, p, a->across, at->m);
    read_values(b, y, at->j, p, b->across, at->n);
    for (int i = 0; i < at->m; i++)
      for (int j = 0; j < at->n; j++) sum[i][j] += x[i] * y[j];
    round_sums(g, at, sum);
  }
}

static void add_bias(const mrt_gemm *g, const narrow_block *at,
                     float sum[ROWS_AT_ONCE][CHUNK]) {
  const real *from = g->bias + at->i * g->bias_row + at->j * g->bias_col;
  for (int i = 0; i < at->m; i++)
    for (int j = 0; j < at->n; j++)
      sum[i][j] += from[i * g->bias_row + j * g->bias_col];
  round_sums(g, at, sum);
}

static void put_sums(const mrt_gemm *g, const narrow_block *at,
                     float sum[ROWS_AT_ONCE][CHUNK]) {
  int64_t size = (int64_t)mrt_dtypes[g->dtype].bytes;
  for (int i = 0; i < at->m; i++) {
    char *to = mrt_gemm_to(g, at->i + i, at->j);
    int64_t each = g->col == 1 ? at->n : 1;
    for (int j = 0; j < at->n; j += (int)each)
      mrt_round(g->dtype, sum[i] + j, to + j * g->col * size, each);
  }
}

void mrt_gemm_narrow(const mrt_gemm *g) {
  reader a = reader_of(&g->a, g->a.row, g->a.col, g->compute, false);
  reader b = reader_of(&g->b, g->b.col, g->b.row, g->compute, false);
  for (int64_t i = 0; i < g->m; i += ROWS_AT_ONCE)
    for (int64_t j = 0; j < g->n; j += CHUNK) {
      float sum[ROWS_AT_ONCE][CHUNK] = { { 0 } };
      narrow_block at = { i, j, (int)least(ROWS_AT_ONCE, g->m - i),
                          (int)least(CHUNK, g->n - j) };
      add_terms(g, &a, &b, &at, sum);
      if (g->bias) add_bias(g, &at, sum);
      put_sums(g, &at, sum);
    }
}
#endif
