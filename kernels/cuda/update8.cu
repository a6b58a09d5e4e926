/* update8.cu -- adamw8, sgd8, lion8: moments stored in 8 bits, block by block
 *
 * A warp has a block of 256 elements, in registers from the old codes to the
 * new.  The arithmetic is the CPU's (compiled without contraction), and so are
 * the codes: those of a magnitude in [0, 1] fall into ranges with equal
 * distances between their numbers, so the nearest is computed, not searched.
 *
 * SPDX-License-Identifier: MIT */
#include "updates.cuh"

namespace {

enum {
  BLOCK = MRT_BLOCK8,
  EACH = BLOCK / 32, /* elements of a thread */
  ZERO = 127,
  DECADES = 7,
  RANGES = 8
};

/* Numbers from least[r] on are in range r; the code of x is then
 * first[r] + floor(x scale[r] - shift[r]), at most first[r] + last[r].  Below
 * least[0] it is 0; range 7 is the number 1 alone. */
struct book {
  float least[RANGES], scale[RANGES], shift[RANGES], last[RANGES];
  float first[RANGES];
  float value[256]; /* by code */
};

/* 2^i, or with `extra` 2^(i+1) numbers in the decade i. */
static book book_of(int extra) {
  book b = {};
  float *value = b.value + (extra ? 0 : ZERO);
  double below = 0;
  int code = 1;
  for (int i = 0; i < DECADES; i++) {
    int n = 1 << (i + extra);
    double ten = pow(10, i - 6), width = 0.9 / n;
    b.least[i] = (float)((below + (0.1 + 0.5 * width) * ten) / 2);
    b.scale[i] = (float)(1 / (width * ten));
    b.shift[i] = (float)(0.1 / width);
    b.first[i] = (float)code, b.last[i] = (float)(n - 1);
    for (int j = 0; j < n; j++)
      value[code++] = (float)(below = (0.1 + (j + 0.5) * width) * ten);
  }
  b.least[DECADES] = (float)((below + 1) / 2);
  b.first[DECADES] = (float)code;
  value[code] = 1;
  for (int q = 1; q <= ZERO && !extra; q++)
    b.value[ZERO - q] = -b.value[ZERO + q];
  return b;
}

/* The code of the number nearest to x / most, 0 <= x <= most. */
MRT_DEVICE float code_of(const book &b, float x, float most) {
  float y = x / (most > 0 ? most : 1), scale = 0, shift = 0, first = 0;
  float last = 0;
  MRT_UNROLL
  for (int r = 0; r < RANGES; r++) {
    bool there = y >= b.least[r];
    scale = there ? b.scale[r] : scale;
    shift = there ? b.shift[r] : shift;
    first = there ? b.first[r] : first;
    last = there ? b.last[r] : last;
  }
  float at = y * scale - shift;
  at = at > 0 ? at : 0;
  at = at < last ? at : last;
  return first + (float)(int)at;
}
MRT_DEVICE uint8_t signed_code(const book &b, float m, float most) {
  float q = code_of(b, m < 0 ? -m : m, most);
  float below = q < 1 ? 1 : q > ZERO ? (float)ZERO : q;
  return (uint8_t)(int)(ZERO + (m < 0 ? -below : q));
}

MRT_DEVICE bool is_finite(float x) { return x < INFINITY && x > -INFINITY; }

/* ---- steps: new moments m[], and p unless they are not finite ------------ */

struct cuda_adamw8 {
  enum { moments = 2 };
  typedef mrt_adamw_options options;
  float scale, l2; /* g = scale g + l2 p */
  float keep_m, add_m, keep_v, add_v;
  float rate, eps; /* both bias corrections are in them */
  float keep;      /* 1 - lr weight_decay */

  __device__ void set(const options &o, const scalars &s) {
    double t = s.t.get(), lr = s.lr.get(), decay = o.weight_decay;
    double unbias = sqrt(1 - pow(o.beta2, t));
    scale = (float)s.scale.get(), l2 = (float)(o.coupled ? decay : 0);
    keep_m = (float)o.beta1, add_m = (float)(1 - o.beta1);
    keep_v = (float)o.beta2, add_v = (float)(1 - o.beta2);
    rate = (float)(lr * unbias / (1 - pow(o.beta1, t)));
    eps = (float)(o.eps * unbias);
    keep = (float)(o.coupled ? 1 : 1 - lr * decay);
  }
  __device__ __forceinline__ float move(float p, float g, float *m) const {
    g = g * scale + l2 * p;
    m[0] = keep_m * m[0] + add_m * g;
    m[1] = keep_v * m[1] + add_v * (g * g);
    return (p - rate * (m[0] / (sqrtf(m[1]) + eps))) * keep;
  }
};

/* sgd and lion: c = keep m + add g, m = keep_m m + add_m g;  then p = p -
 * decay p - lr_g g - lr_m m - lr_sign sign(c), for g = scale g + l2 p. */
template <typename O> struct cuda_momentum8 {
  enum { moments = 1 };
  typedef O options;
  float scale, l2, keep, add, keep_m, add_m, decay, lr_g, lr_m, lr_sign;

  __device__ void set(const mrt_sgd_options &o, const scalars &s) {
    double lr = s.lr.get();
    scale = (float)s.scale.get(), l2 = (float)o.weight_decay;
    keep_m = (float)o.momentum, add_m = (float)(1 - o.dampening);
    lr_g = (float)(o.nesterov ? lr : 0);
    lr_m = (float)(o.nesterov ? lr * o.momentum : lr);
    keep = add = decay = lr_sign = 0;
  }
  __device__ void set(const mrt_lion_options &o, const scalars &s) {
    double lr = s.lr.get();
    scale = (float)s.scale.get();
    keep = (float)o.beta1, add = (float)(1 - o.beta1);
    keep_m = (float)o.beta2, add_m = (float)(1 - o.beta2);
    decay = (float)(lr * o.weight_decay), lr_sign = (float)lr;
    l2 = lr_g = lr_m = 0;
  }
  __device__ __forceinline__ float move(float p, float g, float *m) const {
    g = g * scale + l2 * p;
    float c = keep * m[0] + add * g;
    float sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    m[0] = keep_m * m[0] + add_m * g;
    return p - decay * p - lr_g * g - lr_m * m[0] - lr_sign * sign;
  }
};

/* ---- the kernel ---------------------------------------------------------- */

template <int M> struct update8_operands {
  enum { beside = M * (int)sizeof(book) };
  mrt_any<float> p, g;
  uint8_t *codes[M];
  float *scales[M];
  int64_t n;
};
template <typename S> struct updates {
  update_batch<update8_operands<S::moments>, typename S::options> all;
  book books[S::moments]; /* of m, of v */
};

/* Elements first, first + 32 ... */
MRT_FAR void get_each(mrt_any<float> x, int64_t first, int64_t n, float *v) {
  MRT_BY_DTYPE(x.dtype, T, {
    MRT_UNROLL
    for (int i = 0; i < EACH; i++)
      v[i] = first + 32 * i < n
                 ? (float)mrt_widen(((const T *)x.data)[first + 32 * i])
                 : 0;
  });
}

MRT_FAR void put_each(mrt_any<float> y, int64_t first, int64_t n,
                      const float *v) {
  MRT_BY_DTYPE(y.dtype, T, {
    MRT_UNROLL
    for (int i = 0; i < EACH; i++)
      if (first + 32 * i < n) mrt_round(v[i], &((T *)y.data)[first + 32 * i]);
  });
}

/* p, of which elements 0, 2 ... and 1, 3 ... share a counter. */
MRT_DEVICE
void put_randomly(mrt_any<float> p, int64_t first, int64_t n, const float *v,
                  const rounding &r, const mrt_run_words *w) {
  int64_t at = r.place + first, piece = at / PIECE * PIECE;
  int lane = (int)(first % 32), eighth = (int)(at - piece) / LANES;
  m_four bits[2] = { bits_of(r, w, 0, piece, lane),
                     bits_of(r, w, 0, piece, lane + 32) };
  MRT_UNROLL
  for (int i = 0; i < EACH; i++)
    if (first + 32 * i < n)
      ((mrt_bf16 *)p.data)[first + 32 * i] =
          round_at_random(v[i], bits[i % 2], eighth + i / 2);
}

template <typename S>
__global__ void __launch_bounds__(UPDATE_BLOCK)
    update8(const __grid_constant__ updates<S> u) {
  constexpr int M = S::moments;
  __shared__ S shared;
  __shared__ book books[M];
  const auto &mine = u.all.mine();
  const auto &kind = u.all.kinds[mine.which];
  if (!mrt_is_due(kind.in.words, kind.in.when)) return;
  if (threadIdx.x == 0) shared.set(kind.options, kind.in);
  for (int i = (int)threadIdx.x; i < M * (int)(sizeof(book) / 4);
       i += UPDATE_BLOCK)
    ((float *)books)[i] = ((const float *)u.books)[i];
  __syncthreads();
  const S s = shared;
  const update8_operands<M> a = mine.a;
  const rounding r = mine.round(kind);
  int lane = (int)threadIdx.x % 32;
  int64_t warp = mine.start() / 32, warps = mine.stride() / 32;
  for (int64_t k = warp; k * BLOCK < a.n; k += warps) {
    int64_t first = k * BLOCK + lane;
    float p[EACH], g[EACH], m[M][EACH], most[M] = {}, old[M];
    get_each(a.p, first, a.n, p);
    get_each(a.g, first, a.n, g);
    MRT_UNROLL
    for (int j = 0; j < M; j++) {
      old[j] = a.scales[j][k];
      MRT_UNROLL
      for (int i = 0; i < EACH; i++)
        m[j][i] = first + 32 * i < a.n
                      ? books[j].value[a.codes[j][first + 32 * i]] * old[j]
                      : 0;
    }
    MRT_UNROLL
    for (int i = 0; i < EACH; i++) {
      float now[M];
      bool finite = true;
      MRT_UNROLL
      for (int j = 0; j < M; j++) now[j] = m[j][i];
      float moved = s.move(p[i], g[i], now);
      MRT_UNROLL
      for (int j = 0; j < M; j++) finite = finite && is_finite(now[j]);
      p[i] = finite ? moved : p[i];
      MRT_UNROLL
      for (int j = 0; j < M; j++) {
        m[j][i] = finite && first + 32 * i < a.n ? now[j] : 0;
        most[j] = fmaxf(most[j], fabsf(m[j][i]));
      }
    }
    if (r.at_random)
      put_randomly(a.p, first, a.n, p, r, kind.in.words);
    else
      put_each(a.p, first, a.n, p);
    MRT_UNROLL
    for (int j = 0; j < M; j++) {
      most[j] = mrt_warp_reduce<mrt_larger>(most[j]);
      MRT_UNROLL
      for (int i = 0; i < EACH; i++)
        if (first + 32 * i < a.n)
          a.codes[j][first + 32 * i] =
              j == 0 ? signed_code(books[0], m[0][i], most[0])
                     : (uint8_t)(int)code_of(books[j], m[j][i], most[j]);
      if (lane == 0) a.scales[j][k] = most[j];
    }
  }
}

/* Variables: p, the codes of the moments, their scales; then the gradient. */
template <int M> static update8_operands<M> operands_of(const mrt_call *c) {
  update8_operands<M> a = {};
  a.p = mrt_at_any<float>(c->out, 0, c->nout);
  a.g = mrt_at_any<float>(c->in, 1 + 2 * M, c->nin);
  a.n = mrt_elements(&c->out[0]);
  for (int j = 0; j < M; j++) {
    a.codes[j] = (uint8_t *)c->out[1 + j].data;
    a.scales[j] = (float *)c->out[1 + M + j].data;
  }
  return a;
}

template <typename S> static void launch(updates<S> &u, void *queue) {
  if (u.all.count)
    MRT_LAUNCH(u.all.blocks, UPDATE_BLOCK, 0, queue, update8<S>)(u);
  u.all.clear();
}

template <typename S>
static void run(const mrt_call *const *calls, int count, inputs in) {
  const int64_t each = UPDATE_BLOCK * EACH;
  void *queue = calls[0]->run->queue;
  updates<S> u;
  u.all.clear();
  for (int j = 0; j < S::moments; j++) u.books[j] = book_of(j);
  for (int i = 0; i < count; i++) {
    const mrt_call *c = calls[i];
    update8_operands<S::moments> a = operands_of<S::moments>(c);
    typename S::options o = *(const typename S::options *)c->options;
    rounding r = rounding_of(c, 1);
    o.rounding.key &= MRT_DRAW_PINNED, o.rounding.place = 0;
    if (!a.n || u.all.add(a, o, scalars_of(c, in), r, each)) continue;
    launch(u, queue);
    u.all.add(a, o, scalars_of(c, in), r, each);
  }
  launch(u, queue);
}

} // namespace

extern "C" void mrt_cuda_adamw8(const mrt_call *const *calls, int count) {
  run<cuda_adamw8>(calls, count, { 6, 7, 8, 9 });
}
extern "C" void mrt_cuda_sgd8(const mrt_call *const *calls, int count) {
  run<cuda_momentum8<mrt_sgd_options>>(calls, count, { -1, 4, 5, 6 });
}
extern "C" void mrt_cuda_lion8(const mrt_call *const *calls, int count) {
  run<cuda_momentum8<mrt_lion_options>>(calls, count, { -1, 4, 5, 6 });
}
