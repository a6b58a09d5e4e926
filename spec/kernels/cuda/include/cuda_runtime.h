/* cuda_runtime.h -- the emulated runtime, and in C++ what kernels see of it
 *
 * A kernel is a plain function, run once for each thread; the threads of a
 * block take turns on one host thread and change places where they
 * synchronise (emulate_block.cc).  Shared memory is static: blocks run one
 * after another.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_EMULATE_CUDA_RUNTIME_H
#define MRT_EMULATE_CUDA_RUNTIME_H

#include "base/sanitizers.h"
#include "cuda_runtime_api.h"

#ifdef __cplusplus
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* The address sanitizer puts guards around globals, but not around what is
 * local to a thread; the latter can be filled before a block starts. */
#ifdef MRT_SANITIZES_ADDRESSES
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

/* ---- vectors ------------------------------------------------------------- */

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
#define MRT_EMULATE_VECTORS(T, name, most)                                     \
  struct __align__(2 * sizeof(T)) name##2 {                                    \
    T x, y;                                                                    \
  };                                                                           \
  struct __align__(most) name##4 {                                             \
    T x, y, z, w;                                                              \
  };                                                                           \
  static inline name##2 make_##name##2(T x, T y) { return { x, y }; }          \
  static inline name##4 make_##name##4(T x, T y, T z, T w) {                   \
    return { x, y, z, w };                                                     \
  }
MRT_EMULATE_VECTORS(float, float, 16)
MRT_EMULATE_VECTORS(double, double, 16)
MRT_EMULATE_VECTORS(int, int, 16)
MRT_EMULATE_VECTORS(unsigned, uint, 16)
MRT_EMULATE_VECTORS(unsigned short, ushort, 8)
MRT_EMULATE_VECTORS(unsigned char, uchar, 4)
#undef MRT_EMULATE_VECTORS

/* Of the thread that runs. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

/* ---- launching ----------------------------------------------------------- */

/* `body` runs once for each thread of the grid. */
void mrt_emulate_kernel(dim3 grid, dim3 block, size_t shared, void *stream,
                        const char *name, const void *kernel,
                        std::function<void()> body);
/* Work of any other kind, in its turn in the stream. */
void mrt_emulate_work(void *stream, const char *name,
                      std::function<void()> body);
/* Dynamic shared memory of the block that runs. */
void *mrt_emulate_shared(void);

template <typename... P> struct mrt_emulate_launch {
  dim3 grid, block;
  size_t shared;
  void *stream;
  const char *name;
  void (*kernel)(P...);

  /* Arguments become the kernel's parameters now, and are kept. */
  void operator()(P... argument) const {
    std::tuple<P...> all(argument...);
    auto f = kernel;
    mrt_emulate_kernel(grid, block, shared, stream, name, (const void *)kernel,
                       [f, all] { std::apply(f, all); });
  }
};
template <typename... P>
static inline mrt_emulate_launch<P...>
mrt_emulate(dim3 grid, dim3 block, size_t shared, void *stream,
            const char *name, void (*kernel)(P...)) {
  return { grid, block, shared, stream, name, kernel };
}

/* ---- synchronisation ----------------------------------------------------- */

#define MRT_HERE                                                               \
  const char *file = __builtin_FILE(), int line = __builtin_LINE()

void mrt_emulate_barrier(const char *what, const char *file, int line);
/* Every lane of `mask` gives `value` and gets that of lane `source`; ~0: the
 * lanes whose value is not 0. */
uint64_t mrt_emulate_exchange(const char *what, unsigned mask, uint64_t value,
                              int source, const char *file, int line);
int mrt_emulate_lane(void);

static inline void __syncthreads(MRT_HERE) {
  mrt_emulate_barrier("__syncthreads", file, line);
}
static inline void __syncwarp(unsigned mask = ~0u, MRT_HERE) {
  mrt_emulate_exchange("__syncwarp", mask, 0, ~0, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int yes, MRT_HERE) {
  return (unsigned)mrt_emulate_exchange("__ballot_sync", mask, yes != 0, ~0,
                                        file, line);
}
static inline int __any_sync(unsigned mask, int yes, MRT_HERE) {
  return mrt_emulate_exchange("__any_sync", mask, yes != 0, ~0, file, line) !=
         0;
}
static inline int __all_sync(unsigned mask, int yes, MRT_HERE) {
  return mrt_emulate_exchange("__all_sync", mask, yes != 0, ~0, file, line) ==
         mask;
}

template <typename T>
static inline T mrt_emulate_shuffle(const char *what, unsigned mask, T x,
                                    int source, const char *file, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes are shuffled");
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  bits = mrt_emulate_exchange(what, mask, bits, source, file, line);
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
/* Lanes go in groups of `width`; from beyond its group a lane gets its own. */
#define MRT_EMULATE_SHUFFLE(name, arg, from)                                   \
  template <typename T>                                                        \
  static inline T name(unsigned mask, T x, arg, int width = 32, MRT_HERE) {    \
    int lane = mrt_emulate_lane(), first = lane & -width;                      \
    int source = (from);                                                       \
    bool inside = source >= first && source < first + width;                   \
    return mrt_emulate_shuffle(#name, mask, x, inside ? source : lane, file,   \
                               line);                                          \
  }
MRT_EMULATE_SHUFFLE(__shfl_sync, int other, first + (other & (width - 1)))
MRT_EMULATE_SHUFFLE(__shfl_up_sync, unsigned by, lane - (int)by)
MRT_EMULATE_SHUFFLE(__shfl_down_sync, unsigned by, lane + (int)by)
MRT_EMULATE_SHUFFLE(__shfl_xor_sync, int by, lane ^ by)
#undef MRT_EMULATE_SHUFFLE
#undef MRT_HERE

static inline void __threadfence(void) {}
static inline void __threadfence_block(void) {}
static inline void __threadfence_system(void) {}

/* ---- atomics: threads take turns, so plain code is atomic ---------------- */

template <typename T> static inline T atomicExch(T *at, T value) {
  T old = *at;
  *at = value;
  return old;
}
template <typename T> static inline T atomicCAS(T *at, T expected, T value) {
  T old = *at;
  if (old == expected) *at = value;
  return old;
}
#define MRT_EMULATE_ATOMIC(name, change)                                       \
  template <typename T> static inline T name(T *at, T value) {                 \
    static_assert(!std::is_floating_point<T>::value,                           \
                  "atomics on floats depend on the order");                    \
    T old = *at;                                                               \
    *at = (change);                                                            \
    return old;                                                                \
  }
MRT_EMULATE_ATOMIC(atomicAdd, old + value)
MRT_EMULATE_ATOMIC(atomicMax, old > value ? old : value)
MRT_EMULATE_ATOMIC(atomicMin, old < value ? old : value)
MRT_EMULATE_ATOMIC(atomicOr, old | value)
MRT_EMULATE_ATOMIC(atomicAnd, old &value)
#undef MRT_EMULATE_ATOMIC

/* ---- arithmetic ---------------------------------------------------------- */

using std::isfinite;
using std::isinf;
using std::isnan;

template <typename T> static inline T __ldg(const T *at) { return *at; }

template <typename To, typename From> static inline To mrt_emulate_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
static inline unsigned __float_as_uint(float x) {
  return mrt_emulate_as<unsigned>(x);
}
static inline int __float_as_int(float x) { return mrt_emulate_as<int>(x); }
static inline float __uint_as_float(unsigned x) {
  return mrt_emulate_as<float>(x);
}
static inline float __int_as_float(int x) { return mrt_emulate_as<float>(x); }
static inline long long __double_as_longlong(double x) {
  return mrt_emulate_as<long long>(x);
}
static inline double __longlong_as_double(long long x) {
  return mrt_emulate_as<double>(x);
}

static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return std::sqrt(a); }
static inline float __frcp_rn(float a) { return 1 / a; }
static inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) {
  return std::fma(a, b, c);
}
static inline int __float2int_rn(float x) { return (int)std::nearbyint(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((uint64_t)a * b >> 32);
}

/* As CUDA's: of different types in the wider one; a float that is NaN loses. */
template <typename A, typename B>
static inline typename std::common_type<A, B>::type max(A a, B b) {
  typedef typename std::common_type<A, B>::type T;
  if constexpr (std::is_floating_point<T>::value) return std::fmax((T)a, (T)b);
  return (T)a > (T)b ? (T)a : (T)b;
}
template <typename A, typename B>
static inline typename std::common_type<A, B>::type min(A a, B b) {
  typedef typename std::common_type<A, B>::type T;
  if constexpr (std::is_floating_point<T>::value) return std::fmin((T)a, (T)b);
  return (T)a < (T)b ? (T)a : (T)b;
}

/* ---- the runtime's own C++ forms ----------------------------------------- */

template <typename T>
static inline cudaError_t cudaMalloc(T **data, size_t nbytes) {
  return ::cudaMalloc((void **)data, nbytes);
}
template <typename T>
static inline cudaError_t cudaMallocHost(T **data, size_t nbytes) {
  return ::cudaMallocHost((void **)data, nbytes);
}
template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...),
                                               cudaFuncAttribute attribute,
                                               int value) {
  return ::cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

#endif
#endif
