/* conv_sum.h -- a convolution as sums over spots and channels, in parts
 *
 * What conv.c, conv_pack.h and conv_reads.h share; only they include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_SUM_H
#define MRT_CONV_SUM_H

#include "conv.h"
#include "conv_tile.h"

enum {
  K_BLOCK = 576, /* spots x channels: a strip is 144 KiB with AVX-512 */
  /* Packed weights, 576 KiB, stay in the second level. */
  N_BLOCK = 1024 / (int)sizeof(real),
  ENTRIES = 144, /* of a group of tiles, if one tile has not more */
  SMALL = 32,    /* images up to this wide are taken side by side */
  FEW = 16       /* with fewer channels, spots are joined */
};

/* As many as a tile reads of a place. */
static const real zeros[K_BLOCK];

typedef struct conv {
  int64_t N, groups;
  axis h, w;                 /* of the present class */
  int64_t k, n;              /* channels of x, y in a group */
  int64_t x_c, y_c;          /* in all */
  int64_t y_h, y_w;          /* sides of y */
  int64_t w_k, w_n, w_group; /* strides of the weights; of a tap 1 */
  int64_t kernel_w;
  int64_t join;  /* spots of w read as one, `join` times as many channels */
  bool by_image; /* places in the order of rows, columns, images */
  const real *x, *weights, *bias;
  real *y;
} conv;

/* The part of the sum that packed weights hold: spots [t, t + ts), channels
 * [c, c + cs). */
typedef struct part {
  int64_t t, ts, c, cs;
  bool first, last;
} part;

/* A tile: its entries, and where its rows go. */
typedef struct tile {
  reads *r;
  int count;
  target at;
} tile;

/* A thread's scratch. */
typedef struct work {
  spot *h, *w;
  int64_t *offsets; /* in x, of each spot */
  real *packed;
  real *edge; /* of joined spots: [spots][ROWS][channels] */
  reads *entries;
  tile *tiles;
} work;

/* ---- sizes --------------------------------------------------------------- */

/* What is one entry of a tile, and how many values of each row it is. */
static int64_t spots_of(const conv *c) {
  return c->h.spots * (c->join > 1 ? 1 : c->w.spots);
}
static int64_t depth_of(const conv *c) { return c->k * c->join; }

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

static int64_t tiles_in_group(int64_t ts, bool joined) {
  if (joined) return 1; /* there is one `edge` */
  return ts <= 9 ? 16 : most(1, ENTRIES / ts);
}

static char *take(uintptr_t *at, int64_t count, size_t size) {
  char *p = (char *)*at;
  *at += (uintptr_t)round_up(count * (int64_t)size, 64);
  return p;
}

static work carve(const conv *c, uintptr_t *at, int64_t kh, int64_t kw) {
  bool joined = c->join > 1;
  int64_t k = depth_of(c), spots = joined ? kh : kh * kw;
  int64_t ts = spots_in_block(spots, k, joined);
  int64_t columns = least(round_up(c->n, LANES), N_BLOCK);
  int64_t edge = joined ? ts * ROWS * k : 0;
  return (work){
    .h = (spot *)take(at, kh, sizeof(spot)),
    .w = (spot *)take(at, kw, sizeof(spot)),
    .offsets = (int64_t *)take(at, spots, sizeof(int64_t)),
    .packed =
        (real *)take(at, least(spots * k, K_BLOCK) * columns, sizeof(real)),
    .edge = (real *)take(at, edge, sizeof(real)),
    .entries = (reads *)take(at, most(ENTRIES, ts), sizeof(reads)),
    .tiles = (tile *)take(at, 16, sizeof(tile)),
  };
}

#endif
