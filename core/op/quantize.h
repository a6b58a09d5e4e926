/* quantize.h -- options of quantize and its readers, shared by rows and kernels
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_QUANTIZE_H
#define MRT_OP_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

enum {
  MRT_QUANTIZE_INT8,
  MRT_QUANTIZE_NF4,
  MRT_QUANTIZE_FP4,
  MRT_QUANTIZE_Q4_0,
  MRT_QUANTIZE_Q8_0
};
/* In what the rows of x are multiplied. */
enum { MRT_ACTIVATIONS_EXACT, MRT_ACTIVATIONS_INT8 };
/* Numbers of a block of q4_0 and q8_0, and of x in int8. */
enum { MRT_QUANTIZE_BLOCK = 32 };

typedef struct mrt_quantize_options {
  int kind;
  int64_t block;     /* numbers of a row that share a scale */
  int64_t columns;   /* numbers of a row; not of quantize */
  bool transposed;   /* of quantized_linear, and */
  mrt_dtype compute; /* as of linear (matmul.h) */
  int activations;   /* of quantized_linear */
} mrt_quantize_options;

/* Codes in a byte: the first is in the low bits. */
static inline int mrt_quantize_pack(int kind) {
  return kind == MRT_QUANTIZE_INT8 || kind == MRT_QUANTIZE_Q8_0 ? 1 : 2;
}
/* Those of GGUF: blocks of 32, scales of 16 bits. */
static inline bool mrt_quantize_is_gguf(int kind) {
  return kind >= MRT_QUANTIZE_Q4_0;
}
/* Bytes of the codes of a row: q4_0 has whole blocks. */
static inline int64_t mrt_quantize_bytes(int kind, int64_t columns) {
  int64_t half = MRT_QUANTIZE_BLOCK / 2;
  if (kind == MRT_QUANTIZE_Q4_0)
    return (columns / (2 * half) + (columns % (2 * half) != 0)) * half;
  return mrt_quantize_pack(kind) == 1 ? columns : columns / 2 + columns % 2;
}

#endif
