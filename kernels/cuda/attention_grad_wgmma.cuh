/* attention_grad_wgmma.cuh -- what the two kernels of attention_grad_wgmma.cu share
 *
 * A block has 128 rows of one side in two tiles, queries and dout or keys and
 * values, and walks pairs of tiles of the other.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_GRAD_WGMMA_CUH
#define MRT_CUDA_ATTENTION_GRAD_WGMMA_CUH

#include "attention_wgmma.cuh"

/* Rows of the other side at a time, of which so many pairs of tiles are there. */
enum { MRT_PAIR_ROWS = 64, MRT_STAGES = 3 };

template <typename T> struct mrt_gradient_groups {
  mrt_attention n;
  mrt_heads<T> q, k, v, dout, dq, dk, dv;
  mrt_any<float> lse;
  const float *delta;
};

/* Bytes of shared memory. */
template <typename T, int W> constexpr int mrt_gradient_bytes(void) {
  return (int)sizeof(T) * W *
             (2 * MRT_BLOCK_ROWS + 2 * MRT_STAGES * MRT_PAIR_ROWS) +
         MRT_TILE_ALIGN;
}

#ifdef MRT_HAS_WGMMA

/* lse in powers of 2 and delta of query t; what makes weights 0 where it saw no
 * key or is none. */
template <typename T>
MRT_DEVICE void mrt_get_terms(const mrt_gradient_groups<T> &c, int64_t head,
                              int t, float *lse, float *delta) {
  *lse = INFINITY, *delta = 0;
  if (t >= c.n.T) return;
  float x = mrt_get<float>(c.lse, head * c.n.T + t);
  if (x == -INFINITY) return;
  *lse = x * 1.442695040888963f;
  *delta = c.delta[head * c.n.T + t];
}

/* What a block walks: pairs of tiles of the other side, keys and values or
 * queries and dout. */
template <typename T> struct mrt_pair_walk {
  mrt_tile_rows<T> one, two; /* the next pair's */
  int stage;                 /* way to the pair that is looked at, in bytes */
  uint32_t at; /* in shared memory: two tiles of the block's own rows, pairs */
  uint32_t to; /* of the thread's pack in the first pair's first tile */
};
template <int W> constexpr int mrt_mine_bytes = MRT_BLOCK_ROWS *W * 2;
template <int W> constexpr int mrt_pair_tile_bytes = MRT_PAIR_ROWS *W * 2;
template <int W> constexpr int mrt_pair_bytes = 2 * mrt_pair_tile_bytes<W>;
template <int W> constexpr int mrt_pairs_on = 2 * mrt_mine_bytes<W>;

/* A thread's terms: those of its two rows, or of columns. */
struct mrt_terms_of_rows {
  float lse[2], delta[2];
};
struct mrt_terms_of_columns {
  const float *lse, *delta;
};
MRT_DEVICE float mrt_lse_at(const mrt_terms_of_rows &x, int r, int) {
  return x.lse[r];
}
MRT_DEVICE float mrt_delta_at(const mrt_terms_of_rows &x, int r, int) {
  return x.delta[r];
}
MRT_DEVICE float mrt_lse_at(const mrt_terms_of_columns &x, int, int j) {
  return x.lse[j];
}
MRT_DEVICE float mrt_delta_at(const mrt_terms_of_columns &x, int, int j) {
  return x.delta[j];
}

/* Do a warp's 16 rows see all of the other side's from s on? */
MRT_DEVICE bool mrt_see_all(const mrt_seen_span *seen, int s) {
  bool whole = true;
  MRT_UNROLL
  for (int r = 0; r < 2; r++)
    whole = whole && seen[r].from <= s && s + MRT_PAIR_ROWS <= seen[r].end;
  return __all_sync(0xffffffff, whole);
}
/* Nothing where a row does not see a column. */
MRT_DEVICE void mrt_leave_unseen(const mrt_seen_span *seen, int s,
                                 float w[][4]) {
  int column = mrt_lane() % 4 * 2;
  MRT_UNROLL
  for (int r = 0; r < 2; r++) {
    int from = seen[r].from - s - column, end = seen[r].end - s - column;
    MRT_UNROLL
    for (int j = 0; j < MRT_PAIR_ROWS / 8 * 2; j++) {
      int other = j / 2 * 8 + j % 2;
      float *x = &w[j / 2][r * 2 + j % 2];
      *x = other >= from && other < end ? *x : 0;
    }
  }
}
/* Scores become weights, */
template <typename X>
MRT_DEVICE void mrt_weigh(const X &terms, float unit, float w[][4]) {
  int column = mrt_lane() % 4 * 2;
  MRT_UNROLL
  for (int i = 0; i < MRT_PAIR_ROWS / 2; i++) {
    int r = i % 4 / 2, j = i / 4 * 8 + column + i % 2;
    float *x = &w[i / 4][i % 4];
    *x = mrt_exp2(fmaf(*x, unit, -mrt_lse_at(terms, r, j)));
  }
}
/* and gradients of weights those of scores, less the scale. */
template <typename X>
MRT_DEVICE void mrt_weigh_gradients(const X &terms, const float w[][4],
                                    float dp[][4]) {
  int column = mrt_lane() % 4 * 2;
  MRT_UNROLL
  for (int i = 0; i < MRT_PAIR_ROWS / 2; i++) {
    int r = i % 4 / 2, j = i / 4 * 8 + column + i % 2;
    float *x = &dp[i / 4][i % 4];
    *x = w[i / 4][i % 4] * (*x - mrt_delta_at(terms, r, j));
  }
}

/* Begin the scores of the block's rows and the pair's, and of their gradients:
 * a group each. */
template <typename T, int W>
MRT_DEVICE void mrt_begin_scores(const mrt_pair_walk<T> &x, float *w,
                                 float *dp) {
  constexpr int ROWS = MRT_BLOCK_ROWS;
  int group = mrt_in_warp((int)threadIdx.x / MRT_GROUP_THREADS);
  uint32_t mine = mrt_matrix_at(x.at) + mrt_rows_on(MRT_GROUP_ROWS * group);
  uint32_t pair = mrt_matrix_at(x.at) + mrt_bytes_on(mrt_pairs_on<W> + x.stage);
  mrt_wgmma_fence();
  mrt_group_scores<T, W, MRT_PAIR_ROWS, ROWS>(w, mine, pair);
  mrt_wgmma_commit();
  mrt_group_scores<T, W, MRT_PAIR_ROWS, ROWS>(
      dp, mine + mrt_bytes_on(mrt_mine_bytes<W>),
      pair + mrt_bytes_on(mrt_pair_tile_bytes<W>));
  mrt_wgmma_commit();
}
/* sum += weights by the pair's first tile (0), or its second. */
template <typename T, int W>
MRT_DEVICE void mrt_begin_sum(const mrt_pair_walk<T> &x, int which,
                              uint32_t weights[MRT_PAIR_ROWS / 16][4],
                              float *sum) {
  int on = mrt_pairs_on<W> + which * mrt_pair_tile_bytes<W> + x.stage;
  mrt_pin<MRT_PAIR_ROWS / 4>(&weights[0][0]);
  mrt_wgmma_fence();
  mrt_group_add<T, W, MRT_PAIR_ROWS>(
      sum, weights, mrt_turned_at<MRT_PAIR_ROWS>(x.at) + mrt_bytes_on(on));
  mrt_wgmma_commit();
}

/* A turn begins: the pair is there, all that was read two turns ago has been
 * read.  The whole block calls, and then begins the next pair. */
MRT_DEVICE void mrt_begin_turn(void) {
  mrt_copies_wait_but<0>();
  mrt_shared_written();
  __syncthreads();
}
template <int W> MRT_DEVICE int mrt_stage_after(int stage) {
  return stage == (MRT_STAGES - 1) * mrt_pair_bytes<W>
             ? 0
             : stage + mrt_pair_bytes<W>;
}
/* Begin to copy the next pair, of rows so many elements apart. */
template <typename T, int W>
MRT_DEVICE void mrt_begin_pair(mrt_pair_walk<T> *x, int stage, int64_t one,
                               int64_t two) {
  mrt_part_begin<W, MRT_PAIR_ROWS>(&x->one, one, x->to + stage);
  mrt_part_begin<W, MRT_PAIR_ROWS>(&x->two, two,
                                   x->to + stage + mrt_pair_tile_bytes<W>);
}
template <typename T, int W>
MRT_DEVICE void mrt_begin_mine(const mrt_pair_walk<T> &x, mrt_tile_rows<T> one,
                               int64_t one_step, mrt_tile_rows<T> two,
                               int64_t two_step) {
  constexpr int ROWS = MRT_BLOCK_ROWS;
  uint32_t to = x.at + mrt_part_place<W, ROWS>();
  mrt_part_begin<W, ROWS>(&one, one_step, to);
  mrt_part_begin<W, ROWS>(&two, two_step, to + mrt_mine_bytes<W>);
}
template <int W, typename T>
MRT_DEVICE void mrt_place_pairs(const void *shared, mrt_pair_walk<T> *x) {
  x->stage = 0, x->at = mrt_first_tile(shared);
  x->to = x->at + mrt_pairs_on<W> + mrt_part_place<W, MRT_PAIR_ROWS>();
}

#endif

#endif
