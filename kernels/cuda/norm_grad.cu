/* norm_grad.cu -- gradients of layer_norm and rms_norm, also added to another
 *
 * Gradients of w and b are sums over rows.  Rows are dealt to a number of parts
 * that depends on the shape alone, whose sums are then added in a fixed order.
 * Where rows fit in registers a team has the rows of a part and makes both dx
 * and the part's sums of what it has read; else a block sums 32 columns of a
 * part before dx, which may overwrite x or dy, is made.  While a team computes,
 * the next row of its part is under way: what it waits for is memory's bandwidth,
 * not its latency.
 *
 * Most kernels take operands of one dtype, or of any.  What steps in bf16 have,
 * gradients of bf16 and rows of bf16 or f32 beside weights of f32, has its own.
 *
 * SPDX-License-Identifier: MIT */
#include "norm.cuh"

#include <type_traits>

namespace {

/* Packs that a thread has of a row of T: with the sums of as many columns and
 * the row read ahead more would not fit in registers. */
template <typename T> constexpr int grad_packs(void) {
  constexpr size_t bytes = sizeof(mrt_real<T>);
  /* 8 elements at most: see grad_scratch */
  return mrt_at_once<T> * bytes > 16 || bytes > sizeof(float) ? 1 : 2;
}

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

/* What dx is added to, once it is rounded to F, and may lie in; t: the sum
 * rounded, or NULL. */
template <typename C, typename N, typename F> struct cuda_addend {
  enum { IS = 1 };
  typedef C type;
  mrt_place<C> c;
  mrt_place<N> t;
  int first; /* which dtype F is, where it is mixed */

  template <typename R> __device__ __forceinline__ R rounded(R x) const {
    if constexpr (std::is_same<F, mrt_mixed<R>>::value) {
      MRT_BY_DTYPE(first, T, {
        T y;
        mrt_round(x, &y);
        x = (R)mrt_widen(y);
      })
      return x;
    } else {
      F y;
      mrt_round(x, &y);
      return (R)mrt_widen(y);
    }
  }
};
template <typename R> struct cuda_no_addend {
  enum { IS = 0 };
  typedef R type;
  R *c;
};

/* Never one instruction with the product that b is: the bits of dx, added. */
MRT_DEVICE float add_apart(float a, float b) { return __fadd_rn(a, b); }
MRT_DEVICE double add_apart(double a, double b) { return __dadd_rn(a, b); }

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

/* dx = rstd * (g - mean(g) - norm * mean(g * norm)), g = dy * w, plus c;
 * and where `partial` is not NULL the sums of each of `parts` teams' rows: then
 * P is not 0. */
template <typename T, typename D, typename G, typename W, typename A, int P>
__global__ void __launch_bounds__(MRT_TEAM_MOST, 1)
    each_row_grad(row_gradient<T, D, G, W> a, A add, mrt_real<T> *partial,
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
  mrt_row<T, P, V> row(a.x, 0);
  mrt_row<D, P, V> dy(a.dy, 0);
  mrt_row<typename A::type, A::IS ? P : 0, V> c(add.c, 0);
  R next_mean = 0, next_rstd = 0; /* of the row that is read ahead */
  auto ahead = [&](int64_t r) {
    if (r >= rows) return;
    row.ahead(r, n), dy.ahead(r, n), c.ahead(r, n);
    if (a.means) next_mean = a.means[r];
    next_rstd = a.rstds[r];
  };
  ahead(part);
  for (int64_t r = part; r < rows; r += parts) {
    R mean = next_mean, rstd = next_rstd, g = 0, gn = 0;
    row.turn(r, n), dy.turn(r, n), c.turn(r, n);
    ahead(r + parts);
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
    mrt_team_sums(&g, &gn);
    g = a.means ? mean_of(g, n) : 0, gn = mean_of(gn, n);
    p = 0;
    mrt_each(row, dy, [&](R *x, R *d, int64_t i) {
      if (P == 0) get_weights<V>(a.w, i - r * n, n, w[0]);
      MRT_UNROLL
      for (int k = 0; k < V; k++) {
        if (P == 0) x[k] = (x[k] - mean) * rstd;
        if (P == 0 && is_there(a.w)) d[k] *= w[0][k];
        x[k] = rstd * (d[k] - g - x[k] * gn);
      }
      if constexpr (A::IS) {
        if (P == 0) mrt_get_pack<V>(add.c, i, row.end, (R)0, c.kept[0]);
        MRT_UNROLL
        for (int k = 0; k < V; k++)
          x[k] = add_apart(c.kept[p][k], add.rounded(x[k]));
        if (is_there(add.t)) mrt_put_pack<V>(add.t, i, row.end, x);
        if (P) p++;
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

/* A call's operands: x, statistics, dy[, w] from `in` on. */
struct norm_operands {
  const mrt_operand *in;
  int stats;
  bool affine;

  const mrt_operand *dy() const { return in + stats + 1; }
  const mrt_operand *w() const { return affine ? in + stats + 2 : NULL; }
};
norm_operands operands_of(const mrt_call *c, int first, int stats) {
  return { c->in + first, stats, c->nin > first + stats + 2 };
}

/* The parts' sums, however they are made: a smaller team has more parts. */
size_t grad_scratch(const norm_operands &o, cuda_norm_shape s) {
  size_t bytes = (size_t)mrt_bytes_of(o.in[1].type.dtype);
  int64_t parts = parts_of(s.rows);
  int64_t of_rows = team_parts_of(s.rows, mrt_team(s.n, 8, 1));
  if (of_rows > parts) parts = of_rows;
  return o.affine ? (size_t)(2 * parts * s.n) * bytes : 0;
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
void join_parts(const mrt_call *c, const norm_operands &o, int64_t parts,
                int64_t n) {
  int64_t tiles = (n + FEW_COLUMNS - 1) / FEW_COLUMNS;
  MRT_LAUNCH(mrt_blocks(o.stats * tiles, 1), dim3(FEW_COLUMNS, MANY_PARTS), 0,
             c->run->queue, sum_parts<R>)
  ((const R *)c->scratch, parts, n, (R *)c->out[1].data,
   o.stats > 1 ? (R *)c->out[2].data : NULL);
}

template <typename T, typename D, typename G, typename W, typename A>
void backward_as(const mrt_call *c, const norm_operands &o, A add) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  row_gradient<T, D, G, W> a = { mrt_at<T>(o.in),
                                 mrt_at<G>(&c->out[0]),
                                 mrt_at<D>(o.dy()),
                                 o.affine ? mrt_at<W>(o.w())
                                          : mrt_place_of<W>::at(NULL, MRT_f32),
                                 o.stats > 1 ? (const R *)o.in[1].data : NULL,
                                 (const R *)o.in[o.stats].data,
                                 shape_of(c) };
  constexpr int P = grad_packs<T>();
  dim3 team = mrt_team(a.s.n, V, P);
  bool sums = o.affine, fits = mrt_suffices(team, a.s.n, V, P);
  int64_t parts = parts_of(a.s.rows);
  if (a.s.n == 0) return;
  if (sums && !fits) sum_columns(c, a);
  if (a.s.rows > 0 && fits) {
    int64_t teams = (int64_t)mrt_blocks(a.s.rows, team.y) * team.y;
    if (sums) parts = teams = team_parts_of(a.s.rows, team);
    MRT_LAUNCH(mrt_blocks(teams, team.y), team, 0, c->run->queue,
               each_row_grad<T, D, G, W, A, P>)
    (a, add, sums ? (R *)c->scratch : NULL, teams);
  } else if (a.s.rows > 0) {
    unsigned grid = mrt_blocks(a.s.rows, 1);
    MRT_LAUNCH(grid, team, 0, c->run->queue, each_row_grad<T, D, G, W, A, 0>)
    (a, add, (R *)NULL, (int64_t)grid);
  }
  if (sums) join_parts<R>(c, o, a.s.rows ? parts : 0, a.s.n);
}

/* Without a sum. */
template <typename T, typename D, typename G, typename W>
void backward_plain(const mrt_call *c, const norm_operands &o) {
  typedef cuda_no_addend<mrt_real<T>> none;
  backward_as<T, D, G, W, none>(c, o, none{ NULL });
}

/* Has it gradients of bf16 and weights, if any, of f32? */
bool is_bf16(const norm_operands &o) {
  return o.dy()->type.dtype == MRT_bf16 &&
         (!o.affine || o.w()->type.dtype == MRT_f32);
}

void backward(const mrt_call *c, int stats) {
  norm_operands o = operands_of(c, 0, stats);
  int x = o.in->type.dtype, dx = c->out[0].type.dtype;
  if (is_bf16(o) && x == MRT_f32 && dx == MRT_f32)
    return backward_plain<float, mrt_bf16, float, float>(c, o);
  if (is_bf16(o) && x == MRT_bf16 && dx == MRT_bf16)
    return backward_plain<mrt_bf16, mrt_bf16, mrt_bf16, float>(c, o);
  if (is_bf16(o) && x == MRT_bf16 && dx == MRT_f32)
    return backward_plain<mrt_bf16, mrt_bf16, float, float>(c, o);
  MRT_DISPATCH(mrt_common(o.in, o.dy(), c->out), T,
               backward_plain<T, T, T, any_weights<T>>(c, o));
}

/* Inputs c, and those of the gradient; the sum has c's dtype, or another. */
template <typename T, typename D, typename G, typename W, typename C,
          typename N, typename F>
void backward_to(const mrt_call *c, const norm_operands &o) {
  const mrt_norm_add_options *options =
      (const mrt_norm_add_options *)c->options;
  bool real = options->first == MRT_DTYPE_COUNT;
  int wide = c->in[0].type.dtype == MRT_f64 ? MRT_f64 : MRT_f32;
  cuda_addend<C, N, F> add = { mrt_at<C>(&c->in[0]),
                               options->round == MRT_DTYPE_COUNT
                                   ? mrt_place_of<N>::at(NULL, MRT_f32)
                                   : mrt_at<N>(&c->out[c->nout - 1]),
                               real ? wide : (int)options->first };
  backward_as<T, D, G, W, cuda_addend<C, N, F>>(c, o, add);
}

/* What is first, and all operands but weights, in bf16: of weights in bf16. */
bool is_all_bf16(const mrt_call *c, const norm_operands &o) {
  const mrt_norm_add_options *options =
      (const mrt_norm_add_options *)c->options;
  return options->first == MRT_bf16 && options->round == MRT_DTYPE_COUNT &&
         mrt_common(o.in, o.dy(), &c->in[0], &c->out[0]) == MRT_bf16;
}
/* Nothing is first, and what is added is f32; the sum is also bf16, or not. */
bool is_to_f32(const mrt_call *c) {
  const mrt_norm_add_options *options =
      (const mrt_norm_add_options *)c->options;
  return options->first == MRT_DTYPE_COUNT &&
         (options->round == MRT_DTYPE_COUNT || options->round == MRT_bf16) &&
         mrt_common(&c->in[0], &c->out[0]) == MRT_f32;
}

void backward_add(const mrt_call *c, int stats) {
  typedef mrt_mixed<float> any;
  typedef mrt_bf16 half;
  norm_operands o = operands_of(c, 1, stats);
  int x = o.in->type.dtype;
  if (c->in[0].type.dtype == MRT_f64)
    return backward_to<double, double, double, any_weights<double>, double,
                       mrt_mixed<double>, mrt_mixed<double>>(c, o);
  if (is_to_f32(c) && is_bf16(o) && x == MRT_f32)
    return backward_to<float, half, float, float, float, half, float>(c, o);
  if (is_to_f32(c) && is_bf16(o) && x == MRT_bf16)
    return backward_to<half, half, float, float, float, half, float>(c, o);
  if (is_to_f32(c) && mrt_common(o.in, o.dy()) == MRT_f32)
    return backward_to<float, float, float, any, float, any, float>(c, o);
  if (is_all_bf16(c, o))
    return backward_to<half, half, half, any, half, half, half>(c, o);
  backward_to<any, any, any, any, any, any, any>(c, o);
}

} // namespace

extern "C" void mrt_cuda_layer_norm_grad(const mrt_call *c) { backward(c, 2); }
extern "C" void mrt_cuda_rms_norm_grad(const mrt_call *c) { backward(c, 1); }
extern "C" void mrt_cuda_layer_norm_grad_add(const mrt_call *c) {
  backward_add(c, 2);
}
extern "C" void mrt_cuda_rms_norm_grad_add(const mrt_call *c) {
  backward_add(c, 1);
}

extern "C" size_t mrt_cuda_layer_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(operands_of(c, 0, 2), shape_of(c));
}
extern "C" size_t mrt_cuda_rms_norm_grad_scratch(const mrt_call *c) {
  return grad_scratch(operands_of(c, 0, 1), shape_of(c));
}
extern "C" size_t mrt_cuda_layer_norm_grad_add_scratch(const mrt_call *c) {
  return grad_scratch(operands_of(c, 1, 2), shape_of(c));
}
extern "C" size_t mrt_cuda_rms_norm_grad_add_scratch(const mrt_call *c) {
  return grad_scratch(operands_of(c, 1, 1), shape_of(c));
}
