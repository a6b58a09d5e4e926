/* write_rows.cu -- rows written where they belong, of a variable
 *
 * A thread moves an element: of one dtype as its bytes, of two by way of f32.
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "walk.cuh"

namespace {

/* A sample has `each` elements of x, and T rows that are `inner` of them apart;
 * the walk goes over x, its second places are those in the variable were all
 * starts 0. */
struct written_rows {
  const void *start;
  int dtype;
  int64_t T, S, each, inner;
  int64_t row; /* from one to the next, in the variable */
  mrt_walk w;
};

written_rows rows_of(const mrt_call *c) {
  const mrt_operand *x = &c->in[1], *var = &c->out[0];
  written_rows r = {};
  r.start = c->in[2].data, r.dtype = c->in[2].type.dtype;
  int dim = (int)((const mrt_dim_options *)c->options)->dim;
  r.T = x->type.dims[dim], r.S = var->type.dims[dim];
  r.each = r.inner = 1, r.row = var->strides[dim];
  for (int i = 0; i < x->type.rank; i++)
    mrt_walk_add(&r.w, x->type.dims[i], x->strides[i], var->strides[i]);
  for (int i = 1; i < x->type.rank; i++) r.each *= x->type.dims[i];
  for (int i = dim + 1; i < x->type.rank; i++) r.inner *= x->type.dims[i];
  r.w.count = mrt_elements(x);
  return r;
}

/* Where element i of x lies and belongs; false: nowhere. */
MRT_DEVICE bool place(const written_rows &r, int64_t i, int64_t *from,
                      int64_t *to) {
  int64_t row = i / r.inner, t = row - row / r.T * r.T;
  int64_t first = mrt_id(r.start, r.dtype, i / r.each);
  mrt_walk_place<int64_t>(r.w, i, from, to);
  *to += first * r.row;
  return first >= -t && first < r.S - t;
}

template <typename T>
__global__ void __launch_bounds__(256)
    write_same(const T *x, T *var, written_rows r) {
  for (int64_t i = mrt_first(); i < r.w.count; i += mrt_stride()) {
    int64_t from, to;
    if (place(r, i, &from, &to)) var[to] = x[from];
  }
}

__global__ void __launch_bounds__(256)
    write_rounded(mrt_any<float> x, mrt_any<float> var, written_rows r) {
  for (int64_t i = mrt_first(); i < r.w.count; i += mrt_stride()) {
    int64_t from, to;
    if (place(r, i, &from, &to)) mrt_put(var, to, mrt_get<float>(x, from));
  }
}

template <typename T> void launch(const mrt_call *c, const written_rows &r) {
  MRT_LAUNCH(mrt_blocks(r.w.count, 256), 256, 0, c->run->queue, write_same<T>)
  ((const T *)c->in[1].data, (T *)c->out[0].data, r);
}

} // namespace

extern "C" void mrt_cuda_write_rows(const mrt_call *c) {
  const mrt_operand *x = &c->in[1], *var = &c->out[0];
  written_rows r = rows_of(c);
  if (r.w.count == 0 || r.S == 0) return;
  if (x->type.dtype != var->type.dtype) {
    MRT_LAUNCH(mrt_blocks(r.w.count, 256), 256, 0, c->run->queue, write_rounded)
    (mrt_at_any<float>(x, 0, 1), mrt_at_any<float>(var, 0, 1), r);
    return;
  }
  switch (mrt_bytes_of(var->type.dtype)) {
    MRT_CASE(1, T, uint8_t, launch<T>(c, r))
    MRT_CASE(2, T, uint16_t, launch<T>(c, r))
    MRT_CASE(4, T, uint32_t, launch<T>(c, r))
    MRT_CASE(8, T, uint64_t, launch<T>(c, r))
  }
}
