/* cublaslt_inside.h -- what the parts of gemm/cublaslt.h share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CUBLASLT_INSIDE_H
#define MRT_CUDA_CUBLASLT_INSIDE_H

#include "gemm/cublaslt.h"
#include "gemm/gemm.h"

#include <cublasLt.h>

enum { MRT_LT_BUCKETS = 256 };

struct mrt_lt {
  mrt_lt_shape shape;
  mrt_lt *next;
  bool works; /* false, too, once a run has been refused */
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, y;
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
};

typedef struct mrt_lt_library {
  cublasLtHandle_t lt;
  size_t workspace; /* the most */
  int refused;      /* shapes, at run time */
  mrt_lt *known[MRT_LT_BUCKETS];
} mrt_lt_library;

cublasStatus_t mrt_lt_multiply(const mrt_cuda *c, const mrt_lt *p,
                               const cublasLtMatmulAlgo_t *algo,
                               const mrt_lt_call *call);

/* The fastest of `count`, for this and all processes; 0, the library's first,
 * where that cannot be found out; -1: all fail. */
int mrt_lt_best(mrt_cuda *c, const mrt_lt *p,
                const cublasLtMatmulHeuristicResult_t *found, int count);

/* ---- gemm/cublaslt_cache.c: the fastest algorithm of a shape, on disk ------ */

/* `workspace`: the most that the library may take; `algorithm`: the library's
 * description, `size` bytes.  False: none is known. */
bool mrt_lt_recall(const mrt_cuda *c, const mrt_lt_shape *shape,
                   size_t workspace, void *algorithm, size_t size);
/* Unless another process has been first. */
void mrt_lt_remember(const mrt_cuda *c, const mrt_lt_shape *shape,
                     size_t workspace, const void *algorithm, size_t size);
void mrt_lt_forget(const mrt_cuda *c, const mrt_lt_shape *shape,
                   size_t workspace);

#endif
