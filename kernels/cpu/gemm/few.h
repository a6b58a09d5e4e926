/* few.h -- products of few rows with columns that are made as they are read
 *
 * The columns of b lie along k, as those of a linear layer's w, or are not
 * there at all but in some other form.  A panel of VECS vectors of them at a
 * time, a piece of STEPS steps of k is turned, so that the columns lie side by
 * side, into room that the first cache holds, and multiplied with all rows:
 *
 *     for panels of c
 *       for pieces of k     fill
 *         for rows          sums in registers
 *
 * So b is read once, whatever the rows, and the bits are those of gemm.c:
 * multiply-adds in the order of k, block by block, then the bias.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_FEW_H
#define MRT_GEMM_FEW_H

#include "gemm/gemm.h"

enum {
  MRT_FEW_STEPS = 64, /* a multiple of twice the lanes */
  /* The most vectors of a panel: enough sums of one row to hide latencies. */
  MRT_FEW_VECS = MRT_VECTOR_BYTES == 64 ? 4 : 8,
  /* Of columns of many bytes: fewer streams from memory at a time. */
  MRT_FEW_WIDE_VECS = MRT_VECTOR_BYTES == 64 ? 1 : 2,
};

typedef struct mrt_few_product {
  const mrt_gemm *g; /* but for its b */
  /* Put steps [p, p + MRT_FEW_STEPS) of columns [j, j + vecs * LANES), those
   * that are there, at to[step * vecs * LANES + column]: reals, or units of two
   * bf16 for `dots`, which steps count then.  The rest are any numbers. */
  void (*fill)(const struct mrt_few_product *f, int64_t j, int64_t p, real *to);
  /* NULL, or for one row: add units [p, end) of a panel from column j on to its
   * sums, x being the row's from p on, as fill and a product would; or say that
   * it cannot. */
  bool (*add)(const struct mrt_few_product *f, int64_t j, int64_t p,
              int64_t end, const real *x, real *sum);
  const void *columns;
  int64_t first; /* of them, the number of c's first */
  int vecs;      /* of a panel: one of the two above */
  bool dots;
} mrt_few_product;

#define mrt_few_run MRT_CPU(few_run)
/* Compute a part on the calling thread; 1 <= m <= MRT_FEW, n > 0, k > 0. */
void mrt_few_run(const mrt_few_product *f, void *scratch);

#define mrt_few_put MRT_CPU(few_put)
/* The sums of row i, columns [j, j + n), are complete: add the bias, in place,
 * and put them into c. */
void mrt_few_put(const mrt_gemm *g, int64_t i, int64_t j, int64_t n, real *sum);

/* Units of a, in rows: where they lie, or in the scratch. */
typedef struct mrt_units {
  const real *data;
  int64_t row;
} mrt_units;
#define mrt_few_units MRT_CPU(few_units)
#define mrt_few_bytes MRT_CPU(few_bytes)
mrt_units mrt_few_units(const mrt_gemm *g, bool dots, void *scratch);
/* Bytes of scratch that they may take for a product of at most g's sizes. */
size_t mrt_few_bytes(const mrt_gemm *g);

/* ---- for those who fill -------------------------------------------------- */

/* LANES f16, widened, where the processor does that: MRT_HALVES. */
#if defined(__F16C__) && !defined(MRT_F64)
#define MRT_HALVES 1
#if MRT_VECTOR_BYTES == 64
#include <immintrin.h>
#endif
static inline vec mrt_few_halves(const char *from) {
#if MRT_VECTOR_BYTES == 64
  return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
#else
  typedef short halves __attribute__((vector_size(16), aligned(1), may_alias));
  return (vec)__builtin_ia32_vcvtph2ps256(*(const halves *)from);
#endif
}
#else
static inline vec mrt_few_halves(const char *from) { return (vec){ 0 }; }
#endif

/* One of LANES columns, `stride` bytes apart. */
static inline const char *mrt_few_column(const void *columns, int64_t stride,
                                         int l) {
  return (const char *)columns + l * stride;
}

/* A vector of a column's bytes, which may begin anywhere: rows of bytes and of
 * narrow floats are of any size. */
typedef vec loose_vec __attribute__((aligned(1), may_alias));
static inline vec mrt_few_load(const char *from) {
  return *(const loose_vec *)from;
}

/* Where not all LANES columns, or all bytes of a piece, are there: a copy, in
 * which the first column takes the place of the missing and zero of bytes. */
static inline void mrt_few_stage(const void *columns, int64_t stride, int64_t n,
                                 int64_t nbytes, char *stage, int64_t row) {
  for (int l = 0; l < LANES; l++) {
    const char *from = mrt_few_column(columns, stride, l < n ? l : 0);
    memcpy(stage + l * row, from, (size_t)nbytes);
    memset(stage + l * row + nbytes, 0, (size_t)(row - nbytes));
  }
}

#endif
