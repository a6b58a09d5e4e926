/* update_steps.cuh -- one step of descend, adamw, sgd and rmsprop for an element:
 * of update.cu, and of update_rows.cu
 *
 * The arithmetic is the CPU's, operation by operation (and compiled without
 * contraction), so that the two devices differ in powers at most.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_UPDATE_STEPS_CUH
#define MRT_UPDATE_STEPS_CUH

#include "updates.cuh"

namespace {

/* An element's variables v[] under its gradient g. */

/* Without weight decay p is not part of the gradient, not even as 0 p. */
template <typename R> MRT_DEVICE R decayed(R g, R scale, R l2, R p) {
  return l2 == 0 ? g * scale : g * scale + l2 * p;
}

template <typename R> struct cuda_descend {
  enum { variables = 1, rounds = true };
  typedef mrt_descend_options options;
  R scale, l2, lr;

  __device__ void set(const options &o, const scalars &s) {
    scale = (R)s.scale.get(), l2 = (R)o.weight_decay, lr = (R)s.lr.get();
  }
  __device__ __forceinline__ void move(R *v, R g) const {
    v[0] -= lr * decayed(g, scale, l2, v[0]);
  }
};

template <typename R> struct cuda_adamw {
  enum { variables = 3, rounds = true };
  typedef mrt_adamw_options options;
  R scale, l2;          /* g = scale g + l2 p */
  R keep_m, add_m;      /* beta1, 1 - beta1 */
  R keep_v, add_v;      /* beta2, 1 - beta2 */
  R unbias_m, unbias_v; /* 1 / (1 - beta^t) */
  R lr, decay, eps;     /* decay: lr weight_decay */

  __device__ void set(const options &o, const scalars &s) {
    double t = s.t.get(), rate = s.lr.get();
    scale = (R)s.scale.get();
    l2 = (R)(o.coupled ? o.weight_decay : 0);
    keep_m = (R)o.beta1, add_m = (R)(1 - o.beta1);
    keep_v = (R)o.beta2, add_v = (R)(1 - o.beta2);
    unbias_m = (R)(1 / (1 - pow(o.beta1, t)));
    unbias_v = (R)(1 / (1 - pow(o.beta2, t)));
    lr = (R)rate, eps = (R)o.eps;
    decay = (R)(o.coupled ? 0 : rate * o.weight_decay);
  }
  __device__ __forceinline__ void move(R *v, R g) const {
    R p = v[0];
    g = g * scale + l2 * p;
    v[1] = keep_m * v[1] + add_m * g;
    v[2] = keep_v * v[2] + add_v * (g * g);
    R change = v[1] * unbias_m / (sqrt(v[2] * unbias_v) + eps);
    v[0] = p - decay * p - lr * change;
  }
};

template <typename R> struct cuda_sgd {
  enum { variables = 2, rounds = true };
  typedef mrt_sgd_options options;
  R scale, l2;    /* g = scale g + l2 p */
  R keep, add;    /* buf = keep buf + add g */
  R lr_g, lr_buf; /* p = p - lr_g g - lr_buf buf */

  __device__ void set(const options &o, const scalars &s) {
    double lr = s.lr.get();
    scale = (R)s.scale.get(), l2 = (R)o.weight_decay;
    keep = (R)o.momentum, add = (R)(1 - o.dampening);
    lr_g = (R)(o.nesterov ? lr : 0);
    lr_buf = (R)(o.nesterov ? lr * o.momentum : lr);
  }
  __device__ __forceinline__ void move(R *v, R g) const {
    R p = v[0];
    g = g * scale + l2 * p;
    v[1] = keep * v[1] + add * g;
    v[0] = p - lr_g * g - lr_buf * v[1];
  }
};

template <typename R> struct cuda_rmsprop {
  enum { variables = 2, rounds = true };
  typedef mrt_rmsprop_options options;
  R scale, l2, keep, add, lr, eps;

  __device__ void set(const options &o, const scalars &s) {
    scale = (R)s.scale.get(), l2 = (R)o.weight_decay;
    keep = (R)o.keep, add = (R)o.add;
    lr = (R)s.lr.get(), eps = (R)o.eps;
  }
  __device__ __forceinline__ void move(R *v, R g) const {
    R p = v[0];
    g = decayed(g, scale, l2, p);
    v[1] = keep * v[1] + add * (g * g);
    v[0] = p - lr * g / (sqrt(v[1]) + eps);
  }
};

} // namespace

#endif
