/* gemm.h -- c = a @ b (+ bias): the matrix product other kernels call
 *
 * Every element of c is the same function of its row of a and its column of b:
 * fused multiply-adds in the order of k, in blocks whose length depends on k
 * alone, the blocks added in order, then the bias.  So its bits depend neither
 * on strides nor on how c is cut among threads.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_H
#define MRT_GEMM_H

#include "cpu.h"

typedef struct mrt_matrix {
  const real *data;
  int64_t row, col; /* strides in elements, any */
} mrt_matrix;

typedef struct mrt_gemm {
  int64_t m, n, k;
  mrt_matrix a, b; /* [m, k] and [k, n] */
  real *c;
  int64_t row, col; /* strides of c */
  const real *bias; /* [m, n] or NULL */
  int64_t bias_row, bias_col;
} mrt_gemm;

#define mrt_gemm_run   MRT_CPU(gemm_run)
#define mrt_gemm_bytes MRT_CPU(gemm_bytes)
#define mrt_gemm_part  MRT_CPU(gemm_part)

/* Scratch in bytes of one thread's part for at most these sizes; a multiple of
 * 64. */
size_t mrt_gemm_bytes(int64_t m, int64_t n, int64_t k);
/* Part `part` of `parts` of the product: parts are a grid of rectangles of c
 * that take about equal time; some may be empty. */
mrt_gemm mrt_gemm_part(const mrt_gemm *g, int part, int parts);
/* Compute a part on the calling thread. */
void mrt_gemm_run(const mrt_gemm *part, void *scratch);

#endif
