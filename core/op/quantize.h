/* quantize.h -- options of quantize and its readers, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_QUANTIZE_H
#define MRT_OP_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum { MRT_QUANTIZE_INT8, MRT_QUANTIZE_NF4, MRT_QUANTIZE_FP4 };

typedef struct mrt_quantize_options {
  int kind;
  int64_t block;     /* numbers of a row that share a scale */
  int64_t columns;   /* numbers of a row; not of quantize */
  bool transposed;   /* of quantized_linear, and */
  mrt_dtype compute; /* as of linear (matmul.h) */
} mrt_quantize_options;

/* Codes in a byte: the first is in the low bits. */
static inline int mrt_quantize_pack(int kind) {
  return kind == MRT_QUANTIZE_INT8 ? 1 : 2;
}

#endif
