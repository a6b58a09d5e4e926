/* norm.cu -- layer_norm and rms_norm
 *
 * A team of threads has a row, in registers where it fits: read once, its mean,
 * then its variance about that mean, then scaled.  The mean is taken of
 * differences from the row's first element, so that of a constant row it is
 * exact; squares that overflow are taken again, of smaller numbers.  rms_norm is
 * layer_norm about zero.
 *
 * Most kernels take operands of one dtype, or of any.  What steps in bf16 have,
 * rows of bf16 or f32 beside weights of f32, has its own.
 *
 * From Ba, Kiros & Hinton, arXiv:1607.06450; Zhang & Sennrich,
 * arXiv:1910.07467.
 *
 * SPDX-License-Identifier: MIT */
#include "norm.cuh"

namespace {

enum {
  PACKS = 2, /* that a thread has of a row: with the weights of as many columns
                and the row read ahead more would not fit in registers */
  THREADS = 1 << 17
};

/* Input i as W, which may be absent: NULL. */
template <typename W> mrt_place<W> optional(const mrt_call *c, int i) {
  if (i < c->nin) return mrt_at<W>(&c->in[i]);
  return mrt_place_of<W>::at(NULL, MRT_f32);
}
/* w, b and means may be absent: NULL. */
template <typename T, typename Y, typename W> struct forward_of {
  typedef mrt_real<T> R;
  mrt_place<T> x;
  mrt_place<Y> y;
  mrt_place<W> w, b;
  R *means, *rstds, eps;
  cuda_norm_shape s;
};

/* 1 / sqrt(mean (x - mean)^2) where the squares overflow; eps is nothing beside
 * them.  0 if an element is infinite. */
template <typename T, int P>
MRT_DEVICE mrt_real<T> rstd_of_large(mrt_row<T, P> &row, mrt_real<T> mean,
                                     int64_t n) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  R most = 0, sum = 0;
  mrt_each(row, [&](const R *v, int64_t i) {
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      R d = i + k < row.end ? fabs(v[k] - mean) : 0;
      most = d > most ? d : most;
    }
  });
  most = mrt_team_max(most);
  if (most == (R)INFINITY) return 0;
  mrt_each(row, [&](const R *v, int64_t i) {
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      R d = i + k < row.end ? (v[k] - mean) / most : 0;
      sum += d * d;
    }
  });
  return 1 / (most * sqrt(mean_of(mrt_team_sum(sum), n)));
}

template <typename T, typename Y, typename W, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST, 1)
    each_row(forward_of<T, Y, W> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t n = a.s.n;
  R w[P ? P : 1][V], b[P ? P : 1][V]; /* where rows fit: of all rows */
  mrt_packs<W, P, V> ws, bs;
  int64_t column = threadIdx.x * V, step = (int64_t)blockDim.x * V;
  int64_t from = mrt_first_row(), stride = mrt_row_stride();
  bool centred = a.means && n;
  mrt_row<T, P> row(a.x, 0);
  R next = 0; /* the first element of the row that is read ahead */
  if (from < a.s.rows) row.ahead(from, n);
  if (from < a.s.rows && centred) next = mrt_get<R>(a.x, from * n);
  if (is_there(a.w)) ws.read(a.w, column, step, n);
  if (is_there(a.b)) bs.read(a.b, column, step, n);
  MRT_UNROLL
  for (int p = 0; p < P; p++) ws.widen(p, w[p]), bs.widen(p, b[p]);
  for (int64_t r = from; r < a.s.rows; r += stride) {
    R mean = 0, squares = 0, first = next;
    row.turn(r, n);
    if (r + stride < a.s.rows) row.ahead(r + stride, n);
    if (r + stride < a.s.rows && centred)
      next = mrt_get<R>(a.x, (r + stride) * n);
    if (centred) {
      mrt_each(row, [&](const R *v, int64_t i) {
        MRT_UNROLL
        for (int k = 0; k < V; k++) mean += i + k < row.end ? v[k] - first : 0;
      });
      mean = first + mean_of(mrt_team_sum(mean), n);
    }
    mrt_each(row, [&](const R *v, int64_t i) {
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        R d = i + k < row.end ? v[k] - mean : 0;
        squares += d * d;
      }
    });
    R variance = mean_of(mrt_team_sum(squares), n);
    R rstd = variance == (R)INFINITY ? rstd_of_large<T, P>(row, mean, n)
                                     : 1 / sqrt(variance + a.eps);
    int p = 0;
    mrt_each(row, [&](R *v, int64_t i) {
      if (P == 0) get_weights<V>(a.w, i - r * n, n, w[0]);
      if (P == 0) get_weights<V>(a.b, i - r * n, n, b[0]);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        v[k] = (v[k] - mean) * rstd;
        if (is_there(a.w)) v[k] *= w[p][k];
        if (is_there(a.b)) v[k] += b[p][k];
      }
      mrt_put_pack<V>(a.y, i, row.end, v);
      if (P) p++;
    });
    if (threadIdx.x) continue;
    if (a.means) a.means[r] = mean;
    a.rstds[r] = rstd;
  }
}

/* Statistics are the outputs after y: a mean where there are two. */
template <typename T, typename Y, typename W>
void forward_as(const mrt_call *c) {
  typedef mrt_real<T> R;
  const mrt_norm_options *o = (const mrt_norm_options *)c->options;
  forward_of<T, Y, W> a = { mrt_at<T>(&c->in[0]),
                            mrt_at<Y>(&c->out[0]),
                            optional<W>(c, 1),
                            optional<W>(c, 2),
                            c->nout > 2 ? (R *)c->out[1].data : NULL,
                            (R *)c->out[c->nout - 1].data,
                            (R)o->eps,
                            shape_of(c) };
  constexpr int V = mrt_at_once<T>, P = PACKS;
  dim3 team = mrt_team(a.s.n, V, P);
  if (a.s.rows == 0) return;
  /* Teams that have rows and weights in registers take several rows, where
   * there are more than threads for some 1,000 on each multiprocessor of a large
   * device. */
  int64_t teams = THREADS / team.x, rows = (a.s.rows + teams - 1) / teams;
  unsigned grid = mrt_blocks(a.s.rows, team.y);
  unsigned some = mrt_blocks(a.s.rows, (int64_t)team.y * rows);
  if (mrt_suffices(team, a.s.n, V, P))
    MRT_LAUNCH(some, team, 0, c->run->queue, each_row<T, Y, W, P>)(a);
  else
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row<T, Y, W, 0>)(a);
}

bool is_of(const mrt_call *c, int i, int dtype) {
  return i >= c->nin || c->in[i].type.dtype == dtype;
}
void forward(const mrt_call *c) {
  bool to_bf16 = c->out[0].type.dtype == MRT_bf16 && is_of(c, 1, MRT_f32) &&
                 is_of(c, 2, MRT_f32);
  if (to_bf16 && is_of(c, 0, MRT_f32))
    return forward_as<float, mrt_bf16, float>(c);
  if (to_bf16 && is_of(c, 0, MRT_bf16))
    return forward_as<mrt_bf16, mrt_bf16, float>(c);
  MRT_DISPATCH(mrt_common(c->in, c->out), T,
               forward_as<T, T, any_weights<T>>(c));
}

} // namespace

extern "C" void mrt_cuda_layer_norm(const mrt_call *c) { forward(c); }
extern "C" void mrt_cuda_rms_norm(const mrt_call *c) { forward(c); }
