/* quantize.h -- kernels over quantised matrices
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_QUANTIZE_H
#define MRT_CUDA_QUANTIZE_H

#include "op/quantize.h"
#include "runtime/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrt_cuda_quantized {
  const uint8_t *codes;
  const void *scales;
  int dtype;             /* of the scales: f32, f64 or f16 */
  int kind, pack;        /* codes in a byte */
  int gguf;              /* the kind is one of GGUF's */
  int64_t block;         /* numbers to a scale */
  int64_t bytes, blocks; /* of a row */
} mrt_cuda_quantized;

mrt_cuda_quantized mrt_cuda_quantized_of(const mrt_call *c, int input);

/* Rows [row, row + rows) and columns [col, col + cols), contiguous at `to`,
 * rounded to `via`.  For 4 bits `col` is even. */
void mrt_cuda_take(const mrt_cuda_quantized *q, int64_t row, int64_t rows,
                   int64_t col, int64_t cols, int via, void *to, int dtype,
                   cudaStream_t queue);

enum { MRT_CUDA_FEW = 8 };
/* y = x @ w^T (+ bias) for w [n, k] and at most MRT_CUDA_FEW rows of x, both
 * rounded to `via`. */
void mrt_cuda_few_rows(const mrt_cuda_quantized *q, const mrt_operand *x,
                       const mrt_operand *bias, mrt_operand *y, int64_t m,
                       int64_t n, int64_t k, int via, cudaStream_t queue);

#ifdef __cplusplus
}
#endif

#endif
