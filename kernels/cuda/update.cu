/* update.cu -- descend, adamw, sgd, rmsprop, lion, average, accumulate: one pass
 * over the variables
 *
 * The arithmetic is the CPU's, operation by operation (and compiled without
 * contraction), so that the two devices differ in powers at most.  Each block
 * makes its numbers from the scalars, which lie on the device, once.
 *
 * SPDX-License-Identifier: MIT */
#include "update_steps.cuh"

namespace {

/* ---- steps: an element's variables v[] under its gradient g -------------- */

template <typename R> struct cuda_lion {
  enum { variables = 2, rounds = true };
  typedef mrt_lion_options options;
  R scale, keep, add; /* of the direction */
  R keep_m, add_m, lr, decay;

  __device__ void set(const options &o, const scalars &s) {
    double rate = s.lr.get();
    scale = (R)s.scale.get();
    keep = (R)o.beta1, add = (R)(1 - o.beta1);
    keep_m = (R)o.beta2, add_m = (R)(1 - o.beta2);
    lr = (R)rate, decay = (R)(rate * o.weight_decay);
  }
  __device__ __forceinline__ void move(R *v, R g) const {
    R p = v[0];
    g = g * scale;
    R c = keep * v[1] + add * g;
    R sign = c > 0 ? (R)1 : c < 0 ? (R)-1 : c; /* NaN stays */
    v[1] = keep_m * v[1] + add_m * g;
    v[0] = p - decay * p - lr * sign;
  }
};

struct no_options {
  int none;
};

template <typename R> struct average_step {
  enum { variables = 1, rounds = false };
  typedef no_options options;
  R rate;

  __device__ void set(const options &, const scalars &s) {
    rate = (R)s.lr.get();
  }
  __device__ __forceinline__ void move(R *v, R x) const {
    v[0] += rate * (x - v[0]);
  }
};

/* The first part of a batch overwrites what the batch before has left. */
MRT_DEVICE bool is_first(const mrt_run_words *w) {
  return w->all_rows && w->row == w->first_row;
}

template <typename R> struct accumulate_step {
  enum { variables = 1, rounds = false };
  typedef mrt_accumulate_options options;
  R scale;
  bool first, largest;

  __device__ void set(const options &o, const scalars &s) {
    scale = (R)o.scale, first = is_first(s.words), largest = o.largest;
  }
  __device__ __forceinline__ void move(R *v, R x) const {
    R y = scale * x;
    if (first)
      v[0] = y;
    else if (largest)
      v[0] = y > v[0] || y != y ? y : v[0]; /* a NaN stays */
    else
      v[0] += y;
  }
};

/* ---- kernels ------------------------------------------------------------- */

template <typename T, int K> struct update_operands {
  enum { beside = 0 };
  mrt_place<T> v[K], x;
  int64_t n;
};
template <typename S, typename T>
using updates =
    update_batch<update_operands<T, S::variables>, typename S::options>;

/* Elements i ... of the operands. */
template <typename T, int K, int V, typename R>
MRT_DEVICE void get_packs(const update_operands<T, K> &a, int64_t i, R *x,
                          R (*v)[V]) {
  mrt_get_pack<V>(a.x, i, a.n, (R)0, x);
  MRT_UNROLL
  for (int k = 0; k < K; k++) mrt_get_pack<V>(a.v[k], i, a.n, (R)0, v[k]);
}

/* 16 bytes of each operand at a time.  The first are under way while one thread
 * makes the block's numbers, whose powers take about as long.  Told no number of
 * blocks the compiler makes room for more, of a dtype that only a run tells, and
 * spills; so many have enough under way. */
template <typename S, typename T>
__global__ void __launch_bounds__(UPDATE_BLOCK, mrt_teams_at_once<T> ? 2 : 4)
    update_packs(const __grid_constant__ updates<S, T> all) {
  typedef mrt_real<T> R;
  constexpr int K = S::variables, V = mrt_at_once<T>;
  __shared__ S shared;
  const auto &mine = all.mine();
  const auto &kind = all.kinds[mine.which];
  const update_operands<T, K> a = mine.a;
  int64_t i = mine.start() * V;
  R v[K][V], x[V];
  get_packs<T, K, V>(a, i, x, v);
  if (!mrt_is_due(kind.in.words, kind.in.when)) return;
  if (threadIdx.x == 0) shared.set(kind.options, kind.in);
  __syncthreads();
  const S s = shared;
  while (i < a.n) {
    MRT_UNROLL
    for (int j = 0; j < V; j++) {
      R one[K];
      MRT_UNROLL
      for (int k = 0; k < K; k++) one[k] = v[k][j];
      s.move(one, x[j]);
      MRT_UNROLL
      for (int k = 0; k < K; k++) v[k][j] = one[k];
    }
    MRT_UNROLL
    for (int k = 0; k < K; k++) mrt_put_pack<V>(a.v[k], i, a.n, v[k]);
    i += mine.stride() * V;
    get_packs<T, K, V>(a, i, x, v);
  }
}

/* Some variable is rounded at random: a thread has the elements that share
 * their counters.  The first piece may begin before the first element. */
template <typename S>
__global__ void __launch_bounds__(UPDATE_BLOCK)
    update_randomly(const __grid_constant__ updates<S, mrt_mixed<float>> all) {
  constexpr int K = S::variables;
  __shared__ S shared;
  const auto &mine = all.mine();
  const auto &kind = all.kinds[mine.which];
  if (!mrt_is_due(kind.in.words, kind.in.when)) return;
  if (threadIdx.x == 0) shared.set(kind.options, kind.in);
  __syncthreads();
  const S s = shared;
  const update_operands<mrt_mixed<float>, K> a = mine.a;
  const rounding r = mine.round(kind);
  const int lane = (int)(threadIdx.x % LANES); /* of each piece */
  int64_t first = mine.start() / LANES * PIECE - r.place % PIECE;
  for (; first < a.n; first += mine.stride() / LANES * PIECE) {
    int64_t i = first + lane;
    float v[K][8], x[8];
    get_eight(a.x, i, a.n, x);
    MRT_UNROLL
    for (int k = 0; k < K; k++) get_eight(a.v[k], i, a.n, v[k]);
    MRT_UNROLL
    for (int j = 0; j < 8; j++) {
      float one[K];
      MRT_UNROLL
      for (int k = 0; k < K; k++) one[k] = v[k][j];
      s.move(one, x[j]);
      MRT_UNROLL
      for (int k = 0; k < K; k++) v[k][j] = one[k];
    }
    MRT_UNROLL
    for (int k = 0; k < K; k++)
      if (r.at_random >> k & 1)
        put_randomly(a.v[k], i, a.n, v[k],
                     bits_of(r, kind.in.words, k, r.place + first, lane));
      else
        put_eight(a.v[k], i, a.n, v[k]);
  }
}

/* ---- launching ----------------------------------------------------------- */

/* Outputs are the variables; the input after them is read. */
template <typename S, typename T>
static update_operands<T, S::variables> operands_of(const mrt_call *c) {
  update_operands<T, S::variables> a;
  for (int k = 0; k < S::variables; k++) a.v[k] = mrt_at<T>(&c->out[k]);
  a.x = mrt_at<T>(&c->in[S::variables]);
  a.n = mrt_elements(&c->out[0]);
  return a;
}

enum cuda_variant { SINGLE, MIXED, DOUBLE, AT_RANDOM, WHOLE };

static rounding rounding_in(const mrt_call *c, int variables, bool rounds) {
  return rounds ? rounding_of(c, variables) : rounding();
}

template <typename S> static cuda_variant variant_of(const mrt_call *c) {
  bool same = true;
  for (int i = 1; i <= S::variables; i++)
    same = same && c->in[i].type.dtype == c->in[0].type.dtype;
  if (c->in[0].type.dtype == MRT_i64) return WHOLE;
  if (c->in[0].type.dtype == MRT_f64) return DOUBLE;
  if (rounding_in(c, S::variables, S::rounds).at_random) return AT_RANDOM;
  return same && c->in[0].type.dtype == MRT_f32 ? SINGLE : MIXED;
}

/* But for what the launches of several calls may differ in. */
template <typename S> static typename S::options options_of(const mrt_call *c) {
  typename S::options o = {};
  if (c->options) o = *(const typename S::options *)c->options;
  if constexpr (S::rounds)
    o.rounding.key &= MRT_DRAW_PINNED, o.rounding.place = 0;
  return o;
}

template <typename S, typename T>
static void launch_packs(const updates<S, T> &all, void *queue) {
  MRT_LAUNCH(all.blocks, UPDATE_BLOCK, 0, queue, update_packs<S, T>)(all);
}
template <typename S>
static void launch_randomly(const updates<S, mrt_mixed<float>> &all,
                            void *queue) {
  MRT_LAUNCH(all.blocks, UPDATE_BLOCK, 0, queue, update_randomly<S>)(all);
}

/* Those of one variant, as many in a launch as there is room for. */
template <typename S, typename T>
static void run_variant(const mrt_call *const *calls, int count, inputs in,
                        cuda_variant which, int64_t each,
                        void (*launch)(const updates<S, T> &, void *)) {
  updates<S, T> all;
  all.clear();
  for (int i = 0; i < count; i++) {
    const mrt_call *c = calls[i];
    update_operands<T, S::variables> a = operands_of<S, T>(c);
    if (variant_of<S>(c) != which || !a.n) continue;
    typename S::options o = options_of<S>(c);
    scalars s = scalars_of(c, in);
    rounding r = rounding_in(c, S::variables, S::rounds);
    if (all.add(a, o, s, r, each)) continue;
    launch(all, c->run->queue);
    all.clear();
    all.add(a, o, s, r, each);
  }
  if (all.count) launch(all, calls[0]->run->queue);
}

template <template <typename> class S>
static void run(const mrt_call *const *calls, int count, inputs in) {
  typedef mrt_mixed<float> mixed;
  run_variant<S<float>, float>(calls, count, in, SINGLE,
                               UPDATE_BLOCK * mrt_at_once<float>,
                               launch_packs<S<float>, float>);
  run_variant<S<float>, mixed>(calls, count, in, MIXED,
                               UPDATE_BLOCK * mrt_at_once<mixed>,
                               launch_packs<S<float>, mixed>);
  run_variant<S<double>, double>(calls, count, in, DOUBLE,
                                 UPDATE_BLOCK * mrt_at_once<double>,
                                 launch_packs<S<double>, double>);
  if constexpr (S<float>::rounds)
    run_variant<S<float>, mixed>(calls, count, in, AT_RANDOM, UPDATE_BLOCK * 8,
                                 launch_randomly<S<float>>);
}

/* ---- integers ------------------------------------------------------------ */

__global__ void add_whole(uint64_t *var, const uint64_t *x, int64_t n,
                          const mrt_run_words *w) {
  if (!mrt_is_due(w, NULL)) return;
  uint64_t keep = is_first(w) ? 0 : UINT64_MAX;
  for (int64_t i = mrt_first(); i < n; i += mrt_stride())
    var[i] = (var[i] & keep) + x[i]; /* wraps */
}

static void run_whole(const mrt_call *c) {
  int64_t n = mrt_elements(&c->out[0]);
  if (n)
    MRT_LAUNCH(mrt_blocks(n, UPDATE_BLOCK), UPDATE_BLOCK, 0, c->run->queue,
               add_whole)
  ((uint64_t *)c->out[0].data, (const uint64_t *)c->in[1].data, n,
   c->run->words);
}

} // namespace

extern "C" void mrt_cuda_descend(const mrt_call *const *calls, int count) {
  run<cuda_descend>(calls, count, { -1, 2, 3, 4 });
}
extern "C" void mrt_cuda_adamw(const mrt_call *const *calls, int count) {
  run<cuda_adamw>(calls, count, { 4, 5, 6, 7 });
}
extern "C" void mrt_cuda_sgd(const mrt_call *const *calls, int count) {
  run<cuda_sgd>(calls, count, { -1, 3, 4, 5 });
}
extern "C" void mrt_cuda_rmsprop(const mrt_call *const *calls, int count) {
  run<cuda_rmsprop>(calls, count, { -1, 3, 4, 5 });
}
extern "C" void mrt_cuda_lion(const mrt_call *const *calls, int count) {
  run<cuda_lion>(calls, count, { -1, 3, 4, 5 });
}
extern "C" void mrt_cuda_average(const mrt_call *const *calls, int count) {
  run<average_step>(calls, count, { -1, 2, -1, 3 });
}
extern "C" void mrt_cuda_accumulate(const mrt_call *const *calls, int count) {
  for (int i = 0; i < count; i++)
    if (calls[i]->out[0].type.dtype == MRT_i64) run_whole(calls[i]);
  run<accumulate_step>(calls, count, { -1, -1, -1, -1 });
}
