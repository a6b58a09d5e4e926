/* reduce.cu -- sum, prod, amax, amin, any, all
 *
 * Dimensions reduced together are joined; the largest goes first, so that what
 * lies between two passes is small.  Floats are joined in f32 (f64: in f64),
 * integers and bools in i64.
 *
 * SPDX-License-Identifier: MIT */
#include "op/reduce.h"
#include "reduce.cuh"

namespace {

MRT_DEVICE void put_number(void *y, int, int64_t i, float a) {
  ((float *)y)[i] = a;
}
MRT_DEVICE void put_number(void *y, int, int64_t i, double a) {
  ((double *)y)[i] = a;
}
MRT_DEVICE void put_number(void *y, int dtype, int64_t i, int64_t a) {
  if (dtype == MRT_i64)
    ((int64_t *)y)[i] = a;
  else if (dtype == MRT_i32)
    ((int32_t *)y)[i] = (int32_t)a;
  else
    ((uint8_t *)y)[i] = (uint8_t)a;
}

/* Integers wrap around. */
template <typename R> MRT_DEVICE R plus(R a, R b) { return a + b; }
MRT_DEVICE int64_t plus(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
template <typename R> MRT_DEVICE R times(R a, R b) { return a * b; }
MRT_DEVICE int64_t times(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <typename R> MRT_DEVICE R lowest(R) { return -(R)INFINITY; }
MRT_DEVICE int64_t lowest(int64_t) { return INT64_MIN; }
template <typename R> MRT_DEVICE R highest(R) { return (R)INFINITY; }
MRT_DEVICE int64_t highest(int64_t) { return INT64_MAX; }

/* NONE of nothing, JOIN of a and b. */
#define OPERATION(name, NONE, JOIN)                                            \
  template <typename R> struct name {                                          \
    typedef R acc;                                                             \
    static __device__ __forceinline__ R none(void) { return NONE; }            \
    static __device__ __forceinline__ R of(R x, int64_t) { return x; }         \
    static __device__ __forceinline__ R join(R a, R b) { return JOIN; }        \
    static __device__ __forceinline__ void put(void *y, int dtype, int64_t i,  \
                                               R a) {                          \
      put_number(y, dtype, i, a);                                              \
    }                                                                          \
  };
OPERATION(sum, 0, plus(a, b))
OPERATION(prod, 1, times(a, b))
/* NaN when either is */
OPERATION(largest, lowest(R()), b > a || b != b ? b : a)
OPERATION(smallest, highest(R()), b < a || b != b ? b : a)
/* of zeros and ones */
OPERATION(some, 0, a | b)
OPERATION(every, 1, a &b)
#undef OPERATION

/* Neighbouring dimensions that are reduced, or kept, together. */
struct cuda_groups {
  int count;
  int64_t size[MRT_MAX_RANK];
  bool reduced[MRT_MAX_RANK];
};

static cuda_groups groups_of(const mrt_type *x, const mrt_ints *dims) {
  cuda_groups g = {};
  int next = 0; /* dims are sorted */
  for (int i = 0; i < x->rank; i++) {
    bool reduced = next < dims->count && dims->at[next] == i;
    next += reduced;
    if (x->dims[i] == 1) continue;
    bool joins = g.count && g.reduced[g.count - 1] == reduced;
    g.count += !joins;
    g.size[g.count - 1] = joins ? g.size[g.count - 1] * x->dims[i] : x->dims[i];
    g.reduced[g.count - 1] = reduced;
  }
  return g;
}

static passes passes_of(const mrt_call *c) {
  const mrt_reduce_options *o = (const mrt_reduce_options *)c->options;
  cuda_groups g = groups_of(&c->in[0].type, &o->dim);
  passes s = {};
  for (;;) {
    int largest = -1;
    for (int i = 0; i < g.count; i++)
      if (g.reduced[i] && (largest < 0 || g.size[i] > g.size[largest]))
        largest = i;
    if (largest < 0) break;
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < largest; i++) outer *= g.size[i];
    for (int i = largest + 1; i < g.count; i++) inner *= g.size[i];
    add_pass(&s, outer, g.size[largest], inner);
    g.size[largest] = 1, g.reduced[largest] = false;
  }
  /* nothing is joined: still the result may be of another type */
  if (s.count == 0) add_pass(&s, 1, 1, mrt_elements(&c->in[0]));
  return s;
}

template <template <typename> class F> static void number(const mrt_call *c) {
  MRT_DISPATCH_NUMBER(c->in[0].type.dtype, T,
                      fold<F<mrt_real<T>>, T>(c, passes_of(c)));
}
template <template <typename> class F> static void truth(const mrt_call *c) {
  fold<F<int64_t>, uint8_t>(c, passes_of(c));
}

static size_t scratch(const mrt_call *c) {
  passes s = passes_of(c);
  return scratch_of(&s, c->out[0].type.dtype == MRT_f32 ? 4 : 8);
}

} // namespace

#define OPERATOR(name, ...)                                                    \
  extern "C" void mrt_cuda_##name(const mrt_call *c) { __VA_ARGS__(c); }       \
  extern "C" size_t mrt_cuda_##name##_scratch(const mrt_call *c) {             \
    return scratch(c);                                                         \
  }
OPERATOR(sum, number<sum>)
OPERATOR(prod, number<prod>)
OPERATOR(amax, number<largest>)
OPERATOR(amin, number<smallest>)
OPERATOR(any, truth<some>)
OPERATOR(all, truth<every>)
