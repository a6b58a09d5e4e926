/* embedding_grad.cu -- embedding_grad, embedding_add and embedding_bag_grad: rows
 * of dy added up by the rows of a table that they came from (lookup_sums.cuh)
 *
 * embedding_add adds a row's sum to that of c, with the bits of embedding_grad and
 * an addition.  The rows that nobody looked up, most of a large table, are those of
 * c to the bit, a zero's sign too: in place they are neither read nor written.
 *
 * SPDX-License-Identifier: MIT */
#include "lookup_sums.cuh"

namespace {

/* first[v]: how many ids are below v, for v up to `rows`. */
__global__ void __launch_bounds__(256)
    find_firsts(sorting s, const int64_t *sorted, int64_t *first) {
  for (int64_t v = mrt_first(); v <= s.rows; v += mrt_stride()) {
    int64_t low = 0, high = s.count;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (clamped_id(s, sorted[middle]) < v)
        low = middle + 1;
      else
        high = middle;
    }
    first[v] = low;
  }
}

/* A warp adds up a strip of a row, and to c, which is NULL or may be dw. */
template <typename T>
__global__ void __launch_bounds__(256, 3)
    sum_rows(mrt_place<T> dy, mrt_real<T> *c, mrt_real<T> *dw, source s,
             const int64_t *sorted, const int64_t *first, int64_t rows,
             int64_t C) {
  typedef mrt_real<T> R;
  int64_t strips = (C + STRIP - 1) / STRIP;
  int lane = (int)threadIdx.x % 32;
  for (int64_t i = mrt_first() / 32; i < rows * strips;
       i += mrt_stride() / 32) {
    int64_t v = i / strips, column = i % strips * STRIP + lane * PACK;
    int64_t from = first[v], end = first[v + 1];
    R sum[PACK], add[PACK];
    if (c == dw && from == end) continue;
    sum_strip<T>(dy, s, sorted, from, end, column, C, sum);
    if (c) {
      mrt_get_pack<PACK>(c, v * C + column, (v + 1) * C, (R)0, add);
      MRT_UNROLL
      for (int p = 0; p < PACK; p++)
        sum[p] = from == end ? add[p] : add[p] + sum[p];
    }
    mrt_put_pack<PACK>(dw, v * C + column, (v + 1) * C, sum);
  }
}

/* ---- the operators ------------------------------------------------------- */

/* In the scratch: where rows begin; what sorting needs. */
size_t scratch_of(const mrt_call *c, int ids) {
  sorting s = sorting_of(&c->in[ids], c->out[0].type.dims[0]);
  return ((size_t)s.rows + 1) * sizeof(int64_t) + sort_bytes(s);
}

/* `to`: the input that rows are added to, or NULL. */
template <typename T>
void run(const mrt_call *c, int ids, int dy, const source &from,
         const mrt_operand *to) {
  const mrt_type *dw = &c->out[0].type;
  int64_t rows = dw->dims[0], C = dw->dims[1];
  if (rows == 0 || C == 0) return;
  sorting s = sorting_of(&c->in[ids], rows);
  int64_t *first = (int64_t *)c->scratch;
  const int64_t *sorted = sort_ids(c, s, first + rows + 1);
  MRT_LAUNCH(mrt_blocks(rows + 1, 256), 256, 0, c->run->queue, find_firsts)
  (s, sorted, first);
  MRT_LAUNCH(mrt_blocks(rows * ((C + STRIP - 1) / STRIP), 8), 256, 0,
             c->run->queue, sum_rows<T>)
  (mrt_at<T>(&c->in[dy]), to ? (mrt_real<T> *)to->data : NULL,
   (mrt_real<T> *)c->out[0].data, from, sorted, first, rows, C);
}

} // namespace

extern "C" void mrt_cuda_embedding_grad(const mrt_call *c) {
  MRT_DISPATCH(c->in[1].type.dtype, T, run<T>(c, 0, 1, source(), NULL));
}
extern "C" size_t mrt_cuda_embedding_grad_scratch(const mrt_call *c) {
  return scratch_of(c, 0);
}

extern "C" void mrt_cuda_embedding_add(const mrt_call *c) {
  MRT_DISPATCH(c->in[1].type.dtype, T, run<T>(c, 0, 1, source(), &c->in[2]));
}
extern "C" size_t mrt_cuda_embedding_add_scratch(const mrt_call *c) {
  return scratch_of(c, 0);
}

extern "C" void mrt_cuda_embedding_bag_grad(const mrt_call *c) {
  const mrt_bag_grad_options *o = (const mrt_bag_grad_options *)c->options;
  source s = bags_at(&c->in[1], c->nin > 2 ? &c->in[2] : NULL,
                     o->mode == MRT_BAG_MEAN);
  MRT_DISPATCH(c->in[0].type.dtype, T, run<T>(c, 1, 0, s, NULL));
}
extern "C" size_t mrt_cuda_embedding_bag_grad_scratch(const mrt_call *c) {
  return scratch_of(c, 1);
}
