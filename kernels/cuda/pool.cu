/* pool.cu -- the largest and the mean of windows of images, channels last
 *
 * A thread has an element of what is written; neighbours are channels.
 * Gradients gather: a place of dx asks every window that it is in, so that sums
 * have one order and nothing is written twice.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/window.h"

namespace {

struct cuda_pool_side {
  int64_t x, y, kernel, stride, padding, dilation;
};

struct cuda_pool {
  cuda_pool_side h, w;
  int64_t N, C;
  bool count_padding;
};

/* a / b for a not below 0, quickly where both are small. */
MRT_DEVICE int64_t over(int64_t a, int64_t b) {
  return (a | b) >> 32 ? a / b : (unsigned)a / (unsigned)b;
}

/* Element `at` of images of H lines of W places. */
struct cuda_pool_spot {
  int64_t n, i, j, c;
};
MRT_DEVICE cuda_pool_spot spot_of(int64_t at, int64_t H, int64_t W, int64_t C) {
  int64_t place = over(at, C), line = over(place, W), n = over(line, H);
  return { n, line - n * H, place - line * W, at - place * C };
}

/* Taps of window i that read inside x, and where the first does: a window with
 * padding has `before` taps outside in front. */
struct taps {
  int64_t first, end, at;
};
MRT_DEVICE taps taps_of(const cuda_pool_side &s, int64_t i) {
  int64_t from = i * s.stride - s.padding;
  int64_t first = from < 0 ? over(-from + s.dilation - 1, s.dilation) : 0;
  int64_t end = from < s.x ? over(s.x - from - 1, s.dilation) + 1 : 0;
  return { first, end < s.kernel ? end : s.kernel, from + first * s.dilation };
}
/* The window of which `tap` reads place i of x, or -1. */
MRT_DEVICE int64_t read_by(const cuda_pool_side &s, int64_t i, int64_t tap) {
  int64_t at = i + s.padding - tap * s.dilation;
  if (at < 0) return -1;
  int64_t window = over(at, s.stride);
  return window * s.stride == at && window < s.y ? window : -1;
}

/* Call f(tap, where in x) for each place of the window of y at p. */
template <typename F>
MRT_DEVICE void each_place(const cuda_pool &p, const cuda_pool_spot &at, F f) {
  taps h = taps_of(p.h, at.i), w = taps_of(p.w, at.j);
  int64_t i = h.at;
  for (int64_t a = h.first; a < h.end; a++, i += p.h.dilation) {
    int64_t line = ((at.n * p.h.x + i) * p.w.x + w.at) * p.C + at.c;
    for (int64_t b = w.first; b < w.end; b++, line += p.w.dilation * p.C)
      f(a * p.w.kernel + b, line);
  }
}
/* Call f(tap, where in y, i, j) for each window (i, j) that place `at` of x is
 * in. */
template <typename F>
MRT_DEVICE void each_window(const cuda_pool &p, const cuda_pool_spot &at, F f) {
  for (int64_t a = 0; a < p.h.kernel; a++) {
    int64_t i = read_by(p.h, at.i, a);
    if (i < 0) continue;
    for (int64_t b = 0; b < p.w.kernel; b++) {
      int64_t j = read_by(p.w, at.j, b);
      if (j < 0) continue;
      f(a * p.w.kernel + b, ((at.n * p.h.y + i) * p.w.y + j) * p.C + at.c, i,
        j);
    }
  }
}

MRT_DEVICE int64_t index_at(const void *index, bool wide, int64_t i) {
  return wide ? ((const int32_t *)index)[i] : ((const uint8_t *)index)[i];
}

/* What a kernel is given: in may have an index beside it. */
template <typename T> struct images {
  cuda_pool p;
  mrt_place<T> in, out;
  void *index;
  bool wide; /* index is i32 */
  int64_t count;
};

/* ---- the largest --------------------------------------------------------- */

template <typename T> __global__ void largest(images<T> a) {
  typedef mrt_real<T> R;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, a.p.h.y, a.p.w.y, a.p.C);
    R most = -(R)INFINITY;
    int64_t index = -1; /* the first, where nothing is larger than -inf */
    each_place(a.p, at, [&](int64_t tap, int64_t from) {
      R x = mrt_get<R>(a.in, from);
      if (index < 0 || x > most || x != x) most = x, index = tap;
    });
    if (index < 0) index = 0;
    mrt_put(a.out, k, most);
    if (a.wide)
      ((int32_t *)a.index)[k] = (int32_t)index;
    else
      ((uint8_t *)a.index)[k] = (uint8_t)index;
  }
}

template <typename T> __global__ void picked(images<T> a) {
  typedef mrt_real<T> R;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, a.p.h.y, a.p.w.y, a.p.C);
    int64_t index = index_at(a.index, a.wide, k);
    taps h = taps_of(a.p.h, at.i), w = taps_of(a.p.w, at.j);
    int64_t u = index / a.p.w.kernel, v = index % a.p.w.kernel;
    R y = 0;
    if (u >= h.first && u < h.end && v >= w.first && v < w.end) {
      int64_t i = h.at + (u - h.first) * a.p.h.dilation;
      int64_t j = w.at + (v - w.first) * a.p.w.dilation;
      y = mrt_get<R>(a.in, ((at.n * a.p.h.x + i) * a.p.w.x + j) * a.p.C + at.c);
    }
    mrt_put(a.out, k, y);
  }
}

template <typename T> __global__ void largest_grad(images<T> a) {
  typedef mrt_real<T> R;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, a.p.h.x, a.p.w.x, a.p.C);
    R dx = 0;
    each_window(a.p, at, [&](int64_t tap, int64_t from, int64_t, int64_t) {
      if (index_at(a.index, a.wide, from) == tap) dx += mrt_get<R>(a.in, from);
    });
    mrt_put(a.out, k, dx);
  }
}

/* ---- means --------------------------------------------------------------- */

/* Rows (columns) of window i: those inside x, or inside x and padding. */
MRT_DEVICE int64_t extent(const cuda_pool_side &s, int64_t i, bool padding) {
  int64_t from = i * s.stride - s.padding, to = from + s.kernel;
  if (to > s.x + s.padding) to = s.x + s.padding;
  if (padding) return to - from;
  return (to < s.x ? to : s.x) - (from > 0 ? from : 0);
}
template <typename R>
MRT_DEVICE R divisor(const cuda_pool &p, int64_t i, int64_t j) {
  int64_t n = extent(p.h, i, p.count_padding) * extent(p.w, j, p.count_padding);
  return (R)(n ? n : 1); /* of an image of size 0 */
}

template <typename T> __global__ void mean(images<T> a) {
  typedef mrt_real<T> R;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, a.p.h.y, a.p.w.y, a.p.C);
    R sum = 0;
    each_place(a.p, at,
               [&](int64_t, int64_t from) { sum += mrt_get<R>(a.in, from); });
    mrt_put(a.out, k, sum / divisor<R>(a.p, at.i, at.j));
  }
}

template <typename T> __global__ void mean_grad(images<T> a) {
  typedef mrt_real<T> R;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, a.p.h.x, a.p.w.x, a.p.C);
    R dx = 0;
    each_window(a.p, at, [&](int64_t, int64_t from, int64_t i, int64_t j) {
      dx += mrt_get<R>(a.in, from) / divisor<R>(a.p, i, j);
    });
    mrt_put(a.out, k, dx);
  }
}

/* Places that window i of `to` has among `from`; the other way round, the
 * windows that place i is in. */
struct cuda_pool_span {
  int64_t first, end;
};
MRT_DEVICE cuda_pool_span span_of(int64_t i, int64_t from, int64_t to) {
  return { over(i * from, to), over((i + 1) * from + to - 1, to) };
}

/* `back`: dx, where h.y, w.y are the sizes of dy. */
template <typename T, bool back> __global__ void adaptive(images<T> a) {
  typedef mrt_real<T> R;
  int64_t H = back ? a.p.h.y : a.p.h.x, W = back ? a.p.w.y : a.p.w.x;
  int64_t to_h = back ? a.p.h.x : a.p.h.y, to_w = back ? a.p.w.x : a.p.w.y;
  for (int64_t k = mrt_first(); k < a.count; k += mrt_stride()) {
    cuda_pool_spot at = spot_of(k, to_h, to_w, a.p.C);
    cuda_pool_span h = span_of(at.i, H, to_h), w = span_of(at.j, W, to_w);
    R sum = 0;
    for (int64_t i = h.first; i < h.end; i++)
      for (int64_t j = w.first; j < w.end; j++) {
        R v = mrt_get<R>(a.in, ((at.n * H + i) * W + j) * a.p.C + at.c);
        cuda_pool_span u = span_of(i, to_h, H), l = span_of(j, to_w, W);
        sum += back ? v / (R)((u.end - u.first) * (l.end - l.first)) : v;
      }
    if (!back) sum /= (R)((h.end - h.first) * (w.end - w.first));
    mrt_put(a.out, k, sum);
  }
}

/* ---- launching ----------------------------------------------------------- */

static cuda_pool_side side_of(const mrt_pool_options *o, int i,
                              const mrt_type *x, const mrt_type *y) {
  return { x->dims[1 + i],  y->dims[1 + i],   o->kernel.at[i],
           o->stride.at[i], o->padding.at[i], o->dilation.at[i] };
}

/* Of the operands x and y; index: NULL, there is none. */
template <typename T>
static images<T> images_of(const mrt_call *c, const mrt_operand *x,
                           const mrt_operand *y, const mrt_operand *index) {
  const mrt_pool_options *o = (const mrt_pool_options *)c->options;
  cuda_pool p = { side_of(o, 0, &x->type, &y->type),
                  side_of(o, 1, &x->type, &y->type), x->type.dims[0],
                  x->type.dims[3], o->count_include_pad };
  return { p,
           mrt_at<T>(&c->in[0]),
           mrt_at<T>(&c->out[0]),
           index ? index->data : NULL,
           index && index->type.dtype == MRT_i32,
           mrt_elements(&c->out[0]) };
}

template <typename T>
static void launch(const mrt_call *c, void (*kernel)(images<T>), images<T> a) {
  if (a.count == 0) return;
  MRT_LAUNCH(mrt_blocks(a.count, 256), 256, 0, c->run->queue, kernel)(a);
}

} // namespace

/* `x`, `y`: the operands that are the images. */
#define POOL(name, kernel, x, y, index)                                        \
  extern "C" void mrt_cuda_##name(const mrt_call *c) {                         \
    MRT_DISPATCH(mrt_common(c->in, c->out), T,                                 \
                 { launch<T>(c, kernel, images_of<T>(c, x, y, index)); });     \
  }
#define BOTH(...) __VA_ARGS__
POOL(max_pool2d, largest<T>, c->in, c->out, &c->out[1])
POOL(max_pool2d_pick, picked<T>, c->in, c->out, &c->in[1])
POOL(max_pool2d_grad, largest_grad<T>, c->out, c->in, &c->in[1])
POOL(avg_pool2d, mean<T>, c->in, c->out, NULL)
POOL(avg_pool2d_grad, mean_grad<T>, c->out, c->in, NULL)
POOL(adaptive_avg_pool2d, BOTH(adaptive<T, false>), c->in, c->out, NULL)
POOL(adaptive_avg_pool2d_grad, BOTH(adaptive<T, true>), c->out, c->in, NULL)
