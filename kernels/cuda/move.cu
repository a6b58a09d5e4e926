/* move.cu -- copy, cat and pad: strided elements to strided places
 *
 * All three are one function, `move`.  Elements that lie together on both
 * sides are moved as up to 16 bytes.  Where a dimension is contiguous in x and
 * another one in y, square tiles go through shared memory, so that both sides
 * are read and written by lines.  Zeros are moved from nowhere.
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "walk.cuh"

namespace {

struct moved16 {
  uint64_t half[2];
} __attribute__((aligned(16)));

/* `w` counts what is moved; steps in elements of `size` bytes. */
struct cuda_move {
  mrt_walk w;
  int64_t size;
  const char *x; /* NULL: zeros */
  char *y;
};

/* ---- units to their places ----------------------------------------------- */

template <typename T, typename I>
__global__ void __launch_bounds__(256)
    move_units(const T *x, T *y, mrt_walk w) {
  for (int64_t i = mrt_first(); i < w.count; i += mrt_stride()) {
    int64_t from, to;
    mrt_walk_place<I>(w, (I)i, &from, &to);
    y[to] = x ? x[from] : T();
  }
}

template <typename T> void launch_units(const cuda_move &m, void *queue) {
  const T *x = (const T *)m.x;
  unsigned grid = mrt_blocks(m.w.count, 256);
  if (mrt_walk_is_small(&m.w))
    MRT_LAUNCH(grid, 256, 0, queue, move_units<T, int32_t>)(x, (T *)m.y, m.w);
  else
    MRT_LAUNCH(grid, 256, 0, queue, move_units<T, int64_t>)(x, (T *)m.y, m.w);
}

/* Whether `by` elements of m can be moved as one. */
bool can_widen(const cuda_move &m, int64_t by) {
  int last = m.w.rank - 1;
  uintptr_t bytes = (uintptr_t)(by * m.size);
  if (last < 0 || m.w.ys[last] != 1 || m.w.dims[last] % by) return false;
  if (m.x ? m.w.xs[last] != 1 : m.w.xs[last] != 0) return false;
  if ((uintptr_t)m.x % bytes || (uintptr_t)m.y % bytes) return false;
  for (int i = 0; i < last; i++)
    if (m.w.xs[i] % by || m.w.ys[i] % by) return false;
  return true;
}

void widen(cuda_move *m) {
  int64_t by = 16 / m->size;
  while (by > 1 && !can_widen(*m, by)) by /= 2;
  if (by == 1) return;
  int last = m->w.rank - 1;
  for (int i = 0; i < last; i++) m->w.xs[i] /= by, m->w.ys[i] /= by;
  m->w.dims[last] /= by, m->w.count /= by, m->size *= by;
}

void run_units(cuda_move m, void *queue) {
  widen(&m);
  switch (m.size) {
    MRT_CASE(1, T, uint8_t, launch_units<T>(m, queue))
    MRT_CASE(2, T, uint16_t, launch_units<T>(m, queue))
    MRT_CASE(4, T, uint32_t, launch_units<T>(m, queue))
    MRT_CASE(8, T, uint64_t, launch_units<T>(m, queue))
    MRT_CASE(16, T, moved16, launch_units<T>(m, queue))
  }
}

/* ---- tiles --------------------------------------------------------------- */

/* y[j * ys + i] = x[i * xs + j], i below n and j below rows; and that at every
 * place of `w`. */
struct tiling {
  int64_t rows, n, xs, ys;
  mrt_walk w;
};

template <typename T> constexpr int side = sizeof(T) < 4 ? 64 : 32;
enum { TILE_X = 32, TILE_Y = 8 };

template <typename T>
__global__ void __launch_bounds__(TILE_X *TILE_Y)
    move_tiles(const T *x, T *y, tiling t) {
  constexpr int SIDE = side<T>, PAD = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[SIDE][SIDE + PAD]; /* columns lie in different banks */
  int64_t across = (t.n + SIDE - 1) / SIDE;
  int64_t each = (t.rows + SIDE - 1) / SIDE * across;
  for (int64_t b = blockIdx.x; b < t.w.count * each; b += gridDim.x) {
    int64_t from, to, which = b % each;
    mrt_walk_place<int64_t>(t.w, b / each, &from, &to);
    int64_t j0 = which / across * SIDE, i0 = which % across * SIDE;
    __syncthreads(); /* the last tile has been read */
    for (int i = threadIdx.y; i < SIDE && i0 + i < t.n; i += TILE_Y)
      for (int j = threadIdx.x; j < SIDE && j0 + j < t.rows; j += TILE_X)
        tile[i][j] = x[from + (i0 + i) * t.xs + j0 + j];
    __syncthreads();
    for (int j = threadIdx.y; j < SIDE && j0 + j < t.rows; j += TILE_Y)
      for (int i = threadIdx.x; i < SIDE && i0 + i < t.n; i += TILE_X)
        y[to + (j0 + j) * t.ys + i0 + i] = tile[i][j];
  }
}

/* The dimension to pair with the last one in tiles: contiguous in x, where
 * the last one is contiguous in y alone; -1 if there is none. */
int tiled_dim(const cuda_move &m) {
  const mrt_walk &w = m.w;
  int last = w.rank - 1;
  if (!m.x || last < 1 || w.ys[last] != 1 || w.xs[last] == 1) return -1;
  for (int d = 0; d < last && w.dims[last] >= 8; d++)
    if (w.xs[d] == 1 && w.dims[d] >= 8) return d;
  return -1;
}

template <typename T>
void launch_tiles(const cuda_move &m, const tiling &t, void *queue) {
  int64_t tiles = t.w.count * ((t.n + side<T> - 1) /
                               side<T>)*((t.rows + side<T> - 1) / side<T>);
  MRT_LAUNCH(mrt_blocks(tiles, 1), dim3(TILE_X, TILE_Y), 0, queue,
             move_tiles<T>)
  ((const T *)m.x, (T *)m.y, t);
}

void run_tiles(const cuda_move &m, int d, void *queue) {
  int last = m.w.rank - 1;
  tiling t = { m.w.dims[d], m.w.dims[last], m.w.xs[last], m.w.ys[d], {} };
  for (int i = 0; i < last; i++)
    if (i != d) mrt_walk_add(&t.w, m.w.dims[i], m.w.xs[i], m.w.ys[i]);
  mrt_walk_join(&t.w);
  switch (m.size) {
    MRT_CASE(1, T, uint8_t, launch_tiles<T>(m, t, queue))
    MRT_CASE(2, T, uint16_t, launch_tiles<T>(m, t, queue))
    MRT_CASE(4, T, uint32_t, launch_tiles<T>(m, t, queue))
    MRT_CASE(8, T, uint64_t, launch_tiles<T>(m, t, queue))
  }
}

/* ---- move ---------------------------------------------------------------- */

void run_move(cuda_move m, void *queue) {
  mrt_walk_join(&m.w);
  if (m.w.count == 0) return;
  int d = tiled_dim(m);
  if (d >= 0) {
    run_tiles(m, d, queue);
    return;
  }
  /* All that is one piece: 16 bytes at a time but for its end. */
  int64_t n = m.w.count, by = 16 / m.size, rest = n % by;
  cuda_move end = m;
  m.w.dims[0] = m.w.count = n - rest;
  if (m.w.rank == 1 && rest && n > by && can_widen(m, by)) {
    run_units(m, queue);
    end.x += end.x ? (n - rest) * end.size : 0, end.y += (n - rest) * end.size;
    end.w.dims[0] = end.w.count = rest;
  }
  run_units(end, queue);
}

/* From x (zeros: of its shape but for `n` along dim) to y from position `at`
 * of dim on. */
void place(const mrt_call *c, const mrt_operand *x, bool zeros, int64_t dim,
           int64_t at, int64_t n) {
  const mrt_operand *y = &c->out[0];
  cuda_move m = { {}, mrt_bytes_of(y->type.dtype), NULL, NULL };
  for (int i = 0; i < x->type.rank; i++)
    mrt_walk_add(&m.w, i == dim ? n : x->type.dims[i],
                 zeros ? 0 : x->strides[i], y->strides[i]);
  m.x = zeros ? NULL : (const char *)x->data;
  m.y = (char *)y->data + (at ? at * y->strides[dim] : 0) * m.size;
  run_move(m, c->run->queue);
}

} // namespace

extern "C" void mrt_cuda_copy(const mrt_call *c) {
  place(c, &c->in[0], false, -1, 0, 0);
}

extern "C" void mrt_cuda_cat(const mrt_call *c) {
  int64_t dim = ((const mrt_dim_options *)c->options)->dim, at = 0;
  for (int i = 0; i < c->nin; i++) {
    int64_t n = c->in[i].type.dims[dim];
    place(c, &c->in[i], false, dim, at, n);
    at += n;
  }
}

/* From the last position of each of dims on, backwards. */
extern "C" void mrt_cuda_flip(const mrt_call *c) {
  const mrt_flip_options *o = (const mrt_flip_options *)c->options;
  const mrt_operand *x = &c->in[0];
  if (mrt_elements(x) == 0) return;
  mrt_operand from = *x;
  int64_t last = 0;
  for (int i = 0; i < o->dims.count; i++) {
    int64_t d = o->dims.at[i];
    last += (x->type.dims[d] - 1) * x->strides[d];
    from.strides[d] = -x->strides[d];
  }
  from.data = (char *)x->data + last * mrt_bytes_of(x->type.dtype);
  place(c, &from, false, -1, 0, 0);
}

extern "C" void mrt_cuda_write_part(const mrt_call *c) {
  const mrt_write_options *o = (const mrt_write_options *)c->options;
  const mrt_operand *y = &c->out[0], *part = &c->in[1];
  if (y->data != c->in[0].data) place(c, &c->in[0], false, -1, 0, 0);
  if (mrt_elements(part) == 0) return;
  cuda_move m = { {}, mrt_bytes_of(y->type.dtype), NULL, NULL };
  int64_t first = 0;
  for (int i = 0; i < y->type.rank; i++) {
    mrt_walk_add(&m.w, part->type.dims[i], part->strides[i],
                 o->step.at[i] * y->strides[i]);
    first += o->first.at[i] * y->strides[i];
  }
  m.x = (const char *)part->data;
  m.y = (char *)y->data + first * m.size;
  run_move(m, c->run->queue);
}

extern "C" void mrt_cuda_pad(const mrt_call *c) {
  const mrt_pad_options *o = (const mrt_pad_options *)c->options;
  const mrt_operand *x = &c->in[0];
  int64_t n = x->type.dims[o->dim];
  place(c, x, true, o->dim, 0, o->before);
  place(c, x, false, o->dim, o->before, n);
  place(c, x, true, o->dim, o->before + n, o->after);
}
