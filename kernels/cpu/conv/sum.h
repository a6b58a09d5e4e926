/* sum.h -- a convolution as sums over spots and channels, in parts
 *
 * What conv.c, conv/pack.h and conv/reads.h share; only they include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_SUM_H
#define MRT_CONV_SUM_H

#include "conv/conv.h"
#include "conv/tile.h"

enum {
  K_BLOCK = 576, /* spots x channels: a strip is 144 KiB with AVX-512 */
  /* Packed weights, 576 KiB, stay in the second level. */
  N_BLOCK = 1024 / (int)sizeof(real),
  ENTRIES = 144, /* of a group of tiles, if one tile has not more */
  SMALL = 32,    /* images up to this wide are taken side by side */
  FEW = 16,      /* with fewer channels, spots are joined */
  COPIED = 4,    /* tiles of a group whose reads are copied */
  SUMS = 256     /* tiles of which sums are kept in scratch, 1.5 MiB */
};

/* As many as a tile reads of a place. */
static const real zeros[K_BLOCK];

typedef struct how how; /* conv/mixed.h */

typedef struct conv {
  const how *how; /* narrow floats are read, or written; or NULL */
  int each;       /* channels of a unit of the sum: two with dot products */
  bool copies;    /* elements of x are not units */
  bool sums;      /* parts of the sum do not meet in y */
  int64_t N, groups;
  axis h, w;                 /* of the present class */
  int64_t k, n;              /* channels of x, y in a group */
  int64_t x_c, y_c;          /* in all */
  int64_t y_h, y_w;          /* sides of y */
  int64_t w_k, w_n, w_group; /* strides of the weights; of a tap 1 */
  int64_t kernel_w, taps;
  int64_t join;  /* spots of w read as one, `join` times as many channels */
  bool by_image; /* places in the order of rows, columns, images */
  const char *x, *weights;
  char *y;
  int64_t x_bytes, w_bytes, y_bytes; /* of an element */
  const real *bias;
} conv;

/* The part of the sum that packed weights hold: spots [t, t + ts), units of
 * channels [c, c + cs). */
typedef struct part {
  int64_t t, ts, c, cs;
  bool first, last;
} part;

/* A tile: its entries, where its rows go, and where their sums are kept. */
typedef struct tile {
  reads *r;
  int count;
  target at;
  char *y[ROWS];
  real *sums;
} tile;

/* A thread's scratch. */
typedef struct work {
  spot *h, *w;
  int64_t *offsets; /* in x, of each spot */
  real *packed;
  real *edge; /* of joined spots: [spots][ROWS][channels] */
  reads *entries;
  tile *tiles;
  real *units;          /* of copied reads: [tiles][spots][ROWS][units] */
  real *stage, *turned; /* weights of LANES channels: as they lie, packed */
  real *sums;           /* [SUMS][ROWS][columns] */
} work;

/* ---- sizes --------------------------------------------------------------- */

/* What is one entry of a tile, and how many values and units of each row it
 * is. */
static int64_t spots_of(const conv *c) {
  return c->h.spots * (c->join > 1 ? 1 : c->w.spots);
}
static int64_t depth_of(const conv *c) { return c->k * c->join; }
static int64_t units_of(const conv *c) {
  return ceil_div(depth_of(c), c->each);
}
static int64_t columns_of(const conv *c) {
  return least(round_up(c->n, LANES), N_BLOCK);
}

/* Spots and channels of a block of the sum, for k channels in all; the product
 * is at most K_BLOCK.  A function of the shape alone. */
static int64_t spots_in_block(int64_t spots, int64_t k, bool joined) {
  int64_t room = K_BLOCK / most(k, 1);
  return most(1, least(spots, joined ? room : most(16, room)));
}
static int64_t channels_in_block(int64_t ts, int64_t k) {
  int64_t blocks = ceil_div(k, K_BLOCK / ts);
  return ceil_div(k, most(1, blocks));
}

static int64_t tiles_in_group(const conv *c, int64_t ts) {
  if (c->join > 1) return 1; /* there is one `edge` */
  if (c->copies) return least(COPIED, most(1, ENTRIES / most(ts, 1)));
  return ts <= 9 ? 16 : most(1, ENTRIES / ts);
}

/* Channels whose weights are staged at a time, of any class. */
static int64_t staged(const conv *c, int64_t ts, int64_t units) {
  if (c->join > 1) return c->k;
  bool back = c->w_k != c->taps; /* other classes have fewer spots */
  int64_t cs = back ? K_BLOCK : channels_in_block(ts, units);
  return least(c->k, cs * c->each);
}

static work carve(const conv *c, uintptr_t *at, int64_t kh, int64_t kw) {
  bool joined = c->join > 1, mixed = c->how != NULL;
  int64_t k = units_of(c), spots = joined ? kh : kh * kw;
  int64_t ts = spots_in_block(spots, k, joined);
  int64_t columns = columns_of(c), steps = least(spots * k, K_BLOCK);
  int64_t edge = joined ? ts * ROWS * depth_of(c) : 0;
  int64_t units = c->copies ? COPIED * steps * ROWS : 0;
  int64_t stage = mixed ? LANES * c->taps * staged(c, ts, k) : 0;
  int64_t turned = c->each > 1 ? LANES * 2 * steps : 0;
  int64_t tiles = ceil_div(c->N * c->y_h * c->y_w, ROWS);
  int64_t sums = c->sums ? least(tiles, SUMS) * ROWS * columns : 0;
  return (work){
    .h = (spot *)take(at, kh, sizeof(spot)),
    .w = (spot *)take(at, kw, sizeof(spot)),
    .offsets = (int64_t *)take(at, spots, sizeof(int64_t)),
    .packed = (real *)take(at, steps * columns, sizeof(real)),
    .edge = (real *)take(at, edge, sizeof(real)),
    .entries = (reads *)take(at, most(ENTRIES, ts), sizeof(reads)),
    .tiles = (tile *)take(at, 16, sizeof(tile)),
    .units = (real *)take(at, units, sizeof(real)),
    .stage = (real *)take(at, stage, sizeof(real)),
    .turned = (real *)take(at, turned, sizeof(real)),
    .sums = (real *)take(at, sums, sizeof(real)),
  };
}

#endif
