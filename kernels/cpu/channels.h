/* channels.h -- sums over rows, for each channel (a column of contiguous rows)
 *
 * Rows of few channels are read several at a time, as one wide row: elements
 * are added up column by column of that, which fills vectors, and its parts are
 * added up at the end of a block.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CHANNELS_H
#define MRT_CHANNELS_H

#include "floats.h"
#include "vmath.h"

enum {
  WIDE = 16 * LANES, /* a wide row is at least as long */
  BLOCK = 32 << 10,  /* elements of a block, about, */
  LEAST = 8          /* and wide rows at least */
};

typedef struct channels_shape {
  int64_t rows, n, width, block; /* n: channels; block: rows of one */
  int team;
} channels_shape;

static inline channels_shape shape_of(int64_t rows, int64_t n) {
  channels_shape s = { .rows = rows, .n = n, .team = 1 };
  int64_t join = s.n ? (WIDE + s.n - 1) / s.n : 1; /* rows of a wide row */
  if (join > s.rows) join = s.rows > 0 ? s.rows : 1;
  s.width = join * s.n;
  int64_t most = s.n ? BLOCK / s.width : LEAST;
  s.block = join * (most < LEAST ? LEAST : most);
  return s;
}

/* Elements of a block in a room, 0 where nothing is narrow. */
static inline int64_t block_room(const mrt_call *c, const channels_shape *s) {
  return mrt_room_row(c, (s->block < s->rows ? s->block : s->rows) * s->n);
}

/* Bytes rounded up, so that threads do not share cache lines. */
static inline int64_t up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static inline void clear(real *x, int64_t n) {
  memset(x, 0, (size_t)n * sizeof *x);
}

/* One number per channel, repeated along a wide row. */
static inline void repeat(const channels_shape *s, real *wide) {
  for (int64_t i = s->n; i < s->width; i += s->n)
    memcpy(wide + i, wide, (size_t)s->n * sizeof *wide);
}

/* The parts of a wide row added up into its first n. */
static inline void add_up(const channels_shape *s, real *wide) {
  for (int64_t i = s->n; i < s->width; i += s->n)
#pragma omp simd
    for (int64_t j = 0; j < s->n; j++) wide[j] += wide[i + j];
}

/* sum[j] += x - base[j] for what stands in column j of `count` elements in wide
 * rows.  With a base among them the mean of equal numbers is exact. */
static inline void add_block(const real *x, const real *base, int64_t count,
                             int64_t w, real *sum) {
  for (; count >= 4 * w; count -= 4 * w, x += 4 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++)
      sum[j] += ((x[j] - base[j]) + (x[j + w] - base[j])) +
                ((x[j + 2 * w] - base[j]) + (x[j + 3 * w] - base[j]));
  for (int64_t n; count > 0; count -= n, x += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sum[j] += x[j] - base[j];
  }
}

/* 1 / sqrt(var + eps); NaN where squares have overflowed, so that it shows. */
static inline real rstd_of(double var, double eps) {
  return var == INFINITY ? (real)NAN : (real)(1 / sqrt(var + eps));
}

static inline real square(real x) { return x * x; }

/* The same of squares about center[j]. */
static inline void add_squares(const real *x, const real *center, int64_t count,
                               int64_t w, real *sum) {
  for (; count >= 4 * w; count -= 4 * w, x += 4 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++)
      sum[j] +=
          (square(x[j] - center[j]) + square(x[j + w] - center[j])) +
          (square(x[j + 2 * w] - center[j]) + square(x[j + 3 * w] - center[j]));
  for (int64_t n; count > 0; count -= n, x += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) sum[j] += square(x[j] - center[j]);
  }
}

/* Means and squares about them of `more` rows join those of `rows`, by the
 * formula of Chan, Golub & LeVeque (1979). */
static inline void join(double *mean, double *square_sum, int64_t rows,
                        double mean2, double square_sum2, int64_t more) {
  double change = mean2 - *mean, all = (double)(rows + more);
  *mean += change * ((double)more / all);
  *square_sum +=
      square_sum2 + change * change * ((double)rows * (double)more / all);
}

/* sum[j] += dy, product[j] += dy * (x - center[j]), column by column. */
static inline void add_products(const real *x, const real *dy,
                                const real *center, int64_t count, int64_t w,
                                real *sum, real *product) {
  for (; count >= 2 * w; count -= 2 * w, x += 2 * w, dy += 2 * w)
#pragma omp simd
    for (int64_t j = 0; j < w; j++) {
      sum[j] += dy[j] + dy[j + w];
      product[j] +=
          dy[j] * (x[j] - center[j]) + dy[j + w] * (x[j + w] - center[j]);
    }
  for (int64_t n; count > 0; count -= n, x += n, dy += n) {
    n = count < w ? count : w;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
      sum[j] += dy[j];
      product[j] += dy[j] * (x[j] - center[j]);
    }
  }
}

#endif
