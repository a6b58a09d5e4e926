/* lookup_sums.cuh -- rows of dy added up by the rows of a table that they came
 * from
 *
 * The positions of the ids are sorted by id, those of one id staying in order
 * (a radix sort, digit by digit from the lowest: Knuth, TAOCP 3, 5.2.5; ranks
 * in a warp by ballots: Merrill & Grimshaw, Parallel Processing Letters 21,
 * 2011).  Then each row of the table has its own positions in one piece, and
 * one warp adds a strip of its columns up, in the order of the ids, as llm.c
 * does for its embedding: no atomics on floats, and no row is visited twice.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_LOOKUP_SUMS_CUH
#define MRT_LOOKUP_SUMS_CUH

#include "cuda.cuh"
#include "op/embedding_bag.h"

namespace {

/* ---- positions sorted by id ---------------------------------------------- */

enum { BITS = 8, DIGITS = 1 << BITS, WARPS = DIGITS / 32 };
enum { LEAST = 1024, MOST_PARTS = 128 };

/* Ids below `rows`, cut into `parts` of `each`, a block for each part. */
struct sorting {
  const void *ids;
  int dtype;
  int64_t count, rows, parts, each;
  int passes;
};

inline sorting sorting_of(const mrt_operand *ids, int64_t rows) {
  sorting s = { ids->data, ids->type.dtype, mrt_elements(ids), rows, 1, 0, 1 };
  s.each = (s.count + MOST_PARTS - 1) / MOST_PARTS;
  s.each = (s.each + LEAST - 1) / LEAST * LEAST;
  if (s.count) s.parts = (s.count + s.each - 1) / s.each;
  while (s.passes < 8 && (rows - 1) >> (BITS * s.passes)) s.passes++;
  return s;
}

/* A bad id was reported when it was looked up. */
MRT_DEVICE int64_t clamped_id(const sorting &s, int64_t i) {
  int64_t id = mrt_id(s.ids, s.dtype, i);
  return id < 0 ? 0 : id < s.rows ? id : s.rows - 1;
}

/* The position with number k so far (`order` NULL: none sorted yet). */
MRT_DEVICE int64_t position(const int64_t *order, int64_t k) {
  return order ? order[k] : k;
}

MRT_DEVICE int digit_of(const sorting &s, int64_t i, int shift) {
  return (int)(clamped_id(s, i) >> shift & (DIGITS - 1));
}

/* counts[part][digit] */
__global__ void __launch_bounds__(DIGITS)
    count_digits(sorting s, const int64_t *order, int shift, uint32_t *counts) {
  __shared__ unsigned n[DIGITS];
  int64_t from = blockIdx.x * s.each, to = from + s.each;
  if (to > s.count) to = s.count;
  n[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t k = from + threadIdx.x; k < to; k += DIGITS)
    atomicAdd(&n[digit_of(s, position(order, k), shift)], 1u);
  __syncthreads();
  counts[(int64_t)blockIdx.x * DIGITS + threadIdx.x] = n[threadIdx.x];
}

/* The sum of what the threads before this one have. */
MRT_DEVICE int64_t sum_before(int64_t v) {
  __shared__ int64_t warp_sum[WARPS];
  int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  int64_t upto = v;
  for (int by = 1; by < 32; by *= 2) {
    int64_t other = __shfl_up_sync(0xffffffff, upto, by);
    if (lane >= by) upto += other;
  }
  if (lane == 31) warp_sum[warp] = upto;
  __syncthreads();
  for (int w = 0; w < warp; w++) upto += warp_sum[w];
  return upto - v;
}

/* Lanes with this lane's digit, among those in `mask`. */
MRT_DEVICE unsigned lanes_like(unsigned mask, int digit) {
  for (int bit = 0; bit < BITS; bit++) {
    int set = digit >> bit & 1;
    unsigned those = __ballot_sync(0xffffffff, set);
    mask &= set ? those : ~those;
  }
  return mask;
}

/* Positions to where their digit puts them, in the order they had.  A warp has
 * a piece of the part; `at` is where its next one of a digit goes, from the
 * part's first one on. */
__global__ void __launch_bounds__(DIGITS)
    place_digits(sorting s, const int64_t *order, int shift,
                 const uint32_t *counts, int64_t *sorted) {
  __shared__ int64_t start[DIGITS];
  __shared__ unsigned at[WARPS][DIGITS];
  int digit = (int)threadIdx.x, lane = digit % 32, warp = digit / 32;
  int64_t all = 0, before = 0, piece = s.each / WARPS;
  for (int64_t p = 0; p < s.parts; p++) {
    uint32_t n = counts[p * DIGITS + digit];
    all += n;
    if (p < blockIdx.x) before += n;
  }
  start[digit] = sum_before(all) + before;
  for (int w = 0; w < WARPS; w++) at[w][digit] = 0;
  __syncthreads();
  int64_t from = blockIdx.x * s.each + warp * piece, to = from + piece;
  if (to > s.count) to = s.count;
  for (int64_t k = from + lane; k < to; k += 32)
    atomicAdd(&at[warp][digit_of(s, position(order, k), shift)], 1u);
  __syncthreads();
  for (unsigned w = 0, sum = 0; w < WARPS; w++) {
    unsigned n = at[w][digit];
    at[w][digit] = sum, sum += n;
  }
  __syncthreads();
  for (int64_t first = from; first < to; first += 32) {
    bool valid = first + lane < to;
    int64_t i = valid ? position(order, first + lane) : 0;
    int d = valid ? digit_of(s, i, shift) : 0;
    unsigned like = lanes_like(__ballot_sync(0xffffffff, valid), d);
    unsigned rank = (unsigned)__popc(like & ((1u << lane) - 1));
    if (valid) sorted[start[d] + at[warp][d] + rank] = i;
    __syncwarp();
    if (valid && rank == 0) at[warp][d] += (unsigned)__popc(like);
    __syncwarp();
  }
}

/* ---- rows added up -------------------------------------------------------- */

/* Which row of dy goes with the id at a position: its own, or its bag's. */
struct source {
  bool bags, mean;
  int64_t each, count, all; /* each: ids of a bag; all: ids */
  const void *offsets;      /* NULL: none */
  int dtype;
};

MRT_DEVICE int64_t edge(const source &s, int64_t bag) {
  if (bag == s.count) return s.all;
  int64_t at = mrt_id(s.offsets, s.dtype, bag);
  return at < 0 ? 0 : at < s.all ? at : s.all;
}

/* -1: an id before the first bag */
template <typename R>
MRT_DEVICE int64_t row_of(const source &s, int64_t i, R *scale) {
  *scale = 1;
  if (!s.bags) return i;
  int64_t low = 0, high = s.count, n = s.each; /* bags that begin after i */
  while (s.offsets && low < high) {
    int64_t middle = low + (high - low) / 2;
    if (edge(s, middle) <= i)
      low = middle + 1;
    else
      high = middle;
  }
  int64_t bag = s.offsets ? low - 1 : i / s.each;
  if (s.offsets && bag >= 0) n = edge(s, bag + 1) - edge(s, bag);
  if (s.mean && bag >= 0 && n > 0) *scale = 1 / (R)n;
  return bag;
}

/* Rounded, and never part of a multiply-add. */
MRT_DEVICE float times(float a, float b) { return __fmul_rn(a, b); }
MRT_DEVICE double times(double a, double b) { return __dmul_rn(a, b); }

/* A lane's columns, a warp's. */
enum { PACK = 4, STRIP = 32 * PACK };

/* The sum of the rows at positions [from, end) of `sorted`, a lane's columns from
 * `column` on, by all lanes of a warp.  Rows past the end are zeros: no sum that
 * began with 0 is changed by them. */
template <typename T>
MRT_DEVICE void sum_strip(mrt_place<T> dy, const source &s,
                          const int64_t *sorted, int64_t from, int64_t end,
                          int64_t column, int64_t C, mrt_real<T> *sum) {
  typedef mrt_real<T> R;
  constexpr int AHEAD = 32 / sizeof(R); /* rows read before they are added */
  int lane = (int)threadIdx.x % 32;
  for (int p = 0; p < PACK; p++) sum[p] = 0;
  for (int64_t k = from; k < end; k += 32) {
    int n = end - k < 32 ? (int)(end - k) : 32;
    R mine = 1;
    int64_t row = lane < n ? row_of(s, sorted[k + lane], &mine) : -1;
    for (int j = 0; j < n; j += AHEAD) {
      R ahead[AHEAD][PACK];
      MRT_UNROLL
      for (int a = 0; a < AHEAD; a++) {
        int64_t r = __shfl_sync(0xffffffff, row, j + a);
        mrt_get_pack<PACK>(dy, r < 0 ? 0 : r * C + column,
                           r < 0 ? 0 : (r + 1) * C, (R)0, ahead[a]);
      }
      MRT_UNROLL
      for (int a = 0; a < AHEAD; a++) {
        R scale = __shfl_sync(0xffffffff, mine, j + a);
        MRT_UNROLL
        for (int p = 0; p < PACK; p++) sum[p] += times(scale, ahead[a][p]);
      }
    }
  }
}

/* Room for positions sorted, twice where they are sorted more than once, and
 * for counts. */
inline size_t sort_bytes(const sorting &s) {
  return (size_t)s.count * (s.passes > 1 ? 2 : 1) * sizeof(int64_t) +
         (size_t)s.parts * DIGITS * sizeof(uint32_t);
}

/* The positions sorted, in `room`. */
inline const int64_t *sort_ids(const mrt_call *c, sorting s, void *room) {
  int64_t *first = (int64_t *)room;
  uint32_t *counts = (uint32_t *)(first + s.count * (s.passes > 1 ? 2 : 1));
  unsigned parts = (unsigned)s.parts;
  const int64_t *order = NULL;
  for (int p = 0; s.count && p < s.passes; p++) {
    int64_t *to = first + (p % 2 ? s.count : 0);
    MRT_LAUNCH(parts, DIGITS, 0, c->run->queue, count_digits)
    (s, order, p * BITS, counts);
    MRT_LAUNCH(parts, DIGITS, 0, c->run->queue, place_digits)
    (s, order, p * BITS, counts, to);
    order = to;
  }
  return order;
}

/* Bags of the ids of input `ids`, at offsets or NULL. */
inline source bags_at(const mrt_operand *ids, const mrt_operand *offsets,
                      bool mean) {
  source s = { true, mean, mrt_cols(ids), mrt_rows(ids), mrt_elements(ids),
               NULL, 0 };
  if (offsets) {
    s.offsets = offsets->data, s.dtype = offsets->type.dtype;
    s.count = mrt_elements(offsets);
  }
  return s;
}

} // namespace

#endif
