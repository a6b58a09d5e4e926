/* pointwise.h -- loops of block functions
 *
 * A block function applies one operator to n elements, all contiguous.  Its
 * output is either apart from an input or exactly on it, so iterations are
 * independent, which `omp simd` says.  In `expr`, x, y and z are the elements
 * of the inputs and i is their place; the result is converted to type R.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_POINTWISE_H
#define MRT_CPU_POINTWISE_H

#include "cpu.h"
#include "vmath.h"

#define MRT_EACH1(b, X, R, expr)                                               \
  do {                                                                         \
    const X *xs = (b)->in[0];                                                  \
    R *rs = (b)->out;                                                          \
    int64_t n = (b)->n;                                                        \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                      \
      X x = xs[i];                                                             \
      rs[i] = (R)(expr);                                                       \
    }                                                                          \
  } while (0)

#define MRT_EACH2(b, X, R, expr)                                               \
  do {                                                                         \
    const X *xs = (b)->in[0], *ys = (b)->in[1];                                \
    R *rs = (b)->out;                                                          \
    int64_t n = (b)->n;                                                        \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                      \
      X x = xs[i], y = ys[i];                                                  \
      rs[i] = (R)(expr);                                                       \
    }                                                                          \
  } while (0)

/* A case for an integer type T; `wrap` is its unsigned twin, in which sums and
 * products are defined for all values. */
#define MRT_CASE(dtype, T, U, EACH, b, expr)                                   \
  case dtype: {                                                                \
    typedef U wrap;                                                            \
    (void)sizeof(wrap);                                                        \
    EACH(b, T, T, expr);                                                       \
    break;                                                                     \
  }

/* Define the block of `op` for integers, bool as u8.  It is the f32 variant's:
 * a chain of f64 may have integers beside it, and asks there. */
#ifdef MRT_F64
#define MRT_INTEGERS(op, EACH, expr)                                           \
  void MRT_BOTH(op##_integers)(const mrt_block *b);
#else
#define MRT_INTEGERS(op, EACH, expr)                                           \
  void MRT_BOTH(op##_integers)(const mrt_block *b);                            \
  void MRT_BOTH(op##_integers)(const mrt_block *b) {                           \
    switch (b->in_dtype) {                                                     \
      MRT_CASE(MRT_i64, int64_t, uint64_t, EACH, b, expr)                      \
      MRT_CASE(MRT_i32, int32_t, uint32_t, EACH, b, expr)                      \
    default: {                                                                 \
      typedef uint8_t wrap;                                                    \
      (void)sizeof(wrap);                                                      \
      EACH(b, uint8_t, uint8_t, expr);                                         \
    }                                                                          \
    }                                                                          \
  }
#endif

/* Whether the short way to sine and tangent is right for all of the block. */
static inline bool mrt_all_near(const mrt_block *b) {
  const real *x = b->in[0];
  int far = 0;
  for (int64_t i = 0; i < b->n; i++) far |= !(m_abs(x[i]) <= M_NEAR);
  return !far;
}

/* Define the kernel of `op`, of one or two inputs: for reals, for reals and
 * integers. */
#define MRT_REAL1(op, expr)                                                    \
  static void op##_block(const mrt_block *b) {                                 \
    MRT_EACH1(b, real, real, expr);                                            \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)
#define MRT_REAL2(op, expr)                                                    \
  static void op##_block(const mrt_block *b) {                                 \
    MRT_EACH2(b, real, real, expr);                                            \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)
#define MRT_NUMBER1(op, of_reals, of_integers)                                 \
  MRT_INTEGERS(op, MRT_EACH1, of_integers)                                     \
  static void op##_block(const mrt_block *b) {                                 \
    if (mrt_is_float(b->in_dtype))                                             \
      MRT_EACH1(b, real, real, of_reals);                                      \
    else                                                                       \
      MRT_BOTH(op##_integers)(b);                                              \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)
#define MRT_NUMBER2(op, of_reals, of_integers)                                 \
  MRT_INTEGERS(op, MRT_EACH2, of_integers)                                     \
  static void op##_block(const mrt_block *b) {                                 \
    if (mrt_is_float(b->in_dtype))                                             \
      MRT_EACH2(b, real, real, of_reals);                                      \
    else                                                                       \
      MRT_BOTH(op##_integers)(b);                                              \
  }                                                                            \
  MRT_KERNEL(op, .block = op##_block)

#endif
