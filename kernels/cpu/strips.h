/* strips.h -- products with weights that are kept in another form
 *
 *     y = x @ w^T + bias, or transposed y = x @ w
 *
 * A strip of w is made of what is kept, and handed to the matrix product, so
 * every element is what linear gives with the whole w, bit for bit.  For few
 * rows of x that takes longest, and columns are made in the order of the
 * product (gemm/few.h) where the caller can.  Threads
 * share out the columns of y, so none makes what another one does.
 *
 * x is input 0 of the call, y output 0.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_STRIPS_H
#define MRT_STRIPS_H

#include "floats.h"
#include "gemm/few.h"

typedef struct mrt_strips {
  /* Put elements [from, to) of a row of w. */
  void (*take)(const void *matrix, int64_t row, int64_t from, int64_t to,
               real *w);
  /* Or NULL: for few rows of x put columns, turned, with `matrix` as theirs. */
  void (*fill)(const mrt_few_product *f, int64_t j, int64_t p, real *to);
  bool (*add)(const mrt_few_product *f, int64_t j, int64_t p, int64_t end,
              const real *x, real *sum); /* or NULL */
  const void *matrix;
  mrt_dtype compute; /* as of linear */
  bool transposed;
  int bias;      /* which input; 0: none */
  size_t shared; /* the caller's bytes in front of the scratch; of 64 each */
} mrt_strips;

#define mrt_strips_run   MRT_CPU(strips_run)
#define mrt_strips_bytes MRT_CPU(strips_bytes)

void mrt_strips_run(const mrt_call *c, const mrt_strips *s);
/* Bytes of scratch, the shared ones among them. */
size_t mrt_strips_bytes(const mrt_call *c, const mrt_strips *s);

#endif
