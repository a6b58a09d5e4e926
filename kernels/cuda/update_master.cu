/* update_master.cu -- adamw_master: the weight is the upper half of one in f32
 *
 * The arithmetic is the CPU's, operation by operation (and compiled without
 * contraction).
 *
 * SPDX-License-Identifier: MIT */
#include "update_steps.cuh"

namespace {

enum { EIGHT = 8 }; /* elements that a thread has at a time */

/* T: what the moments are stored in; G: the gradient. */
template <typename T, typename G> struct master_operands {
  enum { beside = 0 };
  mrt_any<float> p;
  uint8_t *high, *low;
  mrt_place<T> m, v;
  mrt_place<G> x;
  int64_t n;
};
template <typename T, typename G>
using masters = update_batch<master_operands<T, G>, mrt_adamw_options>;

/* A thread's elements, and of its rests a byte each in 64 bits. */
struct eight_masters {
  float p[EIGHT], m[EIGHT], v[EIGHT], x[EIGHT];
  uint64_t high, low;

  __device__ __forceinline__ void join(void) {
    MRT_UNROLL
    for (int j = 0; j < EIGHT; j++) {
      uint32_t u = __float_as_uint(p[j]), size = u & 0x7fffffff;
      uint32_t upper = (uint32_t)(high >> 8 * j) & 0xff;
      int rest = (int16_t)(upper << 8 | ((uint32_t)(low >> 8 * j) & 0xff));
      bool other = (size == 0 && rest < 0) || (size == 0x7f800000 && rest > 0);
      p[j] = __uint_as_float(other ? u : u + (uint32_t)rest);
    }
  }
  /* To nearest, ties away from zero; of what is not finite there is no rest. */
  __device__ __forceinline__ void split(void) {
    high = low = 0;
    MRT_UNROLL
    for (int j = 0; j < EIGHT; j++) {
      uint32_t u = __float_as_uint(p[j]), size = u & 0x7fffffff;
      bool finite = size < 0x7f800000;
      uint32_t upper = ((finite ? u + 0x8000 : u) & 0xffff0000) |
                       (size > 0x7f800000 ? 0x400000 : 0);
      uint32_t rest = finite ? u - upper : 0;
      high |= (uint64_t)(rest >> 8 & 0xff) << 8 * j;
      low |= (uint64_t)(rest & 0xff) << 8 * j;
      p[j] = __uint_as_float(upper);
    }
  }
  __device__ __forceinline__ void step(const cuda_adamw<float> &s) {
    join();
    MRT_UNROLL
    for (int j = 0; j < EIGHT; j++) {
      float one[] = { p[j], m[j], v[j] };
      s.move(one, x[j]);
      p[j] = one[0], m[j] = one[1], v[j] = one[2];
    }
    split();
  }
};

/* Eight bytes, `apart` from each other: those inside [0, n). */
MRT_DEVICE uint64_t get_bytes(const uint8_t *x, int64_t i, int64_t n,
                              int apart) {
  if (apart == 1 && i + EIGHT <= n && (uintptr_t)(x + i) % EIGHT == 0)
    return *(const uint64_t *)(x + i);
  uint64_t all = 0;
  MRT_UNROLL
  for (int j = 0; j < EIGHT; j++) {
    int64_t at = i + (int64_t)j * apart;
    if (at >= 0 && at < n) all |= (uint64_t)x[at] << 8 * j;
  }
  return all;
}
MRT_DEVICE void put_bytes(uint8_t *y, int64_t i, int64_t n, int apart,
                          uint64_t all) {
  if (apart == 1 && i + EIGHT <= n && (uintptr_t)(y + i) % EIGHT == 0) {
    *(uint64_t *)(y + i) = all;
    return;
  }
  MRT_UNROLL
  for (int j = 0; j < EIGHT; j++) {
    int64_t at = i + (int64_t)j * apart;
    if (at >= 0 && at < n) y[at] = (uint8_t)(all >> 8 * j);
  }
}

template <typename T, typename G>
MRT_DEVICE void get_packs(const master_operands<T, G> &a, int64_t i,
                          eight_masters *e) {
  mrt_get_pack<EIGHT>(a.x, i, a.n, 0.f, e->x);
  mrt_get_pack<EIGHT>((mrt_bf16 *)a.p.data, i, a.n, 0.f, e->p);
  mrt_get_pack<EIGHT>(a.m, i, a.n, 0.f, e->m);
  mrt_get_pack<EIGHT>(a.v, i, a.n, 0.f, e->v);
  e->high = get_bytes(a.high, i, a.n, 1), e->low = get_bytes(a.low, i, a.n, 1);
}

/* The first elements are under way while one thread makes the block's numbers. */
template <typename T, typename G>
__global__ void __launch_bounds__(UPDATE_BLOCK, 1)
    update_masters(const __grid_constant__ masters<T, G> all) {
  __shared__ cuda_adamw<float> shared;
  const auto &mine = all.mine();
  const auto &kind = all.kinds[mine.which];
  const master_operands<T, G> a = mine.a;
  int64_t i = mine.start() * EIGHT;
  eight_masters e;
  get_packs(a, i, &e);
  if (!mrt_is_due(kind.in.words, kind.in.when)) return;
  if (threadIdx.x == 0) shared.set(kind.options, kind.in);
  __syncthreads();
  const cuda_adamw<float> s = shared;
  while (i < a.n) {
    e.step(s);
    mrt_put_pack<EIGHT>((mrt_bf16 *)a.p.data, i, a.n, e.p);
    mrt_put_pack<EIGHT>(a.m, i, a.n, e.m);
    mrt_put_pack<EIGHT>(a.v, i, a.n, e.v);
    put_bytes(a.high, i, a.n, 1, e.high), put_bytes(a.low, i, a.n, 1, e.low);
    i += mine.stride() * EIGHT;
    get_packs(a, i, &e);
  }
}

/* Moments are rounded at random: a thread has the elements that share their
 * counters.  The first piece may begin before the first element. */
typedef mrt_mixed<float> any_float;
__global__ void __launch_bounds__(UPDATE_BLOCK, 1) update_masters_randomly(
    const __grid_constant__ masters<any_float, any_float> all) {
  __shared__ cuda_adamw<float> shared;
  const auto &mine = all.mine();
  const auto &kind = all.kinds[mine.which];
  if (!mrt_is_due(kind.in.words, kind.in.when)) return;
  if (threadIdx.x == 0) shared.set(kind.options, kind.in);
  __syncthreads();
  const cuda_adamw<float> s = shared;
  const master_operands<any_float, any_float> a = mine.a;
  const rounding r = mine.round(kind);
  int64_t t = mine.start(), past = r.place % PIECE;
  for (; t / LANES * PIECE < a.n + past; t += mine.stride()) {
    int lane = (int)(t % LANES);
    int64_t first = t / LANES * PIECE - past, i = first + lane;
    eight_masters e;
    get_eight(a.x, i, a.n, e.x), get_eight(a.p, i, a.n, e.p);
    get_eight(a.m, i, a.n, e.m), get_eight(a.v, i, a.n, e.v);
    e.high = get_bytes(a.high, i, a.n, LANES);
    e.low = get_bytes(a.low, i, a.n, LANES);
    e.step(s);
    put_eight(a.p, i, a.n, e.p);
    put_bytes(a.high, i, a.n, LANES, e.high);
    put_bytes(a.low, i, a.n, LANES, e.low);
    MRT_UNROLL
    for (int k = 1; k <= 2; k++) {
      mrt_any<float> y = k == 1 ? a.m : a.v;
      const float *value = k == 1 ? e.m : e.v;
      if (r.at_random >> k & 1)
        put_randomly(y, i, a.n, value,
                     bits_of(r, kind.in.words, k, r.place + first, lane));
      else
        put_eight(y, i, a.n, value);
    }
  }
}

/* ---- launching ----------------------------------------------------------- */

enum master_variant { PLAIN_BF16, PLAIN_F32, PLAIN_ANY, AT_RANDOM };

rounding rounding_in(const mrt_call *c) {
  rounding r = rounding_of(c, 3);
  r.at_random &= ~1u; /* p is exact, with its rest */
  return r;
}

master_variant variant_of(const mrt_call *c) {
  int g = c->in[5].type.dtype;
  if (rounding_in(c).at_random) return AT_RANDOM;
  if (mrt_common(&c->in[1], &c->in[2]) != MRT_f32) return PLAIN_ANY;
  return g == MRT_bf16 ? PLAIN_BF16 : g == MRT_f32 ? PLAIN_F32 : PLAIN_ANY;
}

mrt_adamw_options options_of(const mrt_call *c) {
  mrt_adamw_options o = *(const mrt_adamw_options *)c->options;
  o.rounding.key &= MRT_DRAW_PINNED, o.rounding.place = 0;
  return o;
}

/* Those of one variant, as many in a launch as there is room for. */
template <typename T, typename G>
void run_variant(const mrt_call *const *calls, int count, master_variant which,
                 void (*kernel)(masters<T, G>)) {
  masters<T, G> all;
  all.clear();
  for (int i = 0; i < count; i++) {
    const mrt_call *c = calls[i];
    if (variant_of(c) != which || !mrt_elements(&c->out[0])) continue;
    master_operands<T, G> a = {
      { c->out[0].data, MRT_bf16 }, (uint8_t *)c->out[3].data,
      (uint8_t *)c->out[4].data,    mrt_at<T>(&c->out[1]),
      mrt_at<T>(&c->out[2]),        mrt_at<G>(&c->in[5]),
      mrt_elements(&c->out[0])
    };
    mrt_adamw_options o = options_of(c);
    scalars s = scalars_of(c, { 6, 7, 8, 9 });
    if (all.add(a, o, s, rounding_in(c), UPDATE_BLOCK * EIGHT)) continue;
    MRT_LAUNCH(all.blocks, UPDATE_BLOCK, 0, c->run->queue, kernel)(all);
    all.clear();
    all.add(a, o, s, rounding_in(c), UPDATE_BLOCK * EIGHT);
  }
  if (all.count)
    MRT_LAUNCH(all.blocks, UPDATE_BLOCK, 0, calls[0]->run->queue, kernel)(all);
}

} // namespace

extern "C" void mrt_cuda_adamw_master(const mrt_call *const *calls, int count) {
  run_variant(calls, count, PLAIN_BF16, update_masters<float, mrt_bf16>);
  run_variant(calls, count, PLAIN_F32, update_masters<float, float>);
  run_variant(calls, count, PLAIN_ANY, update_masters<any_float, any_float>);
  run_variant(calls, count, AT_RANDOM, update_masters_randomly);
}
