/* pack.h -- copy weights into the order the tile reads them
 *
 * A strip of up to COLS channels of y, for each spot and channel of a part of
 * the sum, side by side.  Only conv.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_PACK_H
#define MRT_CONV_PACK_H

#include "conv/sum.h"
#include "gemm/pack.h"

static const real *weight_at(const conv *c, int64_t k, int64_t n) {
  return (const real *)c->weights + k * c->w_k + n * c->w_n;
}

/* The tap of entry t; of joined ones, the first. */
static int64_t tap_at(const conv *c, int64_t t) {
  int64_t w = c->join > 1 ? 1 : c->w.spots;
  return c->h.spot[t / w].tap * c->kernel_w + c->w.spot[t % w].tap;
}

/* Where the taps of a row of w are all read, in order, and channels follow one
 * another: LANES rows at a time are transposed. */
static void pack_rows(const conv *c, const part *p, int64_t n, int width,
                      real *to) {
  int64_t along = p->cs * p->ts, whole = along / LANES * LANES;
  const real *from = weight_at(c, p->c, n);
  int64_t t = 0, k = 0; /* of the present step */
  for (int64_t q = 0; q < along; q += LANES) {
    vec v[LANES];
    for (int j = 0; j < LANES; j++)
      v[j] = q < whole ? vec_load(from + j * c->w_n + q)
                       : load_some(from + j * c->w_n + q, (int)(along - q));
    transpose(v);
    for (int j = 0; j < LANES && q + j < along; j++) {
      vec_store(to + (t * p->cs + k) * width, v[j]);
      if (++t == p->ts) t = 0, k++;
    }
  }
}

static void pack_values(const conv *c, const part *p, int64_t n, int count,
                        int width, real *to) {
  for (int64_t t = 0; t < p->ts; t++) {
    int64_t tap = tap_at(c, p->t + t);
    for (int64_t k = 0; k < p->cs; k++) {
      int64_t channel = p->c + k, right = 0;
      if (c->join > 1) right = channel / c->k, channel %= c->k;
      const real *from = weight_at(c, channel, n) + tap + right;
      real *step = to + (t * p->cs + k) * width;
      for (int j = 0; j < count; j++) step[j] = from[j * c->w_n];
      for (int j = count; j < LANES; j++) step[j] = 0;
    }
  }
}

/* Columns [n, n + count), at most LANES, of a strip `width` wide: w(t, k, n) at
 * to[(t cs + k) width + n]. */
static void pack_lanes(const conv *c, const part *p, int64_t n, int count,
                       int width, real *to) {
  int64_t taps = c->h.spots * c->w.spots;
  bool rows = c->join == 1 && c->w_k == taps && p->ts == taps &&
              tap_at(c, taps - 1) == taps - 1 && tap_at(c, 0) == 0;
  if (rows && count == LANES)
    pack_rows(c, p, n, width, to);
  else
    pack_values(c, p, n, count, width, to);
}

#endif
