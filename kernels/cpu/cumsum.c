/* cumsum.c -- running sums along a dimension
 *
 * Sums are kept in f64 | i64 and rounded when stored.  A row that is long and
 * alone is cut into segments, the same for any number of threads: each is summed
 * up, and then gone through from the sum of those before.
 *
 * SPDX-License-Identifier: MIT */
#include "base/narrow.h"
#include "op/move.h"
#include "scan.h"

enum { SEGMENT = 1 << 14 };

#define CUMSUM(name, T, SUM, S, VALUE)                                         \
  SCAN_INLINE void sum_##name(const mrt_call *c, int64_t i, int64_t n,         \
                              int64_t step, int64_t across, int width) {       \
    const S *x = (const S *)c->in[0].data + i;                                 \
    T *y = (T *)c->out[0].data + i;                                            \
    SUM sum[SCAN_WIDTH];                                                       \
    for (int j = 0; j < width; j++) sum[j] = 0;                                \
    for (int64_t k = 0; k < n; k++, x += step, y += step)                      \
      for (int j = 0; j < width; j++)                                          \
        y[j * across] = (T)(sum[j] += (SUM)VALUE(x[j * across]));              \
  }                                                                            \
  SCAN(cumsum_##name, sum_##name)                                              \
  static void total_##name(const void *from, int64_t n, int64_t step,          \
                           void *to) {                                         \
    const S *x = from;                                                         \
    SUM sum[8] = { 0 }, *total = to;                                           \
    int64_t k = 0;                                                             \
    for (; k + 8 <= n; k += 8, x += 8 * step)                                  \
      for (int j = 0; j < 8; j++) sum[j] += (SUM)VALUE(x[j * step]);           \
    for (; k < n; k++, x += step) sum[0] += (SUM)VALUE(*x);                    \
    for (int half = 4; half; half /= 2)                                        \
      for (int j = 0; j < half; j++) sum[j] += sum[j + half];                  \
    *total = sum[0];                                                           \
  }                                                                            \
  static void from_##name(const void *from, void *to, int64_t n, int64_t step, \
                          void *start) {                                       \
    const S *x = from;                                                         \
    T *y = to;                                                                 \
    SUM sum = *(SUM *)start;                                                   \
    for (int64_t k = 0; k < n; k++, x += step, y += step)                      \
      *y = (T)(sum += (SUM)VALUE(*x));                                         \
  }                                                                            \
  static void join_##name(void *totals, int64_t n) {                           \
    SUM *total = totals, sum = 0;                                              \
    for (int64_t k = 0; k < n; k++) {                                          \
      SUM own = total[k];                                                      \
      total[k] = sum, sum += own;                                              \
    }                                                                          \
  }
CUMSUM(real, real, double, real, )
/* integers wrap around */
MRT_NOT_F64(CUMSUM(int64_t, int64_t, uint64_t, int64_t, ))
MRT_NOT_F64(CUMSUM(int32_t, int64_t, uint64_t, int32_t, ))
MRT_NOT_F64(CUMSUM(uint8_t, int64_t, uint64_t, uint8_t, ))
MRT_NOT_F64(CUMSUM(f16, real, double, uint16_t, f16_to_float))
MRT_NOT_F64(CUMSUM(bf16, real, double, uint16_t, bf16_to_float))
MRT_NOT_F64(CUMSUM(f8_e4m3, real, double, uint8_t, f8_e4m3_to_float))
MRT_NOT_F64(CUMSUM(f8_e5m2, real, double, uint8_t, f8_e5m2_to_float))

typedef struct summer {
  scan_fn *columns;
  /* of a row in segments: a segment's total; running sums from `start` on;
   * totals to sums of those before */
  void (*total)(const void *x, int64_t n, int64_t step, void *total);
  void (*from)(const void *x, void *y, int64_t n, int64_t step, void *start);
  void (*join)(void *totals, int64_t n);
} summer;

#define SUMMER(name)                                                           \
  { cumsum_##name, total_##name, from_##name, join_##name }
/* By the dtype of x. */
static const summer summers[MRT_DTYPE_COUNT] = {
  [MRT_REAL] = SUMMER(real),
  MRT_NOT_F64([MRT_f16] = SUMMER(f16), [MRT_bf16] = SUMMER(bf16),
              [MRT_f8_e4m3] = SUMMER(f8_e4m3), [MRT_f8_e5m2] = SUMMER(f8_e5m2),
              [MRT_i64] = SUMMER(int64_t), [MRT_i32] = SUMMER(int32_t),
              [MRT_u8] = SUMMER(uint8_t), [MRT_bool] = SUMMER(uint8_t), )
};

/* How many segments a row alone has; 0: it is not cut. */
static int64_t segments(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t count = mrt_type_count(t);
  if (count < 2 * SEGMENT || t->dims[o->dim] != count) return 0;
  return (count + SEGMENT - 1) / SEGMENT;
}

static size_t scratch(const mrt_call *c) {
  return (size_t)segments(c) * sizeof(uint64_t); /* that of double, too */
}

/* Segment k: its first element, how many there are, their step. */
typedef struct cumsum_segment {
  int64_t first, n, step;
} cumsum_segment;

static cumsum_segment segment_of(const mrt_call *c, int64_t k) {
  const mrt_cumsum_options *o = c->options;
  int64_t count = mrt_type_count(&c->in[0].type), first = k * SEGMENT;
  int64_t n = count - first < SEGMENT ? count - first : SEGMENT;
  if (!o->reverse) return (cumsum_segment){ first, n, 1 };
  return (cumsum_segment){ count - 1 - first, n, -1 };
}

static void total_part(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const summer *s = shared;
  int64_t size = (int64_t)mrt_dtypes[c->in[0].type.dtype].bytes, k, end;
  mrt_share(segments(c), part, parts, &k, &end);
  for (; k < end; k++) {
    cumsum_segment g = segment_of(c, k);
    s->total((const char *)c->in[0].data + g.first * size, g.n, g.step,
             (uint64_t *)c->scratch + k);
  }
}

static void from_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const summer *s = shared;
  int64_t size = (int64_t)mrt_dtypes[c->in[0].type.dtype].bytes, k, end;
  int64_t to_size = (int64_t)mrt_dtypes[c->out[0].type.dtype].bytes;
  mrt_share(segments(c), part, parts, &k, &end);
  for (; k < end; k++) {
    cumsum_segment g = segment_of(c, k);
    s->from((const char *)c->in[0].data + g.first * size,
            (char *)c->out[0].data + g.first * to_size, g.n, g.step,
            (uint64_t *)c->scratch + k);
  }
}

static void cumsum(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  const summer *s = &summers[c->in[0].type.dtype];
  int64_t cut = segments(c);
  if (!cut) {
    scan_columns(c, o->dim, o->reverse, 1, s->columns);
    return;
  }
  int team = mrt_team(c, (double)cut * SEGMENT);
  mrt_parallel(c, team, total_part, s);
  s->join(c->scratch, cut);
  mrt_parallel(c, team, from_part, s);
}

MRT_KERNEL(cumsum, .run = cumsum, .scratch = scratch);
