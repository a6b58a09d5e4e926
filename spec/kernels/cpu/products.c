/* products.c -- products of reals and of bf16 in exactly the scratch that they ask
 * for, by parts, whatever their shapes and strides
 *
 * Compiled once per instruction set, together with kernels/cpu/gemm/, under the
 * address sanitizer: scratch is allocated to the byte.  Factors are whole
 * numbers, so that every sum is exact in any order; c of bf16 is that, rounded.
 * And once with a model of tile registers (gemm/amx.h), which all products of
 * bf16 then take; of other numbers, too, they give the same bits however a
 * product is cut and its operands lie.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef MRT_AMX_MODEL
enum { TILES = true, CASES = 700, MOST = 3000000, LOOKS = 40 };
#else
enum { TILES = false, CASES = 1200, MOST = 30000000, LOOKS = 40 };
#endif

static int64_t below(int64_t n) { return rand() % n; }

/* Edges of tiles and blocks, or anything. */
static int64_t length(void) {
  static const int16_t edges[] = { 1,   2,   3,   5,    6,    7,    8,   15,
                                   16,  17,  31,  32,   33,   64,   96,  97,
                                   128, 192, 193, 255,  256,  384,  385, 512,
                                   577, 600, 770, 1153, 2048, 2049, 4100 };
  enum { EDGES = sizeof edges / sizeof *edges };
  return below(3) ? edges[below(EDGES)] : 1 + below(300);
}

/* Zeroed, never NULL. */
static void *room(int64_t n, size_t size) {
  void *x = calloc((size_t)n, size);
  if (!x) exit(1);
  return x;
}

/* `n` whole numbers from -most to most; any numbers where most is 0. */
static float *numbers(int64_t n, int most) {
  float *x = room(n, sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = most ? (float)(below(2 * most + 1) - most)
                : (float)(below(2001) - 1000) / 700;
  return x;
}

/* The same numbers [rows, columns] in `dtype`, by columns if `turned`. */
static mrt_matrix matrix(const float *x, int64_t rows, int64_t columns,
                         bool turned, mrt_dtype dtype) {
  void *data = room(rows * columns, mrt_dtypes[dtype].bytes);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      float value = x[i * columns + j];
      int64_t at = turned ? j * rows + i : i * columns + j;
      if (dtype == MRT_f32)
        ((float *)data)[at] = value;
      else
        ((uint16_t *)data)[at] = float_to_bf16(value);
    }
  return (mrt_matrix){ data, turned ? 1 : columns, turned ? rows : 1, dtype };
}

static float number_at(const void *data, mrt_dtype dtype, int64_t at) {
  return dtype == MRT_f32 ? ((const float *)data)[at]
                          : bf16_to_float(((const uint16_t *)data)[at]);
}
static float element_of(const mrt_gemm *g, int64_t i, int64_t j) {
  return number_at(g->c, g->dtype, i * g->row + j * g->col);
}

/* Every part in scratch of its own. */
static void run_parts(const mrt_gemm *g, int parts) {
  size_t bytes = mrt_gemm_part_bytes(g, parts);
  for (int i = 0; i < parts; i++) {
    mrt_gemm part = mrt_gemm_part(g, i, parts);
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, bytes ? bytes : 1)) exit(1);
    mrt_gemm_run(&part, scratch);
    free(scratch);
  }
}

typedef struct product {
  int64_t m, k, n;
  float *a, *b, *bias, *old;
  mrt_dtype from, to;
  bool dots, add, biased;
} product;

static bool has_dots(void) {
#ifdef SPEC_ISA_avx512
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

static product random_product(int64_t m, int64_t k, int64_t n, bool whole) {
  product p = { .m = m, .k = k, .n = n, .biased = below(2) };
  bool narrow = TILES || !whole || below(2);
  p.a = numbers(m * k, whole ? 8 : 0), p.b = numbers(k * n, whole ? 6 : 0);
  p.bias = numbers(n, whole ? 4 : 0), p.old = numbers(m * n, 3);
  p.from = narrow ? MRT_bf16 : MRT_f32;
  p.to = narrow && below(2) ? MRT_bf16 : MRT_f32;
  p.dots = narrow && !TILES && has_dots() && below(2);
  p.add = !narrow && below(3) == 0;
  return p;
}

/* It, cut into `parts`, with operands that lie in any way: c is to be freed. */
static mrt_gemm run(const product *p, int parts) {
  bool by_columns = below(3) == 0;
  mrt_gemm g = { .m = p->m,
                 .n = p->n,
                 .k = p->k,
                 .a = matrix(p->a, p->m, p->k, below(2), p->from),
                 .b = matrix(p->b, p->k, p->n, below(2), p->from),
                 .compute = MRT_DTYPE_COUNT,
                 .accumulate = MRT_DTYPE_COUNT,
                 .dots = p->dots,
                 .tiles = TILES,
                 .c = room(p->m * p->n, mrt_dtypes[p->to].bytes),
                 .row = by_columns ? 1 : p->n,
                 .col = by_columns ? p->m : 1,
                 .dtype = p->to,
                 .add = p->add,
                 .bias = p->biased ? p->bias : NULL,
                 .bias_col = 1 };
  for (int64_t i = 0; p->add && i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++)
      ((float *)g.c)[i * g.row + j * g.col] = p->old[i * p->n + j];
  run_parts(&g, parts);
  free((void *)g.a.data), free((void *)g.b.data);
  return g;
}

/* Of whole numbers: the element of c at i, j. */
static float wanted(const product *p, int64_t i, int64_t j) {
  double sum = p->add ? p->old[i * p->n + j] : 0;
  for (int64_t q = 0; q < p->k; q++)
    sum += (double)p->a[i * p->k + q] * (double)p->b[q * p->n + j];
  float all = (float)(p->biased ? sum + (double)p->bias[j] : sum);
  return p->to == MRT_f32 ? all : bf16_to_float(float_to_bf16(all));
}

static int64_t look_at(const product *p, const mrt_gemm *g) {
  for (int look = 0; look < LOOKS; look++) {
    int64_t i = below(p->m), j = below(p->n);
    if (element_of(g, i, j) != wanted(p, i, j)) return i * p->n + j;
  }
  return -1;
}

static int64_t compare(const mrt_gemm *one, const mrt_gemm *other) {
  for (int64_t i = 0; i < one->m; i++)
    for (int64_t j = 0; j < one->n; j++)
      if (element_of(one, i, j) != element_of(other, i, j))
        return i * one->n + j;
  return -1;
}

static int one_case(int64_t m, int64_t k, int64_t n) {
  bool whole = below(3) > 0;
  product p = random_product(m, k, n, whole);
  int parts = 1 + (int)below(4);
  mrt_gemm g = run(&p, parts);
  int64_t wrong = whole ? look_at(&p, &g) : -1;
  if (!whole) {
    mrt_gemm other = run(&p, 1 + (int)below(4));
    wrong = compare(&g, &other);
    free(other.c);
  }
  if (wrong >= 0)
    printf("%s: %d x %d x %d of %s in %d parts, dots %d, at %d\n",
           whole ? "wrong" : "other bits", (int)m, (int)k, (int)n,
           mrt_dtypes[p.from].name, parts, p.dots, (int)wrong);
  free(p.a), free(p.b), free(p.bias), free(p.old), free(g.c);
  return wrong >= 0;
}

/* What is said to do for sums of up to so many terms does for each of them: for
 * all about the edges of blocks, and some. */
static int below_case(void) {
  enum { TERMS = 5000, EDGE = 128 };
  mrt_dtype from = TILES || below(2) ? MRT_bf16 : MRT_f32;
  mrt_gemm g = { .m = length(),
                 .n = length(),
                 .k = 1 + below(TERMS),
                 .a = { NULL, 1, 1, from },
                 .b = { NULL, 1, 1, from },
                 .compute = MRT_DTYPE_COUNT,
                 .accumulate = MRT_DTYPE_COUNT,
                 .tiles = TILES,
                 .col = 1,
                 .dtype = from == MRT_bf16 && below(2) ? MRT_bf16 : MRT_f32 };
  size_t most = mrt_gemm_bytes_below(&g);
  for (int64_t k = 1, last = g.k; k <= last;
       k += below(2) ? 1 : EDGE - k % EDGE) {
    g.k = k;
    if (mrt_gemm_bytes(&g) <= most) continue;
    printf("%d x %d x %d takes more scratch than up to %d\n", (int)g.m, (int)k,
           (int)g.n, (int)last);
    return 1;
  }
  return 0;
}

int main(void) {
  int wrong = 0;
#if defined(SPEC_ISA_avx512)
  if (!__builtin_cpu_supports("avx512vl")) return puts("no AVX-512"), 0;
#elif defined(SPEC_ISA_avx2)
  if (!__builtin_cpu_supports("avx2")) return puts("no AVX2"), 0;
#endif
  srand(5);
  for (int i = 0; i < CASES; i++) wrong += below_case();
  for (int i = 0; i < CASES;) {
    int64_t m = length(), k = length(), n = length();
    if (m * k * n > MOST) continue;
    wrong += one_case(m, k, n), i++;
  }
  return wrong > 0;
}
