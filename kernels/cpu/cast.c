/* cast.c -- blocks of cast: every dtype to every dtype
 *
 * An element is loaded into a C type that holds it exactly (narrow floats into
 * float) and stored by the rule of the target.  What is computed does not depend
 * on the variant's real.
 *
 * SPDX-License-Identifier: MIT */
#include "op/cast.h"
#include "base/narrow.h"
#include "pointwise.h"

void MRT_BOTH(cast_block)(const mrt_block *b);
MRT_KERNEL(cast, .block = MRT_BOTH(cast_block));

#ifndef MRT_F64

/* Towards zero; what does not fit goes to the ends, NaN to 0. */
static inline int64_t to_i64(double x) {
  int64_t outside = x >= 0x1p63 ? INT64_MAX : x < 0 ? INT64_MIN : 0;
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : outside;
}
static inline int32_t to_i32(double x) {
  x = x >= -0x1p31 ? x : x < 0 ? -0x1p31 : 0;
  return (int32_t)(x < 0x1p31 - 1 ? x : 0x1p31 - 1);
}
static inline uint8_t to_u8(double x) {
  x = x >= 0 ? x : 0;
  return (uint8_t)(x < 255 ? x : 255);
}

/* Stores from a floating x, and from an integer x. */
#define FLOAT_f32(x)       (float)(x)
#define FLOAT_f64(x)       (double)(x)
#define FLOAT_f16(x)       float_to_f16(float_to_odd((double)(x)))
#define FLOAT_bf16(x)      float_to_bf16(float_to_odd((double)(x)))
#define FLOAT_f8_e4m3(x)   float_to_f8_e4m3(float_to_odd((double)(x)))
#define FLOAT_f8_e5m2(x)   float_to_f8_e5m2(float_to_odd((double)(x)))
#define FLOAT_i64(x)       to_i64((double)(x))
#define FLOAT_i32(x)       to_i32((double)(x))
#define FLOAT_u8(x)        to_u8((double)(x))
#define FLOAT_bool(x)      ((x) != 0)
#define INTEGER_f32(x)     (float)(x)
#define INTEGER_f64(x)     (double)(x)
#define INTEGER_f16(x)     FLOAT_f16(x)
#define INTEGER_bf16(x)    FLOAT_bf16(x)
#define INTEGER_f8_e4m3(x) FLOAT_f8_e4m3(x)
#define INTEGER_f8_e5m2(x) FLOAT_f8_e5m2(x)
#define INTEGER_i64(x)     (int64_t)(x)
#define INTEGER_i32(x)     (int32_t)(x)
#define INTEGER_u8(x)      (uint8_t)(x)
#define INTEGER_bool(x)    ((x) != 0)
/* From float one rounding is enough. */
#define SINGLE_f16(x)     float_to_f16(x)
#define SINGLE_bf16(x)    float_to_bf16(x)
#define SINGLE_f8_e4m3(x) float_to_f8_e4m3(x)
#define SINGLE_f8_e5m2(x) float_to_f8_e5m2(x)
#define SINGLE_f32        FLOAT_f32
#define SINGLE_f64        FLOAT_f64
#define SINGLE_i64        FLOAT_i64
#define SINGLE_i32        FLOAT_i32
#define SINGLE_u8         FLOAT_u8
#define SINGLE_bool       FLOAT_bool

#define DTYPE(name, R, ...)                                                    \
  static void cast_##name(const mrt_block *b) {                                \
    switch (b->in_dtype) {                                                     \
    case MRT_f32:                                                              \
      MRT_EACH1(b, float, R, SINGLE_##name(x));                                \
      break;                                                                   \
    case MRT_f64:                                                              \
      MRT_EACH1(b, double, R, FLOAT_##name(x));                                \
      break;                                                                   \
    case MRT_i64:                                                              \
      MRT_EACH1(b, int64_t, R, INTEGER_##name(x));                             \
      break;                                                                   \
    case MRT_i32:                                                              \
      MRT_EACH1(b, int32_t, R, INTEGER_##name(x));                             \
      break;                                                                   \
    case MRT_f16:                                                              \
      MRT_EACH1(b, uint16_t, R, SINGLE_##name(f16_to_float(x)));               \
      break;                                                                   \
    case MRT_bf16:                                                             \
      MRT_EACH1(b, uint16_t, R, SINGLE_##name(bf16_to_float(x)));              \
      break;                                                                   \
    case MRT_f8_e4m3:                                                          \
      MRT_EACH1(b, uint8_t, R, SINGLE_##name(f8_e4m3_to_float(x)));            \
      break;                                                                   \
    case MRT_f8_e5m2:                                                          \
      MRT_EACH1(b, uint8_t, R, SINGLE_##name(f8_e5m2_to_float(x)));            \
      break;                                                                   \
    default:                                                                   \
      MRT_EACH1(b, uint8_t, R, INTEGER_##name(x));                             \
    }                                                                          \
  }
#include "mrt/dtypes.def"
#undef DTYPE

void MRT_BOTH(cast_block)(const mrt_block *b) {
  static void (*const to[])(const mrt_block *) = {
#define DTYPE(name, ...) [MRT_##name] = cast_##name,
#include "mrt/dtypes.def"
#undef DTYPE
  };
  to[b->out_dtype](b);
}

#endif
