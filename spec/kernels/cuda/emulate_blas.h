/* emulate_blas.h -- a product as the emulated cuBLASLt is asked for it
 *
 * Matrices are of contiguous columns, D = op(A) op(B) alpha + C beta (+ bias),
 * in f32 or f64; or the GELU of that, or that times the slope of GELU; and the
 * sums of op(B) over its rows.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_BLAS_H
#define MRT_EMULATE_BLAS_H

#include "cublasLt.h"
#include "cuda.cuh"
#include "emulate_inside.h"

struct cublasLtMatrixLayout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld, step;
  int32_t count;
};
struct cublasLtMatmulDesc {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a, b;
  uint32_t epilogue;
  const void *bias; /* with BGRADB a result */
  int32_t bias_type;
  void *aux;
  int64_t aux_ld;
};
typedef cublasLtMatrixLayout layout;
typedef cublasLtMatmulDesc desc;

/* A plain algorithm, one that spoils its workspace, and one that adds up two
 * halves of the sum kept in it. */
enum { ALGORITHMS = 3, PLAIN = 0, SPOILS = 1, HALVES = 2, SPOILED = 1 << 12 };

/* Bits of an epilogue. */
enum { BIAS = 4, GELU = 32, DGELU = 64, AUX = 128, BGRADB = 512 };
static inline bool has(const desc *m, int bit) {
  return m->epilogue != CUBLASLT_EPILOGUE_DEFAULT && (m->epilogue & bit);
}

struct problem {
  desc m;
  layout a, b, c, d;
  uint64_t k() const { return m.a == CUBLAS_OP_N ? a.cols : a.rows; }
};

void mrt_emulate_product(const problem &p, double alpha, const void *A,
                         const void *B, double beta, const void *C, void *D,
                         int algorithm, void *workspace);

#endif
