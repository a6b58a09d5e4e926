/* scan.c -- cumprod, cummax, cummin, recurrence
 *
 * Products are kept in f64 | i64 and rounded when stored.
 *
 * SPDX-License-Identifier: MIT */
#include "scan.h"
#include "op/move.h"

/* ---- cumprod ------------------------------------------------------------- */

#define CUMPROD(T, Y, WIDE)                                                    \
  SCAN_INLINE void product_##T(const mrt_call *c, int64_t i, int64_t n,        \
                               int64_t step, int64_t across, int width) {      \
    const T *x = (const T *)c->in[0].data + i;                                 \
    Y *y = (Y *)c->out[0].data + i;                                            \
    WIDE product[SCAN_WIDTH];                                                  \
    for (int j = 0; j < width; j++) product[j] = 1;                            \
    for (int64_t k = 0; k < n; k++, x += step, y += step)                      \
      for (int j = 0; j < width; j++)                                          \
        y[j * across] = (Y)(product[j] *= (WIDE)x[j * across]);                \
  }                                                                            \
  SCAN(cumprod_##T, product_##T)
CUMPROD(real, real, double)
/* integers wrap around */
MRT_NOT_F64(CUMPROD(int64_t, int64_t, uint64_t))
MRT_NOT_F64(CUMPROD(int32_t, int64_t, uint64_t))
MRT_NOT_F64(CUMPROD(uint8_t, int64_t, uint64_t))

static void cumprod(const mrt_call *c) {
  static scan_fn *const of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = cumprod_real,
    MRT_NOT_F64([MRT_i64] = cumprod_int64_t, [MRT_i32] = cumprod_int32_t,
                [MRT_u8] = cumprod_uint8_t, [MRT_bool] = cumprod_uint8_t, )
  };
  const mrt_dim_options *o = c->options;
  scan_columns(c, o->dim, false, 1, of[c->in[0].type.dtype]);
}

/* ---- cummax, cummin ------------------------------------------------------ */

/* TAKES(x, y): x takes the place of y, what stood there before.  -0 and 0 are
 * equal; of equal ones the last is taken. */
#define EXTREME(name, T, TAKES)                                                \
  SCAN_INLINE void go_##name##_##T(const mrt_call *c, int64_t i, int64_t n,    \
                                   int64_t step, int64_t across, int width) {  \
    const T *x = (const T *)c->in[0].data + i;                                 \
    T *y = (T *)c->out[0].data + i, best[SCAN_WIDTH];                          \
    int64_t *at = (int64_t *)c->out[1].data + i, found[SCAN_WIDTH];            \
    for (int j = 0; j < width && n; j++) best[j] = x[j * across];              \
    for (int j = 0; j < width; j++) found[j] = 0;                              \
    for (int64_t k = 0; k < n; k++, x += step, y += step, at += step)          \
      for (int j = 0; j < width; j++) {                                        \
        T v = x[j * across];                                                   \
        bool taken = TAKES(v, best[j]);                                        \
        y[j * across] = best[j] = taken ? v : best[j];                         \
        at[j * across] = found[j] = taken ? k : found[j];                      \
      }                                                                        \
  }                                                                            \
  SCAN(name##_##T, go_##name##_##T)
#define REAL_ABOVE(x, y) ((x >= y) | (x != x))
#define REAL_BELOW(x, y) ((x <= y) | (x != x))
#define INT_ABOVE(x, y)  (x >= y)
#define INT_BELOW(x, y)  (x <= y)
#define EXTREMES(name, REAL_IS, INT_IS)                                        \
  EXTREME(name, real, REAL_IS)                                                 \
  MRT_NOT_F64(EXTREME(name, int64_t, INT_IS))                                  \
  MRT_NOT_F64(EXTREME(name, int32_t, INT_IS))                                  \
  MRT_NOT_F64(EXTREME(name, uint8_t, INT_IS))                                  \
  static void name(const mrt_call *c) {                                        \
    static scan_fn *const of[MRT_DTYPE_COUNT] = {                              \
      [MRT_REAL] = name##_real,                                                \
      MRT_NOT_F64([MRT_i64] = name##_int64_t, [MRT_i32] = name##_int32_t,      \
                  [MRT_u8] = name##_uint8_t, [MRT_bool] = name##_uint8_t, )    \
    };                                                                         \
    const mrt_dim_options *o = c->options;                                     \
    scan_columns(c, o->dim, false, 2, of[c->in[0].type.dtype]);                \
  }
EXTREMES(cummax, REAL_ABOVE, INT_ABOVE)
EXTREMES(cummin, REAL_BELOW, INT_BELOW)

/* ---- recurrence ---------------------------------------------------------- */

SCAN_INLINE void go_recurrence(const mrt_call *c, int64_t i, int64_t n,
                               int64_t step, int64_t across, int width) {
  const real *factor = (const real *)c->in[0].data + i;
  const real *term = (const real *)c->in[1].data + i;
  real *y = (real *)c->out[0].data + i;
  double state[SCAN_WIDTH];
  for (int j = 0; j < width; j++) state[j] = 0;
  for (int64_t k = 0; k < n; k++, factor += step, term += step, y += step)
    for (int j = 0; j < width; j++)
      y[j * across] = (real)(state[j] = (double)factor[j * across] * state[j] +
                                        (double)term[j * across]);
}
SCAN(recurrence_block, go_recurrence)

static void recurrence(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  scan_columns(c, o->dim, o->reverse, 2, recurrence_block);
}

MRT_KERNEL(cumprod, .run = cumprod);
MRT_KERNEL(cummax, .run = cummax);
MRT_KERNEL(cummin, .run = cummin);
MRT_KERNEL(recurrence, .run = recurrence);
