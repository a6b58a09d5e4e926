/* codes_fill.c -- columns of codes, turned and dequantised for few rows
 *
 *   needs   what codes_turn.h needs; other columns are taken row by row, and
 *           then turned
 *   gives   the numbers of codes.c, bit for bit
 *
 * SPDX-License-Identifier: MIT */
#include "codes_planes.h"
#include "codes_turn.h"

/* Rows of any matrix, turned. */
static void fill_any(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
  real room[LANES * STEPS];
  int64_t end = least(f->g->k, p + STEPS);
  memset(room, 0, sizeof room);
  for (int s = 0; s < MRT_FEW_VECS && j + s * LANES < f->g->n; s++) {
    int64_t n = least(LANES, f->g->n - j - s * LANES);
    for (int64_t l = 0; l < n; l++)
      mrt_codes_take(f->columns, f->first + j + s * LANES + l, p, end,
                     room + l * STEPS);
    real *at = to + s * LANES;
    for (int64_t q = 0; q < STEPS; q += LANES, at += LANES * WIDTH) {
      vec v[LANES];
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++) v[l] = vec_load(room + l * STEPS + q);
      transpose(v);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; i++) vec_store(at + i * WIDTH, v[i]);
    }
  }
}

#ifndef MRT_F64
/* BYTES of each of LANES rows become numbers; scales: of each HALF steps,
 * `apart` from one another. */
static inline __attribute__((always_inline)) void
put_words(int kind, const mrt_codes *m, const char *from, int64_t stride,
          const real *scales, real *to) {
  bool bytes = kind == MRT_QUANTIZE_INT8 || kind == MRT_QUANTIZE_Q8_0;
  bool tabled = kind == MRT_QUANTIZE_NF4 || kind == MRT_QUANTIZE_FP4;
  vec w[WORDS], lower = { 0 }, upper = { 0 };
  if (tabled) {
    lower = vec_load(m->values->one);
    upper = vec_load(m->values->one + 16 - LANES);
  } else if (MRT_VECTOR_BYTES == 64) {
    for (int i = 0; i < LANES; i++) lower[i] = (real)(i - 8);
  }
  turn_words(from, stride, w);
#ifdef MRT_PLANES
  planes p = { 0 };
  if (tabled) p = planes_of(m->values);
#endif
#pragma GCC unroll 8
  for (int i = 0; i < WORDS; i++) {
    vec scale = vec_load(scales + (bytes ? 0 : i / 4 * WIDTH));
#ifdef MRT_PLANES
    if (tabled) {
      vec v[8];
      look_up_words(&p, w[i], v);
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++)
        vec_store(to + step_of(kind, i, k) * WIDTH, v[k] * scale);
      continue;
    }
#endif
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++)
      if (k < 4 || !bytes)
        vec_store(to + step_of(kind, i, k) * WIDTH,
                  value_of(kind, (ivec)w[i], k, lower, upper) * scale);
  }
}

/* LANES columns, n of which are there. */
static inline __attribute__((always_inline)) void
put_columns(int kind, const mrt_codes *m, int64_t row, int64_t n, int64_t p,
            const real *scales, real *to) {
  int pack = mrt_quantize_pack(kind);
  const char *from = (const char *)m->codes + row * m->bytes + p / pack;
  int64_t left = m->bytes - p / pack, all = STEPS / pack;
  for (int64_t at = 0; at < all && at < left; at += BYTES) {
    const real *scale = scales + (pack == 1 ? at / BYTES * WIDTH : 0);
    real *piece = to + at * pack * WIDTH;
    const char *x = from + at;
    int64_t stride = m->bytes;
    char room[LANES * BYTES];
    if (n < LANES || left - at < BYTES) {
      mrt_few_stage(x, stride, n, least(BYTES, left - at), room, BYTES);
      x = room, stride = BYTES;
    } else {
#pragma GCC unroll 16
      for (int l = 0; l < LANES; l++)
        __builtin_prefetch(mrt_few_column(x, stride, l) + WIDTH * stride);
    }
    put_words(kind, m, x, stride, scale, piece);
  }
}

#define FILL(name, kind)                                                       \
  static void name(const mrt_few_product *f, int64_t j, int64_t p, real *to) { \
    const mrt_codes *m = f->columns;                                           \
    int64_t n = least(WIDTH, f->g->n - j);                                     \
    real scales[STEPS / HALF][WIDTH];                                          \
    take_scales(m, f->first + j, n, p, scales);                                \
    for (int64_t s = 0; s < n; s += LANES)                                     \
      put_columns(kind, m, f->first + j + s, n - s, p, scales[0] + s, to + s); \
  }
FILL(fill_int8, MRT_QUANTIZE_INT8)
FILL(fill_q4_0, MRT_QUANTIZE_Q4_0)
FILL(fill_q8_0, MRT_QUANTIZE_Q8_0)
FILL(fill_nf4, MRT_QUANTIZE_NF4) /* or fp4, by another table */

#endif

void mrt_codes_fill(const mrt_few_product *f, int64_t j, int64_t p, real *to) {
#ifndef MRT_F64
  const mrt_codes *m = f->columns;
  if (codes_turn(m, f->g->k)) {
    if (m->o->kind == MRT_QUANTIZE_INT8)
      fill_int8(f, j, p, to);
    else if (m->o->kind == MRT_QUANTIZE_Q4_0)
      fill_q4_0(f, j, p, to);
    else if (m->o->kind == MRT_QUANTIZE_Q8_0)
      fill_q8_0(f, j, p, to);
    else
      fill_nf4(f, j, p, to);
    return;
  }
#endif
  fill_any(f, j, p, to);
}
