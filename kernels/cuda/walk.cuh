/* walk.cuh -- all places of a shape, in two operands at once
 *
 * Neighbouring dimensions that both operands cross evenly are joined, and
 * those of size 1 dropped, so that few divisions are left for a kernel.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_WALK_CUH
#define MRT_CUDA_WALK_CUH

#include "cuda.cuh"
#ifdef MRT_EMULATED
#include "emulate.h"
#endif

/* steps in elements; rank may be 0 */
struct mrt_walk {
  int rank;
  int64_t count, dims[MRT_MAX_RANK], xs[MRT_MAX_RANK], ys[MRT_MAX_RANK];
};

/* Add a dimension inside those so far. */
static inline void mrt_walk_add(mrt_walk *w, int64_t n, int64_t xs,
                                int64_t ys) {
  if (w->rank == 0) w->count = 1;
  w->dims[w->rank] = n, w->xs[w->rank] = xs, w->ys[w->rank] = ys;
  w->rank++;
}

static inline void mrt_walk_join(mrt_walk *w) {
  int to = 0;
  w->count = 1;
  for (int i = 0; i < w->rank; i++) {
    int64_t n = w->dims[i];
    w->count *= n;
    if (n == 1) continue;
    if (to && w->xs[to - 1] == n * w->xs[i] && w->ys[to - 1] == n * w->ys[i]) {
      w->dims[to - 1] *= n;
    } else {
      w->dims[to++] = n;
    }
    w->xs[to - 1] = w->xs[i], w->ys[to - 1] = w->ys[i];
  }
  w->rank = to;
}

/* Whether every place can be counted in 32 bits. */
static inline bool mrt_walk_is_small(const mrt_walk *w) {
  const int64_t most = (int64_t)1 << 30;
  int64_t x = 0, y = 0;
#ifdef MRT_EMULATED /* so that specs need no tensors of gigabytes */
  if (mrt_emulate_wide()) return false;
#endif
  if (w->count > most) return false;
  for (int i = 0; w->count && i < w->rank; i++) {
    int64_t xs = w->xs[i] < 0 ? -w->xs[i] : w->xs[i];
    int64_t ys = w->ys[i] < 0 ? -w->ys[i] : w->ys[i];
    if (xs > most || ys > most) return false;
    x += xs * (w->dims[i] - 1), y += ys * (w->dims[i] - 1);
    if (x > most || y > most) return false;
  }
  return true;
}

/* Item i, counted by I: int32_t where the walk is small. */
template <typename I>
MRT_DEVICE void mrt_walk_place(const mrt_walk &w, I i, int64_t *x, int64_t *y) {
  I xi = 0, yi = 0;
  for (int d = w.rank - 1; d > 0; d--) {
    I n = (I)w.dims[d], rest = i / n, at = i - rest * n;
    xi += at * (I)w.xs[d], yi += at * (I)w.ys[d];
    i = rest;
  }
  if (w.rank) xi += i * (I)w.xs[0], yi += i * (I)w.ys[0];
  *x = xi, *y = yi;
}

#endif
