/* cumsum.c -- running sums along a dimension
 *
 * Columns are summed side by side, up to WIDTH of them with their sums on the
 * stack.  Sums are kept in f64 | i64 and rounded when stored.
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"
#include "op/move.h"

enum { WIDTH = 64 };

/* y = running sums of x: n rows, `step` elements apart (from the end when
 * negative), of `width` columns. */
typedef void sum_fn(const void *x, void *y, int64_t n, int64_t step, int width);

#define CUMSUM(T, SUM)                                                         \
  static void cumsum_##T(const void *from, void *to, int64_t n, int64_t step,  \
                         int width) {                                          \
    const T *x = from;                                                         \
    T *y = to;                                                                 \
    SUM sum[WIDTH] = { 0 };                                                    \
    for (int64_t k = 0; k < n; k++, x += step, y += step)                      \
      for (int j = 0; j < width; j++) y[j] = (T)(sum[j] += (SUM)x[j]);         \
  }
CUMSUM(real, double)
CUMSUM(int64_t, uint64_t) /* integers wrap around */
CUMSUM(int32_t, uint64_t)

static sum_fn *const sum_of[MRT_DTYPE_COUNT] = { [MRT_REAL] = cumsum_real,
                                                 [MRT_i64] = cumsum_int64_t,
                                                 [MRT_i32] = cumsum_int32_t };

static void cumsum(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t n = t->dims[o->dim], inner = 1, outer = 1;
  for (int i = 0; i < t->rank; i++) {
    if (i < o->dim) outer *= t->dims[i];
    if (i > o->dim) inner *= t->dims[i];
  }
  int64_t size = (int64_t)mrt_dtypes[t->dtype].bytes;
  int64_t blocks = (inner + WIDTH - 1) / WIDTH;
  int64_t start = o->reverse && n ? (n - 1) * inner : 0;
  int64_t step = o->reverse ? -inner : inner;
  int team = mrt_team(c, (double)mrt_type_count(t) * 1.0);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t i = 0; i < outer * blocks; i++) {
    int64_t j = i % blocks * WIDTH, left = inner - j;
    int64_t at = (i / blocks * n * inner + start + j) * size;
    sum_of[t->dtype]((const char *)c->in[0].data + at,
                     (char *)c->out[0].data + at, n, step,
                     left < WIDTH ? (int)left : WIDTH);
  }
}

MRT_KERNEL(cumsum, .run = cumsum);
