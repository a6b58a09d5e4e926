/* match.c -- what becomes of dtypes and shapes that meet in a pointwise operator
 *
 *   dtypes   the widest: bool < u8 < i32 < i64 < f8 < f16, bf16 < f32 < f64,
 *            where any float is wider than any integer; of two f8, or f16 with
 *            bf16, f32
 *   shapes   numpy's: aligned at the last dimension, 1 stretches
 *
 * Operators themselves want equal ones: who applies them casts and expands.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/frontend.h"

MRT_API int mrt_dtype_width(mrt_dtype dtype) {
  static const int widths[MRT_DTYPE_COUNT] = {
    [MRT_bool] = 0,    [MRT_u8] = 1,      [MRT_i32] = 2, [MRT_i64] = 3,
    [MRT_f8_e4m3] = 4, [MRT_f8_e5m2] = 4, [MRT_f16] = 5, [MRT_bf16] = 5,
    [MRT_f32] = 6,     [MRT_f64] = 7,
  };
  return widths[dtype];
}

MRT_API mrt_dtype mrt_dtype_promote(mrt_dtype a, mrt_dtype b) {
  int wa = mrt_dtype_width(a), wb = mrt_dtype_width(b);
  if (wa == wb && a != b) return MRT_f32;
  return wa >= wb ? a : b;
}

MRT_API bool mrt_type_broadcast(mrt_type *all, const mrt_type *t) {
  mrt_type out = t->rank > all->rank ? *t : *all;
  for (int i = 1; i <= t->rank && i <= all->rank; i++) {
    int64_t p = all->dims[all->rank - i], q = t->dims[t->rank - i];
    if (p != q && p != 1 && q != 1) return false;
    out.dims[out.rank - i] = p == 1 ? q : p;
  }
  *all = out;
  return true;
}
