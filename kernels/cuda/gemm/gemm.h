/* gemm.h -- products of matrices of any dtype and layout
 *
 * By cuBLASLt where it can, with operands first cast or turned where that is
 * wanted (gemm/gemm.c); else by a kernel of ours (gemm/gemm.cu).  Either way
 * inputs are rounded to `compute`, summed in f32 (f64), the bias, or what y is
 * added to, is added to the sum, GELU or its slope is taken where that is wanted,
 * and the result is rounded once.
 *
 * The library is used here, where the CPU has a product of its own, because the
 * matrix units of each generation want another program.  What the project
 * promises is kept around it: workspace is scratch of the plan, an algorithm is
 * chosen once for a shape and kept on disk so that two runs have the same bits,
 * and what the library does not take is cast, turned or finished around it, or
 * goes to the kernel of gemm.cu.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_GEMM_H
#define MRT_CUDA_GEMM_H

#include "base/dtype.h"
#include "runtime/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrt_cuda_matrix {
  void *data;
  int64_t row, col; /* strides in elements, any */
  int dtype;
} mrt_cuda_matrix;

/* Dimensions of a batch, and how far an operand moves along each. */
typedef struct mrt_cuda_batch {
  int rank;
  int64_t dims[MRT_MAX_RANK], step[MRT_MAX_RANK];
} mrt_cuda_batch;

/* What becomes of a sum v: gelu(v), and v goes to aux; or v gelu'(aux). */
enum { MRT_NO_GELU, MRT_GELU, MRT_GELU_GRAD };

/* y [m, n] = a [m, k] @ b [k, n] (+ bias [n]) for each of a batch */
typedef struct mrt_cuda_gemm {
  int64_t m, n, k, count;
  mrt_cuda_matrix a, b;
  mrt_cuda_batch a_batch, b_batch; /* of the same dims */
  int compute;                     /* MRT_DTYPE_COUNT: none */
  void *y;
  int64_t y_row; /* its stride; matrices of a batch follow each other */
  int y_dtype;
  const void *bias; /* NULL where `bias_dtype` is -1 */
  int bias_dtype;
  int gelu;
  void *aux; /* as y, contiguous; NULL where `aux_dtype` is -1: not wanted */
  int aux_dtype;
  bool adds;      /* to `c`, which lies as y does and has its dtype; */
  const void *c;  /* y may be it */
  bool with_sums; /* of a's rows, [m]; without a batch */
  int sums_dtype;
  void *sums;
} mrt_cuda_gemm;

/* ---- gemm/gemm.c --------------------------------------------------------- */

/* An operand is first made anew, contiguous, as `dtype`; its numbers are
 * rounded to `via` before. */
typedef struct mrt_cuda_pack {
  bool is;
  int dtype, via;
  bool turned;   /* columns contiguous */
  size_t offset; /* in scratch */
} mrt_cuda_pack;

/* How a product is made: decided with the plan, from all but addresses. */
typedef struct mrt_cuda_gemm_plan {
  struct mrt_lt *tight, *loose; /* for addresses that are multiples of 16,
                                         and for any; NULL, NULL: our kernel */
  mrt_cuda_pack a, b;
  int sum;     /* dtype of the library's result */
  bool finish; /* it has to be rounded, or bias or GELU are missing */
  bool sums;   /* the library makes those of rows, too */
  int along;   /* dimension of the batch that the library does; -1 */
  size_t sum_at, workspace_at; /* in scratch */
  size_t scratch;              /* bytes */
} mrt_cuda_gemm_plan;

void mrt_cuda_gemm_decide(mrt_cuda *c, const mrt_cuda_gemm *g,
                          mrt_cuda_gemm_plan *way);
/* `g` is what was decided on, now with addresses.  Whether it has made the sums:
 * only the library does. */
bool mrt_cuda_gemm_run(mrt_cuda *c, const mrt_cuda_gemm *g,
                       const mrt_cuda_gemm_plan *way, void *scratch);

/* One more dimension inside the others. */
void mrt_cuda_gemm_add_dim(mrt_cuda_gemm *g, int64_t n, int64_t a, int64_t b);
/* The innermost one becomes rows when b does not move along it and a goes on
 * where its last row ended. */
void mrt_cuda_gemm_merge_rows(mrt_cuda_gemm *g);

/* ---- gemm/repack.cu, gemm/gemm.cu: kernels ------------------------------- */

/* x [rows, cols] of a batch, contiguous at `to`, as `pack` says.  Dimensions
 * along which x does not move are left out of `batch`. */
void mrt_cuda_repack(const mrt_cuda_matrix *x, const mrt_cuda_batch *batch,
                     int64_t rows, int64_t cols, const mrt_cuda_pack *pack,
                     void *to, cudaStream_t queue);
/* g->y of the product's sums, `sum_row` apart, which may lie there; NULL: 0. */
void mrt_cuda_gemm_finish(const mrt_cuda_gemm *g, const void *sum,
                          int sum_dtype, int64_t sum_row, cudaStream_t queue);
/* The whole product, whatever its operands. */
void mrt_cuda_gemm_kernel(const mrt_cuda_gemm *g, cudaStream_t queue);
/* n elements of a float dtype in [-1, 1), from a hash of their index. */
void mrt_cuda_noise(void *to, int dtype, int64_t n, cudaStream_t queue);

/* ---- matmul.c ------------------------------------------------------------ */

/* That of a call. */
mrt_cuda_gemm mrt_cuda_matmul_of(const mrt_call *c);

#ifdef __cplusplus
}
#endif

#endif
