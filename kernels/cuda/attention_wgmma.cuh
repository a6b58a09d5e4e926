/* attention_wgmma.cuh -- tiles of attention for products by warpgroups
 *
 * A block is two warpgroups, each with 64 rows of one side; the other side's
 * tiles, as wgmma.cuh lays them out, are copied in turns by all of them.  What
 * is seen, fragments and dtypes are those of attention_mma.cuh.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_WGMMA_CUH
#define MRT_CUDA_ATTENTION_WGMMA_CUH

#include "attention_mma.cuh"
#include "wgmma.cuh"

enum {
  MRT_GROUPS = 2, /* of a block */
  MRT_BLOCK_THREADS = MRT_GROUPS * MRT_GROUP_THREADS,
  MRT_BLOCK_ROWS = MRT_GROUPS * MRT_GROUP_ROWS
};

/* A thread's part of tiles that follow each other in a head: of every so many
 * rows the same pack of 8 columns, which has the same place in all of them. */
template <typename T> struct mrt_tile_rows {
  const T *from; /* its first row of the next tile */
  int left;      /* rows from there on; none or fewer: zeros */
};
template <int W> constexpr int mrt_apart = MRT_BLOCK_THREADS / (W / 8);
template <int W> MRT_DEVICE int mrt_part_column(void) {
  return (int)threadIdx.x % (W / 8) * 8;
}
template <int W> MRT_DEVICE int mrt_part_row(void) {
  return (int)threadIdx.x / (W / 8);
}

/* Of rows `first` .. `end` of a head. */
template <int W, typename T>
MRT_DEVICE mrt_tile_rows<T> mrt_part_of(const mrt_heads<T> &x, int64_t head,
                                        int first, int64_t end) {
  int column = mrt_part_column<W>(), row = first + mrt_part_row<W>();
  return { x.x + head + row * x.strides[1] + column,
           column < (int)x.width ? (int)end - row : 0 };
}
/* Where the first of these packs lies in a tile of R rows, in bytes. */
template <int W, int R> MRT_DEVICE uint32_t mrt_part_place(void) {
  return mrt_pack_at<R>(mrt_part_row<W>(), mrt_part_column<W>());
}
/* Begin to copy the next R rows, `step` elements apart, to a tile; `to`: where
 * the first pack goes. */
template <int W, int R, typename T>
MRT_DEVICE void mrt_part_begin(mrt_tile_rows<T> *x, int64_t step, uint32_t to) {
  constexpr int APART = mrt_apart<W>;
  static_assert(APART % 8 == 0, "the swizzle has a period of 8 rows");
  MRT_UNROLL
  for (int i = 0; i < R; i += APART)
    mrt_copy_begin(to + i * MRT_PANEL_BYTES, x->from + i * step, i < x->left);
  x->from += R * step, x->left -= R;
}

#ifdef MRT_HAS_WGMMA
/* d = rows of a by rows of b, over W columns: a begins with the warpgroup's
 * rows of a tile of RA, b is a tile of N. */
template <typename T, int W, int N, int RA>
MRT_DEVICE void mrt_group_scores(float *d, uint32_t a, uint32_t b) {
  mrt_wgmma<T, N, false, false>(d, a, b);
  MRT_UNROLL
  for (int k = 1; k < W / 16; k++)
    mrt_wgmma<T, N, false, true>(d, a + mrt_columns_on<RA>(k),
                                 b + mrt_columns_on<N>(k));
}
/* d += weights of N keys, fragments, by a tile of N rows of W columns. */
template <typename T, int W, int N>
MRT_DEVICE void mrt_group_add(float *d, const uint32_t a[N / 16][4],
                              uint32_t b) {
  MRT_UNROLL
  for (int k = 0; k < N / 16; k++)
    mrt_wgmma<T, W, true, true>(d, a[k], b + mrt_rows_on(16 * k));
}
#endif

/* What is the same in all lanes, for the compiler to know. */
MRT_DEVICE int mrt_in_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

/* Weights as a left factor's fragments. */
template <typename T, int N>
MRT_DEVICE void mrt_group_pack(const float w[N / 8][4], uint32_t a[N / 16][4]) {
  MRT_UNROLL
  for (int k = 0; k < N / 16; k++) MRT_UNROLL
  for (int i = 0; i < 4; i++) {
    const float *two = &w[2 * k + i / 2][i % 2 * 2];
    a[k][i] = mrt_pack_two(T(), two[0], two[1]);
  }
}

#endif
