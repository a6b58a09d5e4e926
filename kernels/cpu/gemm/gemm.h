/* gemm.h -- c = a @ b (+ bias): the matrix product other kernels call
 *
 * Every element of c is the same function of its row of a and its column of b:
 * fused multiply-adds in the order of k, in blocks whose length depends on k
 * alone, the blocks added in order, then the bias.  So its bits depend neither
 * on strides nor on how c is cut among threads.
 *
 * In f32, a, b and c may be narrow.  a and b are rounded to `compute` while
 * they are packed; sums are f32, and c is rounded once.  Where all values used
 * are bf16 and the processor has dot products of them, two steps of k are one:
 * first the second product is added, then the first, subnormals count as zero.
 * With tile registers (amx.c) the first and the second products of 16 such pairs
 * are summed by themselves, and added.
 *
 * Where `accumulate` is narrow there are no blocks: each sum is rounded to it
 * after each step of k (narrow.c).
 *
 * Why it is our own: a library's product rounds by rules of its own, allocates
 * behind the plan (oneDNN below AVX-512, megabytes a call), takes some dtypes
 * and layouts only, and may change its bits with an address or a thread count.
 * Here every dtype and stride has one path, the plan holds every byte, and the
 * invariant above is testable.  It costs no speed: in f32 large shapes reach 75
 * to 95 % of the peak of two Zen 4 cores (oneDNN 2.6: 61 to 99, OpenBLAS: 81 to
 * 92), and a training step of a 6-layer GPT takes 0.77 of PyTorch's time.  `mrt
 * bench matmul` measures products, `mrt bench step` the steps.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_H
#define MRT_GEMM_H

#include "cpu.h"

typedef struct mrt_matrix {
  const void *data;
  int64_t row, col; /* strides in elements, any */
  mrt_dtype dtype;
} mrt_matrix;

typedef struct mrt_gemm {
  int64_t m, n, k;
  mrt_matrix a, b;      /* [m, k] and [k, n] */
  mrt_dtype compute;    /* or MRT_DTYPE_COUNT: a and b as they are */
  mrt_dtype accumulate; /* narrow: sums are rounded to it after each term */
  bool dots;            /* the processor has dot products of bf16 */
  bool tiles;           /* it has tile registers for them (amx.c) */
  void *c;
  int64_t row, col; /* strides of c */
  mrt_dtype dtype;  /* of c */
  bool add;         /* to what c holds; for reals alone */
  const real *bias; /* [m, n] or NULL */
  int64_t bias_row, bias_col;
} mrt_gemm;

#define mrt_gemm_run         MRT_CPU(gemm_run)
#define mrt_gemm_bytes       MRT_CPU(gemm_bytes)
#define mrt_gemm_bytes_below MRT_CPU(gemm_bytes_below)
#define mrt_gemm_part_bytes  MRT_CPU(gemm_part_bytes)
#define mrt_gemm_part        MRT_CPU(gemm_part)

/* Scratch in bytes of one thread's part of a product of at most g's m and n, and
 * its k; a multiple of 64. */
size_t mrt_gemm_bytes(const mrt_gemm *g);
/* The same for every k up to g's: a smaller one may have longer blocks. */
size_t mrt_gemm_bytes_below(const mrt_gemm *g);
/* Scratch in bytes of the largest of `parts` parts of g. */
size_t mrt_gemm_part_bytes(const mrt_gemm *g, int parts);
/* Part `part` of `parts` of the product: parts are a grid of rectangles of c
 * that take about equal time; some may be empty. */
mrt_gemm mrt_gemm_part(const mrt_gemm *g, int part, int parts);
/* Compute a part on the calling thread. */
void mrt_gemm_run(const mrt_gemm *part, void *scratch);

/* The element of x at row i, column j. */
static inline const void *mrt_matrix_at(const mrt_matrix *x, int64_t i,
                                        int64_t j) {
  return (const char *)x->data +
         (i * x->row + j * x->col) * (int64_t)mrt_dtypes[x->dtype].bytes;
}
/* Where c's element at row i, column j goes. */
static inline void *mrt_gemm_to(const mrt_gemm *g, int64_t i, int64_t j) {
  return (char *)g->c +
         (i * g->row + j * g->col) * (int64_t)mrt_dtypes[g->dtype].bytes;
}

/* ---- inside -------------------------------------------------------------- */

/* A product whose operands are not all reals, or that rounds them. */
static inline bool mrt_gemm_is_mixed(const mrt_gemm *g) {
  return g->a.dtype != MRT_REAL || g->b.dtype != MRT_REAL ||
         g->dtype != MRT_REAL ||
         (g->compute != MRT_DTYPE_COUNT && mrt_is_narrow(g->compute));
}

static inline bool mrt_gemm_sums_narrow(const mrt_gemm *g) {
  return g->accumulate != MRT_DTYPE_COUNT && mrt_is_narrow(g->accumulate);
}

static inline bool is_bf16(mrt_dtype d) {
  return d == MRT_bf16 || d == MRT_f8_e4m3 || d == MRT_f8_e5m2;
}
/* Are all values of a and b, rounded to `compute`, those of bf16?  (Rounding
 * bf16 to f16 gives no bits that bf16 lacks.) */
static inline bool are_bf16(mrt_dtype a, mrt_dtype b, mrt_dtype compute) {
  bool rounded = compute != MRT_DTYPE_COUNT && is_bf16(compute);
  return rounded || (is_bf16(a) && is_bf16(b));
}
/* Is the product one of pairs: does this variant have their dot products? */
static inline bool takes_dots(const mrt_gemm *g) {
#if defined(__AVX512F__) && MRT_VECTOR_BYTES == 64
  return g->dots && are_bf16(g->a.dtype, g->b.dtype, g->compute);
#else
  return false;
#endif
}
/* The same in tile registers, all of them, of however few rows: else bits would
 * depend on how a product is cut. */
#if defined(__AVX512F__) && MRT_VECTOR_BYTES == 64 && !defined(MRT_F64)
#define MRT_HAS_TILES        1
#define mrt_gemm_tiles       MRT_CPU(gemm_tiles)
#define mrt_gemm_tiles_bytes MRT_CPU(gemm_tiles_bytes)
/* As mrt_gemm_run and mrt_gemm_bytes. */
void mrt_gemm_tiles(const mrt_gemm *part, void *scratch);
size_t mrt_gemm_tiles_bytes(const mrt_gemm *g);
static inline bool takes_tiles(const mrt_gemm *g) {
  return g->tiles && are_bf16(g->a.dtype, g->b.dtype, g->compute);
}
#else
static inline bool takes_tiles(const mrt_gemm *g) { return false; }
#endif

/* So few multiply-adds are done at once (tiny.c). */
enum { MRT_TINY = 256 };
#define mrt_gemm_tiny MRT_CPU(gemm_tiny)
/* The whole product, on the calling thread, without scratch. */
void mrt_gemm_tiny(const mrt_gemm *g);
static inline bool mrt_gemm_is_tiny(const mrt_gemm *g) {
  return !mrt_gemm_is_mixed(g) && !mrt_gemm_sums_narrow(g) && !g->add &&
         g->m * g->n * g->k <= MRT_TINY && g->k <= MRT_TINY;
}

/* A few rows times columns along k: panel by panel (few.h). */
enum { MRT_FEW = 16 };
#define mrt_gemm_few MRT_CPU(gemm_few)
/* As mrt_gemm_run, for k > 0 and what has few rows. */
void mrt_gemm_few(const mrt_gemm *part, void *scratch);
static inline bool mrt_gemm_is_few(const mrt_gemm *g) {
  return !takes_tiles(g) && g->m <= MRT_FEW && (g->n >= LANES || g->m == 1) &&
         g->b.row == 1 && !mrt_gemm_sums_narrow(g);
}

#define mrt_gemm_is_vector MRT_CPU(gemm_is_vector)
#define mrt_gemm_vector    MRT_CPU(gemm_vector)
/* As mrt_gemm_run, for k > 0 and what is a vector (vector.c). */
void mrt_gemm_vector(const mrt_gemm *part, void *scratch);
bool mrt_gemm_is_vector(const mrt_gemm *g);
/* The same product with rows for columns: c^T = b^T @ a^T. */
static __attribute__((noinline, unused)) mrt_gemm
mrt_gemm_turned(const mrt_gemm *g) {
  mrt_gemm t = *g;
  t.m = g->n, t.n = g->m;
  t.a = (mrt_matrix){ g->b.data, g->b.col, g->b.row, g->b.dtype };
  t.b = (mrt_matrix){ g->a.data, g->a.col, g->a.row, g->a.dtype };
  t.row = g->col, t.col = g->row;
  t.bias_row = g->bias_col, t.bias_col = g->bias_row;
  return t;
}

#ifndef MRT_F64
#define mrt_gemm_narrow MRT_CPU(gemm_narrow)
/* As mrt_gemm_run, where sums are narrow; no scratch. */
void mrt_gemm_narrow(const mrt_gemm *part);
#define mrt_gemm_mixed       MRT_CPU(gemm_mixed)
#define mrt_gemm_mixed_bytes MRT_CPU(gemm_mixed_bytes)
/* As mrt_gemm_run and mrt_gemm_bytes, for k > 0. */
void mrt_gemm_mixed(const mrt_gemm *part, void *scratch);
size_t mrt_gemm_mixed_bytes(const mrt_gemm *g);
#endif

#endif
