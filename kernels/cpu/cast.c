/* cast.c -- blocks of cast: every dtype to every dtype
 *
 * An element is loaded into a C type that holds it exactly (narrow floats into
 * float) and stored by the rule of the target.  Pairs that are seldom asked for go
 * by way of a third dtype.  What is computed does not depend on the variant's real.
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
#define FLOAT_f32(x)     (float)(x)
#define FLOAT_f64(x)     (double)(x)
#define FLOAT_f16(x)     float_to_f16(float_to_odd((double)(x)))
#define FLOAT_bf16(x)    float_to_bf16(float_to_odd((double)(x)))
#define FLOAT_f8_e4m3(x) float_to_f8_e4m3(float_to_odd((double)(x)))
#define FLOAT_f8_e5m2(x) float_to_f8_e5m2(float_to_odd((double)(x)))
#define FLOAT_i64(x)     to_i64((double)(x))
#define FLOAT_i32(x)     to_i32((double)(x))
#define FLOAT_u8(x)      to_u8((double)(x))
#define FLOAT_bool(x)    ((x) != 0)
#define INTEGER_f32(x)   (float)(x)
#define INTEGER_f64(x)   (double)(x)
#define INTEGER_i64(x)   (int64_t)(x)
#define INTEGER_i32(x)   (int32_t)(x)
#define INTEGER_u8(x)    (uint8_t)(x)
#define INTEGER_bool(x)  ((x) != 0)
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

typedef void cast_fn(const mrt_block *b);

#define FROM(dtype, X, R, value)                                               \
  case MRT_##dtype:                                                            \
    MRT_EACH1(b, X, R, value);                                                 \
    break;

/* From f32 and f64 to R. */
#define NARROW(name, R)                                                        \
  static void cast_##name(const mrt_block *b) {                                \
    if (b->in_dtype == MRT_f32)                                                \
      MRT_EACH1(b, float, R, SINGLE_##name(x));                                \
    else                                                                       \
      MRT_EACH1(b, double, R, FLOAT_##name(x));                                \
  }
/* From what is not narrow, and MORE. */
#define NUMBER(name, R, MORE)                                                  \
  static void cast_##name(const mrt_block *b) {                                \
    switch (b->in_dtype) {                                                     \
      FROM(f32, float, R, SINGLE_##name(x))                                    \
      FROM(f64, double, R, FLOAT_##name(x))                                    \
      FROM(i64, int64_t, R, INTEGER_##name(x))                                 \
      FROM(i32, int32_t, R, INTEGER_##name(x))                                 \
      MORE(R)                                                                  \
    default:                                                                   \
      MRT_EACH1(b, uint8_t, R, INTEGER_##name(x));                             \
    }                                                                          \
  }
#define WIDENED(R)                                                             \
  FROM(f16, uint16_t, R, f16_to_float(x))                                      \
  FROM(bf16, uint16_t, R, bf16_to_float(x))                                    \
  FROM(f8_e4m3, uint8_t, R, f8_e4m3_to_float(x))                               \
  FROM(f8_e5m2, uint8_t, R, f8_e5m2_to_float(x))
#define NOTHING(R)

NUMBER(f32, float, WIDENED)
NUMBER(f64, double, WIDENED)
NUMBER(i64, int64_t, NOTHING)
NUMBER(i32, int32_t, NOTHING)
NUMBER(u8, uint8_t, NOTHING)
NUMBER(bool, uint8_t, NOTHING)
NARROW(f16, uint16_t)
NARROW(bf16, uint16_t)
NARROW(f8_e4m3, uint8_t)
NARROW(f8_e5m2, uint8_t)

static cast_fn *const to[] = {
#define DTYPE(name, ...) [MRT_##name] = cast_##name,
#include "mrt/dtypes.def"
#undef DTYPE
};

/* By way of `middle`, f32 or f64, some elements at a time. */
static void cast_by(const mrt_block *b, mrt_dtype middle) {
  enum { SOME = 256 };
  float single[SOME];
  double wide[SOME];
  void *room = middle == MRT_f32 ? (void *)single : (void *)wide;
  const char *x = b->in[0];
  char *y = b->out;
  for (int64_t i = 0; i < b->n; i += SOME) {
    mrt_block first = *b, second = *b;
    first.n = second.n = b->n - i < SOME ? b->n - i : SOME;
    first.in[0] = x + (size_t)i * mrt_dtypes[b->in_dtype].bytes;
    first.out = room, first.out_dtype = middle;
    second.in[0] = room, second.in_dtype = middle;
    second.out = y + (size_t)i * mrt_dtypes[b->out_dtype].bytes;
    to[middle](&first);
    to[b->out_dtype](&second);
  }
}

/* By way of f32, which holds both exactly: narrow floats to what is no real,
 * bytes to narrow floats.  By way of f64, which is rounded to odd: wider integers
 * to narrow floats. */
void MRT_BOTH(cast_block)(const mrt_block *b) {
  bool rounds = mrt_is_narrow(b->out_dtype);
  bool byte = b->in_dtype == MRT_u8 || b->in_dtype == MRT_bool;
  if (mrt_is_narrow(b->in_dtype) ? !mrt_is_real(b->out_dtype) : byte && rounds)
    cast_by(b, MRT_f32);
  else if (rounds && !mrt_is_float(b->in_dtype))
    cast_by(b, MRT_f64);
  else
    to[b->out_dtype](b);
}

#endif
