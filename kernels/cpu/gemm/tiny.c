/* tiny.c -- products so small that to pack and to share them out takes longer
 *
 * Element by element, where the operands lie: multiply-adds in the order of k,
 * which is one block, so the bits are those of gemm.h.
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

void mrt_gemm_tiny(const mrt_gemm *g) {
  const real *a = g->a.data, *b = g->b.data;
  real *c = g->c;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      const real *x = a + i * g->a.row, *y = b + j * g->b.col;
      real sum = 0;
      IN_ORDER
      for (int64_t p = 0; p < g->k; p++)
        sum += x[p * g->a.col] * y[p * g->b.row];
      if (g->bias) sum += g->bias[i * g->bias_row + j * g->bias_col];
      c[i * g->row + j * g->col] = sum;
    }
}
