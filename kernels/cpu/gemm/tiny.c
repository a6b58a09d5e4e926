/* tiny.c -- products so small that to pack and to share them out takes longer
 *
 * Element by element, or a few columns at once, where the operands lie:
 * multiply-adds in the order of k, which is one block, so the bits are those of
 * gemm.h.
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can.  Vectors of
 * products whose sum is taken in order would round them, too. */
#ifdef __clang__
#pragma clang fp contract(fast)
#define IN_ORDER _Pragma("clang loop vectorize(disable)")
#else
#pragma GCC optimize("fp-contract=fast", "no-tree-vectorize")
#define IN_ORDER
#endif

#include "gemm/gemm.h"

/* So many columns at once: a vector that every processor has. */
enum { SOME = 16 / (int)sizeof(real) };
typedef real some __attribute__((vector_size(SOME * sizeof(real))));
typedef some any_some __attribute__((aligned(sizeof(real)), may_alias));

static inline real one(const mrt_gemm *g, const real *x, const real *y) {
  real sum = 0;
  IN_ORDER
  for (int64_t p = 0; p < g->k; p++) sum += x[p * g->a.col] * y[p * g->b.row];
  return sum;
}

/* SOME columns side by side of both b and c. */
static inline some beside(const mrt_gemm *g, const real *x, const real *y) {
  some sum = { 0 };
  IN_ORDER
  for (int64_t p = 0; p < g->k; p++)
    sum += x[p * g->a.col] * *(const any_some *)(y + p * g->b.row);
  return sum;
}

void mrt_gemm_tiny(const mrt_gemm *g) {
  const real *a = g->a.data, *b = g->b.data;
  bool together = g->b.col == 1 && g->col == 1 && !g->bias;
  int64_t whole = together ? g->n / SOME * SOME : 0;
  for (int64_t i = 0; i < g->m; i++) {
    const real *x = a + i * g->a.row;
    real *c = (real *)g->c + i * g->row;
    for (int64_t j = 0; j < whole; j += SOME)
      *(any_some *)(c + j) = beside(g, x, b + j);
    for (int64_t j = whole; j < g->n; j++) {
      real sum = one(g, x, b + j * g->b.col);
      if (g->bias) sum += g->bias[i * g->bias_row + j * g->bias_col];
      c[j * g->col] = sum;
    }
  }
}
