/* update_rows.cu -- descend_rows, sgd_rows, rmsprop_rows, adamw_rows: the rows
 * of a table that were looked up, updated where they lie
 *
 * Positions are sorted by id (lookup_sums.cuh).  A warp has a position; if it is
 * the first of its id the warp adds up the rows of dy for it, a strip of columns
 * at a time, and updates the row by the sums.  A lazy update first looks whether
 * any sum is not 0.  Rows without an id are updated by 0 in a second launch,
 * which ends at once unless rate or scale are negative or not finite.
 *
 * One list of ids; no variable in bf16, whose rounding is drawn at random: the
 * others stay gradients and updates (mrt_cuda_update_rows_takes).
 *
 * SPDX-License-Identifier: MIT */
#include "lookup_sums.cuh"
#include "op/op.h"
#include "update_steps.cuh"

namespace {

template <typename R, int K> struct rows_operands {
  mrt_any<R> v[K], dy;
  source from;
  sorting ids;
  int64_t C;
  bool lazy;
};

/* Columns from `column` on of row v. */
template <typename S, typename R, int K>
MRT_DEVICE void move_pack(const S &s, const rows_operands<R, K> &a, int64_t v,
                          int64_t column, const R *g) {
  R x[K][PACK];
  int64_t at = v * a.C + column, end = (v + 1) * a.C;
  if (at >= end) return;
  MRT_UNROLL
  for (int k = 0; k < K; k++) mrt_get_pack<PACK>(a.v[k], at, end, (R)0, x[k]);
  MRT_UNROLL
  for (int j = 0; j < PACK; j++) {
    R one[K];
    MRT_UNROLL
    for (int k = 0; k < K; k++) one[k] = x[k][j];
    s.move(one, g[j]);
    MRT_UNROLL
    for (int k = 0; k < K; k++) x[k][j] = one[k];
  }
  MRT_UNROLL
  for (int k = 0; k < K; k++) mrt_put_pack<PACK>(a.v[k], at, end, x[k]);
}

/* Where the positions of the id at `from` end. */
MRT_DEVICE int64_t end_of(const sorting &ids, const int64_t *sorted,
                          int64_t from, int64_t id) {
  int64_t end = from + 1;
  while (end < ids.count && clamped_id(ids, sorted[end]) == id) end++;
  return end;
}

/* Two blocks on a processor have enough of memory under way, 8 packs for each
 * thread; the compiler would make room for more, and spill. */
template <typename S, typename R>
__global__ void __launch_bounds__(256, 2)
    update_looked_up(rows_operands<R, S::variables> a, const int64_t *sorted,
                     typename S::options o, scalars in) {
  __shared__ S shared;
  if (!mrt_is_due(in.words, in.when)) return;
  if (threadIdx.x == 0) shared.set(o, in);
  __syncthreads();
  const S s = shared;
  int lane = (int)threadIdx.x % 32;
  for (int64_t k = mrt_first() / 32; k < a.ids.count; k += mrt_stride() / 32) {
    int64_t id = clamped_id(a.ids, sorted[k]);
    if (k > 0 && clamped_id(a.ids, sorted[k - 1]) == id) continue;
    int64_t end = end_of(a.ids, sorted, k, id);
    R sum[PACK];
    bool live = !a.lazy;
    for (int64_t j = 0; !live && j < a.C; j += STRIP) {
      sum_strip<mrt_mixed<R>>(a.dy, a.from, sorted, k, end, j + lane * PACK,
                              a.C, sum);
      bool mine = false;
      for (int p = 0; p < PACK; p++) mine = mine || sum[p] != 0;
      live = __ballot_sync(0xffffffff, mine) != 0;
    }
    for (int64_t j = 0; live && j < a.C; j += STRIP) {
      int64_t column = j + lane * PACK;
      sum_strip<mrt_mixed<R>>(a.dy, a.from, sorted, k, end, column, a.C, sum);
      move_pack(s, a, id, column, sum);
    }
  }
}

/* Is row v among the ids? */
MRT_DEVICE bool is_looked_up(const sorting &ids, const int64_t *sorted,
                             int64_t v) {
  int64_t low = 0, high = ids.count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (clamped_id(ids, sorted[middle]) < v)
      low = middle + 1;
    else
      high = middle;
  }
  return low < ids.count && clamped_id(ids, sorted[low]) == v;
}

/* Does a step by 0 change nothing? */
MRT_DEVICE bool is_still(const scalars &in) {
  double lr = in.lr.get(), scale = in.scale.get();
  return isfinite(lr) && isfinite(scale) && !signbit(lr) && !signbit(scale);
}

template <typename S, typename R>
__global__ void __launch_bounds__(256, 2)
    update_zeros(rows_operands<R, S::variables> a, const int64_t *sorted,
                 typename S::options o, scalars in) {
  __shared__ S shared;
  if (!mrt_is_due(in.words, in.when) || is_still(in)) return;
  if (threadIdx.x == 0) shared.set(o, in);
  __syncthreads();
  const S s = shared;
  const R zeros[PACK] = { 0 };
  int lane = (int)threadIdx.x % 32;
  for (int64_t v = mrt_first() / 32; v < a.ids.rows; v += mrt_stride() / 32) {
    if (is_looked_up(a.ids, sorted, v)) continue;
    for (int64_t j = 0; j < a.C; j += STRIP)
      move_pack(s, a, v, j + lane * PACK, zeros);
  }
}

/* ---- launching ----------------------------------------------------------- */

template <typename S, typename R>
void launch(const mrt_call *c, const typename S::options &o,
            const mrt_row_lists &lists, bool counted) {
  enum { K = S::variables };
  int64_t kind = lists.kinds.at[0];
  int at = K + mrt_row_list_inputs(kind), lr = at + (counted ? 1 : 0);
  rows_operands<R, K> a;
  for (int k = 0; k < K; k++) a.v[k] = mrt_at<mrt_mixed<R>>(&c->out[k]);
  a.dy = mrt_at<mrt_mixed<R>>(&c->in[K + 1]);
  a.C = c->out[0].type.dims[1], a.lazy = o.lazy;
  a.ids = sorting_of(&c->in[K], c->out[0].type.dims[0]);
  a.from = source();
  if (kind != MRT_ROWS_EACH)
    a.from = bags_at(&c->in[K], at - K > 2 ? &c->in[K + 2] : NULL,
                     kind == MRT_ROWS_MEAN || kind == MRT_ROWS_MEAN_AT);
  scalars in = scalars_of(c, { counted ? at : -1, lr, lr + 1, lr + 2 });
  if (a.C == 0 || a.ids.rows == 0) return;
  const int64_t *sorted = sort_ids(c, a.ids, c->scratch);
  if (a.ids.count)
    MRT_LAUNCH(mrt_blocks(a.ids.count, 8), 256, 0, c->run->queue,
               update_looked_up<S, R>)
  (a, sorted, o, in);
  if (!a.lazy)
    MRT_LAUNCH(update_blocks(a.ids.rows, 8), 256, 0, c->run->queue,
               update_zeros<S, R>)
  (a, sorted, o, in);
}

template <template <typename> class S>
void run(const mrt_call *c, const typename S<float>::options &o,
         const mrt_row_lists &lists, bool counted) {
  if (c->out[0].type.dtype == MRT_f64)
    launch<S<double>, double>(c, o, lists, counted);
  else
    launch<S<float>, float>(c, o, lists, counted);
}

size_t scratch_of(const mrt_call *c, int written) {
  return sort_bytes(sorting_of(&c->in[written], c->out[0].type.dims[0]));
}

} // namespace

/* Several lists, sums that are rounded and moments in bf16 are the gradient's and
 * the update's.  An id before the first bag has a gradient of 0, as a row has
 * that was not looked up. */
extern "C" bool mrt_cuda_update_rows_takes(const mrt_signature *s) {
  mrt_row_lists lists;
  memcpy(&lists, (const char *)s->options + s->op->options_size - sizeof lists,
         sizeof lists);
  if (lists.kinds.count != 1 || lists.rounded != MRT_DTYPE_COUNT) return false;
  for (int k = 0; k < s->op->updates; k++)
    if (s->in[k]->dtype == MRT_bf16) return false;
  for (int k = s->op->updates + mrt_row_list_inputs(lists.kinds.at[0]);
       k < s->nin; k++)
    if (mrt_is_narrow(s->in[k]->dtype)) return false;
  return true;
}

#define ROWS(name, counted)                                                    \
  extern "C" void mrt_cuda_##name##_rows(const mrt_call *c) {                  \
    const mrt_##name##_rows_options *o =                                       \
        (const mrt_##name##_rows_options *)c->options;                         \
    run<cuda_##name>(c, o->step, o->lists, counted);                           \
  }                                                                            \
  extern "C" size_t mrt_cuda_##name##_rows_scratch(const mrt_call *c) {        \
    return scratch_of(c, cuda_##name<float>::variables);                       \
  }
ROWS(descend, false)
ROWS(sgd, false)
ROWS(rmsprop, false)
ROWS(adamw, true)
