/* vector.c -- a vector times a matrix, read once where it lies
 *
 *   needs   m = 1; b contiguous along n, and reals all, or along k: reals or
 *           bf16, whatever a and c are
 *   method  Along n: a piece of c, small enough for the first cache, gathers
 *           row after row of b.  Along k: LANES columns at a time are turned in
 *           registers, so that each lane sums one element of c.
 *   gives   the bits of gemm.c and mixed.c: multiply-adds in the order of k,
 *           block by block
 *   cost    reads b once, at the memory's speed; packs nothing
 *
 * SPDX-License-Identifier: MIT */

/* In this file a * b + c is rounded once where the processor can. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#include "gemm/block.h"
#include "gemm/dots.h"
#include "gemm/few.h"
#ifndef MRT_F64
#include "units.h"
#endif

/* Sums of n columns from j on over the block of k that begins at p. */
static void put_sums(const mrt_gemm *g, int64_t p, int64_t kc, int64_t j,
                     int64_t n, const real *sum) {
  real *c = (real *)g->c + j * g->col;
  bool last = p + kc == g->k;
  for (int64_t i = 0; i < n; i++) {
    real x = sum[i];
    if (p) x = c[i * g->col] + x;
    if (last && g->bias) x += g->bias[(j + i) * g->bias_col];
    c[i * g->col] = x;
  }
}

enum { PIECE = (16 << 10) / (int)sizeof(real), TOGETHER = 4 };

/* sum += `steps` rows of b, one after the other. */
static inline __attribute__((always_inline)) void
add_rows(int steps, const real *a, int64_t a_step, const real *b, int64_t row,
         int64_t n, real *sum) {
  vec x[TOGETHER];
  int64_t i = 0;
  for (int q = 0; q < steps; q++) x[q] = vec_all(a[q * a_step]);
  for (; i + LANES <= n; i += LANES) {
    vec s = vec_load(sum + i);
#pragma GCC unroll 4
    for (int q = 0; q < steps; q++) s += x[q] * vec_load(b + q * row + i);
    vec_store(sum + i, s);
  }
  for (; i < n; i++) {
    real s = sum[i];
#pragma GCC unroll 4
    for (int q = 0; q < steps; q++) s += a[q * a_step] * b[q * row + i];
    sum[i] = s;
  }
}

static void by_rows(const mrt_gemm *g, int64_t p, int64_t kc) {
  real sum[PIECE];
  int64_t step = g->a.col, row = g->b.row;
  const real *a = (const real *)g->a.data + p * step;
  for (int64_t j = 0, n; j < g->n; j += n) {
    const real *b = (const real *)g->b.data + p * row + j;
    int64_t q = 0;
    n = least(PIECE, g->n - j);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (; q + TOGETHER <= kc; q += TOGETHER)
      add_rows(TOGETHER, a + q * step, step, b + q * row, row, n, sum);
    for (; q < kc; q++)
      add_rows(1, a + q * step, step, b + q * row, row, n, sum);
    put_sums(g, p, kc, j, n, sum);
  }
}

static void run_rows_of_b(const mrt_gemm *g) {
  int64_t step = k_block(g->k);
  for (int64_t p = 0; p < g->k; p += step) by_rows(g, p, least(step, g->k - p));
}

/* ---- b contiguous along k ------------------------------------------------ */

/* Columns at a time, in groups of LANES: two chains of sums, and few enough
 * streams from memory (16 of them: 17 GB/s, 32: 10). */
enum { GROUPS = MRT_VECTOR_BYTES == 64 ? 1 : 2, LINE_BYTES = 64 };

typedef struct columns_job {
  const mrt_gemm *g;
  const real *x;          /* units of a */
  int64_t units, step;    /* of k, of a block */
  int64_t stride, nbytes; /* from one column to the next, of one */
} columns_job;

/* A vector of a column's bytes: reals; twice as many bf16; or pairs of these,
 * which are units of dot products.  Half of it: f16, widened first. */
typedef enum column_form { REALS, BF16, PAIRS, F16 } column_form;

static inline int64_t units_of(column_form as) {
  return as == BF16 ? 2 * LANES : LANES;
}
static inline int64_t bytes_of(column_form as) {
  return as == BF16 || as == F16 ? 2 : (int64_t)sizeof(real);
}

static inline __attribute__((always_inline)) void
turned(column_form as, const char *from, int64_t stride, vec v[LANES]) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    const char *column = mrt_few_column(from, stride, l);
    v[l] = as == F16 ? mrt_few_halves(column) : mrt_few_load(column);
  }
  transpose(v);
}

/* sum + the first `count` units of those that v, turned, holds. */
static inline __attribute__((always_inline)) vec
add_turned(column_form as, const vec v[LANES], const real *x, int64_t count,
           vec sum) {
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
#ifndef MRT_F64
    if (as == BF16) {
      ivec two = (ivec)v[i];
      if (2 * i < count) sum += vec_all(x[2 * i]) * (vec)(two << 16);
      if (2 * i + 1 < count)
        sum += vec_all(x[2 * i + 1]) * (vec)(two & ~0xffff);
      continue;
    }
#endif
    if (i < count) sum += vec_all(x[i]) * v[i];
  }
  return sum;
}
#if defined(MRT_DOTS) && !defined(MRT_F64)
static inline __attribute__((always_inline)) WITH_DOTS vec dot_turned(
    column_form as, const vec v[LANES], const real *x, int64_t count, vec sum) {
  const pair *units = (const pair *)x;
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (i < count)
      sum = (vec)_mm512_dpbf16_ps(
          (__m512)sum, (__m512bh)_mm512_set1_epi32(units[i]), (__m512bh)v[i]);
  return sum;
}
#endif

/* sum[g] = units [p, end) of group g of n columns that begin at `from`.  What
 * will be read next is asked for: columns are too short for the processor to
 * see the order by itself. */
#define BLOCK_SUMS(name, attributes, add)                                      \
  static inline __attribute__((always_inline)) attributes void name(           \
      column_form as, const columns_job *t, const char *from, int64_t n,       \
      int64_t p, int64_t end, vec sum[GROUPS]) {                               \
    int64_t q = p, per = units_of(as), ahead = GROUPS * LANES * t->stride;     \
    for (int g = 0; g < GROUPS; g++) sum[g] = (vec){ 0 };                      \
    int64_t whole = least(end, t->nbytes / bytes_of(as));                      \
    for (; n == GROUPS * LANES && q + per <= whole; q += per)                  \
      _Pragma("GCC unroll 2") for (int g = 0; g < GROUPS; g++) {               \
        const char *at = from + g * LANES * t->stride + q * bytes_of(as);      \
        vec v[LANES];                                                          \
        if (q * bytes_of(as) % LINE_BYTES < MRT_VECTOR_BYTES)                  \
          _Pragma("GCC unroll 16") for (int l = 0; l < LANES; l++)             \
              __builtin_prefetch(mrt_few_column(at, t->stride, l) + ahead);    \
        turned(as, at, t->stride, v);                                          \
        sum[g] = add(as, v, t->x + q, per, sum[g]);                            \
      }                                                                        \
    for (; q < end; q += per)                                                  \
      for (int g = 0; g * LANES < n; g++) {                                    \
        char room[LANES * MRT_VECTOR_BYTES];                                   \
        int64_t at = q * bytes_of(as);                                         \
        vec v[LANES];                                                          \
        mrt_few_stage(from + g * LANES * t->stride + at, t->stride,            \
                      n - g * LANES, least(MRT_VECTOR_BYTES, t->nbytes - at),  \
                      room, MRT_VECTOR_BYTES);                                 \
        turned(as, room, MRT_VECTOR_BYTES, v);                                 \
        sum[g] = add(as, v, t->x + q, least(per, end - q), sum[g]);            \
      }                                                                        \
  }
/* All columns. */
#define COLUMNS(name, attributes, as, sums)                                    \
  static attributes void name(const columns_job *t) {                          \
    const mrt_gemm *g = t->g;                                                  \
    for (int64_t j = 0, n; j < g->n; j += n) {                                 \
      const char *from = (const char *)g->b.data + j * t->stride;              \
      real all[GROUPS * LANES];                                                \
      n = least(GROUPS * LANES, g->n - j);                                     \
      for (int64_t p = 0; p < t->units; p += t->step) {                        \
        vec sum[GROUPS];                                                       \
        sums(as, t, from, n, p, least(p + t->step, t->units), sum);            \
        for (int i = 0; i < GROUPS; i++)                                       \
          vec_store(all + i * LANES,                                           \
                    p ? vec_load(all + i * LANES) + sum[i] : sum[i]);          \
      }                                                                        \
      mrt_few_put(g, 0, j, n, all);                                            \
    }                                                                          \
  }
BLOCK_SUMS(add_block, , add_turned)
COLUMNS(columns_of_reals, , REALS, add_block)
#ifdef MRT_HALVES
COLUMNS(columns_of_f16, , F16, add_block)
#endif
#ifndef MRT_F64
COLUMNS(columns_of_bf16, , BF16, add_block)
#ifdef MRT_DOTS
BLOCK_SUMS(dot_block, WITH_DOTS, dot_turned)
COLUMNS(columns_of_pairs, WITH_DOTS, PAIRS, dot_block)
#else
#define columns_of_pairs columns_of_bf16
#endif
#endif

static void run_columns_of_b(const mrt_gemm *g, void *scratch) {
  columns_job t = { .g = g, .units = g->k };
  int64_t size = (int64_t)mrt_dtypes[g->b.dtype].bytes;
  t.stride = g->b.col * size, t.nbytes = g->k * size;
#ifndef MRT_F64
  bool dots = takes_dots(g);
  t.x = mrt_few_units(g, dots, scratch).data;
  if (dots) t.units = ceil_div(g->k, 2);
  t.step = k_block(t.units);
  if (g->b.dtype == MRT_bf16) {
    (dots ? columns_of_pairs : columns_of_bf16)(&t);
    return;
  }
#else
  t.x = mrt_few_units(g, false, scratch).data, t.step = k_block(t.units);
#endif
#ifdef MRT_HALVES
  if (g->b.dtype == MRT_f16) {
    columns_of_f16(&t);
    return;
  }
#endif
  columns_of_reals(&t);
}

#ifdef MRT_HALVES
#define MRT_WIDENS_F16(g) ((g)->b.dtype == MRT_f16)
#else
#define MRT_WIDENS_F16(g) false
#endif
/* Are b's values what is multiplied, or those of bf16 or f16? */
bool mrt_gemm_is_vector(const mrt_gemm *g) {
  if (g->m != 1 || mrt_gemm_sums_narrow(g) || takes_tiles(g)) return false;
  if (g->b.col == 1 && g->b.row != 1) return !mrt_gemm_is_mixed(g);
  bool as_is = g->compute == MRT_DTYPE_COUNT || g->compute == g->b.dtype ||
               g->compute == MRT_REAL;
#ifndef MRT_F64
  if (g->b.dtype != MRT_bf16 && takes_dots(g)) return false;
  as_is &= g->b.dtype == MRT_bf16 || g->b.dtype == MRT_f32 || MRT_WIDENS_F16(g);
#endif
  return g->b.row == 1 && as_is;
}

void mrt_gemm_vector(const mrt_gemm *g, void *scratch) {
  if (g->b.row == 1)
    run_columns_of_b(g, scratch);
  else
    run_rows_of_b(g);
}
