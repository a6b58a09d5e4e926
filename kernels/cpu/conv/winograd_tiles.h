/* winograd_tiles.h -- tiles of images, and what is made of them by additions
 *
 * What is made lies in 16 planes, [tiles][channels] each, so that every plane
 * is a matrix.  Only winograd.c and winograd_dw.c include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_WINOGRAD_TILES_H
#define MRT_CONV_WINOGRAD_TILES_H

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

/* Channels of one place of each of `side` x `side`, rows first; outside of the
 * image, zeros. */
typedef struct patch {
  const real *at[16];
  int64_t moves[16]; /* -1, or 0: the channels are the same zeros */
} patch;

static const real no_channels[LANES];

static inline vec load_place(const patch *p, int i, int64_t c) {
  return vec_load(p->at[i] + (c & p->moves[i]));
}

/* An image's height, width and channels; tiles [0, tall x wide) of each cover
 * the other image, two places apart. */
typedef struct image {
  const real *data;
  int64_t h, w, c;
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
      to->at[a * side + b] =
          in ? x->data + ((n * x->h + row) * x->w + column) * x->c
             : no_channels;
      to->moves[a * side + b] = in ? -1 : 0;
    }
}

/* B' of a column of four. */
INLINED void turn_input(vec v[4]) {
  vec a = v[0] - v[2], b = v[1] + v[2], c = v[2] - v[1], d = v[1] - v[3];
  v[0] = a, v[1] = b, v[2] = c, v[3] = d;
}

/* B' d B of a tile's channels, to the planes. */
static inline void transform_input(const patch *p, int64_t channels,
                                   int64_t plane, real *to) {
  for (int64_t c = 0; c < channels; c += LANES) {
    vec d[4][4]; /* by column */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) d[j][i] = load_place(p, i * 4 + j, c);
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

#endif
