/* norm.cu -- layer_norm, rms_norm and their gradients
 *
 * A team of threads has a row, in registers where it fits: read once, its mean,
 * then its variance about that mean, then scaled.  The mean is taken of
 * differences from the row's first element, so that of a constant row it is
 * exact; squares that overflow are taken again, of smaller numbers.  rms_norm is layer_norm about
 * zero.
 *
 * Gradients of w and b are sums over rows.  Rows are dealt to a number of parts
 * that depends on the shape alone, whose sums are then added in a fixed order.
 * Where rows fit in registers a team has the rows of a part and makes both dx
 * and the part's sums of what it has read; else a block sums 32 columns of a
 * part before dx, which may overwrite x or dy, is made.
 *
 * Most kernels take operands of one dtype, or of any.  What steps in bf16 have,
 * rows and gradients of bf16 or f32 beside weights of f32, has its own.
 *
 * From Ba, Kiros & Hinton, arXiv:1607.06450; Zhang & Sennrich,
 * arXiv:1910.07467.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"
#include "op/norm.h"

namespace {

enum { ROWS = 4 };

/* Packs of V that a thread has of a row: more would not fit in registers, with
 * the weights, or the sums, of as many columns. */
constexpr int packs(int V) { return V > 4 ? 2 : 4; }
constexpr int grad_packs(int V) { return packs(V) / 2; }

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

/* Whether an operand is there. */
template <typename T> MRT_DEVICE bool is_there(T *x) { return x != NULL; }
template <typename R> MRT_DEVICE bool is_there(const mrt_any<R> &x) {
  return x.data != NULL;
}
/* Input i as W, which may be absent: NULL. */
template <typename W> mrt_place<W> optional(const mrt_call *c, int i) {
  if (i < c->nin) return mrt_at<W>(&c->in[i]);
  return mrt_place_of<W>::at(NULL, MRT_f32);
}
/* A pack of weights that may be absent. */
template <int V, typename X, typename R>
MRT_DEVICE void get_weights(X w, int64_t first, int64_t n, R *v) {
  if (is_there(w)) mrt_get_pack<V>(w, first, n, (R)0, v);
}
template <typename T> using any_weights = mrt_mixed<mrt_real<T>>;

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
__global__ void __launch_bounds__(MRT_TEAM_MOST)
    each_row(forward_of<T, Y, W> a) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t n = a.s.n;
  R w[P ? P : 1][V], b[P ? P : 1][V]; /* where rows fit: of all rows */
  mrt_packs<W, P, V> ws, bs;
  int64_t column = threadIdx.x * V, step = (int64_t)blockDim.x * V;
  if (is_there(a.w)) ws.read(a.w, column, step, n);
  if (is_there(a.b)) bs.read(a.b, column, step, n);
  MRT_UNROLL
  for (int p = 0; p < P; p++) ws.widen(p, w[p]), bs.widen(p, b[p]);
  for (int64_t r = mrt_first_row(); r < a.s.rows; r += mrt_row_stride()) {
    mrt_row<T, P> row(a.x, r, n, 0);
    row.open();
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
  constexpr int V = mrt_at_once<T>, P = packs(V);
  dim3 team = mrt_team(a.s.n, V, P);
  /* Teams that have weights in registers take several rows. */
  unsigned grid = mrt_blocks(a.s.rows, team.y);
  unsigned some = mrt_blocks(a.s.rows, (int64_t)team.y * ROWS);
  if (a.s.rows == 0) return;
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

namespace {

/* ---- gradients ----------------------------------------------------------- */

/* means and w may be absent: NULL. */
template <typename T, typename D, typename G, typename W> struct row_gradient {
  typedef mrt_real<T> R;
  mrt_place<T> x;
  mrt_place<G> dx;
  mrt_place<D> dy;
  mrt_place<W> w;
  const R *means, *rstds;
  cuda_norm_shape s;
};

/* What a team sums of its rows: of the thread's columns. */
template <typename R, int P, int V> struct column_sums {
  R dw[P ? P : 1][V], db[P ? P : 1][V];
};
/* To partial[part][2][n]. */
template <typename R, int P, int V>
MRT_DEVICE void put_sums(const column_sums<R, P, V> &sums, R *partial,
                         int64_t part, int64_t n) {
  R *dw = partial + 2 * part * n, *db = dw + n;
  MRT_UNROLL
  for (int p = 0; p < P; p++) {
    int64_t i = ((int64_t)p * blockDim.x + threadIdx.x) * V;
    mrt_put_pack<V>(dw, i, n, sums.dw[p]);
    mrt_put_pack<V>(db, i, n, sums.db[p]);
  }
}

/* dx = rstd * (g - mean(g) - norm * mean(g * norm)), g = dy * w;
 * and where `partial` is not NULL the sums of each of `parts` teams' rows: then
 * P is not 0. */
template <typename T, typename D, typename G, typename W, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST)
    each_row_grad(row_gradient<T, D, G, W> a, mrt_real<T> *partial,
                  int64_t parts) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t n = a.s.n;
  column_sums<R, P, V> sums = {};
  R w[P ? P : 1][V]; /* where rows fit: of all rows */
  mrt_packs<W, P, V> ws;
  if (is_there(a.w)) ws.read(a.w, threadIdx.x * V, (int64_t)blockDim.x * V, n);
  MRT_UNROLL
  for (int p = 0; p < P; p++) ws.widen(p, w[p]);
  /* A team without a part has no rows: it would read those of another, where dx
   * may be by now. */
  int64_t part = mrt_first_row(), rows = part < parts ? a.s.rows : 0;
  for (int64_t r = part; r < rows; r += parts) {
    mrt_row<T, P, V> row(a.x, r, n, 0);
    mrt_row<D, P, V> dy(a.dy, r, n, 0);
    R mean = a.means ? a.means[r] : 0, rstd = a.rstds[r], g = 0, gn = 0;
    row.open(), dy.open();
    int p = 0;
    mrt_each(row, dy, [&](R *x, R *d, int64_t i) {
      if (P == 0) get_weights<V>(a.w, i - r * n, n, w[0]);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        x[k] = (x[k] - mean) * rstd;
        if (P) sums.dw[p][k] += d[k] * x[k], sums.db[p][k] += d[k];
        if (is_there(a.w)) d[k] *= w[p][k];
        g += d[k];
        gn += d[k] * x[k];
      }
      if (P) p++;
    });
    g = a.means ? mean_of(mrt_team_sum(g), n) : 0;
    gn = mean_of(mrt_team_sum(gn), n);
    mrt_each(row, dy, [&](R *x, R *d, int64_t i) {
      if (P == 0) get_weights<V>(a.w, i - r * n, n, w[0]);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        if (P == 0) x[k] = (x[k] - mean) * rstd;
        if (P == 0 && is_there(a.w)) d[k] *= w[0][k];
        x[k] = rstd * (d[k] - g - x[k] * gn);
      }
      mrt_put_pack<V>(a.dx, i, row.end, x);
    });
  }
  if (P && partial && part < parts) put_sums<R, P, V>(sums, partial, part, n);
}

/* A block's columns, and the rows that it takes at once. */
enum { COLUMNS = 32, DEEP = 16 };

/* Of columns by the block. */
int64_t parts_of(int64_t rows) {
  int64_t n = (rows + 4 * DEEP - 1) / (4 * DEEP);
  return n < 1 ? 1 : n > 128 ? 128 : n;
}
/* Of rows by the team: at least 8 in each, and threads for some 500 on each
 * multiprocessor of a large device, all at once. */
int64_t team_parts_of(int64_t rows, dim3 team) {
  int64_t n = (rows + 7) / 8, most = (1 << 16) / team.x;
  return n < 1 ? 1 : n > most ? most : n;
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
template <typename T, typename D, typename G, typename W>
__global__ void sum_part(row_gradient<T, D, G, W> a, mrt_real<T> *partial,
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

/* A block's columns of what many parts have summed: few, so that there are
 * blocks for all multiprocessors; a sector of memory each. */
enum { FEW_COLUMNS = 8, MANY_PARTS = 64 };

/* dw, and db unless it is NULL, from the parts. */
template <typename R>
__global__ void sum_parts(const R *partial, int64_t parts, int64_t n, R *dw,
                          R *db) {
  __shared__ R all[MANY_PARTS][FEW_COLUMNS];
  int64_t tiles = (n + FEW_COLUMNS - 1) / FEW_COLUMNS;
  R *own = &all[threadIdx.y][threadIdx.x];
  for (int64_t b = blockIdx.x; b < (db ? 2 : 1) * tiles; b += gridDim.x) {
    int64_t column = b % tiles * FEW_COLUMNS + threadIdx.x, k = b / tiles;
    R sum = 0;
    for (int64_t p = threadIdx.y; column < n && p < parts; p += MANY_PARTS)
      sum += partial[(2 * p + k) * n + column];
    *own = sum;
    for (int by = MANY_PARTS / 2; by; by /= 2) {
      __syncthreads();
      if ((int)threadIdx.y < by) *own += all[threadIdx.y + by][threadIdx.x];
    }
    if (threadIdx.y == 0 && column < n) (k ? db : dw)[column] = *own;
    __syncthreads();
  }
}

/* The parts' sums, however they are made: packs are of at least 2. */
size_t grad_scratch(const mrt_call *c) {
  cuda_norm_shape s = shape_of(c);
  size_t bytes = (size_t)mrt_bytes_of(c->in[1].type.dtype);
  int64_t parts = parts_of(s.rows);
  for (int V = 2; V <= 8; V *= 2) {
    int64_t of_rows = team_parts_of(s.rows, mrt_team(s.n, V, grad_packs(V)));
    if (of_rows > parts) parts = of_rows;
  }
  return c->nout > 1 ? (size_t)(2 * parts * s.n) * bytes : 0;
}

/* Sums of columns, before dx. */
template <typename T, typename D, typename G, typename W>
void sum_columns(const mrt_call *c, const row_gradient<T, D, G, W> &a) {
  int64_t tiles = (a.s.n + COLUMNS - 1) / COLUMNS, parts = parts_of(a.s.rows);
  MRT_LAUNCH(mrt_blocks(tiles * parts, 1), dim3(COLUMNS, DEEP), 0,
             c->run->queue, sum_part<T, D, G, W>)
  (a, (mrt_real<T> *)c->scratch, parts);
}
/* dw and db from `parts` parts. */
template <typename R>
void join_parts(const mrt_call *c, int64_t parts, int64_t n) {
  int64_t tiles = (n + FEW_COLUMNS - 1) / FEW_COLUMNS;
  MRT_LAUNCH(mrt_blocks((c->nout - 1) * tiles, 1),
             dim3(FEW_COLUMNS, MANY_PARTS), 0, c->run->queue, sum_parts<R>)
  ((const R *)c->scratch, parts, n, (R *)c->out[1].data,
   c->nout > 2 ? (R *)c->out[2].data : NULL);
}

/* `w`: which input; none with fewer inputs. */
template <typename T, typename D, typename G, typename W>
void backward_as(const mrt_call *c, const void *means, int w) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  row_gradient<T, D, G, W> a = {
    mrt_at<T>(&c->in[0]), mrt_at<G>(&c->out[0]), mrt_at<D>(&c->in[w - 1]),
    optional<W>(c, w),    (const R *)means,      (const R *)c->in[w - 2].data,
    shape_of(c)
  };
  constexpr int P = grad_packs(V);
  dim3 team = mrt_team(a.s.n, V, P);
  bool sums = c->nout > 1, fits = mrt_suffices(team, a.s.n, V, P);
  int64_t parts = parts_of(a.s.rows);
  if (a.s.n == 0) return;
  if (sums && !fits) sum_columns(c, a);
  if (a.s.rows > 0 && fits) {
    int64_t teams = (int64_t)mrt_blocks(a.s.rows, team.y) * team.y;
    if (sums) parts = teams = team_parts_of(a.s.rows, team);
    MRT_LAUNCH(mrt_blocks(teams, team.y), team, 0, c->run->queue,
               each_row_grad<T, D, G, W, P>)
    (a, sums ? (R *)c->scratch : NULL, teams);
  } else if (a.s.rows > 0) {
    unsigned grid = mrt_blocks(a.s.rows, 1);
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row_grad<T, D, G, W, 0>)
    (a, (R *)NULL, (int64_t)grid);
  }
  if (sums) join_parts<R>(c, a.s.rows ? parts : 0, a.s.n);
}

/* `w` as above. */
void backward(const mrt_call *c, const void *means, int w) {
  if (is_of(c, w - 1, MRT_bf16) && is_of(c, w, MRT_f32)) {
    int x = c->in[0].type.dtype, dx = c->out[0].type.dtype;
    if (x == MRT_f32 && dx == MRT_f32)
      return backward_as<float, mrt_bf16, float, float>(c, means, w);
    if (x == MRT_bf16 && dx == MRT_bf16)
      return backward_as<mrt_bf16, mrt_bf16, mrt_bf16, float>(c, means, w);
    if (x == MRT_bf16 && dx == MRT_f32)
      return backward_as<mrt_bf16, mrt_bf16, float, float>(c, means, w);
  }
  MRT_DISPATCH(mrt_common(&c->in[0], &c->in[w - 1], c->out), T,
               backward_as<T, T, T, any_weights<T>>(c, means, w));
}

} // namespace

extern "C" void mrt_cuda_layer_norm_grad(const mrt_call *c) {
  backward(c, c->in[1].data, 4);
}
extern "C" void mrt_cuda_rms_norm_grad(const mrt_call *c) {
  backward(c, NULL, 3);
}

extern "C" size_t mrt_cuda_layer_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(c);
}
extern "C" size_t mrt_cuda_rms_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(c);
}
