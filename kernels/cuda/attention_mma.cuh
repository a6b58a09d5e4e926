/* attention_mma.cuh -- products of tiles of bf16 or f16 by the matrix units
 *
 * A tile lies in shared memory in rows of WIDTH elements, zeros where the
 * operand has none, 16 bytes apart: eight rows are then in different banks.  A
 * block is four warps; a warp has 16 rows, or two times 16 so that what it reads
 * of the right factor is used twice, of the left one, and all columns of the
 * result.  Weights, and the gradients of scores, are
 * rounded to the operands' dtype for their products, f16 too.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_MMA_CUH
#define MRT_CUDA_ATTENTION_MMA_CUH

#include "attention.cuh"
#include "mma.cuh"

enum { MMA_THREADS = 128, MMA_WARPS = 4, MMA_ROWS = 64, MMA_WIDEST = 128 };
/* More than there are queries or keys, and than one sees of the other. */
enum { MRT_BAND_FAR = 1 << 29 };

/* Cut off while unsigned: that it is not negative saves registers. */
MRT_DEVICE int mrt_lane(void) { return (int)(threadIdx.x % 32); }

/* Two floats as a register. */
MRT_DEVICE uint32_t mrt_pack_two(mrt_bf16, float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  mrt_bf16 y[2];
  mrt_round(low, &y[0]), mrt_round(high, &y[1]);
  return y[0].bits | (uint32_t)y[1].bits << 16;
#endif
}
MRT_DEVICE uint32_t mrt_pack_two(mrt_f16, float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  mrt_f16 y[2];
  mrt_round(low, &y[0]), mrt_round(high, &y[1]);
  return y[0].bits | (uint32_t)y[1].bits << 16;
#endif
}

/* 2 to the x, as the unit has it: results below 2^-126 are 0, which no sum of
 * weights can tell, and exp2f takes three instructions more to keep. */
MRT_DEVICE float mrt_exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/* 16 bytes to shared memory, zeros unless `there`; they are there for the thread
 * after the wait, for others after a barrier behind it. */
MRT_DEVICE void mrt_copy_16(void *to, const void *from, bool there) {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   (uint32_t)__cvta_generic_to_shared(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#else
  if (there)
    memcpy(to, from, 16);
  else
    memset(to, 0, 16);
#endif
}
MRT_DEVICE void mrt_copies_wait(void) {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

template <int W> constexpr int mrt_step = W + 8;

/* The dtype that matrix units take all of these in, or MRT_DTYPE_COUNT. */
template <typename... More>
static inline int mrt_mma_dtype(const mrt_attention &n, More... operands) {
  int dtype = mrt_common(operands...);
  bool fits = dtype == MRT_bf16 || dtype == MRT_f16;
  if (n.D > MMA_WIDEST || n.Dv > MMA_WIDEST) fits = false;
  if (n.T >= MRT_BAND_FAR || n.S >= MRT_BAND_FAR) fits = false;
  return fits ? dtype : MRT_DTYPE_COUNT;
}
/* Run the statements with T and W, the width of tiles. */
#define MRT_MMA_DISPATCH(dtype, n, T, W, ...)                                  \
  if ((dtype) == MRT_bf16)                                                     \
    MRT_MMA_WIDTH(n, T, mrt_bf16, W, __VA_ARGS__)                              \
  else                                                                         \
    MRT_MMA_WIDTH(n, T, mrt_f16, W, __VA_ARGS__)
#define MRT_MMA_WIDTH(n, T, Type, W, ...)                                      \
  {                                                                            \
    typedef Type T;                                                            \
    if ((n).D > 64 || (n).Dv > 64) {                                           \
      constexpr int W = 128;                                                   \
      __VA_ARGS__;                                                             \
    } else {                                                                   \
      constexpr int W = 64;                                                    \
      __VA_ARGS__;                                                             \
    }                                                                          \
  }

/* Whether all rows of these lie in whole packs of 16 bytes. */
static inline bool mrt_mma_packs(void) { return true; }
template <typename... More>
static inline bool mrt_mma_packs(const mrt_operand *x, More... more) {
  bool fits = (uintptr_t)x->data % 16 == 0 && x->type.dims[3] % 8 == 0;
  fits = fits && (x->type.dims[3] == 0 || x->strides[3] == 1);
  for (int d = 0; d < 3; d++)
    fits = fits && (x->type.dims[d] < 2 || x->strides[d] % 8 == 0);
  return fits && mrt_mma_packs(more...);
}

/* Begin to copy rows first .. first + ROWS of a head.  What is counted fits in
 * an int here, too.  Where rows are no packs a thread has an element of some. */
template <bool ANY, int W, int ROWS, typename T>
MRT_DEVICE void mrt_mma_load(const mrt_heads<T> &x, int64_t head, int first,
                             T *tile) {
  constexpr int V = ANY ? 1 : 8, PACKS = W / V, AT_ONCE = MMA_THREADS / PACKS;
  int column = (int)(threadIdx.x % PACKS * V), row = (int)(threadIdx.x / PACKS);
  int64_t step = x.strides[1];
  int left = (int)x.rows - first - row;
  const T *from = x.x + head + (unsigned)(first + row) * step;
  T *to = tile + row * mrt_step<W> + column;
  if (column >= (int)x.width) left = 0;
  if constexpr (ANY) {
    from += column * x.strides[3];
    MRT_UNROLL_BY(8)
    for (int i = 0; i < ROWS; i += AT_ONCE, from += AT_ONCE * step) {
      T value = {};
      if (i < left) value = *from;
      to[i * mrt_step<W>] = value;
    }
  } else {
    from += column;
    MRT_UNROLL
    for (int i = 0; i < ROWS; i += AT_ONCE, from += AT_ONCE * step)
      mrt_copy_16(to + i * mrt_step<W>, from, i < left);
  }
}

/* What rows of one side have to do with the other: row i sees, or is seen by,
 * rows i + lo .. i + hi - 1, as far as they are there.  All is an int, which
 * mrt_mma_dtype sees to: registers are what these kernels lack. */
struct mrt_band {
  int rows, others, lo, hi;
};

MRT_DEVICE mrt_band mrt_band_of(const mrt_attention &n, const mrt_sample &m) {
  int64_t far = MRT_BAND_FAR;
  int64_t lo = m.at - n.left, hi = m.at + n.right + 1;
  return { (int)m.T, (int)m.S, (int)(mrt_within(lo + far, 2 * far) - far),
           (int)(mrt_within(hi + far, 2 * far) - far) };
}
/* Of the other side's rows. */
MRT_DEVICE mrt_band mrt_turned(const mrt_band &b) {
  return { b.others, b.rows, 1 - b.hi, 1 - b.lo };
}
struct mrt_seen_span {
  int from, end;
};
/* What row i sees, counted from `first` on; more may be before and behind. */
MRT_DEVICE mrt_seen_span mrt_seen_by(const mrt_band &b, int i, int first) {
  int end = i + b.hi < b.others ? i + b.hi : b.others;
  return { i + b.lo - first, i < b.rows ? end - first : 0 };
}
/* What some of rows i .. i + n see: from a multiple of `tile`, to an end. */
MRT_DEVICE mrt_seen_span mrt_seen_by_some(const mrt_band &b, int i, int n,
                                          int tile) {
  int last = (i + n < b.rows ? i + n : b.rows) - 1, from = i + b.lo;
  if (last < i) return { 0, 0 };
  return { (from < 0 ? 0 : from) / tile * tile, mrt_seen_by(b, last, 0).end };
}
/* Of rows first .. first + N of the other side, do rows i .. i + n see some, or
 * all? */
template <int N>
MRT_DEVICE bool mrt_sees_some(const mrt_band &b, int i, int n, int first) {
  int last = (i + n < b.rows ? i + n : b.rows) - 1;
  return last >= i && first + N > i + b.lo && first < last + b.hi;
}
template <int N>
MRT_DEVICE bool mrt_sees_all(const mrt_band &b, int i, int n, int first) {
  return i + n <= b.rows && first + N <= b.others &&
         first >= i + n - 1 + b.lo && first + N <= i + b.hi;
}

/* ---- factors ------------------------------------------------------------- */

/* 16 rows and columns of a tile, as a left factor. */
template <int W, typename T>
MRT_DEVICE void mrt_left(uint32_t *r, const T *tile, int row, int column) {
  int lane = mrt_lane();
  tile += (row + lane % 16) * mrt_step<W> + column + lane / 16 * 8;
  mrt_load_matrices<false>(r, tile);
}
/* As two right factors: their columns are rows of the tile. */
template <int W, typename T>
MRT_DEVICE void mrt_right(uint32_t *r, const T *tile, int row, int column) {
  int lane = mrt_lane();
  tile += (row + lane % 8 + lane / 16 * 8) * mrt_step<W>;
  mrt_load_matrices<false>(r, tile + column + lane / 8 % 2 * 8);
}
/* As two right factors: their rows are rows of the tile. */
template <int W, typename T>
MRT_DEVICE void mrt_right_rows(uint32_t *r, const T *tile, int row,
                               int column) {
  int lane = mrt_lane();
  tile += (row + lane % 16) * mrt_step<W> + column + lane / 16 * 8;
  mrt_load_matrices<true>(r, tile);
}

/* ---- products ------------------------------------------------------------ */

/* s[m] = rows of x, fragments of width W, times rows 0 .. N of y. */
template <int W, int N, int M, typename T>
MRT_DEVICE void mrt_mma_scores(const uint32_t x[M][W / 16][4], const T *y,
                               float s[M][N / 8][4]) {
  MRT_UNROLL
  for (int m = 0; m < M * N / 8 * 4; m++)
    s[m / 4 / (N / 8)][m / 4 % (N / 8)][m % 4] = 0;
  MRT_UNROLL
  for (int k = 0; k < W / 16; k++) {
    MRT_UNROLL
    for (int n = 0; n < N / 16; n++) {
      uint32_t r[4];
      mrt_right<W>(r, y, 16 * n, 16 * k);
      MRT_UNROLL
      for (int m = 0; m < M; m++) {
        mrt_mma<T>(s[m][2 * n], x[m][k], r);
        mrt_mma<T>(s[m][2 * n + 1], x[m][k], r + 2);
      }
    }
  }
}
/* The same with rows `row` .. + 16 M of a tile. */
template <int W, int N, int M, typename T>
MRT_DEVICE void mrt_mma_scores_at(const T *x, int row, const T *y,
                                  float s[M][N / 8][4]) {
  MRT_UNROLL
  for (int m = 0; m < M * N / 8 * 4; m++)
    s[m / 4 / (N / 8)][m / 4 % (N / 8)][m % 4] = 0;
  MRT_UNROLL
  for (int k = 0; k < W / 16; k++) {
    uint32_t left[M][4];
    MRT_UNROLL
    for (int m = 0; m < M; m++) mrt_left<W>(left[m], x, row + 16 * m, 16 * k);
    MRT_UNROLL
    for (int n = 0; n < N / 16; n++) {
      uint32_t r[4];
      mrt_right<W>(r, y, 16 * n, 16 * k);
      MRT_UNROLL
      for (int m = 0; m < M; m++) {
        mrt_mma<T>(s[m][2 * n], left[m], r);
        mrt_mma<T>(s[m][2 * n + 1], left[m], r + 2);
      }
    }
  }
}

/* sum[m] += weights, rounded, times rows 0 .. N of x. */
template <int W, int N, int M, typename T>
MRT_DEVICE void mrt_mma_add(const float w[M][N / 8][4], const T *x,
                            float sum[M][W / 8][4]) {
  MRT_UNROLL
  for (int j = 0; j < N / 16; j++) {
    uint32_t left[M][4];
    MRT_UNROLL
    for (int m = 0; m < M; m++) MRT_UNROLL
    for (int k = 0; k < 4; k++) {
      const float *two = &w[m][2 * j + k / 2][k % 2 * 2];
      left[m][k] = mrt_pack_two(T(), two[0], two[1]);
    }
    MRT_UNROLL
    for (int d = 0; d < W / 16; d++) {
      uint32_t r[4];
      mrt_right_rows<W>(r, x, 16 * j, 16 * d);
      MRT_UNROLL
      for (int m = 0; m < M; m++) {
        mrt_mma<T>(sum[m][2 * d], left[m], r);
        mrt_mma<T>(sum[m][2 * d + 1], left[m], r + 2);
      }
    }
  }
}

/* Row `row` of a head of an output: the lane's columns of `sum` scaled; half 0
 * is row g, 1 row g + 8. */
template <int W, typename T>
MRT_DEVICE void mrt_mma_put(const mrt_heads<T> &y, int64_t b, int64_t h,
                            int64_t row, const float sum[W / 8][4], int half,
                            float scale) {
  if (row >= y.rows) return;
  int64_t at = mrt_row_of(y, b, row, h);
  MRT_UNROLL
  for (int d = 0; d < W / 8; d++) {
    int column = 8 * d + mrt_lane() % 4 * 2;
    float two[2] = { sum[d][2 * half] * scale, sum[d][2 * half + 1] * scale };
    mrt_put_pack<2>(y.x, at + column, at + y.width, two);
  }
}

#endif
