/* group_norm.cuh -- what group_norm, batch_norm and their gradients share
 *
 * batch_norm is group_norm of one sample, each channel a group.  Rows of a
 * sample are dealt to parts, whose number depends on the shape alone; a block
 * has some channels of a part.  What its threads found is joined in double
 * precision, and so are the parts, in a fixed order.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GROUP_NORM_CUH
#define MRT_GROUP_NORM_CUH

#include "cuda.cuh"
#include "op/batch_norm.h"
#include "op/group_norm.h"

namespace {

enum { THREADS = 256, CHUNK = 4 /* rows that a thread reads at a time */ };

/* [samples, rows, n]: n channels in groups.  wide: threads along channels. */
struct cuda_group_shape {
  int64_t samples, rows, n, groups;
  int64_t parts, each; /* rows of a part */
  int64_t tiles;       /* of channels */
  int wide;
};

MRT_DEVICE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- what threads and parts join: P has join(const P &) and below(by) ---- */

/* Over the block's threads of one threadIdx.x; for threadIdx.y == 0. */
template <typename P> MRT_DEVICE P join_deep(P v) {
  __shared__ P all[THREADS];
  int me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
  __syncthreads();
  all[me] = v;
  for (int deep = (int)blockDim.y / 2; deep; deep /= 2) {
    __syncthreads();
    if ((int)threadIdx.y >= deep) continue;
    v.join(all[me + deep * (int)blockDim.x]);
    all[me] = v;
  }
  return v;
}

/* Over a warp; for its first lane. */
template <typename P> MRT_DEVICE P join_warp(P v) {
  for (int by = 16; by; by /= 2) v.join(v.below(by));
  return v;
}

/* Block b has these rows and channels of a sample. */
struct cuda_group_piece {
  int64_t sample, part, first, end; /* rows, of all samples */
  int64_t channel;                  /* the thread's first */
};
MRT_DEVICE cuda_group_piece piece_of(const cuda_group_shape &s, int64_t b,
                                     int V) {
  int64_t tile = b % s.tiles, part = b / s.tiles % s.parts;
  int64_t sample = b / s.tiles / s.parts, from = sample * s.rows;
  return { sample, part, from + at_most(part * s.each, s.rows),
           from + at_most((part + 1) * s.each, s.rows),
           (tile * s.wide + threadIdx.x) * V };
}

/* ---- launching ----------------------------------------------------------- */

/* As batch_norm with 0 groups.  Enough parts to keep a GPU busy. */
static inline cuda_group_shape shape_of(const mrt_call *c, int64_t groups,
                                        int V) {
  const mrt_operand *x = &c->in[0];
  cuda_group_shape s = { 1, mrt_rows(x), mrt_cols(x), groups, 1, 0, 1, 1 };
  if (groups) {
    s.samples = x->type.dims[0];
    s.rows = s.samples ? s.rows / s.samples : 0;
  } else
    s.groups = s.n;
  int64_t packs = (s.n + V - 1) / V;
  while (s.wide < 32 && s.wide < packs) s.wide *= 2;
  s.tiles = (packs + s.wide - 1) / s.wide;
  int64_t blocks = s.samples * s.tiles, deep = THREADS / s.wide * 2 * CHUNK;
  int64_t wanted = blocks ? 1024 / blocks : 1,
          most = (s.rows + deep - 1) / deep;
  s.parts = wanted < most ? wanted : most;
  if (s.parts < 1) s.parts = 1;
  s.each = (s.rows + s.parts - 1) / s.parts;
  return s;
}

/* A block for each piece; a warp for each number. */
template <typename A>
static inline void pieces(const mrt_call *c, void (*kernel)(A), const A &a) {
  int64_t blocks = a.s.samples * a.s.parts * a.s.tiles;
  if (a.s.n == 0 || blocks == 0) return;
  dim3 block((unsigned)a.s.wide, (unsigned)(THREADS / a.s.wide));
  MRT_LAUNCH(mrt_blocks(blocks, 1), block, 0, c->run->queue, kernel)(a);
}
template <typename A>
static inline void warps(const mrt_call *c, void (*kernel)(A), const A &a,
                         int64_t n) {
  if (n == 0) return;
  MRT_LAUNCH(mrt_blocks(n, 4), dim3(32, 4), 0, c->run->queue, kernel)(a);
}

static inline int64_t groups_of(const mrt_call *c) {
  return ((const mrt_group_norm_options *)c->options)->groups;
}

/* Sums of the parts; with `totals` also of the groups. */
static inline size_t scratch(const mrt_call *c, int dtype, int64_t groups,
                             bool totals) {
  cuda_group_shape s = { 0, 0, 0, 0, 0, 0, 0, 0 };
  MRT_DISPATCH(dtype, T, s = shape_of(c, groups, mrt_at_once<T>));
  int64_t n = s.samples * s.parts * s.n;
  return (size_t)(n + (totals ? s.samples * s.groups : 0)) * sizeof(double2);
}
} // namespace

#endif
