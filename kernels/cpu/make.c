/* make.c -- blocks of full and arange
 *
 * SPDX-License-Identifier: MIT */
#include "op/make.h"
#include "base/narrow.h"
#include "pointwise.h"

#define FILL(T, x)                                                             \
  do {                                                                         \
    T *out = b->out, all = (T)(x);                                             \
    for (int64_t i = 0; i < b->n; i++) out[i] = all;                           \
  } while (0)

/* The row has checked that integers fit. */
static void full_block(const mrt_block *b) {
  const mrt_full_options *o = b->options;
  switch (b->out_dtype) {
  case MRT_f32:
    FILL(float, o->value);
    break;
  case MRT_f64:
    FILL(double, o->value);
    break;
  case MRT_i64:
    FILL(int64_t, o->value);
    break;
  case MRT_i32:
    FILL(int32_t, o->value);
    break;
  case MRT_u8:
    FILL(uint8_t, o->value);
    break;
  case MRT_f16:
    FILL(uint16_t, float_to_f16(float_to_odd(o->value)));
    break;
  case MRT_bf16:
    FILL(uint16_t, float_to_bf16(float_to_odd(o->value)));
    break;
  case MRT_f8_e4m3:
    FILL(uint8_t, float_to_f8_e4m3(float_to_odd(o->value)));
    break;
  case MRT_f8_e5m2:
    FILL(uint8_t, float_to_f8_e5m2(float_to_odd(o->value)));
    break;
  default:
    FILL(uint8_t, o->value != 0);
  }
}
MRT_KERNEL(full, .block = full_block);

/* In integers exact, in reals rounded twice whatever the length. */
#define COUNT(T, N)                                                            \
  do {                                                                         \
    T *out = b->out;                                                           \
    N start = (N)o->start, step = (N)o->step;                                  \
    for (int64_t i = 0; i < b->n; i++)                                         \
      out[i] = (T)(start + step * (N)(b->first + i));                          \
  } while (0)

static void arange_block(const mrt_block *b) {
  const mrt_arange_options *o = b->options;
  switch (b->out_dtype) {
  case MRT_i64:
    COUNT(int64_t, int64_t);
    break;
  case MRT_i32:
    COUNT(int32_t, int64_t);
    break;
  case MRT_u8:
    COUNT(uint8_t, int64_t);
    break;
  default:
    COUNT(real, double);
  }
}
MRT_KERNEL(arange, .block = arange_block);
