/* winograd_tiles.h -- tiles of images, and what is made of them by additions
 *
 * What is made lies in 16 planes, [tiles][channels] each, so that every plane
 * is a matrix.  Only winograd.c and winograd_dw.c include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_WINOGRAD_TILES_H
#define MRT_CONV_WINOGRAD_TILES_H

#include "base/narrow.h"
#include "conv/tile.h"
#include "conv/winograd.h"
#include "gemm/gemm.h"

enum {
  PLANES = 16,
  COLUMNS = 128, /* channels written at a time: what bounds the scratch */
  /* Planes as long as a power of two would share the lines of a cache. */
  APART = 64 / (int)sizeof(real)
};

static inline int64_t plane_of(int64_t rows, int64_t columns) {
  return rows * columns + APART;
}

/* LANES values of bf16. */
typedef uint16_t half_vec
    __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
typedef uint32_t bits_vec __attribute__((vector_size(LANES * 4)));

static inline vec widen(const void *p) {
  bits_vec u = __builtin_convertvector(*(const half_vec *)p, bits_vec);
  return (vec)(u << 16);
}
static inline void narrow(void *p, vec x) {
  bits_vec u = (bits_vec)x, even = u + 0x7fff + (u >> 16 & 1);
  bits_vec nan = (bits_vec)((u & 0x7fffffff) > 0x7f800000);
  bits_vec to = ((u | 0x400000) & nan) | (even & ~nan);
  *(half_vec *)p = __builtin_convertvector(to >> 16, half_vec);
}

/* Value i of reals, or of bf16. */
static inline const void *value_at(const void *data, bool halves, int64_t i) {
  return (const char *)data + (halves ? 2 * i : (int64_t)sizeof(real) * i);
}
INLINED vec load_values(bool halves, const void *p) {
  return halves ? widen(p) : vec_load(p);
}
INLINED void store_values(bool halves, void *p, vec x) {
  if (halves)
    narrow(p, x);
  else
    vec_store(p, x);
}

/* Channels of one place of each of `side` x `side`, rows first; outside of the
 * image, zeros. */
typedef struct patch {
  const void *at[16];
  int64_t moves[16]; /* -1, or 0: the channels are the same zeros */
} patch;

static const real no_channels[LANES];

INLINED vec load_place(bool halves, const patch *p, int i, int64_t c) {
  return load_values(halves, value_at(p->at[i], halves, c & p->moves[i]));
}

/* An image's height, width and channels; tiles [0, tall x wide) of each cover
 * the other image, two places apart. */
typedef struct image {
  const void *data;
  int64_t h, w, c;
  bool halves; /* bf16 */
} image;
typedef struct tile_grid {
  int64_t images, tall, wide;
  int64_t above, before; /* places of padding */
} tile_grid;

static inline int64_t tiles_of(const tile_grid *t) {
  return t->images * t->tall * t->wide;
}

/* The `side` x `side` places of tile `i`. */
static inline void find_patch(const image *x, const tile_grid *t, int64_t i,
                              int side, patch *to) {
  int64_t n = i / (t->tall * t->wide), r = i / t->wide % t->tall;
  int64_t top = 2 * r - t->above, left = 2 * (i % t->wide) - t->before;
  for (int a = 0; a < side; a++)
    for (int b = 0; b < side; b++) {
      int64_t row = top + a, column = left + b;
      bool in = row >= 0 && row < x->h && column >= 0 && column < x->w;
      int64_t place = (n * x->h + row) * x->w + column;
      to->at[a * side + b] =
          in ? value_at(x->data, x->halves, place * x->c) : no_channels;
      to->moves[a * side + b] = in ? -1 : 0;
    }
}

/* B' of a column of four. */
INLINED void turn_input(vec v[4]) {
  vec a = v[0] - v[2], b = v[1] + v[2], c = v[2] - v[1], d = v[1] - v[3];
  v[0] = a, v[1] = b, v[2] = c, v[3] = d;
}

INLINED void transform_values(bool halves, const patch *p, int64_t channels,
                              int64_t plane, real *to) {
  for (int64_t c = 0; c < channels; c += LANES) {
    vec d[4][4]; /* by column */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) d[j][i] = load_place(halves, p, i * 4 + j, c);
      turn_input(d[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      vec row[4] = { d[0][i], d[1][i], d[2][i], d[3][i] };
      turn_input(row);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++)
        vec_store(to + (i * 4 + j) * plane + c, row[j]);
    }
  }
}

/* B' d B of a tile's channels, to the planes. */
static inline void transform_input(const image *x, const patch *p,
                                   int64_t plane, real *to) {
  if (x->halves)
    transform_values(true, p, x->c, plane, to);
  else
    transform_values(false, p, x->c, plane, to);
}

#endif
