/* dtype.c -- element types, shapes, 16-bit patterns
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

const mrt_dtype_facts mrt_dtypes[MRT_DTYPE_COUNT] = {
#define DTYPE(name, ctype, bytes, class, tolerance)                            \
  [MRT_##name] = { #name, bytes, MRT_CLASS_##class, tolerance },
#include "dtypes.def"
#undef DTYPE
};

MRT_API const char *mrt_dtype_name(mrt_dtype d) {
  return (unsigned)d < MRT_DTYPE_COUNT ? mrt_dtypes[d].name : "?";
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

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

float mrt_f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31,
           frac = h & 1023;
  if (exp == 31) return float_of(sign | 0x7f800000u | frac << 13);
  if (exp) return float_of(sign | (exp + 112) << 23 | frac << 13);
  float tiny = (float)frac * 0x1p-24f; /* zero and subnormals, exact */
  return float_of(sign | bits_of(tiny));
}

uint16_t mrt_float_to_f16(float f) {
  uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000, mag = u & 0x7fffffff;
  if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x1ff));
  if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* ties up to inf */
  if (mag < 0x38800000) { /* subnormal: adding 0.5 leaves the bits in place */
    float shifted = float_of(mag) + 0.5f;
    return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  uint32_t rounded = mag + 0xfff + (mag >> 13 & 1);
  return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

float mrt_bf16_to_float(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t mrt_float_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
