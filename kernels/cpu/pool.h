/* pool.h -- windows of images, as all kernels of pools see them
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_POOL_H
#define MRT_POOL_H

#include "floats.h"
#include "op/window.h"

typedef struct pool_side {
  int64_t x, y, kernel, stride, padding, dilation;
} pool_side;

typedef struct pool {
  pool_side h, w;
  int64_t N, C;
  bool count_padding;
} pool;

/* Rows (columns) of window i: those inside x, or those inside x and padding. */
static inline int64_t extent(const pool_side *s, int64_t i, bool padding) {
  int64_t from = i * s->stride - s->padding, to = from + s->kernel;
  if (to > s->x + s->padding) to = s->x + s->padding;
  if (padding) return to - from;
  return (to < s->x ? to : s->x) - (from > 0 ? from : 0);
}
/* What a mean over the window divides by. */
static inline real divisor(const pool *p, int64_t i, int64_t j) {
  int64_t n =
      extent(&p->h, i, p->count_padding) * extent(&p->w, j, p->count_padding);
  return (real)(n ? n : 1); /* of an image of size 0 */
}

/* Window i of `to` that share out `from` places; the other way round, the
 * windows that place i is in. */
typedef struct pool_span {
  int64_t first, end;
} pool_span;
static inline pool_span span_of(int64_t i, int64_t from, int64_t to) {
  return (pool_span){ i * from / to, ((i + 1) * from + to - 1) / to };
}

/* ---- images of one channel (pool_planes.c) -------------------------------- */

#define mrt_pool_planes      MRT_CPU(pool_planes)
#define mrt_pool_planes_max  MRT_CPU(pool_planes_max)
#define mrt_pool_planes_mean MRT_CPU(pool_planes_mean)
#define mrt_pool_planes_pick MRT_CPU(pool_planes_pick)
#define mrt_pool_planes_back MRT_CPU(pool_planes_back)

/* Is this call one of theirs?  `p` as in pool.c; of windows that follow from
 * sizes the stride is 0. */
bool mrt_pool_planes(const mrt_call *c, const pool *p);
/* The largest, or the mean, of windows. */
void mrt_pool_planes_max(const mrt_call *c, const pool *p);
void mrt_pool_planes_mean(const mrt_call *c, const pool *p);
void mrt_pool_planes_pick(const mrt_call *c, const pool *p);
/* dx: by an index, where there is one, else of means. */
void mrt_pool_planes_back(const mrt_call *c, const pool *p);

#endif
