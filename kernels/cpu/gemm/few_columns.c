/* few_columns.c -- the columns of a matrix, put for products of few rows
 *
 *   needs   b contiguous along k
 *   method  LANES columns at a time are turned in registers: reals value by
 *           value, bf16 by pairs of steps, which are units of dot products or
 *           two shifts away from reals; other floats are widened before
 *
 * What will be read next is asked for, a panel ahead: the rows of w are too
 * short for the processor to see the order by itself (19 against 14 GB/s).
 *
 * SPDX-License-Identifier: MIT */
#include "gemm/block.h"
#include "gemm/few.h"
#include "gemm/pack.h"
#ifndef MRT_F64
#include "units.h"
#endif

enum { STEPS = MRT_FEW_STEPS };

/* LANES columns of a piece. */
typedef struct few_source {
  const char *from;
  int64_t stride; /* bytes from one to the next */
  int64_t nbytes; /* of the piece, as far as there are */
} few_source;

/* Columns [j, j + LANES) of g's b from step p on; `room` holds STEPS units of
 * each, and takes what is not whole. */
static few_source columns_of(const mrt_few_product *f, int64_t j, int64_t p,
                             int64_t steps, char *room) {
  const mrt_gemm *g = f->g;
  int64_t size = (int64_t)mrt_dtypes[g->b.dtype].bytes, n = g->n - j;
  int64_t left = least(steps, g->k - p);
  few_source s = { mrt_matrix_at(&g->b, p, j), g->b.col * size, left * size };
  if (n >= LANES && left == steps) return s;
  mrt_few_stage(s.from, s.stride, n, s.nbytes, room, steps * size);
  return (few_source){ room, steps * size, s.nbytes };
}

/* Ask for a line of each column that comes a panel later. */
static inline __attribute__((always_inline)) void
ask_for_next(const few_source *s, int64_t ahead, int64_t at) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    __builtin_prefetch(mrt_few_column(s->from, s->stride, l) + ahead + at);
}

/* LANES reals of each column, turned. */
static inline __attribute__((always_inline)) void
turned(const few_source *s, int64_t at, vec v[LANES]) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    v[l] = mrt_few_load(mrt_few_column(s->from, s->stride, l) + at);
  transpose(v);
}

enum { LINE_BYTES = 64, UNIT_BYTES = (int)sizeof(real) };

/* Units of the columns where they lie, reals or pairs, are turned as they are. */
static void fill_units(const mrt_few_product *f, int64_t j, int64_t p,
                       real *to) {
  _Alignas(64) char room[LANES * STEPS * UNIT_BYTES];
  int64_t width = f->vecs * LANES, each = f->dots ? 2 : 1;
  for (int s = 0; s < f->vecs && j + s * LANES < f->g->n; s++) {
    few_source x = columns_of(f, j + s * LANES, p * each, STEPS * each, room);
    real *at = to + s * LANES;
    for (int64_t q = 0; q * UNIT_BYTES < x.nbytes;
         q += LANES, at += LANES * width) {
      vec v[LANES];
      if (q * UNIT_BYTES % LINE_BYTES == 0)
        ask_for_next(&x, width * x.stride, q * UNIT_BYTES);
      turned(&x, q * UNIT_BYTES, v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) vec_store(at + i * width, v[i]);
    }
  }
}

#ifndef MRT_F64
/* A pair of bf16 is two steps. */
static void fill_bf16(const mrt_few_product *f, int64_t j, int64_t p,
                      real *to) {
  _Alignas(64) char room[LANES * STEPS * 2];
  int64_t width = f->vecs * LANES;
  for (int s = 0; s < f->vecs && j + s * LANES < f->g->n; s++) {
    few_source x = columns_of(f, j + s * LANES, p, STEPS, room);
    real *at = to + s * LANES;
    for (int64_t q = 0; 2 * q < x.nbytes;
         q += 2 * LANES, at += 2 * LANES * width) {
      vec v[LANES];
      if (2 * q % LINE_BYTES == 0) ask_for_next(&x, width * x.stride, 2 * q);
      turned(&x, 2 * q, v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) {
        ivec pair = (ivec)v[i];
        vec_store(at + 2 * i * width, (vec)(pair << 16));
        vec_store(at + (2 * i + 1) * width, (vec)(pair & ~0xffff));
      }
    }
  }
}

#ifdef MRT_HALVES
static void fill_f16(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
  _Alignas(64) char room[LANES * STEPS * 2];
  int64_t width = f->vecs * LANES;
  for (int s = 0; s < f->vecs && j + s * LANES < f->g->n; s++) {
    few_source x = columns_of(f, j + s * LANES, p, STEPS, room);
    real *at = to + s * LANES;
    for (int64_t q = 0; 2 * q < x.nbytes; q += LANES, at += LANES * width) {
      vec v[LANES];
      if (2 * q % LINE_BYTES == 0) ask_for_next(&x, width * x.stride, 2 * q);
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++)
        v[l] = mrt_few_halves(mrt_few_column(x.from + 2 * q, x.stride, l));
      transpose(v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) vec_store(at + i * width, v[i]);
    }
  }
}
#else
#define fill_f16 fill_any
#endif

/* Floats of any dtype, rounded to any. */
static void fill_any(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
  const mrt_gemm *g = f->g;
  real room[LANES * STEPS];
  int64_t width = f->vecs * LANES, first = f->dots ? 2 * p : p;
  reader b = reader_of(&g->b, g->b.col, g->b.row, g->compute, f->dots);
  int64_t steps = least(f->dots ? (g->k + 1) / 2 - p : g->k - p, STEPS);
  memset(room, 0, sizeof room);
  for (int s = 0; s < f->vecs && j + s * LANES < g->n; s++) {
    int64_t n = least(LANES, g->n - j - s * LANES);
    for (int64_t l = 0; l < n; l++)
      read_row(&b, room + l * STEPS, j + s * LANES + l, first, steps,
               g->k - first);
    few_source x = { (const char *)room, STEPS * UNIT_BYTES, 0 };
    real *at = to + s * LANES;
    for (int64_t q = 0; q < steps; q += LANES, at += LANES * width) {
      vec v[LANES];
      turned(&x, q * UNIT_BYTES, v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) vec_store(at + i * width, v[i]);
    }
  }
}

#endif

void mrt_gemm_few(const mrt_gemm *g, void *scratch) {
  mrt_few_product f = { .g = g, .fill = fill_units, .vecs = MRT_FEW_WIDE_VECS };
#ifndef MRT_F64
  mrt_dtype from = g->b.dtype, to = g->compute;
  bool rounds = to != MRT_DTYPE_COUNT && to != from && to != MRT_f32;
  f.dots = takes_dots(g);
  if (f.dots ? from != MRT_bf16 || (rounds && to != MRT_bf16) : rounds)
    f.fill = fill_any;
  else if (!f.dots && from == MRT_bf16)
    f.fill = fill_bf16;
  else if (!f.dots && from != MRT_f32)
    f.fill = from == MRT_f16 ? fill_f16 : fill_any;
#endif
  mrt_few_run(&f, scratch);
}
