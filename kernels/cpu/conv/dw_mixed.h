/* dw_mixed.h -- dw of narrow floats, and of f32 that is rounded
 *
 * The sum is over places: with dot products a unit is two of them, those of
 * rows 2 q and 2 q + 1 of a block, zero where one is outside.
 *
 * Only conv/dw.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_DW_MIXED_H
#define MRT_CONV_DW_MIXED_H

#ifndef MRT_F64

/* The values of few channels are soon multiplied, but long in being paired. */
enum { FEW_TO_PAIR = 8 };

static void set_operands(const mrt_call *call, dw_conv *c) {
  mrt_call of = *call;
  if (c->k < FEW_TO_PAIR) of.dots = false;
  c->with = operands_of(&of);
  c->with.b = operand_of(&of, 1, c->with.each > 1);
  c->mixed = is_mixed(&of);
}

static const uint16_t no_values[CHUNK];

/* n values of two places that are units already, or of none (NULL). */
static inline void pair_places(const char *a, const char *b, real *to,
                               int64_t n) {
  for (int64_t at = 0; at < n; at += CHUNK) {
    const uint16_t *x = a ? (const uint16_t *)a + at : no_values;
    const uint16_t *y = b ? (const uint16_t *)b + at : no_values;
    zip_pairs(to + at, x, y, least(CHUNK, n - at));
  }
}

/* n values of one place, or of two. */
static void read_places(const reader *r, const char *a, const char *b, real *to,
                        int64_t n) {
  uint16_t room[2][CHUNK];
  const char *from[2] = { a, b };
  if (r->pairs && r->plain) {
    pair_places(a, b, to, n);
    return;
  }
  reader one = *r;
  one.data = a;
  if (!r->pairs) {
    read_values(&one, to, 0, 0, 1, n);
    return;
  }
  for (int64_t at = 0; at < n; at += CHUNK) {
    const uint16_t *half[2] = { no_values, no_values };
    int64_t some = least(CHUNK, n - at);
    for (int i = 0; i < 2; i++) {
      if (!from[i]) continue;
      one.data = from[i] + at * r->bytes;
      read_values(&one, room[i], 0, 0, 1, some);
      half[i] = room[i];
    }
    zip_pairs(to + at, half[0], half[1], some);
  }
}

/* The strip of dy as units. */
static void copy_units(const dw_conv *c, const chunk *of, const dw_tile *t,
                       int64_t p, int64_t end, real *to) {
  const reader *r = &c->with.b;
  int64_t row = c->y_c * r->bytes;
  const char *from = r->data + p * row + (of->group * c->n + t->n) * r->bytes;
  for (; p < end; p += c->with.each, from += c->with.each * row) {
    read_places(r, from, p + 1 < end ? from + row : NULL, to, t->count);
    for (int j = t->count; j < t->width; j++) to[j] = 0;
    to += t->width;
  }
}

/* Room for `count` units at rows `dy` on of the block, behind the others. */
static void add_copied(const dw_work *w, int *copied, const real *to,
                       int64_t dy, int64_t count) {
  stretch *before = *copied ? &w->copied[*copied - 1] : NULL;
  if (before && before->dy + before->count == dy)
    before->count += count;
  else
    w->copied[(*copied)++] = (stretch){ (const char *)to, dy, count };
}

/* The same where units are single values: whole stretches. */
static int copy_singles(const dw_conv *c, int64_t k, int64_t n, int count,
                        const dw_work *w) {
  int64_t step = c->w.stride * c->x_c * c->x_bytes;
  bool together = step == n * c->x_bytes;
  reader x = c->with.a;
  real *to = w->reads;
  int copied = 0;
  for (int i = 0; i < count; i++) {
    const stretch *s = &w->stretches[i];
    int64_t runs = together ? 1 : s->count, run = s->count / runs * n;
    add_copied(w, &copied, to, s->dy, s->count);
    for (int64_t p = 0; p < runs; p++, to += run) {
      x.data = s->x + p * step + k * c->x_bytes;
      read_values(&x, to, 0, 0, 1, run);
    }
  }
  return copied;
}

/* The stretches of a tap as units of channels [k, k + n); how many they are
 * then. */
static int copy_reads(const dw_conv *c, int64_t k, int64_t n, int count,
                      const dw_work *w) {
  if (c->with.each == 1) return copy_singles(c, k, n, count, w);
  const char *at[2 * UNITS + 1] = { 0 };
  int64_t step = c->w.stride * c->x_c * c->x_bytes;
  for (int i = 0; i < count; i++) {
    const stretch *s = &w->stretches[i];
    for (int64_t p = 0; p < s->count; p++)
      at[s->dy + p] = s->x + p * step + k * c->x_bytes;
  }
  int each = c->with.each, copied = 0;
  real *to = w->reads;
  for (int64_t q = 0; q < UNITS; q++) {
    const char *a = at[q * each], *b = each > 1 ? at[q * each + 1] : NULL;
    if (!a && !b) continue;
    read_places(&c->with.a, a, b, to, n);
    add_copied(w, &copied, to, q, 1);
    to += n;
  }
  return copied;
}

static int result_bytes(const dw_conv *c) {
  return (int)mrt_dtypes[c->with.result].bytes;
}

/* Sums of each tile as narrow floats, in its first bytes. */
static void round_tiles(const dw_conv *c, int64_t count, real *tiles) {
  if (c->with.result == MRT_f32) return;
  uint16_t room[TILE];
  for (; count--; tiles += TILE) {
    mrt_round(c->with.result, tiles, room, TILE);
    memcpy(tiles, room, TILE * (size_t)result_bytes(c));
  }
}

#if CONV_DOTS
INLINED WITH_DOTS void add_pairs(int vecs, int rows, const stretch *s,
                                 int count, int64_t c, int64_t step,
                                 const real *dy, real *to) {
  vec sum[ROWS][VECS];
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) sum[i][j] = (vec){ 0 };
  for (; count--; s++) {
    const pair *x = (const pair *)s->x + c;
    const real *d = dy + s->dy * vecs * LANES;
    for (int64_t p = 0; p < s->count; p++, x += step, d += vecs * LANES) {
      __m512bh y[VECS];
#pragma GCC unroll 4
      for (int j = 0; j < vecs; j++)
        y[j] = (__m512bh)_mm512_loadu_si512(d + j * LANES);
#pragma GCC unroll 6
      for (int i = 0; i < rows; i++) {
        __m512bh xi = (__m512bh)_mm512_set1_epi32(x[i]);
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
          sum[i][j] = (vec)_mm512_dpbf16_ps((__m512)sum[i][j], xi, y[j]);
      }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int j = 0; j < vecs; j++) {
      real *at = to + (i * vecs + j) * LANES;
      vec_store(at, vec_load(at) + sum[i][j]);
    }
}

INLINED WITH_DOTS void dots_by_rows(int vecs, int rows, const stretch *s,
                                    int count, int64_t c, int64_t step,
                                    const real *dy, real *to) {
  if (rows == ROWS) add_pairs(vecs, ROWS, s, count, c, step, dy, to);
  if (rows == 1) add_pairs(vecs, 1, s, count, c, step, dy, to);
  if (rows == 2) add_pairs(vecs, 2, s, count, c, step, dy, to);
  if (rows == 3) add_pairs(vecs, 3, s, count, c, step, dy, to);
  if (rows == 4) add_pairs(vecs, 4, s, count, c, step, dy, to);
  if (rows == 5) add_pairs(vecs, 5, s, count, c, step, dy, to);
}

static WITH_DOTS void run_dots(int vecs, int rows, const stretch *s, int count,
                               int64_t c, int64_t step, const real *dy,
                               real *to) {
  BY_VECS(vecs, dots_by_rows, rows, s, count, c, step, dy, to);
}
#endif

#else
static void set_operands(const mrt_call *call, dw_conv *c) {}
static void copy_units(const dw_conv *c, const chunk *of, const dw_tile *t,
                       int64_t p, int64_t end, real *to) {}
static int copy_reads(const dw_conv *c, int64_t k, int64_t n, int count,
                      const dw_work *w) {
  return 0;
}
static int result_bytes(const dw_conv *c) { return sizeof(real); }
static void round_tiles(const dw_conv *c, int64_t count, real *tiles) {}
#endif

#if !CONV_DOTS
static void run_dots(int vecs, int rows, const stretch *s, int count, int64_t c,
                     int64_t step, const real *dy, real *to) {}
#endif

#endif
