/* tile.cuh -- a block's tile of a product of matrices
 *
 * SIDE x SIDE sums stay in the registers of a block's threads; the factors go
 * through shared memory DEEP steps at a time, in two buffers: while one is
 * multiplied the next is on its way from memory to registers.
 *
 *     mrt_tile<S, L, turned> tile;     S: what factors are held as; L: large
 *     tile.multiply(room, source, steps);
 *     tile.each(room, f);              f(m, n, v): sums (m, n ... n + 3)
 *
 * `source.fetch(a, b)` fills WIDE packs of V of each factor, and goes on.  They
 * stand where at(p, &across, &along) says: V along the sum, or with `turned`
 * V across it.  16-bit floats are multiplied by tensor cores (mma.cuh), the
 * others with fused multiply-adds; sums are f32 or f64, in an order that
 * depends on the number of steps alone.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_TILE_CUH
#define MRT_CUDA_TILE_CUH

#include "mma.cuh"

/* ---- with multiply-adds -------------------------------------------------- */

/* A thread has GROUPS x GROUPS squares of 4 x 4. */
template <typename S, bool L, bool turned> struct mrt_tile_engine {
  typedef mrt_real<S> R;
  enum {
    SIDE = sizeof(S) == 4 && L ? 128 : 64,
    GROUPS = sizeof(S) == 4 ? 2 : 1,
    ACROSS = SIDE / 4 / GROUPS, /* threads */
    THREADS = ACROSS * ACROSS,
    AT_ONCE = L ? 2 : 384 / THREADS, /* blocks on a processor, at least */
    DEEP = sizeof(S) == 4 ? 8 : 16,
    LINE = SIDE + 16 / sizeof(S),
    FACTOR = DEEP * LINE, /* elements of a factor's buffer */
    SLABS = GROUPS,
    WIDTH = SIDE /* of a row of sums */
  };
  R sum[4 * GROUPS][4 * GROUPS];

  /* A pack for its place in shared memory. */
  template <int V>
  static __device__ __forceinline__ void put(S *to, int across, int along,
                                             const mrt_vector<S, V> &v) {
    if constexpr (turned)
      *(mrt_vector<S, V> *)(to + along * LINE + across) = v;
    else {
      MRT_UNROLL
      for (int e = 0; e < V; e++) to[(along + e) * LINE + across] = v.at[e];
    }
  }

  __device__ __forceinline__ void add(const S *a, const S *b) {
    int m = (int)(threadIdx.x / ACROSS * 4),
        n = (int)(threadIdx.x % ACROSS * 4);
    MRT_UNROLL_BY(2)
    for (int k = 0; k < DEEP; k++) {
      mrt_vector<S, 4> u[GROUPS], v[GROUPS];
      MRT_UNROLL
      for (int i = 0; i < GROUPS; i++) {
        int from = k * LINE + i * (SIDE / GROUPS);
        u[i] = *(const mrt_vector<S, 4> *)(a + from + m);
        v[i] = *(const mrt_vector<S, 4> *)(b + from + n);
      }
      MRT_UNROLL
      for (int i = 0; i < 4 * GROUPS; i++) MRT_UNROLL
      for (int j = 0; j < 4 * GROUPS; j++)
        sum[i][j] += u[i / 4].at[i % 4] * v[j / 4].at[j % 4];
    }
  }

  __device__ __forceinline__ void put_slab(int slab, R *to) {
    int m = (int)(threadIdx.x / ACROSS * 4),
        n = (int)(threadIdx.x % ACROSS * 4);
    MRT_UNROLL
    for (int i = 0; i < 4; i++) MRT_UNROLL
    for (int j = 0; j < 4 * GROUPS; j++)
      to[(m + i) * WIDTH + j / 4 * (SIDE / GROUPS) + n + j % 4] =
          sum[4 * slab + i][j];
  }
  static __device__ __forceinline__ int row_of(int slab, int i) {
    return slab * (SIDE / GROUPS) + i;
  }
};

/* ---- with tensor cores --------------------------------------------------- */

/* A warp has 32 rows of half the columns. */
template <typename S, bool L, bool turned> struct mrt_warps {
  typedef float R;
  enum {
    SIDE = L ? 128 : 64,
    COLUMNS = SIDE / 16, /* of 8 */
    THREADS = 2 * SIDE,
    AT_ONCE = 512 / THREADS,
    DEEP = 32,
    LINE = turned ? SIDE + 8 : DEEP + 8,
    FACTOR = (turned ? (int)DEEP : (int)SIDE) * LINE,
    SLABS = 2,
    WIDTH = SIDE + 8
  };
  float sum[2 * COLUMNS][4];

  template <int V>
  static __device__ __forceinline__ void put(S *to, int across, int along,
                                             const mrt_vector<S, V> &v) {
    int at = turned ? along * LINE + across : across * LINE + along;
    *(mrt_vector<S, V> *)(to + at) = v;
  }
  /* 16 of a factor across by 16 along the sum; `rows_first`: as mrt_mma's a. */
  static __device__ __forceinline__ void
  load(uint32_t *r, const S *from, int across, int along, bool rows_first) {
    int lane = (int)threadIdx.x % 32, j = lane / 8, row = lane % 8;
    int far = rows_first ? j % 2 : j / 2, deep = rows_first ? j / 2 : j % 2;
    across += 8 * far + (turned ? 0 : row);
    along += 8 * deep + (turned ? row : 0);
    mrt_load_matrices<turned>(
        r, from + (turned ? along * LINE + across : across * LINE + along));
  }

  __device__ __forceinline__ void add(const S *a, const S *b) {
    int warp = (int)threadIdx.x / 32;
    int m = warp / 2 * 32, n = warp % 2 * (SIDE / 2);
    MRT_UNROLL
    for (int k = 0; k < DEEP; k += 16) {
      uint32_t rows[2][4], columns[COLUMNS / 2][4];
      MRT_UNROLL
      for (int i = 0; i < 2; i++) load(rows[i], a, m + 16 * i, k, true);
      MRT_UNROLL
      for (int j = 0; j < COLUMNS / 2; j++)
        load(columns[j], b, n + 16 * j, k, false);
      MRT_UNROLL
      for (int i = 0; i < 2; i++) MRT_UNROLL
      for (int j = 0; j < COLUMNS; j++)
        mrt_mma<S>(sum[i * COLUMNS + j], rows[i], columns[j / 2] + j % 2 * 2);
    }
  }

  __device__ __forceinline__ void put_slab(int slab, float *to) {
    int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
    int m = warp / 2 * 16 + lane / 4;
    int n = warp % 2 * (SIDE / 2) + lane % 4 * 2;
    MRT_UNROLL
    for (int j = 0; j < COLUMNS; j++) MRT_UNROLL
    for (int e = 0; e < 4; e++)
      to[(m + e / 2 * 8) * WIDTH + n + 8 * j + e % 2] =
          sum[slab * COLUMNS + j][e];
  }
  static __device__ __forceinline__ int row_of(int slab, int i) {
    return i / 16 * 32 + slab * 16 + i % 16;
  }
};
template <bool L, bool turned>
struct mrt_tile_engine<mrt_bf16, L, turned> : mrt_warps<mrt_bf16, L, turned> {};
template <bool L, bool turned>
struct mrt_tile_engine<mrt_f16, L, turned> : mrt_warps<mrt_f16, L, turned> {};

/* ---- both ---------------------------------------------------------------- */

template <typename S, bool L, bool turned>
struct mrt_tile : mrt_tile_engine<S, L, turned> {
  typedef mrt_tile_engine<S, L, turned> E;
  typedef typename E::R R;
  enum {
    V = 16 / sizeof(S),
    WIDE = E::SIDE * E::DEEP / V / E::THREADS,
    ROW = (turned ? (int)E::SIDE : (int)E::DEEP) / V, /* packs */
    PASS = E::THREADS / ROW, /* how far apart a thread's packs are */
    TALL = E::SIDE / E::SLABS
  };
  typedef mrt_vector<S, V> pack;
  union __align__(16) room {
    struct {
      S a[2][E::FACTOR], b[2][E::FACTOR];
    } of;
    R sums[TALL * E::WIDTH];
  };

  static __device__ __forceinline__ void at(int p, int *across, int *along) {
    int first = (int)(threadIdx.x % ROW * V);
    int second = (int)(threadIdx.x / ROW) + p * PASS;
    *across = turned ? first : second;
    *along = turned ? second : first;
  }

  template <typename F>
  __device__ __forceinline__ void multiply(room &r, F &source, int steps) {
    pack a[WIDE], b[WIDE];
    MRT_UNROLL
    for (unsigned i = 0; i < sizeof this->sum / sizeof this->sum[0]; i++)
      MRT_UNROLL
    for (unsigned j = 0; j < sizeof this->sum[0] / sizeof(R); j++)
      this->sum[i][j] = 0;
    for (int s = -1; s < steps; s++) {
      if (s + 1 < steps) source.fetch(a, b);
      if (s >= 0) this->add(r.of.a[s & 1], r.of.b[s & 1]);
      if (s + 1 < steps) {
        MRT_UNROLL
        for (int p = 0; p < WIDE; p++) {
          int across, along;
          at(p, &across, &along);
          E::template put<V>(r.of.a[(s + 1) & 1], across, along, a[p]);
          E::template put<V>(r.of.b[(s + 1) & 1], across, along, b[p]);
        }
      }
      __syncthreads();
    }
  }

  /* Sums go through shared memory, so that neighbours write side by side. */
  template <typename F> __device__ __forceinline__ void each(room &r, F f) {
    MRT_UNROLL
    for (int slab = 0; slab < E::SLABS; slab++) {
      this->put_slab(slab, r.sums);
      __syncthreads();
      for (int i = (int)threadIdx.x; i < TALL * E::SIDE / 4; i += E::THREADS) {
        int row = i / (E::SIDE / 4), n = i % (E::SIDE / 4) * 4;
        R v[4];
        MRT_UNROLL
        for (int k = 0; k < 4; k++) v[k] = r.sums[row * E::WIDTH + n + k];
        f(E::row_of(slab, row), n, v);
      }
      __syncthreads();
    }
  }
};

#endif
