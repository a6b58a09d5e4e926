/* attention_adjust.cuh -- softcap and mask of scores that matrix units have made
 *
 * A warp brings eight rows of them to shared memory and goes through them there
 * in a loop.  Done where the products leave them, in registers, each of a lane's
 * 64 scores would have a tanh and a mask of every dtype of its own: more code
 * than the caches of a processor hold, and more values than it has registers.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_ATTENTION_ADJUST_CUH
#define MRT_CUDA_ATTENTION_ADJUST_CUH

#include "attention_mma.cuh"

/* Of a lane's scores of row lane / 4, in which column number j is. */
MRT_DEVICE int mrt_score_column(int j) {
  return j / 2 * 8 + mrt_lane() % 4 * 2 + j % 2;
}

/* Rows by columns are queries by keys, from t and s on, or with `turned` keys by
 * queries. */
struct mrt_score_block {
  int b, h, t, s;
};

/* Each warp's eight rows of N; eight banks lie between two rows. */
template <int N, bool sloped> struct mrt_score_room {
  enum { WIDE = N + 8 };
  float score[MMA_WARPS][8][WIDE], slope[MMA_WARPS][8][sloped ? WIDE : 1];
};

/* Of query t and key s of a block; -1 for what is not there, and has no mask. */
MRT_DEVICE int64_t mrt_place_in_mask(const mrt_attention &n,
                                     const mrt_score_block &at, int t, int s) {
  t += at.t, s += at.s;
  if (t >= n.T || s >= n.S) return -1;
  return at.b * n.mask_step[0] + at.h * n.mask_step[1] + t * n.mask_step[2] +
         s * n.mask_step[3];
}

/* What a mask adds to COUNT scores that lie at[] elements into it, 0 where that is
 * negative.  The dtype is looked at once, so that all are under way at once. */
template <int COUNT>
MRT_DEVICE void mrt_masks_at(const mrt_attention &n, const int64_t *at,
                             float *added) {
  if (n.mask_dtype == MRT_bool) {
    MRT_UNROLL
    for (int i = 0; i < COUNT; i++) {
      bool passes = at[i] < 0 || ((const uint8_t *)n.mask)[at[i]];
      added[i] = passes ? 0 : -INFINITY;
    }
    return;
  }
  MRT_BY_DTYPE(n.mask_dtype, T, {
    MRT_UNROLL
    for (int i = 0; i < COUNT; i++)
      added[i] = at[i] < 0 ? 0 : (float)mrt_widen(((const T *)n.mask)[at[i]]);
  })
}

/* The lane's N / 4 scores of row lane / 4, less the scale; with `sloped` also
 * what softcap multiplies their gradients by.  All lanes of the warp call. */
template <int N, bool turned, bool sloped>
MRT_DEVICE void
mrt_adjust_row(const mrt_attention &n, const mrt_score_block &at,
               mrt_score_room<N, sloped> *m, float *x, float *slope) {
  constexpr int SOME = 4; /* of a mask are read before one is waited for */
  int warp = (int)threadIdx.x / 32, g = mrt_lane() / 4;
  auto *scores = m->score[warp];
  auto *slopes = m->slope[warp];
  MRT_UNROLL
  for (int j = 0; j < N / 4; j++) scores[g][mrt_score_column(j)] = x[j];
  __syncwarp();
  /* neighbours are neighbours in a mask, where keys run fastest */
  auto row = [](unsigned e) { return (int)(turned ? e % 8 : e / N); };
  auto column = [](unsigned e) { return (int)(turned ? e / 8 : e % N); };
  MRT_UNROLL_BY(1)
  for (unsigned from = (unsigned)mrt_lane(); from < 8 * N; from += 32 * SOME) {
    float added[SOME];
    if (n.mask) {
      int64_t place[SOME];
      MRT_UNROLL
      for (int i = 0; i < SOME; i++) {
        int r = row(from + 32 * i), c = column(from + 32 * i);
        place[i] = mrt_place_in_mask(n, at, turned ? c : r, turned ? r : c);
      }
      mrt_masks_at<SOME>(n, place, added);
    }
    MRT_UNROLL
    for (int i = 0; i < SOME; i++) {
      int r = row(from + 32 * i), c = column(from + 32 * i);
      float y = scores[r][c] * (float)n.scale, by = 1;
      if (n.softcap > 0) y = mrt_capped(n, y, &by);
      if (n.mask) y += added[i];
      scores[r][c] = y;
      if (sloped) slopes[r][c] = by;
    }
  }
  __syncwarp();
  MRT_UNROLL
  for (int j = 0; j < N / 4; j++) {
    x[j] = scores[g][mrt_score_column(j)];
    if (sloped) slope[j] = slopes[g][mrt_score_column(j)];
  }
}

#endif
