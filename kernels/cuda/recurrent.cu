/* recurrent.cu -- one step of an LSTM and of a GRU, and their gradients
 *
 * A thread has V neighbours of the state and what belongs to them in each part
 * of the gates.  It reads all of it before it writes, so that results may lie
 * over what they come from.
 *
 * SPDX-License-Identifier: MIT */
#include "cuda.cuh"

namespace {

enum { MOST = 5 }; /* operands of one kind */

template <typename T> struct cell_operands {
  mrt_place<T> in[MOST], out[MOST];
  int64_t rows, n; /* n: width of the state */
};

/* V neighbours of row r from column i on. */
template <typename T> struct cell {
  typedef mrt_real<T> R;
  enum { V = mrt_at_once<T> };
  const cell_operands<T> *o;
  int64_t r, i;

  /* Part k of input x, whose rows have so many parts. */
  __device__ __forceinline__ void get(int x, int parts, int k, R *v) const {
    int64_t at = (r * parts + k) * o->n;
    mrt_get_pack<V>(o->in[x], at + i, at + o->n, (R)0, v);
  }
  __device__ __forceinline__ void put(int y, int parts, int k,
                                      const R *v) const {
    int64_t at = (r * parts + k) * o->n;
    mrt_put_pack<V>(o->out[y], at + i, at + o->n, v);
  }
};

template <typename R> MRT_DEVICE R sigmoid(R x) { return 1 / (1 + exp(-x)); }

struct lstm {
  template <typename T> MRT_DEVICE void of(const cell<T> &at) {
    typedef mrt_real<T> R;
    constexpr int V = mrt_at_once<T>;
    R a[4][V], b[4][V], c[V], h[V];
    MRT_UNROLL
    for (int k = 0; k < 4; k++) at.get(0, 4, k, a[k]), at.get(1, 4, k, b[k]);
    at.get(2, 1, 0, c);
    MRT_UNROLL
    for (int v = 0; v < V; v++) {
      R i = sigmoid(a[0][v] + b[0][v]), f = sigmoid(a[1][v] + b[1][v]);
      R g = tanh(a[2][v] + b[2][v]), o = sigmoid(a[3][v] + b[3][v]);
      a[0][v] = i, a[1][v] = f, a[2][v] = g, a[3][v] = o;
      c[v] = f * c[v] + i * g;
      h[v] = o * tanh(c[v]);
    }
    MRT_UNROLL
    for (int k = 0; k < 4; k++) at.put(0, 4, k, a[k]);
    at.put(1, 1, 0, c);
    at.put(2, 1, 0, h);
  }
};

struct lstm_grad {
  template <typename T> MRT_DEVICE void of(const cell<T> &at) {
    typedef mrt_real<T> R;
    constexpr int V = mrt_at_once<T>;
    R a[4][V], c[V], c_next[V], dh[V], dc[V];
    MRT_UNROLL
    for (int k = 0; k < 4; k++) at.get(0, 4, k, a[k]);
    at.get(1, 1, 0, c), at.get(2, 1, 0, c_next);
    at.get(3, 1, 0, dh), at.get(4, 1, 0, dc);
    MRT_UNROLL
    for (int v = 0; v < V; v++) {
      R i = a[0][v], f = a[1][v], g = a[2][v], o = a[3][v];
      R t = tanh(c_next[v]), d = dc[v] + dh[v] * o * (1 - t * t);
      a[0][v] = d * g * (i * (1 - i));
      a[1][v] = d * c[v] * (f * (1 - f));
      a[2][v] = d * i * (1 - g * g);
      a[3][v] = dh[v] * t * (o * (1 - o));
      dc[v] = d * f;
    }
    MRT_UNROLL
    for (int k = 0; k < 4; k++) at.put(0, 4, k, a[k]);
    at.put(1, 1, 0, dc);
  }
};

struct gru {
  template <typename T> MRT_DEVICE void of(const cell<T> &at) {
    typedef mrt_real<T> R;
    constexpr int V = mrt_at_once<T>;
    R a[3][V], b[3][V], h[V];
    MRT_UNROLL
    for (int k = 0; k < 3; k++) at.get(0, 3, k, a[k]), at.get(1, 3, k, b[k]);
    at.get(2, 1, 0, h);
    MRT_UNROLL
    for (int v = 0; v < V; v++) {
      R r = sigmoid(a[0][v] + b[0][v]), z = sigmoid(a[1][v] + b[1][v]);
      R m = tanh(a[2][v] + r * b[2][v]);
      a[0][v] = r, a[1][v] = z, a[2][v] = m;
      h[v] = m + z * (h[v] - m);
    }
    MRT_UNROLL
    for (int k = 0; k < 3; k++) at.put(0, 4, k, a[k]);
    at.put(0, 4, 3, b[2]);
    at.put(1, 1, 0, h);
  }
};

struct gru_grad {
  template <typename T> MRT_DEVICE void of(const cell<T> &at) {
    typedef mrt_real<T> R;
    constexpr int V = mrt_at_once<T>;
    R a[4][V], h[V], d[V];
    MRT_UNROLL
    for (int k = 0; k < 4; k++) at.get(0, 4, k, a[k]);
    at.get(1, 1, 0, h), at.get(2, 1, 0, d);
    MRT_UNROLL
    for (int v = 0; v < V; v++) {
      R r = a[0][v], z = a[1][v], m = a[2][v];
      R dz = d[v] * (h[v] - m) * (z * (1 - z));
      R dm = d[v] * (1 - z) * (1 - m * m);
      a[0][v] = dm * a[3][v] * (r * (1 - r));
      a[1][v] = dz, a[2][v] = dm, a[3][v] = dm * r;
      d[v] *= z;
    }
    MRT_UNROLL
    for (int k = 0; k < 3; k++) {
      at.put(0, 3, k, a[k]);
      at.put(1, 3, k, k < 2 ? a[k] : a[3]);
    }
    at.put(2, 1, 0, d);
  }
};

template <typename F, typename T>
__global__ void __launch_bounds__(256, 2) each_cell(cell_operands<T> o) {
  constexpr int V = mrt_at_once<T>;
  int64_t chunks = (o.n + V - 1) / V;
  for (int64_t j = mrt_first(); j < o.rows * chunks; j += mrt_stride()) {
    cell<T> at = { &o, j / chunks, j % chunks * V };
    F::of(at);
  }
}

/* `state`: an input. */
template <typename F, typename T>
static void run(const mrt_call *c, const mrt_operand *state) {
  cell_operands<T> o = {};
  for (int i = 0; i < c->nin; i++) o.in[i] = mrt_at<T>(&c->in[i]);
  for (int i = 0; i < c->nout; i++) o.out[i] = mrt_at<T>(&c->out[i]);
  o.rows = mrt_rows(state), o.n = mrt_cols(state);
  int64_t chunks = (o.n + mrt_at_once<T> - 1) / mrt_at_once<T>;
  if (o.rows * chunks == 0) return;
  MRT_LAUNCH(mrt_blocks(o.rows * chunks, 256), 256, 0, c->run->queue,
             each_cell<F, T>)
  (o);
}

static int common(const mrt_call *c) {
  int dtype = c->in[0].type.dtype;
  for (int i = 1; i < c->nin + c->nout; i++) {
    const mrt_operand *x = i < c->nin ? &c->in[i] : &c->out[i - c->nin];
    if (x->type.dtype != dtype) return MRT_DTYPE_COUNT; /* none is f64 */
  }
  return dtype;
}

} // namespace

extern "C" void mrt_cuda_lstm_cell(const mrt_call *c) {
  MRT_DISPATCH(common(c), T, run<lstm, T>(c, &c->in[2]));
}
extern "C" void mrt_cuda_lstm_cell_grad(const mrt_call *c) {
  MRT_DISPATCH(common(c), T, run<lstm_grad, T>(c, &c->in[1]));
}
extern "C" void mrt_cuda_gru_cell(const mrt_call *c) {
  MRT_DISPATCH(common(c), T, run<gru, T>(c, &c->in[2]));
}
extern "C" void mrt_cuda_gru_cell_grad(const mrt_call *c) {
  MRT_DISPATCH(common(c), T, run<gru_grad, T>(c, &c->in[1]));
}
