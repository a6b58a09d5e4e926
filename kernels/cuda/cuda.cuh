/* cuda.cuh -- what every .cu file includes
 *
 * A .cu file holds the kernels of a family and a launcher for each operator:
 *
 *     extern "C" void mrt_cuda_neg(const mrt_call *c) {
 *       int64_t n = mrt_elements(&c->out[0]);
 *       MRT_DISPATCH(mrt_common(c->in, &c->out[0]), T, {
 *         MRT_LAUNCH(mrt_blocks(n, 256), 256, 0, c->run->queue, neg<T>)
 *         (mrt_at<T>(&c->in[0]), mrt_at<T>(&c->out[0]), n);
 *       });
 *     }
 *
 * A launcher queues and returns: it checks nothing, allocates nothing, waits
 * for nothing.  All else of a file is in an anonymous namespace: two files may
 * give one name to different kernels.  A kernel that is launched with more
 * than 256 threads has __launch_bounds__, or it may lack registers.
 *
 * The files are also compiled as plain C++ and run under an emulator of the
 * CUDA runtime (spec/kernels/cuda), so that launches and dynamic shared memory
 * go through the two macros below, and instructions of a GPU stand under #ifdef
 * __CUDA_ARCH__ beside plain code.
 *
 * Results depend on shapes and dtypes only: which element a thread takes, and
 * the tree by which sums are joined, never on addresses or timing.  There are
 * no atomics on floats.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CUH
#define MRT_CUDA_CUH

#include "base/dtype.h"
#include "device/kernel.h"
#include "narrow.cuh"
#include <cuda_runtime.h>
#include <math.h>

/* MRT_LAUNCH(grid, block, shared bytes, queue, kernel<T>)(arguments...);
 * MRT_SHARED(T, name): `name` points to the block's dynamic shared memory.
 * More than 48 KiB of it: mrt_allow_shared(kernel<T>, bytes) before. */
#ifdef MRT_EMULATED
#define MRT_LAUNCH(grid, block, bytes, queue, ...)                             \
  mrt_emulate(grid, block, bytes, queue, #__VA_ARGS__, __VA_ARGS__)
#define MRT_SHARED(T, name) T *name = (T *)mrt_emulate_shared()
#define MRT_UNROLL
#define MRT_UNROLL_BY(n)
#define MRT_FAR static
#else
#define MRT_LAUNCH(grid, block, bytes, queue, ...)                             \
  __VA_ARGS__<<<(grid), (block), (bytes), (cudaStream_t)(queue)>>>
#define MRT_SHARED(T, name)                                                    \
  extern __shared__ __align__(16) unsigned char mrt_shared_bytes[];            \
  T *name = reinterpret_cast<T *>(mrt_shared_bytes)
#define MRT_UNROLL       _Pragma("unroll")
#define MRT_UNROLL_BY(n) MRT_PRAGMA(unroll n)
#define MRT_PRAGMA(text) _Pragma(#text)
#define MRT_FAR          static __device__ __forceinline__
#endif

template <typename... P>
static inline void mrt_allow_shared(void (*kernel)(P...), size_t bytes) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       (int)bytes);
}

/* ---- operands and dtypes ------------------------------------------------- */

/* In place of an element type: an operand of any float dtype, known when the
 * kernel runs, computed on in R. */
template <typename R> struct mrt_mixed {};
template <typename R> struct mrt_any {
  void *data;
  int dtype;
};

/* What a kernel over T computes in. */
template <typename T> struct mrt_real_of { typedef float type; };
template <> struct mrt_real_of<double> { typedef double type; };
template <> struct mrt_real_of<int64_t> { typedef int64_t type; };
template <> struct mrt_real_of<int32_t> { typedef int64_t type; };
template <> struct mrt_real_of<uint8_t> { typedef int64_t type; };
template <typename R> struct mrt_real_of<mrt_mixed<R>> { typedef R type; };
template <typename T> using mrt_real = typename mrt_real_of<T>::type;

/* How a kernel over T takes an operand: T *, or mrt_any. */
template <typename T> struct mrt_place_of {
  typedef T *type;
  static type at(void *data, int) { return (T *)data; }
};
template <typename R> struct mrt_place_of<mrt_mixed<R>> {
  typedef mrt_any<R> type;
  static type at(void *data, int dtype) { return { data, dtype }; }
};
template <typename T> using mrt_place = typename mrt_place_of<T>::type;
template <typename T> static inline mrt_place<T> mrt_at(const mrt_operand *x) {
  return mrt_place_of<T>::at(x->data, x->type.dtype);
}
/* Input or output i seen as any dtype, an absent one as NULL. */
template <typename R>
static inline mrt_any<R> mrt_at_any(const mrt_operand *x, int i, int count) {
  if (i >= count) return { NULL, MRT_f32 };
  return { x[i].data, x[i].type.dtype };
}

/* The dtype that all of these have; MRT_DTYPE_COUNT when they differ, one more
 * when one of them is f64. */
static inline int mrt_common(const mrt_operand *x) { return x->type.dtype; }
template <typename... More>
static inline int mrt_common(const mrt_operand *x, More... more) {
  int a = x->type.dtype, b = mrt_common(more...);
  if (a == b) return a;
  return a == MRT_f64 || b == MRT_f64 || b == MRT_DTYPE_COUNT + 1
             ? MRT_DTYPE_COUNT + 1
             : MRT_DTYPE_COUNT;
}

/* Run the statements with T an element type: for the dtypes that matter one
 * of their own, for the rest mrt_mixed. */
#define MRT_CASE(number, T, Type, ...)                                         \
  case number: {                                                               \
    typedef Type T;                                                            \
    __VA_ARGS__;                                                               \
  } break;
#define MRT_DISPATCH(dtype, T, ...)                                            \
  switch ((int)(dtype)) {                                                      \
    MRT_CASE(MRT_f32, T, float, __VA_ARGS__)                                   \
    MRT_CASE(MRT_f64, T, double, __VA_ARGS__)                                  \
    MRT_CASE(MRT_f16, T, mrt_f16, __VA_ARGS__)                                 \
    MRT_CASE(MRT_bf16, T, mrt_bf16, __VA_ARGS__)                               \
    MRT_CASE(MRT_DTYPE_COUNT + 1, T, mrt_mixed<double>, __VA_ARGS__)           \
  default: {                                                                   \
    typedef mrt_mixed<float> T;                                                \
    __VA_ARGS__;                                                               \
  }                                                                            \
  }
/* The same with an unsigned integer as large as elements of the dtype, where
 * bits only move. */
#define MRT_DISPATCH_SIZE(dtype, T, ...)                                       \
  switch (mrt_bytes_of(dtype)) {                                               \
    MRT_CASE(1, T, uint8_t, __VA_ARGS__)                                       \
    MRT_CASE(2, T, uint16_t, __VA_ARGS__)                                      \
    MRT_CASE(4, T, uint32_t, __VA_ARGS__)                                      \
    MRT_CASE(8, T, uint64_t, __VA_ARGS__)                                      \
  }

static inline int mrt_bytes_of(int dtype) {
#define DTYPE(name, type, bytes, ...)                                          \
  if (dtype == MRT_##name) return bytes;
#include "mrt/dtypes.def"
#undef DTYPE
  return 0;
}

/* ---- elements: mrt_get<R>(x, i), mrt_put(y, i, value) -------------------- */

#define MRT_BY_DTYPE(number, T, ...)                                           \
  switch (number) {                                                            \
    MRT_CASE(MRT_f64, T, double, __VA_ARGS__)                                  \
    MRT_CASE(MRT_f16, T, mrt_f16, __VA_ARGS__)                                 \
    MRT_CASE(MRT_bf16, T, mrt_bf16, __VA_ARGS__)                               \
    MRT_CASE(MRT_f8_e4m3, T, mrt_f8_e4m3, __VA_ARGS__)                         \
    MRT_CASE(MRT_f8_e5m2, T, mrt_f8_e5m2, __VA_ARGS__)                         \
  default: {                                                                   \
    typedef float T;                                                           \
    __VA_ARGS__;                                                               \
  }                                                                            \
  }

template <typename R, typename T> MRT_DEVICE R mrt_get(T *x, int64_t i) {
  return (R)mrt_widen(x[i]);
}
template <typename R, typename S> MRT_FAR R mrt_get(mrt_any<S> x, int64_t i) {
  R y;
  MRT_BY_DTYPE(x.dtype, T, y = (R)mrt_widen(((const T *)x.data)[i]))
  return y;
}
template <typename R, typename T>
MRT_DEVICE void mrt_put(T *y, int64_t i, R value) {
  mrt_round(value, &y[i]);
}
template <typename R, typename S>
MRT_FAR void mrt_put(mrt_any<S> y, int64_t i, R value){
  MRT_BY_DTYPE(y.dtype, T, mrt_round(value, &((T *)y.data)[i]))
}

/* An id stored in a tensor of integers. */
MRT_DEVICE int64_t mrt_id(const void *data, int dtype, int64_t i) {
  if (dtype == MRT_i64) return ((const int64_t *)data)[i];
  if (dtype == MRT_i32) return ((const int32_t *)data)[i];
  return ((const uint8_t *)data)[i];
}

/* ---- packs: V neighbours at once ----------------------------------------- */

/* As many as 16 bytes hold, 8 at most. */
template <typename T> struct mrt_at_once_of {
  enum { value = sizeof(T) > 2 ? 16 / (int)sizeof(T) : 8 };
};
template <typename R> struct mrt_at_once_of<mrt_mixed<R>> {
  enum { value = 4 };
};
template <typename T> constexpr int mrt_at_once = (int)mrt_at_once_of<T>::value;

template <typename T, int V>
struct __align__(V * sizeof(T) < 16 ? V * sizeof(T) : 16) mrt_vector {
  T at[V];
};

/* Whether the pack at p can be read at once. */
template <typename T, int V> MRT_DEVICE bool mrt_is_aligned(const T *p) {
  return (uintptr_t)p % alignof(mrt_vector<T, V>) == 0;
}

/* v = elements first .. first + V of x; `pad` from `end` on. */
template <int V, typename R, typename T>
MRT_DEVICE void mrt_get_pack(T *x, int64_t first, int64_t end, R pad, R *v) {
  if (first + V <= end && mrt_is_aligned<T, V>(x + first)) {
    mrt_vector<T, V> p = *(const mrt_vector<T, V> *)(x + first);
    MRT_UNROLL
    for (int k = 0; k < V; k++) v[k] = (R)mrt_widen(p.at[k]);
    return;
  }
  MRT_UNROLL
  for (int k = 0; k < V; k++)
    v[k] = first + k < end ? (R)mrt_widen(x[first + k]) : pad;
}
template <int V, typename R, typename S>
MRT_FAR void mrt_get_pack(mrt_any<S> x, int64_t first, int64_t end, R pad,
                          R *v) {
  MRT_BY_DTYPE(x.dtype, T, mrt_get_pack<V>((T *)x.data, first, end, pad, v))
}
/* The same into y; nothing from `end` on. */
template <int V, typename R, typename T>
MRT_DEVICE void mrt_put_pack(T *y, int64_t first, int64_t end, const R *v) {
  if (first + V <= end && mrt_is_aligned<T, V>(y + first)) {
    mrt_vector<T, V> p;
    MRT_UNROLL
    for (int k = 0; k < V; k++) mrt_round(v[k], &p.at[k]);
    *(mrt_vector<T, V> *)(y + first) = p;
    return;
  }
  MRT_UNROLL
  for (int k = 0; k < V; k++)
    if (first + k < end) mrt_round(v[k], &y[first + k]);
}
template <int V, typename R, typename S>
MRT_FAR void mrt_put_pack(mrt_any<S> y, int64_t first, int64_t end,
                          const R *v) {
  MRT_BY_DTYPE(y.dtype, T, mrt_put_pack<V>((T *)y.data, first, end, v))
}

/* ---- grids --------------------------------------------------------------- */

/* Blocks for `work` items, `each` by one block: never none, and never so many
 * that a loop over the grid would not pay. */
static inline unsigned mrt_blocks(int64_t work, int64_t each) {
  const int64_t most = 1 << 16;
  int64_t n = (work + each - 1) / each;
  return (unsigned)(n < 1 ? 1 : n > most ? most : n);
}

/* for (int64_t i = mrt_first(); i < n; i += mrt_stride()) */
MRT_DEVICE int64_t mrt_first(void) {
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
MRT_DEVICE int64_t mrt_stride(void) { return (int64_t)gridDim.x * blockDim.x; }

static inline int64_t mrt_elements(const mrt_operand *x) {
  int64_t n = 1;
  for (int i = 0; i < x->type.rank; i++) n *= x->type.dims[i];
  return n;
}
/* Rows and columns of an operand whose last dimension is the row. */
static inline int64_t mrt_cols(const mrt_operand *x) {
  return x->type.rank ? x->type.dims[x->type.rank - 1] : 1;
}
static inline int64_t mrt_rows(const mrt_operand *x) {
  int64_t n = 1;
  for (int i = 0; i + 1 < x->type.rank; i++) n *= x->type.dims[i];
  return n;
}

/* ---- what changes from run to run ---------------------------------------- */

/* Report an integer that cannot be, an id outside [0, n); the first is kept.
 * The run stops before its first update. */
MRT_DEVICE void mrt_bad_id(mrt_run_words *w, int node, int64_t id, int64_t n) {
  if (atomicCAS(&w->fault, 0, node + 1) == 0) {
    w->bad_id = id;
    w->bad_limit = n;
  }
}
/* Clamp an id into [0, n) and report a bad one. */
MRT_DEVICE int64_t mrt_checked_id(mrt_run_words *w, int node, int64_t id,
                                  int64_t n) {
  if (id >= 0 && id < n) return id;
  mrt_bad_id(w, node, id, n);
  return id < 0 || n == 0 ? 0 : n - 1;
}

/* Whether an update is to be made: no fault, and its predicate (NULL: none)
 * holds. */
MRT_DEVICE bool mrt_is_due(const mrt_run_words *w, const void *predicate) {
  return w->fault == 0 && (!predicate || *(const uint8_t *)predicate);
}

#include "rows.cuh"

#endif
