/* reduce.cuh -- many elements to one: what reductions share
 *
 * A reduction is a list of passes, each from [outer, n, inner] to
 * [outer, inner].  A pass with few outputs is cut along n into parts whose
 * results a further pass joins.
 *
 * Rows (inner = 1): a team of threads has a row, 16 bytes a time, from one
 * thread for the shortest to a block.  Columns: a thread has 16 bytes of
 * columns, eight neighbours 128 of a row, and the rows of a block are joined in
 * its warps and then in shared memory.  All of this follows from the shape, and
 * so do the bits.
 *
 * The operation is a type F:
 *     typedef ... acc;                    what elements are joined in
 *     acc none();                         of no elements
 *     acc of(R x, int64_t position);      of one
 *     acc join(acc a, acc b);
 *     void put(void *y, int dtype, int64_t i, acc a);   the result
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_REDUCE_CUH
#define MRT_CUDA_REDUCE_CUH

#include "cuda.cuh"
#include "mrt/types.h"

namespace {

/* ---- what is read and written -------------------------------------------- */

/* The pack at x + i, which is aligned: a load without a branch, for several
 * to be under way at once. */
template <int V, typename R, typename T>
MRT_DEVICE void get_aligned(T *x, int64_t i, R *v) {
  mrt_vector<T, V> p = *(const mrt_vector<T, V> *)(x + i);
  MRT_UNROLL
  for (int k = 0; k < V; k++) v[k] = (R)mrt_widen(p.at[k]);
}
template <int V, typename R, typename S>
MRT_DEVICE void get_aligned(mrt_any<S> x, int64_t i, R *v) {
  mrt_get_pack<V>(x, i, i + V, (R)0, v);
}
template <int V, typename T> static bool packs_are_aligned(const T *x) {
  return (uintptr_t)x % alignof(mrt_vector<T, V>) == 0;
}
template <int V, typename R> static bool packs_are_aligned(mrt_any<R>) {
  return true; /* each is looked at */
}

/* Elements of an operand ... */
template <typename F, typename T> struct elements_of {
  typedef typename F::acc acc;
  /* neighbours that a thread takes; and neighbouring packs of columns that
   * threads take, for a row's part to be a line of memory */
  enum { pack = mrt_at_once<T>, lanes = 8, mixed = std::is_empty<T>::value };
  mrt_place<T> x;

  template <int V> bool is_aligned(void) const {
    return packs_are_aligned<V>(x);
  }
  /* V columns of a row; whether packs are aligned */
  template <int V, bool ALIGNED>
  __device__ __forceinline__ void across(int64_t first, int64_t row,
                                         acc *a) const {
    mrt_real<T> v[V];
    if constexpr (ALIGNED)
      get_aligned<V>(x, first, v);
    else
      mrt_get_pack<V>(x, first, first + V, (mrt_real<T>)0, v);
    MRT_UNROLL
    for (int k = 0; k < V; k++) a[k] = F::of(v[k], row);
  }

  /* Elements first .. first + V, at `position`, position + by ...; `none` from
   * `end` on. */
  template <int V>
  __device__ __forceinline__ void get(int64_t first, int64_t end,
                                      int64_t position, int by, acc *a) const {
    typedef mrt_real<T> R;
    R v[V];
    mrt_get_pack<V>(x, first, end, (R)0, v);
    MRT_UNROLL
    for (int k = 0; k < V; k++)
      a[k] = first + k < end ? F::of(v[k], position + k * by) : F::none();
  }
};
/* ... or results of a pass. */
template <typename F> struct results_of {
  typedef typename F::acc acc;
  enum { pack = 1, lanes = 8, mixed = false };
  const acc *x;

  template <int V> bool is_aligned(void) const { return true; }
  template <int V, bool>
  __device__ __forceinline__ void across(int64_t first, int64_t, acc *a) const {
    a[0] = x[first];
  }

  template <int V>
  __device__ __forceinline__ void get(int64_t first, int64_t, int64_t, int,
                                      acc *a) const {
    a[0] = x[first];
  }
};

/* Results go to `parts` if that is not NULL, else they are put. */
template <typename F> struct sink_of {
  typename F::acc *parts;
  void *y;
  int dtype;

  __device__ __forceinline__ void put(int64_t i, typename F::acc a) const {
    if (parts)
      parts[i] = a;
    else
      F::put(y, dtype, i, a);
  }
};

/* ---- passes -------------------------------------------------------------- */

/* Part p of parts is positions [p * chunk, (p + 1) * chunk) of n. */
struct pass {
  int64_t outer, n, inner, chunk, parts;
};

struct passes {
  int count;
  pass at[MRT_MAX_RANK + 2];
};

enum {
  FOLD_BLOCK = 256, /* threads, of columns */
  ENOUGH = 1024,    /* blocks: no more parts are wanted; of columns four for
                     * each processor of an H100, which has them at once */
  ENOUGH_TALL = 4 * 132,
  LEAST = 8192, /* elements of a row that are worth a part of their own */
  DEEP = 4,     /* rows of columns that a thread reads at once */
  TILE = 64,    /* columns of a block, about */
  TALL = 256    /* rows of columns that are worth a part of their own */
};

/* Threads for n rows of columns, `packs` of them: x across, y along n. */
static dim3 column_team(int64_t n, int64_t packs, unsigned lanes) {
  unsigned x = 1, y = 1;
  while (x < lanes && x < packs) x *= 2;
  while (x * y < FOLD_BLOCK && (int64_t)y * DEEP < n) y *= 2;
  while (x * y < FOLD_BLOCK) x *= 2;
  return dim3(x, y);
}

static int64_t parts_of(int64_t outer, int64_t n, int64_t inner) {
  bool rows = inner == 1;
  int64_t units = rows ? outer : (outer * inner + TILE - 1) / TILE;
  int64_t most = units ? (rows ? ENOUGH : ENOUGH_TALL) / units : 1;
  int64_t parts = n / (rows ? LEAST : TALL);
  parts = parts < most ? parts : most;
  return parts < 1 ? 1 : parts;
}

/* Whole packs to a part. */
static pass cut(int64_t outer, int64_t n, int64_t inner) {
  int64_t parts = parts_of(outer, n, inner);
  int64_t chunk = (n + parts - 1) / parts;
  if (parts > 1 && inner == 1) chunk = (chunk + 63) / 64 * 64;
  if (chunk) parts = (n + chunk - 1) / chunk;
  return { outer, n, inner, chunk, parts };
}

static inline void add_pass(passes *s, int64_t outer, int64_t n,
                            int64_t inner) {
  pass p = cut(outer, n, inner);
  s->at[s->count++] = p;
  if (p.parts > 1) s->at[s->count++] = { outer, p.parts, inner, p.parts, 1 };
}

static inline int64_t results_of_pass(const pass *p) {
  return p->outer * p->parts * p->inner;
}
/* Of all passes but the last, each `bytes` large. */
static inline size_t scratch_of(const passes *s, size_t bytes) {
  size_t n = 0;
  for (int i = 0; i + 1 < s->count; i++)
    n += (size_t)results_of_pass(&s->at[i]);
  return n * bytes;
}

/* ---- kernels ------------------------------------------------------------- */

template <typename R> MRT_DEVICE R other_lane(R v, int by) {
  return __shfl_xor_sync(0xffffffff, v, by);
}

/* Over the threads of one row of a block, for the first of them: blockDim.x is
 * a power of two, and blockDim.y 1 where it is above 32. */
template <typename F> MRT_DEVICE typename F::acc join_team(typename F::acc v) {
  typedef typename F::acc acc;
  __shared__ acc part[MRT_TEAM_MOST / 32];
  int threads = (int)blockDim.x, lane = (int)threadIdx.x % 32;
  for (int by = (threads < 32 ? threads : 32) / 2; by; by /= 2)
    v = F::join(v, other_lane(v, by));
  if (threads <= 32) return v;
  __syncthreads(); /* the last row's parts have been read */
  if (lane == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x >= 32) return v;
  v = lane < threads / 32 ? part[lane] : F::none();
  for (int by = MRT_TEAM_MOST / 64; by; by /= 2)
    v = F::join(v, other_lane(v, by));
  return v;
}

template <typename F, int V>
MRT_DEVICE typename F::acc join_pack(typename F::acc *a) {
  MRT_UNROLL
  for (int half = V / 2; half; half /= 2) {
    MRT_UNROLL
    for (int k = 0; k < half; k++) a[k] = F::join(a[k], a[k + half]);
  }
  return a[0];
}

/* Packs of pairs leave registers for one block; 0: as many as the compiler
 * likes, which for a dtype that only a run tells is more than have registers. */
template <typename F, typename X>
constexpr int folds_at_once = sizeof(typename F::acc) > 8 ? 1
                              : X::mixed                  ? 2
                                                          : 0;

template <typename F, typename X>
__global__ void __launch_bounds__(MRT_TEAM_MOST, (folds_at_once<F, X>))
    fold_rows(X x, sink_of<F> y, pass p) {
  typedef typename F::acc acc;
  constexpr int V = X::pack;
  int64_t rows = p.outer * p.parts, by = (int64_t)gridDim.x * blockDim.y;
  /* all threads go as often, for they exchange */
  for (int64_t top = (int64_t)blockIdx.x * blockDim.y; top < rows; top += by) {
    int64_t r = top + threadIdx.y, row = p.parts == 1 ? r : r / p.parts;
    int64_t from = (r - row * p.parts) * p.chunk, to = from + p.chunk;
    int64_t base = row * p.n, end = r < rows ? base + (to < p.n ? to : p.n) : 0;
    acc a[V], v[V];
    MRT_UNROLL
    for (int k = 0; k < V; k++) a[k] = F::none();
    for (int64_t i = base + from + threadIdx.x * V; i < end;
         i += (int64_t)blockDim.x * V) {
      x.template get<V>(i, end, i - base, 1, v);
      MRT_UNROLL
      for (int k = 0; k < V; k++) a[k] = F::join(a[k], v[k]);
    }
    acc all = join_team<F>(join_pack<F, V>(a));
    if (threadIdx.x == 0 && r < rows) y.put(r, all);
  }
}

/* Puts a[V] of a block's columns, `first` and on, joined over threadIdx.y: in
 * warps first, then as many threads as there are columns have one each. */
template <typename F, int V>
MRT_DEVICE void join_deep(typename F::acc *a, const sink_of<F> &y,
                          const pass &p, int64_t part, int64_t first) {
  typedef typename F::acc acc;
  __shared__ acc all[V][FOLD_BLOCK + 32 / V]; /* no two columns in a bank */
  int across = (int)blockDim.x, at = (int)(threadIdx.y * across + threadIdx.x);
  for (int by = 16; by >= across; by /= 2) {
    MRT_UNROLL
    for (int k = 0; k < V; k++) a[k] = F::join(a[k], other_lane(a[k], by));
  }
  int each = across < 32 ? 32 : across; /* threads that have the same rows */
  __syncthreads();                      /* the last tile's have been read */
  if (at % each < across) {
    MRT_UNROLL
    for (int k = 0; k < V; k++) all[k][at / each * across + at % each] = a[k];
  }
  __syncthreads();
  for (int c = at; c < across * V; c += FOLD_BLOCK) {
    int64_t j = first + c, o = p.outer == 1 ? 0 : j / p.inner;
    if (j >= p.outer * p.inner) break;
    acc v = all[c % V][c / V];
    for (int g = 1; g < FOLD_BLOCK / each; g++)
      v = F::join(v, all[c % V][g * across + c / V]);
    y.put((o * p.parts + part) * p.inner + j - o * p.inner, v);
  }
}

/* Columns of all `outer` are numbered through; block (tile, part).  Loads wait
 * for no branch: past the last row it is read again, and not joined. */
template <typename F, typename X, int V, bool ALIGNED>
__global__ void __launch_bounds__(FOLD_BLOCK,
                                  V * sizeof(typename F::acc) > 32 ? 2 : 4)
    fold_columns(X x, sink_of<F> y, pass p) {
  typedef typename F::acc acc;
  int64_t columns = p.outer * p.inner, wide = (int64_t)blockDim.x * V;
  int64_t from = blockIdx.y * p.chunk, deep = blockDim.y;
  int64_t to = from + p.chunk < p.n ? from + p.chunk : p.n;
  for (int64_t first = blockIdx.x * wide; first < columns;
       first += gridDim.x * wide) {
    int64_t j = first + threadIdx.x * V, o = p.outer == 1 ? 0 : j / p.inner;
    int64_t base = o * p.n * p.inner + j - o * p.inner;
    acc a[V], v[DEEP][V];
    MRT_UNROLL
    for (int k = 0; k < V; k++) a[k] = F::none();
    for (int64_t r = from + threadIdx.y; j < columns && r < to;
         r += DEEP * deep) {
      MRT_UNROLL
      for (int d = 0; d < DEEP; d++) {
        int64_t row = r + d * deep < to ? r + d * deep : to - 1;
        x.template across<V, ALIGNED>(base + row * p.inner, row, v[d]);
      }
      MRT_UNROLL
      for (int d = 0; d < DEEP; d++) {
        bool is_row = r + d * deep < to;
        MRT_UNROLL
        for (int k = 0; k < V; k++)
          a[k] = is_row ? F::join(a[k], v[d][k]) : a[k];
      }
    }
    join_deep<F, V>(a, y, p, blockIdx.y, first);
  }
}

/* ---- running them -------------------------------------------------------- */

/* Threads of a row, rows of a block. */
static dim3 row_team(int64_t n, int V) {
  unsigned x = 1;
  while (x < 32 && (int64_t)x * V < n) x *= 2;
  while (x >= 32 && x < MRT_TEAM_MOST && (int64_t)x * V * 4 < n) x *= 2;
  return dim3(x, x < FOLD_BLOCK ? (x <= 32 ? FOLD_BLOCK / x : 1) : 1);
}

template <typename F, typename X, int V, bool ALIGNED>
static void run_columns(void *queue, X x, sink_of<F> y, const pass &p) {
  unsigned lanes = V > 1 || X::pack == 1 ? X::lanes : 32;
  dim3 team = column_team(p.chunk, p.inner / V, lanes);
  dim3 grid(mrt_blocks(p.outer * p.inner / V, team.x), (unsigned)p.parts);
  MRT_LAUNCH(grid, team, 0, queue, fold_columns<F, X, V, ALIGNED>)(x, y, p);
}

template <typename F, typename X>
static void run_pass(void *queue, X x, sink_of<F> y, const pass &p) {
  constexpr int V = X::pack;
  if (p.outer * p.inner == 0) return;
  if (p.inner == 1) {
    dim3 team = row_team(p.chunk, V);
    MRT_LAUNCH(mrt_blocks(p.outer * p.parts, team.y), team, 0, queue,
               fold_rows<F, X>)
    (x, y, p);
    return;
  }
  if constexpr (V > 1) {
    if (p.inner % V == 0 && x.template is_aligned<V>())
      return run_columns<F, X, V, true>(queue, x, y, p);
    if (p.inner % V == 0) return run_columns<F, X, V, false>(queue, x, y, p);
  }
  run_columns<F, X, 1, true>(queue, x, y, p);
}

/* F over elements of T, in these passes. */
template <typename F, typename T>
static void fold(const mrt_call *c, const passes &s) {
  typedef typename F::acc acc;
  const mrt_operand *y = &c->out[0];
  acc *parts = (acc *)c->scratch, *from = NULL;
  for (int i = 0; i < s.count; i++) {
    bool last = i + 1 == s.count;
    sink_of<F> to = { last ? NULL : parts, y->data, y->type.dtype };
    if (i == 0)
      run_pass(c->run->queue, elements_of<F, T>{ mrt_at<T>(&c->in[0]) }, to,
               s.at[i]);
    else
      run_pass(c->run->queue, results_of<F>{ from }, to, s.at[i]);
    from = parts, parts += results_of_pass(&s.at[i]);
  }
}

/* Run the statements with T the element type of a number. */
#define MRT_DISPATCH_NUMBER(dtype, T, ...)                                     \
  switch ((int)(dtype)) {                                                      \
    MRT_CASE(MRT_f32, T, float, __VA_ARGS__)                                   \
    MRT_CASE(MRT_f64, T, double, __VA_ARGS__)                                  \
    MRT_CASE(MRT_f16, T, mrt_f16, __VA_ARGS__)                                 \
    MRT_CASE(MRT_bf16, T, mrt_bf16, __VA_ARGS__)                               \
    MRT_CASE(MRT_i64, T, int64_t, __VA_ARGS__)                                 \
    MRT_CASE(MRT_i32, T, int32_t, __VA_ARGS__)                                 \
    MRT_CASE(MRT_u8, T, uint8_t, __VA_ARGS__)                                  \
    MRT_CASE(MRT_bool, T, uint8_t, __VA_ARGS__)                                \
  default: {                                                                   \
    typedef mrt_mixed<float> T;                                                \
    __VA_ARGS__;                                                               \
  }                                                                            \
  }

} // namespace

#endif
