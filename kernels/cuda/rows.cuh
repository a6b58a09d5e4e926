/* rows.cuh -- reductions, and rows that a team of threads takes
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ROWS_CUH
#define MRT_CUDA_ROWS_CUH

#include "cuda.cuh"
#include <type_traits>

/* ---- reductions: every thread gets the same bits ------------------------- */

struct mrt_add {
  template <typename R> static __device__ __forceinline__ R of(R a, R b) {
    return a + b;
  }
  template <typename R> static __device__ __forceinline__ R none(void) {
    return 0;
  }
};
/* A NaN loses against a number. */
struct mrt_larger {
  template <typename R> static __device__ __forceinline__ R of(R a, R b) {
    return a > b || b != b ? a : b;
  }
  /* The same as one instruction, which a comparison does not become. */
  static __device__ __forceinline__ float of(float a, float b) {
    return fmaxf(a, b);
  }
  template <typename R> static __device__ __forceinline__ R none(void) {
    return -(R)INFINITY;
  }
};

template <typename Op, typename R> MRT_DEVICE R mrt_warp_reduce(R v) {
  MRT_UNROLL
  for (int by = 16; by; by /= 2)
    v = Op::of(v, __shfl_xor_sync(0xffffffff, v, by));
  return v;
}

/* Over the threads of one row of a block, blockDim.x of them: a warp, or all of
 * the block (then blockDim.y is 1). */
template <typename Op, typename R> MRT_DEVICE R mrt_team_reduce(R v) {
  __shared__ R part[32];
  v = mrt_warp_reduce<Op>(v);
  if (blockDim.x == 32) return v;
  int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
  __syncthreads(); /* the last one's parts have been read */
  if (lane == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  return mrt_warp_reduce<Op>(lane < warps ? part[lane]
                                          : Op::template none<R>());
}
template <typename R> MRT_DEVICE R mrt_team_sum(R v) {
  return mrt_team_reduce<mrt_add>(v);
}
/* Two at once: *a and *b, each summed as above. */
template <typename R> MRT_DEVICE void mrt_team_sums(R *a, R *b) {
  __shared__ R part[2][32];
  *a = mrt_warp_reduce<mrt_add>(*a), *b = mrt_warp_reduce<mrt_add>(*b);
  if (blockDim.x == 32) return;
  int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
  __syncthreads();
  if (lane == 0) part[0][threadIdx.x / 32] = *a, part[1][threadIdx.x / 32] = *b;
  __syncthreads();
  *a = mrt_warp_reduce<mrt_add>(lane < warps ? part[0][lane] : 0);
  *b = mrt_warp_reduce<mrt_add>(lane < warps ? part[1][lane] : 0);
}
template <typename R> MRT_DEVICE R mrt_team_max(R v) {
  return mrt_team_reduce<mrt_larger>(v);
}

/* ---- rows: a team of threads for each ------------------------------------ */

/* A kernel for teams is __launch_bounds__(MRT_TEAM_MOST, N): it may have 128
 * registers. */
enum { MRT_TEAM_MOST = 512 };

/* N, how many blocks a processor has room for at least: 1 where a kernel is to have
 * all registers that it wants, as norms are.  0 leaves it to the compiler, which
 * would rather have more blocks than registers for all: in f64, and for dtypes that
 * only a run tells, it spills.  Those compute, and convert, for longer than they
 * read. */
template <typename T>
constexpr int
    mrt_teams_at_once = sizeof(mrt_real<T>) == 8 || std::is_empty<T>::value;

/* Teams for rows of n elements, V at a time, when a thread takes `packs` packs
 * of a row: (threads of a team, teams of a block).  A team that does not
 * suffice loops. */
static inline dim3 mrt_team(int64_t n, int V, int packs) {
  unsigned threads = 32;
  while (threads < MRT_TEAM_MOST && (int64_t)threads * V * packs < n)
    threads *= 2;
  return dim3(threads, threads == 32 ? 4 : 1);
}
static inline bool mrt_suffices(dim3 team, int64_t n, int V, int packs) {
  return n <= (int64_t)team.x * V * packs;
}

/* The rows of a team:
 *     for (int64_t r = mrt_first_row(); r < rows; r += mrt_row_stride()) */
MRT_DEVICE int64_t mrt_first_row(void) {
  return (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
}
MRT_DEVICE int64_t mrt_row_stride(void) {
  return (int64_t)gridDim.x * blockDim.y;
}

/* As large as such an element, and at least 4 bytes. */
template <size_t BYTES> struct mrt_word_of { typedef uint32_t type; };
template <> struct mrt_word_of<8> { typedef uint64_t type; };
template <size_t BYTES> using mrt_word = typename mrt_word_of<BYTES>::type;

/* P packs of V, as they lie in memory: to read them waits for nothing, so that
 * all that a thread reads is under way at once; to widen them does.  Elements
 * that a word holds side by side stay so until then. */
template <typename T, int P, int V> struct mrt_packs {
  typedef mrt_word<sizeof(T)> word;
  enum { EACH = sizeof(word) / sizeof(T), BITS = 8 * sizeof(T) };
  struct alignas(alignof(mrt_vector<T, V>)) words {
    word at[V / EACH];
  } pack[P ? P : 1];

  /* From element `first` on, `step` apart, a multiple of V; 0 from `end` on. */
  __device__ __forceinline__ void read(const T *x, int64_t first, int64_t step,
                                       int64_t end) {
    bool whole = mrt_is_aligned<T, V>(x + first) && (end - first) % V == 0;
    MRT_UNROLL
    for (int p = 0; p < P; p++) pack[p] = {};
    if (whole) {
      MRT_UNROLL
      for (int p = 0; p < P; p++)
        if (first + p * step < end)
          pack[p] = *(const words *)(x + first + p * step);
      return;
    }
    MRT_UNROLL
    for (int i = 0; i < P * V; i++) {
      int64_t from = first + i / V * step + i % V;
      if (from >= end) continue;
      T element = x[from];
      word one = 0;
      memcpy(&one, &element, sizeof element);
      pack[i / V].at[i % V / EACH] |= one << i % EACH * BITS;
    }
  }
  template <typename R>
  __device__ __forceinline__ void widen(int p, R *v) const {
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      word one = pack[p].at[k / EACH] >> k % EACH * BITS;
      T x;
      memcpy(&x, &one, sizeof x);
      v[k] = (R)mrt_widen(x);
    }
  }
};
/* Of any dtype they are widened when they are read. */
template <typename S, int P, int V> struct mrt_packs<mrt_mixed<S>, P, V> {
  typedef mrt_real<mrt_mixed<S>> R;
  R at[P ? P : 1][V];

  __device__ __forceinline__ void read(mrt_place<mrt_mixed<S>> x, int64_t first,
                                       int64_t step, int64_t end) {
    MRT_UNROLL
    for (int p = 0; p < P; p++)
      mrt_get_pack<V>(x, first + p * step, end, (R)0, at[p]);
  }
  __device__ __forceinline__ void widen(int p, R *v) const {
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] = at[p][k];
  }
};

/* Row r of n elements, read by a team: a thread has every blockDim.x-th pack.
 * With P > 0 packs for each thread they stay in registers, and the row must not
 * be longer; with 0 it is read again each time.  Past its end it is `pad`.
 * Rows that go side by side have packs of one V; `open` comes when all of them
 * are there, and before anything else is done with them.
 *
 * One that is made without a row reads rows ahead, so that memory is busy while
 * the team computes:
 *     mrt_row<T, P> row(x, pad);
 *     if (first < rows) row.ahead(first, n);
 *     for (r = first; r < rows; r += step) {
 *       row.turn(r, n);
 *       if (r + step < rows) row.ahead(r + step, n);
 *       ...
 */
template <typename T, int P, int V = mrt_at_once<T>> struct mrt_row {
  typedef mrt_real<T> R;
  mrt_place<T> x;
  int64_t first, end, step;
  R pad, kept[P ? P : 1][V];
  mrt_packs<T, P, V> packs;

  __device__ __forceinline__ mrt_row(mrt_place<T> x, int64_t r, int64_t n,
                                     R pad)
      : x(x), first(r * n + threadIdx.x * V), end((r + 1) * n),
        step((int64_t)blockDim.x * V), pad(pad) {
    packs.read(x, first, step, end);
  }
  __device__ __forceinline__ mrt_row(mrt_place<T> x, R pad)
      : x(x), first(0), end(0), step((int64_t)blockDim.x * V), pad(pad) {}
  __device__ __forceinline__ void ahead(int64_t r, int64_t n) {
    packs.read(x, r * n + threadIdx.x * V, step, (r + 1) * n);
  }
  __device__ __forceinline__ void turn(int64_t r, int64_t n) {
    first = r * n + threadIdx.x * V, end = (r + 1) * n;
    open();
  }
  __device__ __forceinline__ void open(void) {
    MRT_UNROLL
    for (int p = 0; p < P; p++) {
      packs.widen(p, kept[p]);
      if (pad == 0) continue; /* as they are */
      MRT_UNROLL
      for (int k = 0; k < V; k++)
        if (first + p * step + k >= end) kept[p][k] = pad;
    }
  }
};

/* f(v, i) for each pack of the thread: v[0 .. V) are elements i ... of the
 * operand, from row.end on `pad`.  What f changes in v stays where P > 0. */
template <typename T, int P, int V, typename F>
MRT_DEVICE void mrt_each(mrt_row<T, P, V> &row, F f) {
  if constexpr (P > 0) {
    MRT_UNROLL
    for (int p = 0; p < P; p++) f(row.kept[p], row.first + p * row.step);
  } else {
    for (int64_t i = row.first; i < row.end; i += row.step) {
      mrt_real<T> v[V];
      mrt_get_pack<V>(row.x, i, row.end, row.pad, v);
      f(v, i);
    }
  }
}
/* f(u, v, i): of two rows of one shape. */
template <typename T, typename U, int P, int V, typename F>
MRT_DEVICE void mrt_each(mrt_row<T, P, V> &a, mrt_row<U, P, V> &b, F f) {
  if constexpr (P > 0) {
    MRT_UNROLL
    for (int p = 0; p < P; p++) f(a.kept[p], b.kept[p], a.first + p * a.step);
  } else {
    for (int64_t i = a.first; i < a.end; i += a.step) {
      mrt_real<T> u[V], v[V];
      mrt_get_pack<V>(a.x, i, a.end, a.pad, u);
      mrt_get_pack<V>(b.x, i, b.end, b.pad, v);
      f(u, v, i);
    }
  }
}

#endif
