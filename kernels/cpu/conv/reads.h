/* reads.h -- where the rows of a tile read x
 *
 * Only conv.c includes this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CONV_READS_H
#define MRT_CONV_READS_H

#include "conv/sum.h"

/* A place of the class: image n, row i, column j of it. */
typedef struct conv_place {
  int64_t n, i, j;
} conv_place;

static conv_place place_of(const conv *c, int64_t m) {
  int64_t W = c->w.count, H = c->h.count;
  if (c->by_image) return (conv_place){ m % c->N, m / c->N / W, m / c->N % W };
  return (conv_place){ m / W / H, m / W % H, m % W };
}
static void advance(const conv *c, conv_place *p) {
  if (c->by_image && ++p->n < c->N) return;
  if (c->by_image) p->n = 0;
  if (++p->j < c->w.count) return;
  p->j = 0;
  if (++p->i < c->h.count) return;
  p->i = 0, p->n++;
}

static void find_offsets(const conv *c, int64_t *offsets) {
  for (int64_t a = 0, t = 0; a < c->h.spots; a++)
    for (int64_t b = 0; b < c->w.spots; b += c->join)
      offsets[t++] =
          (c->h.spot[a].at * c->w.size + c->w.spot[b].at) * c->x_c * c->x_bytes;
}

/* Is place i inside x at every spot?  Spots are in order, up or down. */
static bool all_inside(const axis *a, int64_t i) {
  int64_t first = i * a->step + a->spot[0].at;
  int64_t last = i * a->step + a->spot[a->spots - 1].at;
  return first >= 0 && first < a->size && last >= 0 && last < a->size;
}

/* Copy the channels of joined spots, zeros where they are outside. */
static const void *copy_edge(const conv *c, const char *line, int64_t j,
                             char *to) {
  int64_t each = c->k * c->x_bytes, step = c->x_c * c->x_bytes;
  int64_t from = most(0, -j), end = least(c->join, c->w.size - j);
  if (from >= end) return NULL;
  memset(to, 0, (size_t)(c->join * each));
  for (int64_t b = from; b < end; b++)
    memcpy(to + b * each, line + (j + b) * step, (size_t)each);
  return to;
}

/* Reads of a row of a tile that is not inside x at every spot; NULL where it
 * is outside. */
static void point_edge(const conv *c, const part *p, conv_place at, int row,
                       reads *r, char *edge) {
  int64_t w = c->join > 1 ? 1 : c->w.spots, a = p->t / w, b = p->t % w;
  int64_t step = c->x_c * c->x_bytes, joined = depth_of(c) * c->x_bytes;
  const char *image =
      c->x + at.n * c->h.size * c->w.size * step + p->c * c->each * c->x_bytes;
  for (int64_t t = 0; t < p->ts; t++) {
    int64_t i = at.i * c->h.step + c->h.spot[a].at;
    int64_t j = at.j * c->w.step + c->w.spot[b].at;
    const char *line = image + i * c->w.size * step;
    const void *x = NULL;
    if (i < 0 || i >= c->h.size)
      x = NULL;
    else if (c->join > 1)
      x = copy_edge(c, line, j, edge + (t * ROWS + row) * joined);
    else if (j >= 0 && j < c->w.size)
      x = line + j * step;
    r[t].row[row] = x;
    if (++b == w) b = 0, a++;
  }
}

/* Reads of one row of a tile; true if it is inside x at every spot. */
static bool point(const conv *c, const part *p, conv_place at, int row,
                  reads *r, const work *w) {
  if (p->ts == 0) return true;
  if (!all_inside(&c->h, at.i) || !all_inside(&c->w, at.j)) {
    point_edge(c, p, at, row, r, (char *)w->edge);
    return false;
  }
  int64_t i = at.n * c->h.size + at.i * c->h.step;
  int64_t first = (i * c->w.size + at.j * c->w.step) * c->x_c;
  const char *x = c->x + (first + p->c * c->each) * c->x_bytes;
  for (int64_t t = 0; t < p->ts; t++) r[t].row[row] = x + w->offsets[p->t + t];
  return true;
}

/* Leave out the spots where no row is inside; the others read zeros there. */
static int close_up(const part *p, reads *r) {
  int count = 0;
  for (int64_t t = 0; t < p->ts; t++) {
    const void *any = NULL;
    for (int i = 0; i < ROWS; i++) any = any ? any : r[t].row[i];
    if (!any) continue;
    reads *to = &r[count++];
    for (int i = 0; i < ROWS; i++)
      to->row[i] = r[t].row[i] ? r[t].row[i] : zeros;
    to->tap = t;
  }
  return count;
}

/* The next tile, of `rows` rows; *at is its first place, and moves on. */
static void make_tile(const conv *c, const part *p, int64_t rows,
                      conv_place *at, const work *w, tile *t) {
  bool inside = rows == ROWS;
  t->at.rows = (int)rows;
  for (int row = 0; row < rows; row++) {
    int64_t i = c->h.first + at->i * c->h.every;
    int64_t j = c->w.first + at->j * c->w.every;
    int64_t to = ((at->n * c->y_h + i) * c->y_w + j) * c->y_c;
    t->y[row] = c->y + to * c->y_bytes;
    inside &= point(c, p, *at, row, t->r, w);
    advance(c, at);
  }
  for (int64_t s = 0; s < p->ts; s++) {
    t->r[s].tap = s;
    for (int64_t row = rows; row < ROWS; row++) t->r[s].row[row] = NULL;
  }
  t->count = inside ? (int)p->ts : close_up(p, t->r);
}

#endif
