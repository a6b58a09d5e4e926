/* index.cu -- gather, embedding, embedding_bag, scatter and scatter_add
 *
 * Ids are clamped where they are read, and a bad one is reported.
 *
 * SPDX-License-Identifier: MIT */
#include "op/embedding_bag.h"
#include "op/move.h"
#include "walk.cuh"

namespace {

/* A tensor of ids below n, and where a bad one is told. */
struct cuda_lookup {
  const void *ids;
  int dtype;
  int64_t count, n;
  mrt_run_words *words;
  int node;
};

cuda_lookup lookup_of(const mrt_call *c, const mrt_operand *ids, int64_t n) {
  return { ids->data, ids->type.dtype, mrt_elements(ids),
           n,         c->run->words,   c->node };
}

MRT_DEVICE int64_t id_at(const cuda_lookup &l, int64_t i) {
  return mrt_checked_id(l.words, l.node, mrt_id(l.ids, l.dtype, i), l.n);
}

/* ---- gather -------------------------------------------------------------- */

/* Element i comes from its place in the walk plus its id times `along`; the
 * walk's other place is that of the id. */
template <typename T, typename I>
__global__ void __launch_bounds__(256)
    gather(const T *x, T *y, cuda_lookup l, int64_t along, mrt_walk w) {
  for (int64_t i = mrt_first(); i < w.count; i += mrt_stride()) {
    int64_t from, id;
    mrt_walk_place<I>(w, (I)i, &from, &id);
    y[i] = x[from + id_at(l, id) * along];
  }
}

template <typename T>
void launch_gather(const mrt_call *c, cuda_lookup l, int64_t along,
                   mrt_walk w) {
  const T *x = (const T *)c->in[0].data;
  T *y = (T *)c->out[0].data;
  unsigned grid = mrt_blocks(w.count, 256);
  if (mrt_walk_is_small(&w))
    MRT_LAUNCH(grid, 256, 0, c->run->queue, gather<T, int32_t>)
  (x, y, l, along, w);
  else MRT_LAUNCH(grid, 256, 0, c->run->queue, gather<T, int64_t>)(x, y, l,
                                                                   along, w);
}

/* ---- embedding ----------------------------------------------------------- */

/* A row has `units` of T, and a thread even if it has none: ids are checked. */
template <typename T>
__global__ void __launch_bounds__(256)
    move_rows(const T *w, T *y, cuda_lookup l, int64_t units) {
  int64_t threads = units ? units : 1;
  for (int64_t i = mrt_first(); i < l.count * threads; i += mrt_stride()) {
    int64_t row = i / threads, at = i - row * threads, id = id_at(l, row);
    if (at < units) y[i] = w[id * units + at];
  }
}

struct indexed16 {
  uint64_t half[2];
} __attribute__((aligned(16)));

template <typename T>
void launch_rows(const mrt_call *c, cuda_lookup l, int64_t bytes) {
  int64_t units = bytes / (int64_t)sizeof(T);
  MRT_LAUNCH(mrt_blocks(l.count * (units ? units : 1), 256), 256, 0,
             c->run->queue, move_rows<T>)
  ((const T *)c->in[0].data, (T *)c->out[0].data, l, units);
}

/* By the most bytes that divide a row and both addresses. */
void copy_rows(const mrt_call *c, cuda_lookup l) {
  int64_t bytes = mrt_cols(&c->in[0]) * mrt_bytes_of(c->in[0].type.dtype);
  uintptr_t all = (uintptr_t)c->in[0].data | (uintptr_t)c->out[0].data |
                  (uintptr_t)bytes | 16;
  switch (all & (~all + 1)) {
    MRT_CASE(1, T, uint8_t, launch_rows<T>(c, l, bytes))
    MRT_CASE(2, T, uint16_t, launch_rows<T>(c, l, bytes))
    MRT_CASE(4, T, uint32_t, launch_rows<T>(c, l, bytes))
    MRT_CASE(8, T, uint64_t, launch_rows<T>(c, l, bytes))
    MRT_CASE(16, T, indexed16, launch_rows<T>(c, l, bytes))
  }
}

/* ---- rows of floats: a thread has a pack of columns of a row of y -------- */

enum { PACK = 4 };

template <typename R>
__global__ void __launch_bounds__(256)
    convert_rows(mrt_any<R> w, mrt_any<R> y, cuda_lookup l, int64_t C) {
  int64_t packs = C ? (C + PACK - 1) / PACK : 1;
  for (int64_t i = mrt_first(); i < l.count * packs; i += mrt_stride()) {
    int64_t row = i / packs, at = (i - row * packs) * PACK;
    int64_t id = id_at(l, row);
    R v[PACK];
    mrt_get_pack<PACK>(w, id * C + at, (id + 1) * C, (R)0, v);
    mrt_put_pack<PACK>(y, row * C + at, (row + 1) * C, v);
  }
}

template <typename R>
void launch_converted(const mrt_call *c, cuda_lookup l, int64_t C) {
  MRT_LAUNCH(mrt_blocks(l.count * (C / PACK + 1), 256), 256, 0, c->run->queue,
             convert_rows<R>)
  (mrt_at<mrt_mixed<R>>(&c->in[0]), mrt_at<mrt_mixed<R>>(&c->out[0]), l, C);
}

/* Bags of ids: `each` of them, or from one offset to the next. */
struct cuda_bags {
  cuda_lookup ids, offsets; /* offsets.ids NULL: none */
  int64_t count, each;
};

cuda_bags bags_of(const mrt_call *c) {
  const mrt_operand *ids = &c->in[1];
  cuda_bags b = { lookup_of(c, ids, c->in[0].type.dims[0]), {}, 0, 0 };
  b.each = mrt_cols(ids), b.count = mrt_rows(ids);
  if (c->nin < 3) return b;
  b.offsets = lookup_of(c, &c->in[2], b.ids.count + 1);
  b.count = b.offsets.count;
  return b;
}

/* Ids [*from, *to) of bag i; one that ends before it begins is reported. */
MRT_DEVICE void bag_at(const cuda_bags &b, int64_t i, int64_t *from,
                       int64_t *to) {
  *from = i * b.each, *to = *from + b.each;
  if (!b.offsets.ids) return;
  *from = id_at(b.offsets, i);
  *to = i + 1 < b.count ? id_at(b.offsets, i + 1) : b.ids.count;
  if (*from <= *to) return;
  mrt_checked_id(b.ids.words, b.ids.node, *from, *to + 1);
  *from = *to;
}

/* NaN wins, as in amax. */
template <typename R>
MRT_DEVICE void take_larger(R *y, int64_t *won, const R *row, int64_t id) {
  MRT_UNROLL
  for (int k = 0; k < PACK; k++) {
    bool larger = row[k] > y[k] || (row[k] != row[k] && y[k] == y[k]);
    if (won[k] < 0 || larger) y[k] = row[k], won[k] = id;
  }
}

/* Rows are joined in the order of the ids. */
template <typename T>
__global__ void __launch_bounds__(256, 4)
    fill_bags(mrt_place<T> w, mrt_place<T> y, int64_t *won, cuda_bags b,
              int mode, int64_t C) {
  typedef mrt_real<T> R;
  int64_t packs = C ? (C + PACK - 1) / PACK : 1;
  for (int64_t i = mrt_first(); i < b.count * packs; i += mrt_stride()) {
    int64_t bag = i / packs, at = (i - bag * packs) * PACK, from, to;
    R sum[PACK] = { 0 }, v[PACK];
    int64_t best[PACK] = { -1, -1, -1, -1 };
    bag_at(b, bag, &from, &to);
    for (int64_t k = from; C && k < to; k++) {
      int64_t id = id_at(b.ids, k);
      mrt_get_pack<PACK>(w, id * C + at, (id + 1) * C, (R)0, v);
      if (won)
        take_larger(sum, best, v, id);
      else
        for (int j = 0; j < PACK; j++) sum[j] += v[j];
    }
    for (int j = 0; mode == MRT_BAG_MEAN && to - from > 1 && j < PACK; j++)
      sum[j] /= (R)(to - from);
    mrt_put_pack<PACK>(y, bag * C + at, (bag + 1) * C, sum);
    for (int j = 0; won && j < PACK && at + j < C; j++)
      won[bag * C + at + j] = best[j];
  }
}

template <typename T> void launch_bags(const mrt_call *c) {
  int mode = ((const mrt_bag_options *)c->options)->mode;
  int64_t C = mrt_cols(&c->in[0]);
  cuda_bags b = bags_of(c);
  int64_t *won = mode == MRT_BAG_MAX ? (int64_t *)c->out[1].data : NULL;
  MRT_LAUNCH(mrt_blocks(b.count * (C / PACK + 1), 256), 256, 0, c->run->queue,
             fill_bags<T>)
  (mrt_at<T>(&c->in[0]), mrt_at<T>(&c->out[0]), won, b, mode, C);
}

/* ---- scatter, scatter_add ------------------------------------------------ */

/* A lane is what has one position in every dimension but dim: `m` elements of
 * src, `n` places of y.  Its places are shared out among `owners` threads: each
 * reads all of the lane's ids and takes what goes to its own places, in the
 * order of the ids. */
struct scatter {
  cuda_lookup l;
  int64_t m, from_step, to_step, id_step; /* along dim, in src, y, index */
  int64_t owners;                         /* a power of two */
  mrt_walk w;                             /* lanes: places in src and y */
  mrt_walk ids;                           /* lanes: places in the index */
};

template <typename T> MRT_DEVICE T plus(T a, T b) { return a + b; }
/* Integers wrap around. */
MRT_DEVICE int64_t plus(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
MRT_DEVICE int32_t plus(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b);
}
MRT_DEVICE uint8_t plus(uint8_t a, uint8_t b) { return (uint8_t)(a + b); }

/* src's element type, and y's. */
template <typename S> struct scattered {
  typedef mrt_any<S> src;
  static __device__ __forceinline__ S get(src x, int64_t i) {
    return mrt_get<S>(x, i);
  }
  static src at(const mrt_operand *x) { return { x->data, x->type.dtype }; }
};
template <typename Int> struct scattered_int {
  typedef const Int *src;
  static __device__ __forceinline__ Int get(src x, int64_t i) { return x[i]; }
  static src at(const mrt_operand *x) { return (const Int *)x->data; }
};
template <> struct scattered<int64_t> : scattered_int<int64_t> {};
template <> struct scattered<int32_t> : scattered_int<int32_t> {};
template <> struct scattered<uint8_t> : scattered_int<uint8_t> {};

/* What becomes of a place: the sum, or for bits of any dtype what is written. */
struct adding {
  template <typename T>
  static __device__ __forceinline__ T into(T at, typename scattered<T>::src src,
                                           int64_t i) {
    return plus(at, scattered<T>::get(src, i));
  }
  template <typename T>
  static typename scattered<T>::src at(const mrt_operand *x) {
    return scattered<T>::at(x);
  }
};
struct writing {
  template <typename T>
  static __device__ __forceinline__ T into(T at, const T *src, int64_t i) {
    return src[i];
  }
  template <typename T> static const T *at(const mrt_operand *x) {
    return (const T *)x->data;
  }
};

template <typename T, typename How, typename S>
__global__ void __launch_bounds__(256) scatter_lanes(S src, T *y, scatter s) {
  for (int64_t i = mrt_first(); i < s.w.count * s.owners; i += mrt_stride()) {
    int64_t lane = i / s.owners, owner = i & (s.owners - 1), from, to, index,
            no;
    mrt_walk_place<int64_t>(s.w, lane, &from, &to);
    mrt_walk_place<int64_t>(s.ids, lane, &index, &no);
    for (int64_t k = 0; k < s.m; k++, from += s.from_step, index += s.id_step) {
      int64_t id = id_at(s.l, index);
      if ((id & (s.owners - 1)) != owner) continue;
      T *at = &y[to + id * s.to_step];
      *at = How::template into<T>(*at, src, from);
    }
  }
}

/* Threads enough to keep a device busy; more would read ids in vain. */
enum { BUSY = 1 << 17 };

scatter scatter_of(const mrt_call *c) {
  const mrt_operand *y = &c->out[0], *src = &c->in[2], *index = &c->in[1];
  int64_t dim = ((const mrt_dim_options *)c->options)->dim;
  scatter s = { lookup_of(c, index, y->type.dims[dim]),
                src->type.dims[dim],
                src->strides[dim],
                y->strides[dim],
                index->strides[dim],
                1,
                {},
                {} };
  for (int i = 0; i < src->type.rank; i++) {
    if (i == dim) continue;
    mrt_walk_add(&s.w, src->type.dims[i], src->strides[i], y->strides[i]);
    mrt_walk_add(&s.ids, src->type.dims[i], index->strides[i], 0);
  }
  mrt_walk_join(&s.w);
  mrt_walk_join(&s.ids);
  while (s.owners < s.l.n && s.owners < s.m && s.w.count * s.owners < BUSY)
    s.owners *= 2;
  return s;
}

template <typename T, typename How> void launch_scatter(const mrt_call *c) {
  const mrt_operand *y = &c->out[0], *x = &c->in[0];
  size_t bytes = (size_t)mrt_elements(y) * (size_t)mrt_bytes_of(y->type.dtype);
  if (y->data != x->data && bytes)
    cudaMemcpyAsync(y->data, x->data, bytes, cudaMemcpyDeviceToDevice,
                    (cudaStream_t)c->run->queue);
  scatter s = scatter_of(c);
  MRT_LAUNCH(mrt_blocks(s.w.count * s.owners, 256), 256, 0, c->run->queue,
             (scatter_lanes<T, How, decltype(How::template at<T>(y))>))
  (How::template at<T>(&c->in[2]), (T *)y->data, s);
}

} // namespace

extern "C" void mrt_cuda_gather(const mrt_call *c) {
  const mrt_operand *x = &c->in[0], *index = &c->in[1];
  int64_t dim = ((const mrt_dim_options *)c->options)->dim;
  cuda_lookup l = lookup_of(c, index, x->type.dims[dim]);
  mrt_walk w = {};
  for (int i = 0; i < x->type.rank; i++)
    mrt_walk_add(&w, index->type.dims[i], i == dim ? 0 : x->strides[i],
                 index->strides[i]);
  mrt_walk_join(&w);
  MRT_DISPATCH_SIZE(x->type.dtype, T,
                    launch_gather<T>(c, l, x->strides[dim], w));
}

extern "C" void mrt_cuda_embedding(const mrt_call *c) {
  const mrt_operand *w = &c->in[0], *y = &c->out[0];
  cuda_lookup l = lookup_of(c, &c->in[1], w->type.dims[0]);
  int64_t C = mrt_cols(w);
  if (w->type.dtype == y->type.dtype) {
    copy_rows(c, l);
    return;
  }
  if (w->type.dtype == MRT_f64 || y->type.dtype == MRT_f64)
    launch_converted<double>(c, l, C);
  else
    launch_converted<float>(c, l, C);
}

extern "C" void mrt_cuda_embedding_bag(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(c->in, c->out), T, launch_bags<T>(c));
}

extern "C" void mrt_cuda_scatter(const mrt_call *c) {
  MRT_DISPATCH_SIZE(c->out[0].type.dtype, T, (launch_scatter<T, writing>(c)));
}

extern "C" void mrt_cuda_scatter_add(const mrt_call *c) {
  switch (c->out[0].type.dtype) {
    MRT_CASE(MRT_f64, T, double, (launch_scatter<T, adding>(c)))
    MRT_CASE(MRT_i64, T, int64_t, (launch_scatter<T, adding>(c)))
    MRT_CASE(MRT_i32, T, int32_t, (launch_scatter<T, adding>(c)))
    MRT_CASE(MRT_u8, T, uint8_t, (launch_scatter<T, adding>(c)))
  default:
    launch_scatter<float, adding>(c);
  }
}
