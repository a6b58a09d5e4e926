/* floats.h -- operands of any float dtype, computed on as reals
 *
 *     const real *x = mrt_reals_in(&c->in[0], at, n, room);
 *     real *y = mrt_reals_place(&c->out[0], at, room);
 *     ... y from x, element by element or all of x first
 *     mrt_reals_out(&c->out[0], at, n, y);
 *
 * A piece (a row, a tile) that is real is used where it lies, else it is
 * widened into the caller's room, and results are made there and rounded into
 * place: the bits are those of cast, kernel, cast.  Of f64 nothing is narrow.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_FLOATS_H
#define MRT_FLOATS_H

#include "cpu.h"

#define mrt_widen       MRT_CPU(floats_widen)
#define mrt_widen_apart MRT_CPU(floats_widen_apart)
#define mrt_round       MRT_CPU(floats_round)
#define mrt_round_rows  MRT_CPU(floats_round_rows)
#define mrt_round_reals MRT_CPU(floats_round_reals)

/* to[i] = from[i] for n elements; `dtype` is narrow or MRT_REAL, from and to
 * do not overlap. */
void mrt_widen(mrt_dtype dtype, const void *from, real *to, int64_t n);
void mrt_round(mrt_dtype dtype, const real *from, void *to, int64_t n);
/* m rows of n; they begin `row` and `to_row` elements apart. */
void mrt_round_rows(mrt_dtype dtype, const real *from, int64_t row, void *to,
                    int64_t to_row, int64_t m, int64_t n);
/* to[i] = from[i * step] */
void mrt_widen_apart(mrt_dtype dtype, const void *from, int64_t step, real *to,
                     int64_t n);
/* n numbers as if rounded to `dtype`, which is narrow, and widened. */
void mrt_round_reals(mrt_dtype dtype, real *x, int64_t n);

static inline void *mrt_element(const mrt_operand *x, int64_t at) {
  return (char *)x->data + at * (int64_t)mrt_dtypes[x->type.dtype].bytes;
}

/* Elements [at, at + n) of x; `room` holds n. */
static inline const real *mrt_reals_in(const mrt_operand *x, int64_t at,
                                       int64_t n, real *room) {
  void *from = mrt_element(x, at);
  if (x->type.dtype == MRT_REAL) return from;
  mrt_widen(x->type.dtype, from, room, n);
  return room;
}

/* Where results for y's elements from `at` on are made. */
static inline real *mrt_reals_place(const mrt_operand *y, int64_t at,
                                    real *room) {
  return y->type.dtype == MRT_REAL ? mrt_element(y, at) : room;
}

/* n results made at `from`, which mrt_reals_place gave, are complete. */
static inline void mrt_reals_out(const mrt_operand *y, int64_t at, int64_t n,
                                 const real *from) {
  if (y->type.dtype != MRT_REAL)
    mrt_round(y->type.dtype, from, mrt_element(y, at), n);
}

static inline bool mrt_any_narrow(const mrt_call *c) {
  bool any = false;
  for (int i = 0; i < c->nin; i++) any |= mrt_is_narrow(c->in[i].type.dtype);
  for (int i = 0; i < c->nout; i++) any |= mrt_is_narrow(c->out[i].type.dtype);
  return any;
}

/* Elements of a row of n in a room: rows do not share cache lines.  0 where
 * nothing is narrow and no room is needed. */
static inline int64_t mrt_room_row(const mrt_call *c, int64_t n) {
  return mrt_any_narrow(c) ? (n + 15) / 16 * 16 : 0;
}

#endif
