/* norm.cu -- layer_norm, rms_norm and their gradients
 *
 * A team of threads has a row, in registers where it fits: read once, its mean,
 * then its variance about that mean, then scaled.  The mean is taken of
 * differences from the row's first element, so that of a constant row it is
 * exact; squares that overflow are taken again, of smaller numbers.  rms_norm is layer_norm about
 * zero.
 *
 * Gradients of w and b are sums over rows.  Rows are dealt to a number of parts
 * that depends on the shape alone; a block sums 32 columns of a part, and the
 * parts are then added in a fixed order.  This reads x and dy before dx may
 * overwrite them.
 *
 * From Ba, Kiros & Hinton, arXiv:1607.06450; Zhang & Sennrich,
 * arXiv:1910.07467.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/norm.h"

namespace {

enum { PACKS = 4, GRAD_PACKS = 2 };

struct cuda_norm_shape {
  int64_t rows, n;
};

cuda_norm_shape shape_of(const mrt_call *c) {
  return { mrt_rows(&c->in[0]), mrt_cols(&c->in[0]) };
}

/* Divided, not multiplied by 1 / n: the mean of equal numbers is exact. */
template <typename R> MRT_DEVICE R mean_of(R sum, int64_t n) {
  return n ? sum / (R)n : sum;
}

/* ---- forward ------------------------------------------------------------- */

/* w, b and means may be absent: NULL. */
template <typename T> struct forward_of {
  typedef mrt_real<T> R;
  mrt_place<T> x, y;
  mrt_any<R> w, b;
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

template <typename T, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST) each_row(forward_of<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t n = a.s.n;
  for (int64_t r = mrt_first_row(); r < a.s.rows; r += mrt_row_stride()) {
    mrt_row<T, P> row(a.x, r, n, 0);
    R mean = 0, squares = 0;
    if (a.means && n) {
      R first = mrt_get<R>(a.x, r * n);
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
    mrt_each(row, [&](R *v, int64_t i) {
      R w[V], b[V];
      int64_t column = i - r * n;
      if (a.w.data) mrt_get_pack<V>(a.w, column, n, (R)0, w);
      if (a.b.data) mrt_get_pack<V>(a.b, column, n, (R)0, b);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        v[k] = (v[k] - mean) * rstd;
        if (a.w.data) v[k] *= w[k];
        if (a.b.data) v[k] += b[k];
      }
      mrt_put_pack<V>(a.y, i, row.end, v);
    });
    if (threadIdx.x) continue;
    if (a.means) a.means[r] = mean;
    a.rstds[r] = rstd;
  }
}

/* Statistics are the outputs after y: a mean where there are two. */
template <typename T> void forward(const mrt_call *c) {
  typedef mrt_real<T> R;
  const mrt_norm_options *o = (const mrt_norm_options *)c->options;
  forward_of<T> a = { mrt_at<T>(&c->in[0]),
                      mrt_at<T>(&c->out[0]),
                      mrt_at_any<R>(c->in, 1, c->nin),
                      mrt_at_any<R>(c->in, 2, c->nin),
                      c->nout > 2 ? (R *)c->out[1].data : NULL,
                      (R *)c->out[c->nout - 1].data,
                      (R)o->eps,
                      shape_of(c) };
  dim3 team = mrt_team(a.s.n, mrt_at_once<T>, PACKS);
  unsigned grid = mrt_blocks(a.s.rows, team.y);
  if (a.s.rows == 0) return;
  if (mrt_suffices(team, a.s.n, mrt_at_once<T>, PACKS))
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row<T, PACKS>)(a);
  else
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row<T, 0>)(a);
}

} // namespace

extern "C" void mrt_cuda_layer_norm(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(c->in, c->out), T, forward<T>(c));
}
extern "C" void mrt_cuda_rms_norm(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(c->in, c->out), T, forward<T>(c));
}

namespace {

/* ---- gradients ----------------------------------------------------------- */

/* means and w may be absent: NULL. */
template <typename T> struct row_gradient {
  typedef mrt_real<T> R;
  mrt_place<T> x, dy, dx;
  mrt_any<R> w;
  const R *means, *rstds;
  cuda_norm_shape s;
};

/* dx = rstd * (g - mean(g) - norm * mean(g * norm)), g = dy * w */
template <typename T, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST)
    each_row_grad(row_gradient<T> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t n = a.s.n;
  for (int64_t r = mrt_first_row(); r < a.s.rows; r += mrt_row_stride()) {
    mrt_row<T, P> row(a.x, r, n, 0), dy(a.dy, r, n, 0);
    R mean = a.means ? a.means[r] : 0, rstd = a.rstds[r], g = 0, gn = 0;
    mrt_each(row, dy, [&](R *x, R *d, int64_t i) {
      R w[V];
      if (a.w.data) mrt_get_pack<V>(a.w, i - r * n, n, (R)0, w);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        x[k] = (x[k] - mean) * rstd;
        if (a.w.data) d[k] *= w[k];
        g += d[k];
        gn += d[k] * x[k];
      }
    });
    g = a.means ? mean_of(mrt_team_sum(g), n) : 0;
    gn = mean_of(mrt_team_sum(gn), n);
    mrt_each(row, dy, [&](R *x, R *d, int64_t i) {
      R w[V];
      if (P == 0 && a.w.data) mrt_get_pack<V>(a.w, i - r * n, n, (R)0, w);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        if (P == 0) x[k] = (x[k] - mean) * rstd;
        if (P == 0 && a.w.data) d[k] *= w[k];
        x[k] = rstd * (d[k] - g - x[k] * gn);
      }
      mrt_put_pack<V>(a.dx, i, row.end, x);
    });
  }
}

/* A block's columns, and the rows that it takes at once. */
enum { COLUMNS = 32, DEEP = 16 };

int64_t parts_of(int64_t rows) {
  int64_t n = (rows + 4 * DEEP - 1) / (4 * DEEP);
  return n < 1 ? 1 : n > 128 ? 128 : n;
}

/* Sum over threadIdx.y; for threadIdx.y == 0. */
template <typename R> MRT_DEVICE R sum_deep(R v) {
  __shared__ R all[DEEP][COLUMNS];
  __syncthreads();
  all[threadIdx.y][threadIdx.x] = v;
  __syncthreads();
  R sum = 0;
  if (threadIdx.y == 0)
    for (int y = 0; y < DEEP; y++) sum += all[y][threadIdx.x];
  return sum;
}

/* Block `part * tiles + tile`: sums of dy * norm and dy over the part's rows,
 * to partial[part][2][n]. */
template <typename T>
__global__ void sum_part(row_gradient<T> a, mrt_real<T> *partial,
                         int64_t parts) {
  typedef mrt_real<T> R;
  int64_t n = a.s.n, tiles = (n + COLUMNS - 1) / COLUMNS;
  for (int64_t b = blockIdx.x; b < tiles * parts; b += gridDim.x) {
    int64_t part = b / tiles, column = b % tiles * COLUMNS + threadIdx.x;
    R dw = 0, db = 0;
    for (int64_t r = part * DEEP + threadIdx.y; column < n && r < a.s.rows;
         r += parts * DEEP) {
      R d = mrt_get<R>(a.dy, r * n + column);
      R x = mrt_get<R>(a.x, r * n + column) - (a.means ? a.means[r] : 0);
      dw += d * (x * a.rstds[r]);
      db += d;
    }
    dw = sum_deep(dw);
    db = sum_deep(db);
    if (threadIdx.y || column >= n) continue;
    partial[2 * part * n + column] = dw;
    partial[(2 * part + 1) * n + column] = db;
  }
}

/* dw, and db unless it is NULL, from the parts. */
template <typename R>
__global__ void sum_parts(const R *partial, int64_t parts, int64_t n, R *dw,
                          R *db) {
  int64_t tiles = (n + COLUMNS - 1) / COLUMNS;
  for (int64_t b = blockIdx.x; b < tiles; b += gridDim.x) {
    int64_t column = b * COLUMNS + threadIdx.x;
    for (int k = 0; k < (db ? 2 : 1); k++) {
      R sum = 0;
      for (int64_t p = threadIdx.y; column < n && p < parts; p += DEEP)
        sum += partial[(2 * p + k) * n + column];
      sum = sum_deep(sum);
      if (threadIdx.y == 0 && column < n) (k ? db : dw)[column] = sum;
    }
  }
}

/* The parts' sums. */
size_t grad_scratch(const mrt_call *c) {
  cuda_norm_shape s = shape_of(c);
  size_t bytes = (size_t)mrt_bytes_of(c->in[1].type.dtype);
  return c->nout > 1 ? (size_t)(2 * parts_of(s.rows) * s.n) * bytes : 0;
}

/* `w`: which input; none with fewer inputs. */
template <typename T>
void backward(const mrt_call *c, const void *means, int w) {
  typedef mrt_real<T> R;
  row_gradient<T> a = { mrt_at<T>(&c->in[0]),
                        mrt_at<T>(&c->in[w - 1]),
                        mrt_at<T>(&c->out[0]),
                        mrt_at_any<R>(c->in, w, c->nin),
                        (const R *)means,
                        (const R *)c->in[w - 2].data,
                        shape_of(c) };
  void *queue = c->run->queue;
  if (c->nout > 1 && a.s.n) {
    int64_t parts = parts_of(a.s.rows);
    int64_t tiles = (a.s.n + COLUMNS - 1) / COLUMNS;
    R *partial = (R *)c->scratch;
    dim3 block(COLUMNS, DEEP);
    MRT_LAUNCH(mrt_blocks(tiles * parts, 1), block, 0, queue, sum_part<T>)
    (a, partial, parts);
    MRT_LAUNCH(mrt_blocks(tiles, 1), block, 0, queue, sum_parts<R>)
    (partial, parts, a.s.n, (R *)c->out[1].data,
     c->nout > 2 ? (R *)c->out[2].data : NULL);
  }
  if (a.s.rows == 0 || a.s.n == 0) return;
  dim3 team = mrt_team(a.s.n, mrt_at_once<T>, GRAD_PACKS);
  unsigned grid = mrt_blocks(a.s.rows, team.y);
  if (mrt_suffices(team, a.s.n, mrt_at_once<T>, GRAD_PACKS))
    MRT_LAUNCH(grid, team, 0, queue, each_row_grad<T, GRAD_PACKS>)(a);
  else
    MRT_LAUNCH(grid, team, 0, queue, each_row_grad<T, 0>)(a);
}

} // namespace

extern "C" void mrt_cuda_layer_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->in[3], c->out), T,
               backward<T>(c, c->in[1].data, 4));
}
extern "C" void mrt_cuda_rms_norm_grad(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->in[2], c->out), T,
               backward<T>(c, NULL, 3));
}

extern "C" size_t mrt_cuda_layer_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(c);
}
extern "C" size_t mrt_cuda_rms_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(c);
}
