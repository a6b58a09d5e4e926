/* vector.c -- a vector times a matrix, read once where it lies
 *
 *   needs   reals, m = 1, and b contiguous along k or along n
 *   method  Along n: a piece of c, small enough for the first cache, gathers
 *           row after row of b.  Along k: LANES columns at a time are turned in
 *           registers, so that each lane sums one element of c.
 *   gives   the bits of gemm.c: multiply-adds in the order of k, block by block
 *   cost    reads b once, at the memory's speed; packs nothing, no scratch
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "gemm/block.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"

/* Sums of n columns from j on over the block of k that begins at p. */
static void put_sums(const mrt_gemm *g, int64_t p, int64_t kc, int64_t j,
                     int64_t n, const real *sum) {
  real *c = (real *)g->c + j * g->col;
  bool last = p + kc == g->k;
  for (int64_t i = 0; i < n; i++) {
    real x = sum[i];
    if (p) x = c[i * g->col] + x;
    if (last && g->bias) x += g->bias[(j + i) * g->bias_col];
    c[i * g->col] = x;
  }
}

/* ---- b contiguous along n ------------------------------------------------ */

enum { PIECE = (16 << 10) / (int)sizeof(real), TOGETHER = 4 };

/* sum += `steps` rows of b, one after the other. */
static inline __attribute__((always_inline)) void
add_rows(int steps, const real *a, int64_t a_step, const real *b, int64_t row,
         int64_t n, real *sum) {
  vec x[TOGETHER];
  int64_t i = 0;
  for (int q = 0; q < steps; q++) x[q] = vec_all(a[q * a_step]);
  for (; i + LANES <= n; i += LANES) {
    vec s = vec_load(sum + i);
#pragma GCC unroll 4
    for (int q = 0; q < steps; q++) s += x[q] * vec_load(b + q * row + i);
    vec_store(sum + i, s);
  }
  for (; i < n; i++) {
    real s = sum[i];
#pragma GCC unroll 4
    for (int q = 0; q < steps; q++) s += a[q * a_step] * b[q * row + i];
    sum[i] = s;
  }
}

static void by_rows(const mrt_gemm *g, int64_t p, int64_t kc) {
  real sum[PIECE];
  int64_t step = g->a.col, row = g->b.row;
  const real *a = (const real *)g->a.data + p * step;
  for (int64_t j = 0, n; j < g->n; j += n) {
    const real *b = (const real *)g->b.data + p * row + j;
    int64_t q = 0;
    n = least(PIECE, g->n - j);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (; q + TOGETHER <= kc; q += TOGETHER)
      add_rows(TOGETHER, a + q * step, step, b + q * row, row, n, sum);
    for (; q < kc; q++)
      add_rows(1, a + q * step, step, b + q * row, row, n, sum);
    put_sums(g, p, kc, j, n, sum);
  }
}

/* ---- b contiguous along k ------------------------------------------------ */

/* LANES values of k from p on of each column, turned: v[i] those of step p + i.
 * Columns past the last are the first again. */
static inline __attribute__((always_inline)) void
turned_steps(const real *b, int64_t col, int64_t n, int64_t p, vec v[LANES]) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    v[l] = vec_load(b + (l < n ? l * col : 0) + p);
  transpose(v);
}

/* Fewer values of k than a vector has lanes. */
static vec short_sum(const mrt_gemm *g, const real *b, int64_t n) {
  vec sum = { 0 };
  const real *a = g->a.data;
  for (int64_t q = 0; q < g->k; q++) {
    real x[LANES] = { 0 };
    for (int64_t l = 0; l < n; l++) x[l] = b[l * g->b.col + q];
    sum += vec_all(a[q * g->a.col]) * vec_load(x);
  }
  return sum;
}

/* What is left of a block is read with what lies before it. */
static vec long_sum(const mrt_gemm *g, const real *b, int64_t n, int64_t p,
                    int64_t kc) {
  int64_t step = g->a.col, q = p, end = p + kc;
  const real *a = g->a.data;
  vec sum = { 0 }, v[LANES];
  for (; q + LANES <= end; q += LANES) {
    turned_steps(b, g->b.col, n, q, v);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) sum += vec_all(a[(q + i) * step]) * v[i];
  }
  if (q == end) return sum;
  int64_t first = end < LANES ? 0 : end - LANES;
  turned_steps(b, g->b.col, n, first, v);
  for (; q < end; q++) sum += vec_all(a[q * step]) * v[q - first];
  return sum;
}

static void by_columns(const mrt_gemm *g, int64_t p, int64_t kc) {
  for (int64_t j = 0; j < g->n; j += LANES) {
    const real *b = (const real *)g->b.data + j * g->b.col;
    int64_t n = least(LANES, g->n - j);
    real sum[LANES];
    vec_store(sum,
              g->k < LANES ? short_sum(g, b, n) : long_sum(g, b, n, p, kc));
    put_sums(g, p, kc, j, n, sum);
  }
}

void mrt_gemm_vector(const mrt_gemm *g) {
  int64_t step = k_block(g->k);
  for (int64_t p = 0; p < g->k; p += step) {
    int64_t kc = least(step, g->k - p);
    if (g->b.col == 1)
      by_rows(g, p, kc);
    else
      by_columns(g, p, kc);
  }
}
