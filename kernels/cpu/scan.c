/* scan.c -- cumprod, cummax, cummin, recurrence
 *
 * Products are kept in f64 | i64 and rounded when stored.
 *
 * SPDX-License-Identifier: MIT */
#include "scan.h"
#include "op/move.h"

/* Go through a block: BEGIN, then STEP for element i of column j, which the
 * compiler vectorises where columns are neighbours. */
#define GO_THROUGH(b, STEP)                                                    \
  for (int64_t k = 0, i = (b).first; k < (b).n; k++, i += (b).step)            \
    if ((b).across == 1)                                                       \
      for (int j = 0; j < (b).width; j++) STEP(i + j, j);                      \
    else                                                                       \
      for (int j = 0; j < (b).width; j++) STEP(i + j * (b).across, j);

/* ---- cumprod ------------------------------------------------------------- */

#define CUMPROD(T, Y, WIDE)                                                    \
  static void cumprod_##T(const mrt_call *c, scan_block b) {                   \
    const T *x = c->in[0].data;                                                \
    Y *y = c->out[0].data;                                                     \
    WIDE product[SCAN_WIDTH];                                                  \
    for (int j = 0; j < SCAN_WIDTH; j++) product[j] = 1;                       \
    GO_THROUGH(b, CUMPROD_STEP_##T)                                            \
  }
#define CUMPROD_STEP_real(i, j) y[i] = (real)(product[j] *= (double)x[i])
#define CUMPROD_STEP_int64_t(i, j)                                             \
  y[i] = (int64_t)(product[j] *= (uint64_t)x[i])
#define CUMPROD_STEP_int32_t(i, j)                                             \
  y[i] = (int64_t)(product[j] *= (uint64_t)x[i])
#define CUMPROD_STEP_uint8_t(i, j)                                             \
  y[i] = (int64_t)(product[j] *= (uint64_t)x[i])
CUMPROD(real, real, double)
CUMPROD(int64_t, int64_t, uint64_t) /* integers wrap around */
CUMPROD(int32_t, int64_t, uint64_t)
CUMPROD(uint8_t, int64_t, uint64_t)

static void cumprod(const mrt_call *c) {
  static scan_fn *const of[MRT_DTYPE_COUNT] = {
    [MRT_REAL] = cumprod_real,    [MRT_i64] = cumprod_int64_t,
    [MRT_i32] = cumprod_int32_t,  [MRT_u8] = cumprod_uint8_t,
    [MRT_bool] = cumprod_uint8_t,
  };
  const mrt_dim_options *o = c->options;
  scan_columns(c, o->dim, false, 1, of[c->in[0].type.dtype]);
}

/* ---- cummax, cummin ------------------------------------------------------ */

/* GOES_ON(x, y): x takes the place of y, what stood there before.  -0 and 0 are
 * equal; of equal ones the last is taken. */
#define EXTREME(name, T, GOES_ON)                                              \
  static void name##_##T(const mrt_call *c, scan_block b) {                    \
    const T *x = c->in[0].data;                                                \
    T *y = c->out[0].data, best[SCAN_WIDTH];                                   \
    int64_t *at = c->out[1].data, found[SCAN_WIDTH] = { 0 };                   \
    for (int j = 0; j < b.width && b.n; j++)                                   \
      best[j] = x[b.first + j * b.across];                                     \
    for (int64_t k = 0, i = b.first; k < b.n; k++, i += b.step)                \
      for (int j = 0; j < b.width; j++) {                                      \
        int64_t to = i + j * b.across;                                         \
        T v = x[to];                                                           \
        bool taken = GOES_ON(v, best[j]);                                      \
        y[to] = best[j] = taken ? v : best[j];                                 \
        at[to] = found[j] = taken ? k : found[j];                              \
      }                                                                        \
  }
#define REAL_ABOVE(x, y) ((x >= y) | (x != x))
#define REAL_BELOW(x, y) ((x <= y) | (x != x))
#define INT_ABOVE(x, y)  (x >= y)
#define INT_BELOW(x, y)  (x <= y)
#define EXTREMES(name, REAL_IS, INT_IS)                                        \
  EXTREME(name, real, REAL_IS)                                                 \
  EXTREME(name, int64_t, INT_IS)                                               \
  EXTREME(name, int32_t, INT_IS)                                               \
  EXTREME(name, uint8_t, INT_IS)                                               \
  static void name(const mrt_call *c) {                                        \
    static scan_fn *const of[MRT_DTYPE_COUNT] = {                              \
      [MRT_REAL] = name##_real,    [MRT_i64] = name##_int64_t,                 \
      [MRT_i32] = name##_int32_t,  [MRT_u8] = name##_uint8_t,                  \
      [MRT_bool] = name##_uint8_t,                                             \
    };                                                                         \
    const mrt_dim_options *o = c->options;                                     \
    scan_columns(c, o->dim, false, 2, of[c->in[0].type.dtype]);                \
  }
EXTREMES(cummax, REAL_ABOVE, INT_ABOVE)
EXTREMES(cummin, REAL_BELOW, INT_BELOW)

/* ---- recurrence ---------------------------------------------------------- */

static void recurrence_block(const mrt_call *c, scan_block b) {
  const real *factor = c->in[0].data, *term = c->in[1].data;
  real *y = c->out[0].data;
  double state[SCAN_WIDTH] = { 0 };
#define RECURRENCE_STEP(i, j)                                                  \
  y[i] = (real)(state[j] = (double)factor[i] * state[j] + (double)term[i])
  GO_THROUGH(b, RECURRENCE_STEP)
}

static void recurrence(const mrt_call *c) {
  const mrt_cumsum_options *o = c->options;
  scan_columns(c, o->dim, o->reverse, 2, recurrence_block);
}

MRT_KERNEL(cumprod, .run = cumprod);
MRT_KERNEL(cummax, .run = cummax);
MRT_KERNEL(cummin, .run = cummin);
MRT_KERNEL(recurrence, .run = recurrence);
