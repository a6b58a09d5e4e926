/* products.c -- products of reals in exactly the scratch that they ask for, by
 * parts, whatever their shapes and strides
 *
 * Compiled once per instruction set, together with kernels/cpu/gemm/, under the
 * address sanitizer: scratch is allocated to the byte.  Factors are whole
 * numbers, so that every sum is exact in any order.
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>

enum { CASES = 1200, MOST = 30000000, LOOKS = 40 };

static int64_t below(int64_t n) { return rand() % n; }

/* Edges of tiles and blocks, or anything. */
static int64_t length(void) {
  static const int16_t edges[] = { 1,   2,   3,   5,   6,   7,   8,
                                   15,  16,  17,  31,  32,  33,  64,
                                   96,  97,  128, 192, 193, 255, 256,
                                   384, 385, 512, 577, 600, 770, 1153 };
  enum { EDGES = sizeof edges / sizeof *edges };
  return below(3) ? edges[below(EDGES)] : 1 + below(300);
}

/* `n` whole numbers from -most to most. */
static float *numbers(int64_t n, int most) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; x && i < n; i++)
    x[i] = (float)(below(2 * most + 1) - most);
  return x;
}

static mrt_matrix matrix(const float *x, int64_t rows, int64_t columns,
                         bool turned) {
  return (mrt_matrix){ x, turned ? 1 : columns, turned ? rows : 1, MRT_f32 };
}

static float value(const mrt_matrix *x, int64_t i, int64_t j) {
  return *(const float *)mrt_matrix_at(x, i, j);
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

/* The element of c at i, j that held `old`. */
static float wanted(const mrt_gemm *g, int64_t i, int64_t j, float old) {
  double sum = g->add ? old : 0;
  for (int64_t p = 0; p < g->k; p++)
    sum += (double)value(&g->a, i, p) * (double)value(&g->b, p, j);
  return (float)(g->bias ? sum + (double)g->bias[j] : sum);
}

static int one_case(int64_t m, int64_t k, int64_t n) {
  float *a = numbers(m * k, 8), *b = numbers(k * n, 6), *bias = numbers(n, 4);
  float *c = numbers(m * n, 3), *old = malloc((size_t)(m * n) * sizeof *old);
  if (!a || !b || !bias || !c || !old) exit(1);
  for (int64_t i = 0; i < m * n; i++) old[i] = c[i];
  mrt_gemm g = { .m = m,
                 .n = n,
                 .k = k,
                 .a = matrix(a, m, k, below(2)),
                 .b = matrix(b, k, n, below(2)),
                 .compute = MRT_DTYPE_COUNT,
                 .accumulate = MRT_DTYPE_COUNT,
                 .c = c,
                 .row = n,
                 .col = 1,
                 .dtype = MRT_f32,
                 .add = below(3) == 0,
                 .bias = below(2) ? bias : NULL,
                 .bias_col = 1 };
  int parts = 1 + (int)below(4), wrong = 0;
  run_parts(&g, parts);
  for (int look = 0; look < LOOKS && !wrong; look++) {
    int64_t i = below(m), j = below(n);
    wrong = c[i * n + j] != wanted(&g, i, j, old[i * n + j]);
  }
  if (wrong)
    printf("wrong: %d x %d x %d in %d parts, a turned %d, b turned %d\n",
           (int)m, (int)k, (int)n, parts, g.a.row == 1, g.b.row == 1);
  free(a), free(b), free(bias), free(c), free(old);
  return wrong;
}

int main(void) {
  int wrong = 0;
#if defined(SPEC_ISA_avx512)
  if (!__builtin_cpu_supports("avx512vl")) return puts("no AVX-512"), 0;
#elif defined(SPEC_ISA_avx2)
  if (!__builtin_cpu_supports("avx2")) return puts("no AVX2"), 0;
#endif
  srand(5);
  for (int i = 0; i < CASES;) {
    int64_t m = length(), k = length(), n = length();
    if (m * k * n > MOST) continue;
    wrong += one_case(m, k, n), i++;
  }
  return wrong > 0;
}
