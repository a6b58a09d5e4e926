/* dtype.c -- the table of element types, shapes, narrow patterns as numbers
 *
 *
 * SPDX-License-Identifier: MIT */
#include "base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const mrt_dtype_facts mrt_dtypes[MRT_DTYPE_COUNT] = {
#define DTYPE(name, ctype, bytes, class, ...)                                  \
  [MRT_##name] = { #name, bytes, MRT_CLASS_##class, __VA_ARGS__ },
#include "mrt/dtypes.def"
#undef DTYPE
};

MRT_API const char *mrt_dtype_name(mrt_dtype d) {
  return (unsigned)d < MRT_DTYPE_COUNT ? mrt_dtypes[d].name : "?";
}

MRT_API mrt_dtype_info mrt_dtype_get_info(mrt_dtype d) {
  const mrt_dtype_facts *f = &mrt_dtypes[d];
  return (mrt_dtype_info){
    .name = f->name,
    .bytes = f->bytes,
    .floating = mrt_is_float(d),
    .narrow = mrt_is_narrow(d),
    .exponent = f->exponent,
    .fraction = f->fraction,
    .largest = f->largest,
  };
}

MRT_API mrt_dtype mrt_dtype_find(const char *name) {
  int d = 0;
  while (d < MRT_DTYPE_COUNT && strcmp(mrt_dtypes[d].name, name) != 0) d++;
  return (mrt_dtype)d;
}

MRT_API int64_t mrt_type_count(const mrt_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

MRT_API size_t mrt_type_bytes(const mrt_type *t) {
  return (size_t)mrt_type_count(t) * mrt_dtypes[t->dtype].bytes;
}

MRT_API void mrt_type_print(const mrt_type *t, char *text, size_t size) {
  int used = snprintf(text, size, "%s[", mrt_dtype_name(t->dtype));
  for (int i = 0; i < t->rank && (size_t)used < size; i++)
    used += snprintf(text + used, size - (size_t)used, i ? ",%lld" : "%lld",
                     (long long)t->dims[i]);
  if ((size_t)used < size) snprintf(text + used, size - (size_t)used, "]");
}

mrt_type mrt_type_scalar(mrt_dtype dtype) {
  return (mrt_type){ .dtype = dtype };
}

bool mrt_type_same_shape(const mrt_type *a, const mrt_type *b) {
  return a->rank == b->rank &&
         memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool mrt_type_equal(const mrt_type *a, const mrt_type *b) {
  return a->dtype == b->dtype && mrt_type_same_shape(a, b);
}

mrt_status mrt_type_check(const mrt_type *t, const char *who, mrt_error *e) {
  if (t->rank < 0 || t->rank > MRT_MAX_RANK)
    return mrt_fail(e, MRT_ESHAPE, "%s: %d dimensions, at most %d wanted", who,
                    t->rank, MRT_MAX_RANK);
  /* The product of the non-zero dims is bounded too, so that strides of empty
   * tensors do not overflow either. */
  uint64_t bytes = mrt_dtypes[t->dtype].bytes;
  for (int i = 0; i < t->rank; i++) {
    uint64_t d = (uint64_t)t->dims[i];
    if (t->dims[i] < 0)
      return mrt_fail(e, MRT_ESHAPE, "%s: dimension %d is %lld, negative", who,
                      i + 1, (long long)t->dims[i]);
    if (d && bytes > (UINT64_C(1) << 62) / d)
      return mrt_fail(e, MRT_ESHAPE, "%s: the size in bytes overflows", who);
    if (d) bytes *= d;
  }
  return MRT_OK;
}

void mrt_type_strides(const mrt_type *t, int64_t *strides) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    strides[i] = step;
    if (t->dims[i]) step *= t->dims[i];
  }
}

/* Patterns are those of IEEE 754 with fewer bits, but for e4m3, which counts
 * on where others have infinities: its one NaN has all bits set. */
float mrt_narrow_to_float(mrt_dtype dtype, uint32_t pattern) {
  const mrt_dtype_facts *f = &mrt_dtypes[dtype];
  int top = (1 << f->exponent) - 1, bias = top / 2;
  int exponent = (int)(pattern >> f->fraction) & top;
  uint32_t all = (1u << f->fraction) - 1, fraction = pattern & all;
  double x = ldexp(fraction, 1 - bias - f->fraction); /* subnormal */
  if (exponent > 0)
    x = ldexp(fraction + all + 1.0, exponent - bias - f->fraction);
  if (exponent == top && x > f->largest)
    x = fraction == 0 && dtype != MRT_f8_e4m3 ? INFINITY : NAN;
  return (float)(pattern >> (f->exponent + f->fraction) ? -x : x);
}

double mrt_number_at(mrt_dtype dtype, const void *data, int64_t i) {
  switch (dtype) { /* over element types, of which there are few */
  case MRT_f32:
    return ((const float *)data)[i];
  case MRT_f64:
    return ((const double *)data)[i];
  case MRT_f16:
  case MRT_bf16:
    return mrt_narrow_to_float(dtype, ((const uint16_t *)data)[i]);
  case MRT_f8_e4m3:
  case MRT_f8_e5m2:
    return mrt_narrow_to_float(dtype, ((const uint8_t *)data)[i]);
  default:
    return (double)mrt_integer_at(dtype, data, i);
  }
}

int64_t mrt_integer_at(mrt_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case MRT_i64:
    return ((const int64_t *)data)[i];
  case MRT_i32:
    return ((const int32_t *)data)[i];
  case MRT_u8:
  case MRT_bool:
    return ((const uint8_t *)data)[i];
  default:
    return (int64_t)mrt_number_at(dtype, data, i);
  }
}
