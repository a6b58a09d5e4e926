/* softmax.cu -- softmax, log_softmax and their gradients
 *
 * Along the last dimension a team of threads has a row: in registers where it
 * fits, so that memory is read once; a longer one is read twice, first for its
 * maximum and sum together (online softmax: Milakov & Gimelshein,
 * arXiv:1805.02867).  Along another dimension a thread has a column, and
 * neighbours in memory are neighbours in the warp.
 *
 * SPDX-License-Identifier: MIT */
#include "online_softmax.cuh"
#include "op/softmax.h"

namespace {

enum { PACKS = 4 }; /* of a row, in a thread's registers */

/* The operands seen as [outer, n, inner]. */
struct cuda_softmax_layout {
  int64_t outer, n, inner;
};

cuda_softmax_layout layout_of(const mrt_call *c) {
  const mrt_softmax_options *o = (const mrt_softmax_options *)c->options;
  const mrt_type *t = &c->in[0].type;
  cuda_softmax_layout l = { 1, t->dims[o->dim], 1 };
  for (int64_t i = 0; i < o->dim; i++) l.outer *= t->dims[i];
  for (int64_t i = o->dim + 1; i < t->rank; i++) l.inner *= t->dims[i];
  return l;
}

/* ---- rows ---------------------------------------------------------------- */

/* Long rows, which are not kept, have few values of a thread. */
template <typename T, int P>
constexpr int at_once = mrt_teams_at_once<T> ? 1
                        : P == 0             ? 2
                                             : 0;

/* What an element becomes. */
struct soft {
  template <typename R> MRT_DEVICE R scale(R sum) { return 1 / sum; }
  template <typename R> MRT_DEVICE R of(R x, R max, R scale) {
    return exp(x - max) * scale;
  }
};
struct log_soft {
  template <typename R> MRT_DEVICE R scale(R sum) { return log(sum); }
  template <typename R> MRT_DEVICE R of(R x, R max, R scale) {
    return x - max - scale;
  }
};

template <typename F, typename T, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST, (at_once<T, P>))
    each_row(mrt_place<T> x, mrt_place<T> y, int64_t rows, int64_t n) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  for (int64_t r = mrt_first_row(); r < rows; r += mrt_row_stride()) {
    mrt_row<T, P> row(x, r, n, -(R)INFINITY);
    row.open();
    R max = -(R)INFINITY, sum = 0;
    mrt_each(row,
             [&](const R *v, int64_t) { mrt_add_exps<R, V>(v, &max, &sum); });
    mrt_online_merge(&max, &sum);
    R scale = F::scale(sum);
    mrt_each(row, [&](R *v, int64_t i) {
      MRT_UNROLL
      for (int k = 0; k < V; k++) v[k] = F::of(v[k], max, scale);
      mrt_put_pack<V>(y, i, row.end, v);
    });
  }
}

template <typename F, typename T>
__global__ void columns(mrt_place<T> x, mrt_place<T> y, cuda_softmax_layout l) {
  typedef mrt_real<T> R;
  for (int64_t j = mrt_first(); j < l.outer * l.inner; j += mrt_stride()) {
    int64_t at = j / l.inner * l.n * l.inner + j % l.inner;
    R v, max = -(R)INFINITY, sum = 0;
    for (int64_t i = 0; i < l.n; i++) {
      v = mrt_get<R>(x, at + i * l.inner);
      mrt_add_exps<R, 1>(&v, &max, &sum);
    }
    R scale = F::scale(sum);
    for (int64_t i = 0; i < l.n; i++) {
      v = mrt_get<R>(x, at + i * l.inner);
      mrt_put(y, at + i * l.inner, F::of(v, max, scale));
    }
  }
}

template <typename F, typename T> void forward(const mrt_call *c) {
  cuda_softmax_layout l = layout_of(c);
  mrt_place<T> x = mrt_at<T>(&c->in[0]), y = mrt_at<T>(&c->out[0]);
  if (l.outer * l.n * l.inner == 0) return;
  if (l.inner > 1) {
    MRT_LAUNCH(mrt_blocks(l.outer * l.inner, 256), 256, 0, c->run->queue,
               columns<F, T>)
    (x, y, l);
    return;
  }
  dim3 team = mrt_team(l.n, mrt_at_once<T>, PACKS);
  unsigned grid = mrt_blocks(l.outer, team.y);
  if (mrt_suffices(team, l.n, mrt_at_once<T>, PACKS))
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row<F, T, PACKS>)
  (x, y, l.outer, l.n);
  else MRT_LAUNCH(grid, team, 0, c->run->queue,
                  each_row<F, T, 0>)(x, y, l.outer, l.n);
}

} // namespace

extern "C" void mrt_cuda_softmax(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(c->in, c->out), T, forward<soft, T>(c));
}
extern "C" void mrt_cuda_log_softmax(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(c->in, c->out), T, forward<log_soft, T>(c));
}

namespace {

/* ---- gradients: dx from y, dy and a sum over the row --------------------- */

struct soft_grad {
  template <typename R> MRT_DEVICE R term(R y, R dy) { return y * dy; }
  template <typename R> MRT_DEVICE R of(R y, R dy, R sum) {
    return y * (dy - sum);
  }
};
struct log_soft_grad {
  template <typename R> MRT_DEVICE R term(R, R dy) { return dy; }
  template <typename R> MRT_DEVICE R of(R y, R dy, R sum) {
    return dy - exp(y) * sum;
  }
};

template <typename F, typename T, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST, (at_once<T, P>))
    each_row_grad(mrt_place<T> y, mrt_place<T> dy, mrt_place<T> dx,
                  int64_t rows, int64_t n) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  for (int64_t r = mrt_first_row(); r < rows; r += mrt_row_stride()) {
    mrt_row<T, P> a(y, r, n, 0), b(dy, r, n, 0);
    a.open(), b.open();
    R sum = 0;
    mrt_each(a, b, [&](const R *u, const R *v, int64_t) {
      MRT_UNROLL
      for (int k = 0; k < V; k++) sum += F::term(u[k], v[k]);
    });
    sum = mrt_team_sum(sum);
    mrt_each(a, b, [&](R *u, const R *v, int64_t i) {
      MRT_UNROLL
      for (int k = 0; k < V; k++) u[k] = F::of(u[k], v[k], sum);
      mrt_put_pack<V>(dx, i, a.end, u);
    });
  }
}

template <typename F, typename T>
__global__ void columns_grad(mrt_place<T> y, mrt_place<T> dy, mrt_place<T> dx,
                             cuda_softmax_layout l) {
  typedef mrt_real<T> R;
  for (int64_t j = mrt_first(); j < l.outer * l.inner; j += mrt_stride()) {
    int64_t from = j / l.inner * l.n * l.inner + j % l.inner;
    int64_t end = from + l.n * l.inner;
    R sum = 0;
    for (int64_t i = from; i < end; i += l.inner)
      sum += F::term(mrt_get<R>(y, i), mrt_get<R>(dy, i));
    for (int64_t i = from; i < end; i += l.inner)
      mrt_put(dx, i, F::of(mrt_get<R>(y, i), mrt_get<R>(dy, i), sum));
  }
}

template <typename F, typename T> void backward(const mrt_call *c) {
  cuda_softmax_layout l = layout_of(c);
  mrt_place<T> y = mrt_at<T>(&c->in[0]), dy = mrt_at<T>(&c->in[1]);
  mrt_place<T> dx = mrt_at<T>(&c->out[0]);
  if (l.outer * l.n * l.inner == 0) return;
  if (l.inner > 1) {
    MRT_LAUNCH(mrt_blocks(l.outer * l.inner, 256), 256, 0, c->run->queue,
               columns_grad<F, T>)
    (y, dy, dx, l);
    return;
  }
  dim3 team = mrt_team(l.n, mrt_at_once<T>, PACKS);
  unsigned grid = mrt_blocks(l.outer, team.y);
  if (mrt_suffices(team, l.n, mrt_at_once<T>, PACKS))
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row_grad<F, T, PACKS>)
  (y, dy, dx, l.outer, l.n);
  else MRT_LAUNCH(grid, team, 0, c->run->queue,
                  each_row_grad<F, T, 0>)(y, dy, dx, l.outer, l.n);
}

} // namespace

extern "C" void mrt_cuda_softmax_grad(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->in[1], c->out), T,
               backward<soft_grad, T>(c));
}
extern "C" void mrt_cuda_log_softmax_grad(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->in[1], c->out), T,
               backward<log_soft_grad, T>(c));
}
