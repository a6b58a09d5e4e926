/* mixed.h -- convolutions of narrow floats, and of f32 that is rounded
 *
 * The sum is one of units (units.h): f32, or pairs of bf16 of two channels
 * where all values are bf16 and the processor has dot products of these.
 * Channels of x that are units already are read where they lie, others are
 * copied for a few tiles at a time; weights become units while they are packed.
 * Narrow results are rounded once: of several parts, sums wait in scratch.
 *
 * Only conv.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_MIXED_H
#define MRT_CONV_MIXED_H

#include "conv/operands.h"
#include "conv/pack.h"

struct how {
  operands with;
};

#ifndef MRT_F64

/* Does each part of the sum end before the next begins? */
static bool has_parts(const conv *c, int64_t kernel_h) {
  int64_t spots = kernel_h * (c->join > 1 ? 1 : c->kernel_w), k = units_of(c);
  int64_t ts = spots_in_block(spots, k, c->join > 1);
  return ts < spots || channels_in_block(ts, k) < k;
}

static void set_how(const mrt_call *call, int64_t kernel_h, conv *c,
                    how *room) {
  if (!is_mixed(call)) return;
  room->with = operands_of(call);
  c->how = room;
  c->each = room->with.each;
  c->copies = !room->with.a.plain || c->k % c->each != 0;
  c->sums = room->with.result != MRT_f32 && has_parts(c, kernel_h);
}

/* ---- x ------------------------------------------------------------------- */

#if CONV_DOTS
/* Those of few pairs, n values of each: in one register. */
static void copy_few(const tile *t, int64_t units, int64_t n, real *to) {
  __mmask32 there = (__mmask32)((1ull << n) - 1);
  __mmask32 all = (__mmask32)((1ull << 2 * units) - 1);
  for (int e = 0; e < t->count; e++)
    for (int row = 0; row < ROWS; row++, to += units) {
      const void **from = &t->r[e].row[row];
      if (*from == zeros) continue;
      __m512i x = _mm512_maskz_loadu_epi16(there, *from);
      _mm512_mask_storeu_epi16(to, all, x);
      *from = to;
    }
}
static bool are_few(const reader *x, int64_t units) {
  return x->plain && x->pairs && units <= LANES;
}
#else
static void copy_few(const tile *t, int64_t units, int64_t n, real *to) {}
static bool are_few(const reader *x, int64_t units) { return false; }
#endif

/* The reads of a tile as units. */
static void copy_reads(const conv *c, const part *p, real *to, tile *t) {
  reader x = c->how->with.a;
  int64_t n = least(p->cs * c->each, depth_of(c) - p->c * c->each);
  if (are_few(&x, p->cs)) {
    copy_few(t, p->cs, n, to);
    return;
  }
  for (int e = 0; e < t->count; e++)
    for (int row = 0; row < ROWS; row++, to += p->cs) {
      const void **from = &t->r[e].row[row];
      if (*from == zeros) continue;
      x.data = *from;
      read_row(&x, to, 0, 0, p->cs, n);
      *from = to;
    }
}

/* ---- weights ------------------------------------------------------------- */

/* Weights of `channels` channels from `first` on, columns [n, n + count), as
 * f32 in the stage; *s is the convolution by these. */
static void stage_weights(const conv *c, int64_t first, int64_t channels,
                          int64_t n, int count, const work *w, conv *s) {
  const reader *r = &c->how->with.b;
  int64_t taps = c->taps;
  reader from = *r;
  *s = *c;
  s->weights = (const char *)w->stage;
  from.data = c->weights + (first * c->w_k + n * c->w_n) * c->w_bytes;
  from.along = 1;
  if (c->w_k == taps) {
    s->w_n = channels * taps;
    for (int j = 0; j < count; j++, from.data += c->w_n * c->w_bytes)
      read_values(&from, w->stage + j * s->w_n, 0, 0, 1, s->w_n);
  } else {
    s->w_k = LANES * taps;
    for (int64_t k = 0; k < channels; k++, from.data += c->w_k * c->w_bytes)
      read_values(&from, w->stage + k * s->w_k, 0, 0, 1, count * taps);
  }
}

/* Packed steps of LANES channels as pairs of steps of a strip. */
static void pack_pairs(const part *p, int64_t channels, int width,
                       const real *from, real *to) {
  for (int64_t t = 0; t < p->ts; t++, from += channels * LANES)
    for (int64_t q = 0; q < p->cs; q++, to += width) {
      bool both = 2 * q + 1 < channels;
      const real *a = from + 2 * q * LANES, *b = a + LANES;
      ivec low = (ivec)vec_load(a) >> 16 & 0xffff;
      ivec high = (ivec)(both ? vec_load(b) : (vec){ 0 });
      vec_store(to, (vec)(low | (high & ~0xffff)));
    }
}

static void pack_mixed(const conv *c, const part *p, int64_t n, int count,
                       int width, const work *w, real *to) {
  bool joined = c->join > 1;
  part own = *p;
  own.c *= c->each;
  own.cs = least(p->cs * c->each, depth_of(c) - own.c);
  int64_t first = joined ? 0 : own.c, channels = joined ? c->k : own.cs;
  conv s;
  stage_weights(c, first, channels, n, count, w, &s);
  own.c -= first;
  if (c->each == 1) {
    pack_lanes(&s, &own, 0, count, width, to);
    return;
  }
  pack_lanes(&s, &own, 0, count, LANES, w->turned);
  pack_pairs(p, own.cs, width, w->turned, to);
}

/* ---- y ------------------------------------------------------------------- */

static bool rounds_results(const conv *c) {
  return c->how && c->how->with.result != MRT_f32;
}

/* Where sums of a tile are made: columns from j of the block on, or `room`. */
static void place_sums(const conv *c, const tile *t, int64_t j, real *room,
                       target *at) {
  for (int i = 0; i < ROWS; i++)
    at->y[i] = c->sums ? t->sums + i * columns_of(c) + j : room + i * COLS;
}

static void round_tile(const conv *c, const tile *t, int64_t j,
                       const target *at) {
  for (int i = 0; i < at->rows; i++)
    mrt_round(c->how->with.result, at->y[i], t->y[i] + j * c->y_bytes, at->n);
}

/* ---- dot products -------------------------------------------------------- */

#if CONV_DOTS
INLINED WITH_DOTS void tile_pairs(int vecs, const reads *r, int count,
                                  int64_t k, const real *w, const target *at) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 6
  for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  for (; count--; r++) {
    const real *b = w + r->tap * k * vecs * LANES;
    const pair *x[ROWS];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) x[i] = r->row[i];
    for (int64_t p = 0; p < k; p++, b += vecs * LANES) {
      __m512bh y[VECS];
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++)
        y[j] = (__m512bh)_mm512_loadu_si512(b + j * LANES);
#pragma GCC unroll 6
      for (int i = 0; i < ROWS; i++) {
        __m512bh xi = (__m512bh)_mm512_set1_epi32(x[i][p]);
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
          sum[i][j] = (vec)_mm512_dpbf16_ps((__m512)sum[i][j], xi, y[j]);
      }
    }
  }
  put_tile(vecs, sum, at);
}

static WITH_DOTS void run_dots(int vecs, const reads *r, int count, int64_t k,
                               const real *w, const target *at) {
  BY_VECS(vecs, tile_pairs, r, count, k, w, at);
}
#else
static void run_dots(int vecs, const reads *r, int count, int64_t k,
                     const real *w, const target *at) {}
#endif

#else
static void set_how(const mrt_call *call, int64_t kernel_h, conv *c,
                    how *room) {}
static void copy_reads(const conv *c, const part *p, real *to, tile *t) {}
static void pack_mixed(const conv *c, const part *p, int64_t n, int count,
                       int width, const work *w, real *to) {}
static bool rounds_results(const conv *c) { return false; }
static void place_sums(const conv *c, const tile *t, int64_t j, real *room,
                       target *at) {}
static void round_tile(const conv *c, const tile *t, int64_t j,
                       const target *at) {}
static void run_dots(int vecs, const reads *r, int count, int64_t k,
                     const real *w, const target *at) {}
#endif

/* Columns [n, n + count) of a strip. */
static void pack_weights(const conv *c, const part *p, int64_t n, int count,
                         const work *w, real *to) {
  int width = (int)round_up(count, LANES);
  for (int j = 0; j < count; j += LANES) {
    int some = (int)least(LANES, count - j);
    if (c->how)
      pack_mixed(c, p, n + j, some, width, w, to + j);
    else
      pack_lanes(c, p, n + j, some, width, to + j);
  }
}

#endif
