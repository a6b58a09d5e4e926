/* arg.cu -- argmax and argmin: where the first extreme is
 *
 * Reductions of pairs, a value and its position.  A NaN beats all but an
 * earlier NaN.
 *
 * SPDX-License-Identifier: MIT */
#include "op/reduce.h"
#include "reduce.cuh"

namespace {

template <typename R> struct arg_pair {
  R value;
  int64_t at; /* -1: of nothing */
};

template <typename R> MRT_DEVICE arg_pair<R> other_lane(arg_pair<R> v, int by) {
  return { other_lane(v.value, by), other_lane(v.at, by) };
}

MRT_DEVICE bool is_nan(double x) { return x != x; }
MRT_DEVICE bool is_nan(float x) { return x != x; }
MRT_DEVICE bool is_nan(int64_t) { return false; }

template <typename R, bool LARGEST> struct position_of {
  typedef arg_pair<R> acc;
  static __device__ __forceinline__ acc none(void) { return { 0, -1 }; }
  static __device__ __forceinline__ acc of(R x, int64_t at) {
    return { x, at };
  }
  static __device__ __forceinline__ acc join(acc a, acc b) {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    bool wins = LARGEST ? b.value > a.value : b.value < a.value;
    bool loses = LARGEST ? a.value > b.value : a.value < b.value;
    wins |= is_nan(b.value) && !is_nan(a.value);
    loses |= is_nan(a.value) && !is_nan(b.value);
    return wins || (!loses && b.at < a.at) ? b : a;
  }
  static __device__ __forceinline__ void put(void *y, int, int64_t i, acc a) {
    ((int64_t *)y)[i] = a.at;
  }
};
template <typename R> using first_largest = position_of<R, true>;
template <typename R> using first_smallest = position_of<R, false>;

/* Over the flattened tensor without a dim. */
static passes passes_of(const mrt_call *c) {
  const mrt_arg_options *o = (const mrt_arg_options *)c->options;
  const mrt_type *t = &c->in[0].type;
  int64_t outer = 1, n = 1, inner = 1;
  for (int i = 0; i < t->rank; i++) {
    if (o->dim == MRT_DIM_NONE || i == o->dim)
      n *= t->dims[i];
    else if (i < o->dim)
      outer *= t->dims[i];
    else
      inner *= t->dims[i];
  }
  passes s = {};
  add_pass(&s, outer, n, inner);
  return s;
}

template <template <typename> class F> static void find(const mrt_call *c) {
  MRT_DISPATCH_NUMBER(c->in[0].type.dtype, T,
                      fold<F<mrt_real<T>>, T>(c, passes_of(c)));
}

static size_t scratch(const mrt_call *c) {
  passes s = passes_of(c);
  return scratch_of(&s, sizeof(arg_pair<double>));
}

} // namespace

extern "C" void mrt_cuda_argmax(const mrt_call *c) { find<first_largest>(c); }
extern "C" void mrt_cuda_argmin(const mrt_call *c) { find<first_smallest>(c); }
extern "C" size_t mrt_cuda_argmax_scratch(const mrt_call *c) {
  return scratch(c);
}
extern "C" size_t mrt_cuda_argmin_scratch(const mrt_call *c) {
  return scratch(c);
}
