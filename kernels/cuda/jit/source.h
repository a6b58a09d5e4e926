/* source.h -- a pointwise call as the source of one CUDA kernel
 *
 *     mrt_jit_text s;
 *     mrt_jit_text_write(call, op, "chain", &s)    its text, its arguments
 *     ... pointers, MRT_ARG_VECTORS of s.arg filled, the kernel launched
 *     mrt_jit_text_free(&s)
 *
 * Shapes, strides, constants and seeds are arguments, so that a text serves
 * every call of the same operators, dtypes and kind of layout.  A kernel has
 * one argument, an array of 64-bit words: element count, vector count, the
 * run's words, inputs, outputs, then what the text asks for.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_JIT_SOURCE_H
#define MRT_CUDA_JIT_SOURCE_H

#include "device/kernel.h"
#include "op/fused.h"

enum {
  MRT_ARG_COUNT,   /* elements */
  MRT_ARG_VECTORS, /* of `width` elements, handled first; 0 is always right */
  MRT_ARG_WORDS,
  MRT_ARG_IN,         /* pointers: inputs, then outputs */
  MRT_ARG_MOST = 500, /* a launch takes 4096 bytes */
  MRT_SOURCE_OPERANDS = 2 * MRT_FUSED_REGISTERS
};

typedef struct mrt_jit_text {
  char *text; /* one function, to stand after jit/pointwise.cuh */
  int width;  /* elements of a vector */
  int nin, nout;
  /* Bytes that in[i], then out[i], must be aligned to for vectors. */
  int align[MRT_SOURCE_OPERANDS];
  int args;
  int64_t arg[MRT_ARG_MOST];
} mrt_jit_text;

/* False without memory or when the call is too large to be one kernel; then
 * there is nothing to free.  Data pointers of the call are not looked at. */
bool mrt_jit_text_write(const mrt_call *call, int op, const char *name,
                        mrt_jit_text *s);
void mrt_jit_text_free(mrt_jit_text *s);

/* Is there a way to write operator number `op`? */
bool mrt_jit_text_has(int op);

#endif
