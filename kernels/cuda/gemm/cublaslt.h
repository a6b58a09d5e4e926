/* cublaslt.h -- products of matrices by cuBLASLt
 *
 * What the library knows of one shape is found out once, when a plan is made,
 * and kept with the device; which algorithm was fastest is kept on disk.  So the
 * same shape is computed alike, to the bit, by all processes that can read it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CUBLASLT_H
#define MRT_CUDA_CUBLASLT_H

#include "runtime/cuda.h"

/* With the device: the library's handle, if it gives one and is not turned off,
 * and what it has learned. */
cudaError_t mrt_lt_open(mrt_cuda *c);
void mrt_lt_close(mrt_cuda *c);
/* 130102: 13.1.2 */
size_t mrt_lt_version(void);

/* A matrix whose rows are contiguous, or its columns if it is `turned`; `ld`
 * elements from one to the next, `step` from one matrix to the next. */
typedef struct mrt_lt_matrix {
  int64_t ld, step;
  int32_t dtype, turned;
} mrt_lt_matrix;

/* y [m, n] = a [m, k] @ b [k, n] (+ bias [n]) (+ c [m, n]), `count` times; y is not
 * turned, and c lies as y does.
 * GELU as in gemm/gemm.h, its operand [m, n] with the dtype of y.  Compared as
 * bytes: it has no gaps. */
typedef struct mrt_lt_shape {
  int64_t m, n, k, count;
  mrt_lt_matrix a, b, y;
  int32_t bias;      /* its dtype; -1: none */
  int32_t align;     /* bytes: all addresses are multiples of it */
  int32_t gelu, aux; /* aux: 1 where it is read or written */
  int32_t timed;     /* 1: some ways are tried on the device, which is waited
                        for */
  int16_t sums;      /* 1: those of a's rows [m], too, in the dtype of y */
  int16_t adds;      /* 1: to c */
} mrt_lt_shape;

typedef struct mrt_lt mrt_lt;

/* How the library computes it, kept with the device; NULL when it does not. */
mrt_lt *mrt_lt_find(mrt_cuda *c, const mrt_lt_shape *shape);
/* Bytes that every run needs; a function of the shape and the device. */
size_t mrt_lt_workspace(const mrt_lt *p);
typedef struct mrt_lt_call {
  const void *a, *b;
  const void *c; /* NULL: nothing is added to */
  void *y;       /* or c itself */
  const void *bias;
  void *aux, *sums, *workspace;
} mrt_lt_call;
/* Are the addresses as the shape says, and has it not refused to run? */
bool mrt_lt_takes(const mrt_lt *p, const mrt_lt_call *call);
/* Queue it; false: the library refuses, which is told, and never takes this
 * shape again: the product has to be had otherwise. */
bool mrt_lt_run(mrt_cuda *c, mrt_lt *p, const mrt_lt_call *call);

#endif
