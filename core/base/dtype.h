/* dtype.h -- facts about element types and shapes
 *
 * One row of mrt/dtypes.def is a type; whoever wants to know something of it
 * asks here.  A shape is a list of at most MRT_MAX_RANK dims; no dims are a
 * scalar.
 *
 * Invariants
 *   - dims of a type that has passed mrt_type_check multiply without overflow,
 *     with the bytes of an element too;
 *   - elements in memory lie in row-major order unless strides say otherwise;
 *   - each narrow float stands for a number that f32 has exactly.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_BASE_DTYPE_H
#define MRT_BASE_DTYPE_H

#include "base/error.h"

typedef enum mrt_class {
  MRT_CLASS_FLOAT,
  MRT_CLASS_INT,
  MRT_CLASS_BOOL
} mrt_class;

typedef struct mrt_dtype_facts {
  const char *name;
  size_t bytes;
  mrt_class class_;
  double tolerance;
  int exponent, fraction; /* bits of a float */
  double largest;
} mrt_dtype_facts;

extern const mrt_dtype_facts mrt_dtypes[MRT_DTYPE_COUNT];

static inline bool mrt_is_float(mrt_dtype d) {
  return mrt_dtypes[d].class_ == MRT_CLASS_FLOAT;
}
/* f32 and f64: what kernels compute in. */
static inline bool mrt_is_real(mrt_dtype d) {
  return d == MRT_f32 || d == MRT_f64;
}
/* f16, bf16, f8: what is stored to save memory. */
static inline bool mrt_is_narrow(mrt_dtype d) {
  return mrt_is_float(d) && !mrt_is_real(d);
}
/* The narrowest that holds both floats: of two equally wide ones, f32. */
static inline mrt_dtype mrt_wider_float(mrt_dtype a, mrt_dtype b) {
  size_t m = mrt_dtypes[a].bytes, n = mrt_dtypes[b].bytes;
  if (m == n && a != b) return MRT_f32;
  return m >= n ? a : b;
}
static inline bool mrt_is_int(mrt_dtype d) {
  return mrt_dtypes[d].class_ == MRT_CLASS_INT;
}

/* A scalar, or a shape with the dims given. */
mrt_type mrt_type_scalar(mrt_dtype dtype);
bool mrt_type_same_shape(const mrt_type *a, const mrt_type *b);
bool mrt_type_equal(const mrt_type *a, const mrt_type *b);
/* ESHAPE when a dimension is negative or the bytes do not fit in 62 bits. */
mrt_status mrt_type_check(const mrt_type *type, const char *who, mrt_error *e);
/* Row-major strides in elements. */
void mrt_type_strides(const mrt_type *type, int64_t *strides);

/* The number that the pattern of a narrow float stands for, exactly. */
float mrt_narrow_to_float(mrt_dtype dtype, uint32_t pattern);

/* Element i of an array. */
double mrt_number_at(mrt_dtype dtype, const void *data, int64_t i);
int64_t mrt_integer_at(mrt_dtype dtype, const void *data, int64_t i);

#endif
