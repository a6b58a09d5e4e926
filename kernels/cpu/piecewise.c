/* piecewise.c -- blocks of functions made of pieces
 *
 * Every comparison is false for NaN, which passes through.
 *
 * SPDX-License-Identifier: MIT */
#include "op/piecewise.h"
#include "pointwise.h"

static inline real between(real x, real low, real high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* A bound as an integer: what lies outside of [least, most] becomes that. */
static inline int64_t whole_bound(double k, int64_t least, int64_t most) {
  if (k <= (double)least) return least;
  return k >= (double)most ? most : (int64_t)k;
}
#define CLAMP_INTEGERS(T, least, most)                                         \
  do {                                                                         \
    const T low = (T)whole_bound(o->min, least, most);                         \
    const T high = (T)whole_bound(o->max, least, most);                        \
    MRT_EACH1(b, T, T,                                                         \
              x<low ? (low > high ? high : low) : x> high ? high : x);         \
  } while (0)

static void clamp_block(const mrt_block *b) {
  const mrt_clamp_options *o = b->options;
  const real low = (real)o->min, high = (real)o->max;
  switch (b->in_dtype) {
  case MRT_i64:
    CLAMP_INTEGERS(int64_t, INT64_MIN, INT64_MAX);
    break;
  case MRT_i32:
    CLAMP_INTEGERS(int32_t, INT32_MIN, INT32_MAX);
    break;
  case MRT_u8:
    CLAMP_INTEGERS(uint8_t, 0, UINT8_MAX);
    break;
  default:
    MRT_EACH1(b, real, real, between(x, low, high));
  }
}
MRT_KERNEL(clamp, .block = clamp_block);

static void hardtanh_block(const mrt_block *b) {
  const mrt_hardtanh_options *o = b->options;
  const real low = (real)o->min_val, high = (real)o->max_val;
  MRT_EACH1(b, real, real, between(x, low, high));
}
MRT_KERNEL(hardtanh, .block = hardtanh_block);

static void leaky_relu_block(const mrt_block *b) {
  const mrt_slope_options *o = b->options;
  const real slope = (real)o->negative_slope;
  MRT_EACH1(b, real, real, x > 0 ? x : x * slope);
}
MRT_KERNEL(leaky_relu, .block = leaky_relu_block);

static void elu_block(const mrt_block *b) {
  const mrt_elu_options *o = b->options;
  const real scale = (real)o->scale, below = (real)(o->scale * o->alpha);
  const real inner = (real)o->input_scale;
  MRT_EACH1(b, real, real,
            x > 0 ? scale * x : below * m_expm1(x > 0 ? 0 : x * inner));
}
MRT_KERNEL(elu, .block = elu_block);

static void softshrink_block(const mrt_block *b) {
  const mrt_shrink_options *o = b->options;
  const real k = (real)o->lambd;
  MRT_EACH1(b, real, real, x > k ? x - k : x < -k ? x + k : x * 0);
}
MRT_KERNEL(softshrink, .block = softshrink_block);

static void hardshrink_block(const mrt_block *b) {
  const mrt_shrink_options *o = b->options;
  const real k = (real)o->lambd;
  MRT_EACH1(b, real, real, x >= -k && x <= k ? 0 : x);
}
MRT_KERNEL(hardshrink, .block = hardshrink_block);

static void threshold_block(const mrt_block *b) {
  const mrt_threshold_options *o = b->options;
  const real least = (real)o->threshold, value = (real)o->value;
  MRT_EACH1(b, real, real, x <= least ? value : x);
}
MRT_KERNEL(threshold, .block = threshold_block);

MRT_REAL1(hardswish, x *between(x + 3, 0, 6) / 6);
MRT_REAL1(hardsigmoid, between(x + 3, 0, 6) / 6);
MRT_REAL2(prelu, x > 0 ? x : x * y);
