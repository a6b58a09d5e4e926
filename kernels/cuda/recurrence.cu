/* recurrence.cu -- linear recurrences along a dimension, and their gradients
 *
 * A thread has a piece of a column and goes through it; neighbours in memory are
 * neighbours in the warp.  Where columns are few they are cut into pieces, each of
 * which maps what comes into it, c, to A c + B: first these maps are found, then a
 * block for each column finds what comes into each piece, then pieces go on from
 * there.  Pieces depend on the shape alone.
 *
 * Gradients go the other way: c is what the position after it has for this one,
 * g = dh + c, and a g goes on.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/recurrence.h"

namespace {

enum {
  THREADS = 128,
  WANTED = 1 << 16, /* threads: fewer columns are cut */
  SHORTEST = 32     /* piece */
};

template <typename R> struct linear_scan {
  const R *a, *x, *h, *initial; /* x: b, or dh; h: of gradients, else NULL */
  R *y, *da, *dinitial;
  int64_t outer, n, inner, piece, pieces;
  bool backward;
  double *maps; /* [columns, pieces, 2]: A, B, then what comes into each */

  __device__ __forceinline__ int64_t step(void) const {
    return backward ? -inner : inner;
  }
  /* The k-th place that column `column` visits. */
  __device__ __forceinline__ int64_t at(int64_t column, int64_t k) const {
    int64_t first = column / inner * n * inner + column % inner;
    return first + (backward ? n - 1 - k : k) * inner;
  }
};

template <typename R>
__global__ void __launch_bounds__(THREADS) find_maps(linear_scan<R> r) {
  int64_t columns = r.outer * r.inner;
  for (int64_t i = mrt_first(); i < columns * r.pieces; i += mrt_stride()) {
    int64_t column = i % columns, from = i / columns * r.piece;
    int64_t to = from + r.piece < r.n ? from + r.piece : r.n;
    int64_t at = r.at(column, from);
    double A = 1, B = 0;
    for (int64_t k = from; k < to; k++, at += r.step()) {
      double a = (double)r.a[at], x = (double)r.x[at];
      A *= a;
      B = r.h ? a * (x + B) : a * B + x;
    }
    double *map = r.maps + (column * r.pieces + i / columns) * 2;
    map[0] = A, map[1] = B;
  }
}

/* Nothing stays nothing, though A may be infinite. */
MRT_DEVICE double apply(double A, double B, double c) {
  return c == 0 ? B : A * c + B;
}

/* A block for a column: threads fold a share of its pieces each, one folds the
 * shares, then each goes through its own. */
template <typename R>
__global__ void __launch_bounds__(THREADS) chain_maps(linear_scan<R> r) {
  __shared__ double A[THREADS], B[THREADS];
  int64_t columns = r.outer * r.inner, t = threadIdx.x;
  for (int64_t column = blockIdx.x; column < columns; column += gridDim.x) {
    double *maps = r.maps + column * r.pieces * 2;
    int64_t from = r.pieces * t / THREADS, to = r.pieces * (t + 1) / THREADS;
    double a = 1, b = 0;
    for (int64_t k = from; k < to; k++) {
      a *= maps[2 * k];
      b = apply(maps[2 * k], maps[2 * k + 1], b);
    }
    A[t] = a, B[t] = b;
    __syncthreads();
    if (t == 0) {
      double c = r.initial && !r.h ? (double)r.initial[column] : 0;
      for (int k = 0; k < THREADS; k++) {
        double next = apply(A[k], B[k], c);
        B[k] = c;
        c = next;
      }
    }
    __syncthreads();
    double c = B[t];
    for (int64_t k = from; k < to; k++) {
      double next = apply(maps[2 * k], maps[2 * k + 1], c);
      maps[2 * k] = c;
      c = next;
    }
    __syncthreads();
  }
}

template <typename R>
MRT_DEVICE void go_back(const linear_scan<R> &r, int64_t column, int64_t from,
                        int64_t to, R c) {
  int64_t at = r.at(column, from);
  R first = r.initial ? r.initial[column] : (R)0;
  for (int64_t k = from; k < to; k++, at += r.step()) {
    R g = r.x[at] + c;
    c = r.a[at] * g;
    r.y[at] = g;
    r.da[at] = g * (k + 1 < r.n ? r.h[at + r.step()] : first);
  }
  if (r.dinitial && to == r.n) r.dinitial[column] = c;
}

template <typename R>
__global__ void __launch_bounds__(THREADS) go_through(linear_scan<R> r) {
  int64_t columns = r.outer * r.inner;
  for (int64_t i = mrt_first(); i < columns * r.pieces; i += mrt_stride()) {
    int64_t column = i % columns, piece = i / columns, from = piece * r.piece;
    int64_t to = from + r.piece < r.n ? from + r.piece : r.n;
    R c = r.initial && !r.h ? r.initial[column] : (R)0;
    if (r.pieces > 1) c = (R)r.maps[(column * r.pieces + piece) * 2];
    if (r.h) {
      go_back(r, column, from, to, c);
      continue;
    }
    int64_t at = r.at(column, from);
    for (int64_t k = from; k < to; k++, at += r.step())
      r.y[at] = c = fma(r.a[at], c, r.x[at]);
  }
}

template <typename R> static linear_scan<R> shape_of(const mrt_call *c) {
  const mrt_recurrence_options *o = (const mrt_recurrence_options *)c->options;
  const mrt_type *t = &c->in[0].type;
  linear_scan<R> r = {};
  r.outer = r.inner = 1, r.n = t->dims[o->dim];
  for (int i = 0; i < t->rank; i++) {
    if (i < o->dim) r.outer *= t->dims[i];
    if (i > o->dim) r.inner *= t->dims[i];
  }
  int64_t columns = r.outer * r.inner;
  r.pieces = columns && columns < WANTED ? WANTED / columns : 1;
  r.piece = (r.n + r.pieces - 1) / r.pieces;
  if (r.piece < SHORTEST) r.piece = SHORTEST;
  r.pieces = (r.n + r.piece - 1) / r.piece;
  if (r.pieces < 1) r.pieces = 1;
  return r;
}

template <typename R> static void run(const mrt_call *c, linear_scan<R> r) {
  int64_t columns = r.outer * r.inner;
  unsigned blocks = mrt_blocks(columns * r.pieces, THREADS);
  if (columns == 0) return;
  r.maps = (double *)c->scratch;
  if (r.pieces > 1) {
    MRT_LAUNCH(blocks, THREADS, 0, c->run->queue, find_maps<R>)(r);
    MRT_LAUNCH(mrt_blocks(columns, 1), THREADS, 0, c->run->queue, chain_maps<R>)
    (r);
  }
  MRT_LAUNCH(blocks, THREADS, 0, c->run->queue, go_through<R>)(r);
}

template <typename R> static void forward(const mrt_call *c) {
  linear_scan<R> r = shape_of<R>(c);
  r.a = (const R *)c->in[0].data, r.x = (const R *)c->in[1].data;
  r.y = (R *)c->out[0].data;
  r.initial = c->nin == 3 ? (const R *)c->in[2].data : NULL;
  r.backward = ((const mrt_recurrence_options *)c->options)->reverse;
  run(c, r);
}
template <typename R> static void backward(const mrt_call *c) {
  linear_scan<R> r = shape_of<R>(c);
  r.a = (const R *)c->in[0].data, r.h = (const R *)c->in[1].data;
  r.x = (const R *)c->in[2].data;
  r.da = (R *)c->out[0].data, r.y = (R *)c->out[1].data;
  r.initial = c->nin == 4 ? (const R *)c->in[3].data : NULL;
  r.dinitial = c->nin == 4 ? (R *)c->out[2].data : NULL;
  r.backward = !((const mrt_recurrence_options *)c->options)->reverse;
  run(c, r);
}

static size_t maps_of(const mrt_call *c) {
  linear_scan<float> r = shape_of<float>(c);
  if (r.pieces == 1) return 0;
  return (size_t)(r.outer * r.inner * r.pieces) * 2 * sizeof(double);
}

} // namespace

extern "C" void mrt_cuda_linear_recurrence(const mrt_call *c) {
  if (c->in[0].type.dtype == MRT_f64)
    forward<double>(c);
  else
    forward<float>(c);
}
extern "C" void mrt_cuda_linear_recurrence_grad(const mrt_call *c) {
  if (c->in[0].type.dtype == MRT_f64)
    backward<double>(c);
  else
    backward<float>(c);
}
extern "C" size_t mrt_cuda_linear_recurrence_scratch(const mrt_call *c) {
  return maps_of(c);
}
extern "C" size_t mrt_cuda_linear_recurrence_grad_scratch(const mrt_call *c) {
  return maps_of(c);
}
