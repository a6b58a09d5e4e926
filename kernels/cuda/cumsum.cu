/* cumsum.cu -- running sums along a dimension
 *
 * In f64 | i64, rounded when stored.  What is summed is cut into parts along
 * the dimension, more the fewer rows there are: first the parts are summed,
 * then each starts from the sum of those before it.  Along the last dimension
 * a team of threads has a part, a pack for each thread at a time; along
 * another a thread has a column of a part, and neighbours in memory are
 * neighbours in the warp.
 *
 * SPDX-License-Identifier: MIT */
#include "op/move.h"
#include "reduce.cuh"

namespace {

MRT_DEVICE double plus(double a, double b) { return a + b; }
/* Integers wrap around. */
MRT_DEVICE int64_t plus(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

template <typename R> struct wide_of { typedef double type; };
template <> struct wide_of<int64_t> { typedef int64_t type; };

template <typename T> struct total {
  typedef typename wide_of<mrt_real<T>>::type acc;
  static __device__ __forceinline__ acc none(void) { return 0; }
  static __device__ __forceinline__ acc of(mrt_real<T> x, int64_t) {
    return (acc)x;
  }
  static __device__ __forceinline__ acc join(acc a, acc b) {
    return plus(a, b);
  }
  static __device__ __forceinline__ void put(void *, int, int64_t, acc) {}
};

/* What is stored: f32 where x is narrow, i64 of integers. */
template <typename T> struct stored_of { typedef float type; };
template <> struct stored_of<double> { typedef double type; };
template <> struct stored_of<int64_t> { typedef int64_t type; };
template <> struct stored_of<int32_t> { typedef int64_t type; };
template <> struct stored_of<uint8_t> { typedef int64_t type; };

enum { SCAN = 256, V = 4 };

template <typename T> struct scan {
  typedef typename total<T>::acc acc;
  mrt_place<T> x;
  typename stored_of<T>::type *y;
  const acc *sums; /* of parts, [outer, parts, inner]; NULL: one part */
  pass p;
  bool reverse;

  /* The sum of parts `first`, `first` + by ... of those that the scan meets
   * before `part`. */
  __device__ __forceinline__ acc before(int64_t outer, int64_t part,
                                        int64_t column, int first,
                                        int by) const {
    acc sum = 0;
    int64_t end = reverse ? p.parts - 1 - part : part;
    for (int64_t k = first; sums && k < end; k += by) {
      int64_t at = outer * p.parts + (reverse ? p.parts - 1 - k : k);
      sum = plus(sum, sums[at * p.inner + column]);
    }
    return sum;
  }
};

/* The sum of v over the threads before this one, and that of all. */
template <typename acc> MRT_DEVICE acc scan_team(acc v, acc *all) {
  __shared__ acc part[SCAN / 32];
  int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  acc sum = v;
  for (int by = 1; by < 32; by *= 2) {
    acc other = __shfl_up_sync(0xffffffff, sum, (unsigned)by);
    if (lane >= by) sum = plus(other, sum);
  }
  acc own = __shfl_up_sync(0xffffffff, sum, 1u), first = 0;
  __syncthreads(); /* the last ones have been read */
  if (lane == 31) part[warp] = sum;
  __syncthreads();
  *all = 0;
  for (int w = 0; w < SCAN / 32; w++) {
    if (w == warp) first = *all;
    *all = plus(*all, part[w]);
  }
  return lane ? plus(first, own) : first;
}

/* Elements k ... of a scan over x[0], x[1] ... x[n - 1], or backwards. */
template <typename R, typename X>
MRT_DEVICE void get(X x, int64_t at, int64_t n, int64_t k, bool reverse, R *v) {
  if (!reverse) {
    mrt_get_pack<V>(x, at + k, at + n, (R)0, v);
    return;
  }
  MRT_UNROLL
  for (int j = 0; j < V; j++)
    v[j] = k + j < n ? mrt_get<R>(x, at + n - 1 - k - j) : 0;
}
template <typename A, typename Y>
MRT_DEVICE void put(Y *y, int64_t at, int64_t n, int64_t k, bool reverse,
                    const A *v) {
  if (!reverse) {
    mrt_put_pack<V>(y, at + k, at + n, v);
    return;
  }
  MRT_UNROLL
  for (int j = 0; j < V; j++)
    if (k + j < n) mrt_put(y, at + n - 1 - k - j, v[j]);
}

/* inner = 1: a block for each part of each row. */
template <typename T>
__global__ void __launch_bounds__(SCAN) scan_rows(scan<T> s) {
  typedef typename total<T>::acc acc;
  const pass p = s.p;
  for (int64_t b = blockIdx.x; b < p.outer * p.parts; b += gridDim.x) {
    int64_t row = b / p.parts, part = b % p.parts;
    int64_t at = row * p.n + part * p.chunk, left = p.n - part * p.chunk;
    int64_t n = left < p.chunk ? left : p.chunk;
    acc sum, all;
    scan_team(s.before(row, part, 0, (int)threadIdx.x, SCAN), &sum);
    for (int64_t k = 0; k < n; k += SCAN * V) {
      mrt_real<T> x[V];
      acc v[V], own = 0;
      get(s.x, at, n, k + threadIdx.x * V, s.reverse, x);
      MRT_UNROLL
      for (int j = 0; j < V; j++) own = plus(own, (acc)x[j]);
      acc y = plus(sum, scan_team(own, &all));
      MRT_UNROLL
      for (int j = 0; j < V; j++) v[j] = y = plus(y, (acc)x[j]);
      put(s.y, at, n, k + threadIdx.x * V, s.reverse, v);
      sum = plus(sum, all);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(SCAN) scan_columns(scan<T> s) {
  typedef typename total<T>::acc acc;
  typedef mrt_real<T> R;
  const pass p = s.p;
  int64_t columns = p.outer * p.parts * p.inner;
  for (int64_t j = mrt_first(); j < columns; j += mrt_stride()) {
    int64_t column = j % p.inner, part = j / p.inner % p.parts;
    int64_t outer = j / p.inner / p.parts, from = part * p.chunk;
    int64_t to = from + p.chunk < p.n ? from + p.chunk : p.n;
    int64_t step = s.reverse ? -p.inner : p.inner;
    int64_t i = (outer * p.n + (s.reverse ? to - 1 : from)) * p.inner + column;
    acc sum = s.before(outer, part, column, 0, 1);
    for (int64_t k = from; k < to; k++, i += step)
      mrt_put(s.y, i, sum = plus(sum, (acc)mrt_get<R>(s.x, i)));
  }
}

/* Along the last dimension parts are whole packs of whole teams. */
static pass pass_of(const mrt_call *c) {
  const mrt_cumsum_options *o = (const mrt_cumsum_options *)c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t outer = 1, n = t->dims[o->dim], inner = 1;
  for (int64_t i = 0; i < o->dim; i++) outer *= t->dims[i];
  for (int64_t i = o->dim + 1; i < t->rank; i++) inner *= t->dims[i];
  return cut(outer, n, inner);
}

template <typename T> static void run(const mrt_call *c) {
  typedef typename total<T>::acc acc;
  pass p = pass_of(c);
  mrt_place<T> x = mrt_at<T>(&c->in[0]);
  acc *sums = p.parts > 1 ? (acc *)c->scratch : NULL;
  scan<T> s = { x, (typename stored_of<T>::type *)c->out[0].data, sums, p,
                ((const mrt_cumsum_options *)c->options)->reverse };
  if (p.outer * p.n * p.inner == 0) return;
  if (sums)
    run_pass(c->run->queue, elements_of<total<T>, T>{ x },
             sink_of<total<T>>{ sums, NULL, 0 }, p);
  int64_t rows = p.outer * p.parts;
  if (p.inner == 1)
    MRT_LAUNCH(mrt_blocks(rows, 1), SCAN, 0, c->run->queue, scan_rows<T>)(s);
  else
    MRT_LAUNCH(mrt_blocks(rows * p.inner, SCAN), SCAN, 0, c->run->queue,
               scan_columns<T>)
  (s);
}

} // namespace

extern "C" void mrt_cuda_cumsum(const mrt_call *c) {
  MRT_DISPATCH_NUMBER(c->in[0].type.dtype, T, run<T>(c));
}
extern "C" size_t mrt_cuda_cumsum_scratch(const mrt_call *c) {
  pass p = pass_of(c);
  return p.parts > 1 ? (size_t)results_of_pass(&p) * 8 : 0;
}
