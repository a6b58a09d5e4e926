/* conv.cuh -- what the convolutions share: geometry, factors, reading an image
 *
 * A convolution and its dx are the same walk.  Seen from place u of what is
 * written, tap t reads the image at
 *
 *     u stride + t step + base      if that is inside
 *
 * dx is taken a phase at a time: places that are equal modulo the stride meet
 * the same taps, every tap_step-th one from first_tap on, and no others.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CUDA_CONV_CUH
#define MRT_CUDA_CONV_CUH

#include "cuda.cuh"
#include "op/window.h"
#include <type_traits>

/* ---- geometry ------------------------------------------------------------ */

/* One dimension: sizes of x and y, and the window.  phases: of dx, 1 of y. */
struct mrt_side {
  int64_t x, y, kernel, stride, padding, dilation, phases, common;
};

/* One dimension of a walk (see above). */
template <typename I> struct mrt_line_of {
  I image, places, stride, step, base;
  I taps, first_tap, tap_step;
  I first, apart; /* place u is first + u apart of what is written */

  __device__ __forceinline__ mrt_line_of(const mrt_side &s, I phase, bool back);
};
typedef mrt_line_of<int> mrt_line;

struct mrt_conv_walk {
  mrt_side h, w;
  int64_t N, groups, X, Y; /* channels of a group */
  bool back;               /* dx */
};

static inline mrt_side mrt_side_of(const mrt_conv_options *o, int i, int64_t x,
                                   int64_t y, int64_t kernel, bool back) {
  int64_t s = o->stride.at[i], a = s, b = o->dilation.at[i];
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return { x,
           y,
           kernel,
           s,
           o->padding.at[i],
           o->dilation.at[i],
           back ? (s < x ? s : x) : 1,
           a };
}

/* The convolution whose x, w [O,C,kh,kw], y have these types. */
static inline mrt_conv_walk mrt_conv_walk_of(const mrt_call *c,
                                             const mrt_type *x,
                                             const mrt_type *w,
                                             const mrt_type *y, bool back) {
  const mrt_conv_options *o = (const mrt_conv_options *)c->options;
  return { mrt_side_of(o, 0, x->dims[1], y->dims[1], w->dims[2], back),
           mrt_side_of(o, 1, x->dims[2], y->dims[2], w->dims[3], back),
           x->dims[0],
           o->groups,
           w->dims[1],
           w->dims[0] / o->groups,
           back };
}

/* Whether numbers of the walk fit an int, so that tiles may be used. */
static inline bool mrt_side_is_small(const mrt_side *s) {
  const int64_t most = 1 << 28;
  return s->x < most && s->y < most && s->stride < most && s->padding < most &&
         s->dilation * s->kernel < most && s->stride * s->y < 2 * most;
}
static inline bool mrt_conv_is_small(const mrt_conv_walk *c) {
  const double most = 1 << 30;
  double h = (double)(c->h.x > c->h.y ? c->h.x : c->h.y);
  double w = (double)(c->w.x > c->w.y ? c->w.x : c->w.y);
  double taps = (double)c->h.kernel * (double)c->w.kernel;
  return mrt_side_is_small(&c->h) && mrt_side_is_small(&c->w) &&
         (double)c->N * h * w < most && taps * (double)c->X < most &&
         taps * (double)c->Y < most;
}

/* Groups of few channels would leave tiles empty. */
static inline bool mrt_conv_is_direct(const mrt_conv_walk *c) {
  const int64_t few = 16;
  return (c->groups > 1 && (c->X < few || c->Y < few)) || !mrt_conv_is_small(c);
}

/* A phase meets the first tap that it can, and those that follow it by
 * stride / common. */
template <typename I>
__device__ __forceinline__ mrt_line_of<I>::mrt_line_of(const mrt_side &s,
                                                       I phase, bool back)
    : image((I)s.x), places((I)s.y), stride((I)s.stride), step((I)s.dilation),
      base(-(I)s.padding), taps((I)s.kernel), first_tap(0), tap_step(1),
      first(0), apart(1) {
  if (!back) return;
  I every = stride / (I)s.common, from = phase + (I)s.padding;
  while (first_tap < every && first_tap < taps &&
         (from - first_tap * step) % stride)
    first_tap++;
  bool none = first_tap == every || first_tap >= taps;
  tap_step = every;
  taps = none ? 0 : (taps - 1 - first_tap) / every + 1;
  base = none ? 0 : (from - first_tap * step) / stride;
  places = (image - phase + stride - 1) / stride;
  step = -(step / (I)s.common);
  first = phase;
  apart = stride;
  stride = 1;
  image = (I)s.y;
}

/* ---- factors ------------------------------------------------------------- */

/* Of any dtype, rounded to `compute` where that is narrow. */
struct mrt_factor {
  void *data;
  int dtype, compute;
};

static inline int mrt_compute_of(const mrt_call *c) {
  int d = ((const mrt_conv_options *)c->options)->compute;
  return d == MRT_DTYPE_COUNT || d == MRT_f64 ? MRT_f32 : d;
}
static inline mrt_factor mrt_factor_of(const mrt_call *c, int i) {
  return { c->in[i].data, c->in[i].type.dtype, mrt_compute_of(c) };
}

static inline bool mrt_is_8_bits(int dtype) {
  return dtype == MRT_f8_e4m3 || dtype == MRT_f8_e5m2;
}
/* The dtype in which both factors, rounded, are exact: bf16 and f16 where there
 * are tensor cores for it. */
static inline int mrt_unit_of(const mrt_factor *a, const mrt_factor *b) {
  int u = a->compute == MRT_f32 ? a->dtype : a->compute;
  int v = b->compute == MRT_f32 ? b->dtype : b->compute;
  if (mrt_is_8_bits(u)) u = mrt_is_8_bits(v) ? MRT_f16 : v;
  if (mrt_is_8_bits(v)) v = u;
  return u == v || u == MRT_f64 ? u : MRT_f32;
}
/* Whether it can be read as it is. */
static inline bool mrt_is_plain(const mrt_factor *x, int unit) {
  return x->dtype == unit && (x->compute == MRT_f32 || x->compute == unit);
}

template <int N> MRT_FAR void mrt_round_all(float *x, int dtype) {
  MRT_BY_DTYPE(dtype, T, {
    MRT_UNROLL
    for (int k = 0; k < N; k++) {
      T y;
      mrt_round(x[k], &y);
      x[k] = (float)mrt_widen(y);
    }
  })
}
template <int N> MRT_FAR void mrt_round_all(double *, int) {}

/* V of them from element `at` on, or one: `plain` as they are.  Others go by
 * four: all at once would be more than there are registers for. */
template <typename S, bool plain, int V>
MRT_DEVICE void mrt_get_factors(const mrt_factor &x, int64_t at,
                                mrt_vector<S, V> *v) {
  typedef mrt_real<S> R;
  if constexpr (plain)
    *v = *(const mrt_vector<S, V> *)((const S *)x.data + at);
  else {
    constexpr int SOME = V < 4 ? V : 4;
    mrt_any<R> all = { x.data, x.dtype };
    MRT_UNROLL
    for (int k = 0; k < V; k += SOME) {
      R u[SOME];
      mrt_get_pack<SOME>(all, at + k, at + k + SOME, (R)0, u);
      mrt_round_all<SOME>(u, x.compute);
      MRT_UNROLL
      for (int i = 0; i < SOME; i++) mrt_round(u[i], &v->at[k + i]);
    }
  }
}
template <typename S, bool plain>
MRT_DEVICE S mrt_get_factor(const mrt_factor &x, int64_t at) {
  typedef mrt_real<S> R;
  if constexpr (plain) return ((const S *)x.data)[at];
  S y;
  mrt_any<R> all = { x.data, x.dtype };
  R u = mrt_get<R>(all, at);
  mrt_round_all<1>(&u, x.compute);
  mrt_round(u, &y);
  return y;
}

/* v = f(0), f(1) ...  With `loops` f's code is there once: elements come in at the
 * end and move down, so that none has a place that only a run tells. */
template <bool loops, typename S, int V, typename F>
MRT_DEVICE void mrt_fill(mrt_vector<S, V> *v, F f) {
  if constexpr (loops) {
    MRT_UNROLL_BY(1)
    for (int k = 0; k < V; k++) {
      S last = f(k);
      MRT_UNROLL
      for (int i = 0; i + 1 < V; i++) v->at[i] = v->at[i + 1];
      v->at[V - 1] = last;
    }
  } else {
    MRT_UNROLL
    for (int k = 0; k < V; k++) v->at[k] = f(k);
  }
}

/* ---- what a tap of a place reads ----------------------------------------- */

/* (a, b, c): taps and a channel, or an image and a place: c runs fastest. */
template <typename I> struct mrt_digits_of {
  I a, b, c;

  static __device__ __forceinline__ mrt_digits_of of(I i, I b, I c) {
    I rest = i / c;
    return { rest / b, rest % b, i % c };
  }
  __device__ __forceinline__ void add(const mrt_digits_of &by, I most_b,
                                      I most_c) {
    c += by.c;
    int carry = c >= most_c;
    c -= carry ? most_c : 0;
    b += by.b + carry;
    carry = b >= most_b;
    b -= carry ? most_b : 0;
    a += by.a + carry;
  }
  __device__ __forceinline__ void next(I most_b, I most_c) {
    add({ 0, 0, 1 }, most_b, most_c);
  }
};
typedef mrt_digits_of<int> mrt_digits;

/* How a factor is read.  plain: its elements are of the type that is wanted;
 * whole: packs of 16 bytes lie in one tap, and are aligned. */
template <bool plain_, bool whole_> struct mrt_manner {
  enum { plain = plain_, whole = whole_ };
};

/* The image that a walk reads: `all` channels, of which those of a group from
 * `channel` on.  shared: what it walks by is looked up in shared memory. */
template <typename S, typename Manner, bool shared = false> struct mrt_image {
  template <typename X>
  using known = typename std::conditional<shared, const X &, X>::type;
  mrt_factor x;
  known<mrt_line> h, w;
  int64_t all;
  known<int64_t> channel;
  int channels; /* of the group */

  /* For place (n, i, j) of what is written, tap and channel `d`, and the V - 1
   * that follow; n below 0 is no place. */
  template <int V>
  __device__ __forceinline__ void get(int n, int i, int j, mrt_digits d,
                                      mrt_vector<S, V> *v) const {
    *v = mrt_vector<S, V>();
    i = i * h.stride + h.base;
    j = j * w.stride + w.base;
    int64_t at;
    if (n < 0) return;
    if constexpr (Manner::whole) {
      if (find(n, i, j, d, &at)) mrt_get_factors<S, Manner::plain, V>(x, at, v);
    } else
      mrt_fill<!Manner::plain>(v, [&](int) {
        bool inside = find(n, i, j, d, &at);
        d.next(w.taps, channels);
        return inside ? mrt_get_factor<S, Manner::plain>(x, at) : S();
      });
  }
  __device__ __forceinline__ bool find(int n, int i, int j, mrt_digits d,
                                       int64_t *at) const {
    i += d.a * h.step;
    j += d.b * w.step;
    *at = (((int64_t)n * h.image + i) * w.image + j) * all + channel + d.c;
    return d.a < h.taps && (unsigned)i < (unsigned)h.image &&
           (unsigned)j < (unsigned)w.image;
  }
};

/* Whether packs of V of the channels of a group are. */
static inline bool mrt_is_whole(const void *data, int64_t channels, int V) {
  return (uintptr_t)data % 16 == 0 && channels % V == 0;
}

/* With S an element type for the unit. */
#define MRT_BY_UNIT(unit, S, ...)                                              \
  switch ((int)(unit)) {                                                       \
    MRT_CASE(MRT_f64, S, double, __VA_ARGS__)                                  \
    MRT_CASE(MRT_f16, S, mrt_f16, __VA_ARGS__)                                 \
    MRT_CASE(MRT_bf16, S, mrt_bf16, __VA_ARGS__)                               \
  default: {                                                                   \
    typedef float S;                                                           \
    __VA_ARGS__;                                                               \
  }                                                                            \
  }

#endif
