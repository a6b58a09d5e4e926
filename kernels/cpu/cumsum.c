/* cumsum.c -- running sums along a dimension
 *
 * Columns are summed side by side, with their sums on the stack: they are
 * neighbours, or along the last dimension the rows, so that additions overlap.
 * Sums are kept in f64 | i64 and rounded when stored.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "cpu.h"
#include "op/move.h"

enum { WIDTH = 64, ROWS = 8 /* streams that caches follow easily */ };

/* y = running sums down the columns of x: n elements `step` apart (backwards
 * when negative), `width` columns `across` apart. */
typedef void sum_fn(const void *x, void *y, int64_t n, int64_t step, int width,
                    int64_t across);

#define CUMSUM(name, T, SUM, S, VALUE)                                         \
  static void cumsum_##name(const void *from, void *to, int64_t n,             \
                            int64_t step, int width, int64_t across) {         \
    const S *x = from;                                                         \
    T *y = to;                                                                 \
    SUM sum[WIDTH] = { 0 };                                                    \
    for (int64_t k = 0; k < n; k++, x += step, y += step)                      \
      if (across == 1)                                                         \
        for (int j = 0; j < width; j++)                                        \
          y[j] = (T)(sum[j] += (SUM)VALUE(x[j]));                              \
      else                                                                     \
        for (int j = 0; j < width; j++)                                        \
          y[j * across] = (T)(sum[j] += (SUM)VALUE(x[j * across]));            \
  }
CUMSUM(real, real, double, real, )
CUMSUM(int64_t, int64_t, uint64_t, int64_t, ) /* integers wrap around */
CUMSUM(int32_t, int64_t, uint64_t, int32_t, )
CUMSUM(uint8_t, int64_t, uint64_t, uint8_t, )
CUMSUM(f16, real, double, uint16_t, f16_to_float)
CUMSUM(bf16, real, double, uint16_t, bf16_to_float)
CUMSUM(f8_e4m3, real, double, uint8_t, f8_e4m3_to_float)
CUMSUM(f8_e5m2, real, double, uint8_t, f8_e5m2_to_float)

/* By the dtype of x. */
static sum_fn *const sum_of[MRT_DTYPE_COUNT] = {
  [MRT_REAL] = cumsum_real,       [MRT_i64] = cumsum_int64_t,
  [MRT_i32] = cumsum_int32_t,     [MRT_u8] = cumsum_uint8_t,
  [MRT_bool] = cumsum_uint8_t,    [MRT_f16] = cumsum_f16,
  [MRT_bf16] = cumsum_bf16,       [MRT_f8_e4m3] = cumsum_f8_e4m3,
  [MRT_f8_e5m2] = cumsum_f8_e5m2,
};

/* `outer` times: columns of n elements, every `inner`-th, side by side in
 * blocks of `width`. */
typedef struct cumsum_shape {
  int64_t outer, n, inner, columns, across;
  int width;
} cumsum_shape;

static void sum_part(const mrt_call *c, const void *shared, int part,
                     int parts) {
  const cumsum_shape *s = shared;
  const mrt_cumsum_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t size = (int64_t)mrt_dtypes[t->dtype].bytes;
  int64_t to_size = (int64_t)mrt_dtypes[c->out[0].type.dtype].bytes;
  int64_t blocks = (s->columns + s->width - 1) / s->width, i, end;
  int64_t start = o->reverse && s->n ? (s->n - 1) * s->inner : 0;
  int64_t step = o->reverse ? -s->inner : s->inner;
  mrt_share(s->outer * blocks, part, parts, &i, &end);
  for (; i < end; i++) {
    int64_t j = i % blocks * s->width, left = s->columns - j;
    int64_t at = i / blocks * s->n * s->inner + start + j * s->across;
    sum_of[t->dtype]((const char *)c->in[0].data + at * size,
                     (char *)c->out[0].data + at * to_size, s->n, step,
                     left < s->width ? (int)left : s->width, s->across);
  }
}

static void cumsum(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t n = t->dims[o->dim], inner = 1, outer = 1;
  for (int i = 0; i < t->rank; i++) {
    if (i < o->dim) outer *= t->dims[i];
    if (i > o->dim) inner *= t->dims[i];
  }
  cumsum_shape s = inner == 1
                       ? (cumsum_shape){ 1, n, 1, outer, n, ROWS }
                       : (cumsum_shape){ outer, n, inner, inner, 1, WIDTH };
  mrt_parallel(c, mrt_team(c, (double)mrt_type_count(t)), sum_part, &s);
}

MRT_KERNEL(cumsum, .run = cumsum);
