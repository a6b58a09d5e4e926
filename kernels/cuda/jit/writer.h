/* writer.h -- text that grows, and the program it is written for
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_JIT_WRITER_H
#define MRT_CUDA_JIT_WRITER_H

#include "jit/source.h"

typedef struct mrt_jit_buffer {
  char *text;
  size_t used, room;
  bool failed; /* no memory; later writes do nothing */
} mrt_jit_buffer;

void mrt_jit_put(mrt_jit_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

typedef struct mrt_jit_writer {
  mrt_jit_text *source;
  mrt_fused_options program; /* of one instruction for a single operator */
  mrt_fused_code single;
  int registers[MRT_FUSED_REGISTERS]; /* of the outputs of one operator */
  mrt_dtype dtype[MRT_FUSED_REGISTERS];
  mrt_jit_buffer head; /* before the loops */
  mrt_jit_buffer body; /* for one element, number e: registers r<n> */
  bool failed;
} mrt_jit_writer;

/* The C type of an element, its size. */
const char *mrt_jit_c_type(mrt_dtype dtype);
int mrt_jit_c_size(mrt_dtype dtype);
const char *mrt_jit_c_name(mrt_dtype dtype);

/* A new argument; its number, by which the text knows it as a.v[number]. */
int mrt_jit_argument(mrt_jit_writer *w, int64_t value);
int mrt_jit_argument_real(mrt_jit_writer *w, double value);

/* jit/instructions.c: one instruction into head and body. */
void mrt_jit_write_instruction(mrt_jit_writer *w, const mrt_fused_code *code);

/* jit/layout.c: how inputs are found. */
enum mrt_layout {
  MRT_AT_DENSE, /* at e */
  MRT_AT_SAME,  /* one element for all */
  /* Strided; the last dimension is a multiple of a vector: */
  MRT_AT_WIDE, /* vectors */
  MRT_AT_ONE,  /* one element for a vector */
  MRT_AT_STEP, /* evenly spaced elements */
  /* or is not: */
  MRT_AT_EACH
};
typedef struct mrt_jit_layouts {
  enum mrt_layout of[MRT_FUSED_REGISTERS];
  int rank; /* of what strided inputs share; 0: there are none */
  int64_t dims[MRT_MAX_RANK];
  int64_t strides[MRT_FUSED_REGISTERS][MRT_MAX_RANK];
  int64_t count;
  int width;
  bool narrow; /* indices fit in 31 bits */
} mrt_jit_layouts;
void mrt_jit_layouts_find(const mrt_call *call, mrt_jit_layouts *l);

#endif
