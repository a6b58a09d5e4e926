/* cross_entropy.cu -- cross_entropy and its gradient, also both at once
 *
 * A team of threads reads a row of logits once, whatever its length: its
 * maximum and sum together.  Rows of odd lengths start in the middle of a pack:
 * the team begins where the pack does.
 *
 * The product before writes the last rows last, so they are read first, while
 * the cache has them; the gradient begins where the loss ended, and may write
 * over the logits.  The idea is that of llm.c's fused classifier.
 *
 * SPDX-License-Identifier: MIT */
#include "online_softmax.cuh"
#include "op/cross_entropy.h"

namespace {

enum { PACKS = 4 }; /* of a row, for each thread, before teams grow */

template <typename T> struct classes {
  mrt_place<T> x;
  const void *ids;
  int id_dtype;
  int64_t rows, n, ignored;
  mrt_real<T> smoothing;
  mrt_run_words *words;
  int node;
};

template <typename T> static classes<T> classes_of(const mrt_call *c) {
  const mrt_cross_entropy_options *o =
      (const mrt_cross_entropy_options *)c->options;
  return { mrt_at<T>(&c->in[0]),
           c->in[1].data,
           c->in[1].type.dtype,
           mrt_rows(&c->in[0]),
           mrt_cols(&c->in[0]),
           o->ignore_index,
           (mrt_real<T>)o->label_smoothing,
           c->run->words,
           c->node };
}

/* f(v, i) for the thread's packs of row r: v[0 .. V) are elements i .. of x,
 * `pad` outside the row. */
template <typename T, typename F>
MRT_DEVICE void each_pack(mrt_place<T> x, int64_t r, int64_t n, mrt_real<T> pad,
                          F f) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t first = r * n, end = first + n;
  int64_t i = first - first % V + (int64_t)threadIdx.x * V;
  for (; i < end; i += (int64_t)blockDim.x * V) {
    R v[V];
    if (i >= first)
      mrt_get_pack<V>(x, i, end, pad, v);
    else {
      MRT_UNROLL
      for (int k = 0; k < V; k++)
        v[k] = i + k >= first && i + k < end ? mrt_get<R>(x, i + k) : pad;
    }
    f(v, i);
  }
}

/* What a team knows of a row of logits. */
template <typename R> struct row_loss {
  int64_t id; /* the target, or what is ignored */
  bool counts;
  R loss, lse; /* 0 where it does not count; loss: of thread 0 */
};

/* By one pass over row r.  All threads have read it when they return. */
template <typename T>
MRT_DEVICE row_loss<mrt_real<T>> loss_of(const classes<T> &c, int64_t r) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  int64_t first = r * c.n, end = first + c.n;
  int64_t id = mrt_id(c.ids, c.id_dtype, r);
  row_loss<R> y = { id, id != c.ignored, 0, 0 };
  R max = -(R)INFINITY, sum = 0, plain = 0, own = 0;
  if (!y.counts) return y;
  if (threadIdx.x == 0) y.id = id = mrt_checked_id(c.words, c.node, id, c.n);
  if (c.n == 0) return y;
  if (threadIdx.x == 0) own = mrt_get<R>(c.x, first + id);
  each_pack<T>(c.x, r, c.n, max, [&](const R *v, int64_t i) {
    mrt_add_exps<R, V>(v, &max, &sum);
    if (c.smoothing > 0) {
      MRT_UNROLL
      for (int k = 0; k < V; k++)
        if (i + k >= first && i + k < end) plain += v[k];
    }
  });
  __syncwarp(); /* and between warps reductions have a barrier */
  mrt_online_merge(&max, &sum);
  if (c.smoothing > 0) plain = mrt_team_sum(plain);
  R rest = log(sum);
  y.lse = rest + max;
  /* the mean of -log p takes the share of the smoothing */
  if (!(c.smoothing > 0))
    y.loss = rest - (own - max);
  else if (plain == -(R)INFINITY && max > -(R)INFINITY)
    y.loss = (R)INFINITY; /* a class that is impossible has a share */
  else
    y.loss = rest - (own - max) + c.smoothing * (own - plain / (R)c.n);
  return y;
}

template <typename T>
__global__ void __launch_bounds__(MRT_TEAM_MOST, 1)
    each_loss(classes<T> c, mrt_real<T> *loss, mrt_real<T> *lse) {
  for (int64_t k = mrt_first_row(); k < c.rows; k += mrt_row_stride()) {
    int64_t r = c.rows - 1 - k;
    auto y = loss_of<T>(c, r);
    if (threadIdx.x == 0) loss[r] = y.loss, lse[r] = y.lse;
  }
}

template <typename T> static void forward(const mrt_call *c) {
  typedef mrt_real<T> R;
  classes<T> a = classes_of<T>(c);
  dim3 team = mrt_team(a.n, mrt_at_once<T>, PACKS);
  if (a.rows == 0) return;
  MRT_LAUNCH(mrt_blocks(a.rows, team.y), team, 0, c->run->queue, each_loss<T>)
  (a, (R *)c->out[0].data, (R *)c->out[1].data);
}

/* The gradient of row r, over the logits perhaps. */
template <typename T>
MRT_DEVICE void put_grad(const classes<T> &c, int64_t r, mrt_real<T> lse,
                         mrt_real<T> dloss, mrt_place<T> dx) {
  typedef mrt_real<T> R;
  constexpr int V = mrt_at_once<T>;
  R share = c.smoothing / (R)c.n, own = (1 - c.smoothing) * dloss;
  int64_t first = r * c.n, end = first + c.n;
  int64_t id = mrt_id(c.ids, c.id_dtype, r);
  bool counts = id != c.ignored;
  if (counts) id = first + mrt_checked_id(c.words, c.node, id, c.n);
  each_pack<T>(c.x, r, c.n, 0, [&](R *v, int64_t i) {
    MRT_UNROLL
    for (int k = 0; k < V; k++) {
      v[k] = counts ? (exp(v[k] - lse) - share) * dloss : 0;
      if (counts && i + k == id) v[k] -= own;
    }
    if (i >= first) {
      mrt_put_pack<V>(dx, i, end, v);
      return;
    }
    MRT_UNROLL
    for (int k = 0; k < V; k++)
      if (i + k >= first && i + k < end) mrt_put(dx, i + k, v[k]);
  });
}

template <typename T>
__global__ void __launch_bounds__(MRT_TEAM_MOST, 1)
    each_grad(classes<T> c, const mrt_real<T> *lses, const mrt_real<T> *dlosses,
              mrt_place<T> dx) {
  for (int64_t r = mrt_first_row(); r < c.rows; r += mrt_row_stride())
    put_grad<T>(c, r, lses[r], dlosses[r], dx);
}

/* A row is read again while the second cache has it. */
template <typename T>
__global__ void __launch_bounds__(MRT_TEAM_MOST, 1)
    each_both(classes<T> c, const mrt_real<T> *dlosses, mrt_real<T> *loss,
              mrt_place<T> dx) {
  for (int64_t k = mrt_first_row(); k < c.rows; k += mrt_row_stride()) {
    int64_t r = c.rows - 1 - k;
    auto y = loss_of<T>(c, r);
    if (threadIdx.x == 0) loss[r] = y.loss;
    if (c.n) put_grad<T>(c, r, y.lse, dlosses[r], dx);
  }
}

template <typename T> static void backward(const mrt_call *c) {
  typedef mrt_real<T> R;
  classes<T> a = classes_of<T>(c);
  dim3 team = mrt_team(a.n, mrt_at_once<T>, PACKS);
  if (a.rows == 0 || a.n == 0) return;
  MRT_LAUNCH(mrt_blocks(a.rows, team.y), team, 0, c->run->queue, each_grad<T>)
  (a, (const R *)c->in[2].data, (const R *)c->in[3].data,
   mrt_at<T>(&c->out[0]));
}

template <typename T> static void both(const mrt_call *c) {
  typedef mrt_real<T> R;
  classes<T> a = classes_of<T>(c);
  dim3 team = mrt_team(a.n, mrt_at_once<T>, PACKS);
  if (a.rows == 0) return;
  MRT_LAUNCH(mrt_blocks(a.rows, team.y), team, 0, c->run->queue, each_both<T>)
  (a, (const R *)c->in[2].data, (R *)c->out[1].data, mrt_at<T>(&c->out[0]));
}

} // namespace

extern "C" void mrt_cuda_cross_entropy_both(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->out[0]), T, both<T>(c));
}
extern "C" void mrt_cuda_cross_entropy(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0]), T, forward<T>(c));
}
extern "C" void mrt_cuda_cross_entropy_grad(const mrt_call *c) {
  MRT_DISPATCH(mrt_common(&c->in[0], &c->out[0]), T, backward<T>(c));
}
