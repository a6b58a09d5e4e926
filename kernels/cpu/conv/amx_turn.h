/* amx_turn.h -- what dw reads of x and dy, as tile registers do
 *
 * Rows of x are channels, a place after the other; of dy pairs of places lie side
 * by side.  In both, places are units of the lines of y (conv/amx_image.h).
 *
 * Only conv/amx_dw.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_AMX_TURN_H
#define MRT_CONV_AMX_TURN_H

#include "conv/amx_image.h"
#include "gemm/pack.h"

enum {
  TILES = 288,  /* of a box: their sums are 1.1 MiB */
  BLOCKS = 8,   /* of a box, of x */
  PLACES = 512, /* at a time, about */
  TILE_REALS = GROUP * GROUP
};

typedef struct tiled_dw {
  amx_image x;
  reader dy;
  int64_t n, y_c;                /* channels of dy: of a group, in all */
  int64_t C, taps;               /* of the weights */
  int64_t joined;                /* taps of a spot */
  int64_t blocks, strips, spots; /* tiles each way; of joined ones 1 block */
  int64_t row;                   /* bytes of a turned row */
  int64_t dy_line;               /* places of dy from a line to the next */
  int64_t dy_places;             /* at a time */
  int64_t box_blocks, tiles;     /* of a box at most; of joined ones spots */
  char *dw;
  mrt_dtype result;
} tiled_dw;

/* Tiles [.., .._end) each way. */
typedef struct box {
  int64_t block, block_end, strip, strip_end, spot, spot_end;
} box;

/* A part's scratch. */
typedef struct tiled_dw_work {
  real *sums;         /* [strips][blocks][spots][GROUP][GROUP] of a box */
  const char **units; /* of x */
  char *copy;         /* GROUP of them, of all blocks of a box */
  char *turned;       /* [blocks][phases][GROUP][row] */
  const char **at;    /* of each place of dy; NULL: padding */
  uint32_t *pairs;    /* of a strip of dy: [places / 2][GROUP] */
} tiled_dw_work;

static int64_t phases_of(const tiled_dw *d) {
  return d->x.h.phases * d->x.w.phases;
}
/* Blocks of one that is joined. */
static int64_t blocks_of(const tiled_dw *d) {
  return d->x.joined ? d->x.blocks : 1;
}

/* ---- x ---------------------------------------------------------------------- */

typedef uint16_t pairs_vec __attribute__((vector_size(64)));

/* Of each quarter of two rows the numbers of its first or second half, in
 * turn. */
#define HALVES(a, b, i)                                                        \
  ZIP(a, b, i, 32 + i, i + 1, 33 + i, i + 2, 34 + i, i + 3, 35 + i, i + 8,     \
      i + 40, i + 9, i + 41, i + 10, i + 42, i + 11, i + 43, i + 16, i + 48,   \
      i + 17, i + 49, i + 18, i + 50, i + 19, i + 51, i + 24, i + 56, i + 25,  \
      i + 57, i + 26, i + 58, i + 27, i + 59)

/* GROUP units of GROUP channels become rows of GROUP places: pairs of places are
 * turned, half of the channels at a time. */
static inline __attribute__((always_inline)) void
turn_half(bool second, const char *from, char *to, int64_t row) {
  vec v[AMX_TILE];
#pragma GCC unroll 16
  for (int i = 0; i < AMX_TILE; i++, from += 2 * UNIT_BYTES) {
    pairs_vec a = (pairs_vec)vec_load((const real *)from);
    pairs_vec b = (pairs_vec)vec_load((const real *)(from + UNIT_BYTES));
    v[i] = second ? (vec)HALVES(a, b, 4) : (vec)HALVES(a, b, 0);
  }
  transpose(v);
#pragma GCC unroll 16
  for (int i = 0; i < AMX_TILE; i++) {
    int channel = i / 4 * 8 + i % 4 + (second ? 4 : 0);
    vec_store((real *)(to + channel * row), v[i]);
  }
}

static void turn_units(const char *from, char *to, int64_t row) {
  turn_half(false, from, to, row);
  turn_half(true, from, to, row);
}

/* The channels that a box has of units, all phases of them, become its rows. */
static void turn_box(const tiled_dw *d, const box *of, const tiled_dw_work *w) {
  amx_image m = d->x;
  int64_t first = of->block * GROUP * m.x.bytes, step = GROUP * UNIT_BYTES;
  int64_t bytes = phases_of(d) * GROUP * d->row;
  if (!m.joined) {
    m.blocks = of->block_end - of->block;
    m.k = least(m.blocks * GROUP, d->C - of->block * GROUP);
  }
  for (int64_t u = 0; u < phases_of(d) * m.units; u++)
    if (w->units[u]) w->units[u] += first;
  for (int64_t p = 0; p < phases_of(d); p++)
    for (int64_t u = 0; u < m.units; u += GROUP) {
      const char **at = w->units + p * m.units + u;
      int64_t n = least(GROUP, m.units - u);
      copy_units(&m, at, u, n, m.units - u, w->copy, step);
      for (int64_t b = 0; b < m.blocks; b++)
        turn_units(w->copy + b * step,
                   w->turned + b * bytes + p * GROUP * d->row + u * 2, d->row);
    }
}

/* ---- dy --------------------------------------------------------------------- */

/* Where the places of lines [line, line + n) are; how many there are, in whole
 * registers. */
static int64_t find_places(const tiled_dw *d, int64_t line, int64_t n,
                           const char **at) {
  const amx_image *m = &d->x;
  int64_t H = m->h.of.count, W = m->w.of.count, places = n * d->dy_line;
  int64_t place = d->y_c * d->dy.bytes;
  int64_t all = round_up(places, GROUP);
  memset(at, 0, (size_t)all * sizeof *at);
  for (int64_t r = 0; r < n; r++, at += d->dy_line) {
    int64_t tall = m->beside ? H : m->h.pitch;
    int64_t image = (line + r) / tall, i = (line + r) % tall;
    if (i >= H) continue;
    image *= m->wide;
    int64_t images = least(m->wide, m->N - image);
    for (int64_t g = 0; g < images; g++) {
      const char *from = d->dy.data + ((image + g) * H + i) * W * place;
      for (int64_t j = 0; j < W; j++) at[j * m->wide + g] = from + j * place;
    }
  }
  return all;
}

static const uint16_t no_values[GROUP];

static void read_strip(const tiled_dw *d, const char *from, int64_t n,
                       uint16_t *to) {
  reader r = d->dy;
  r.data = from;
  read_values(&r, to, 0, 0, 1, n);
}

/* A strip of dy in pairs of places; `offset` are bytes to its channels. */
static void pair_strip(const tiled_dw *d, const char *const *at, int64_t places,
                       int64_t offset, int64_t columns, uint32_t *to) {
  bool whole = d->dy.plain && columns == GROUP;
  uint16_t room[2][GROUP] = { { 0 } };
  for (int64_t p = 0; p < places; p += 2, to += GROUP) {
    const uint16_t *half[2];
    if (p + AHEAD + 1 < places)
      for (int i = 0; i < 2; i++)
        ask_for(at[p + AHEAD + i] + offset, columns * d->dy.bytes);
    for (int i = 0; i < 2; i++) {
      const char *from = at[p + i];
      half[i] = from ? room[i] : no_values;
      if (from && whole)
        half[i] = (const uint16_t *)(from + offset);
      else if (from)
        read_strip(d, from + offset, columns, room[i]);
    }
    zip_pairs(to, half[0], half[1], GROUP);
  }
}

#endif
