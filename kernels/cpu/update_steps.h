/* update_steps.h -- one step of descend, adamw, sgd and rmsprop for a piece of
 * elements: of update.c, and of update_rows.c
 *
 * X_of makes the numbers of a step; its scalars (t, lr, scale) are the inputs
 * from `at` on.  Without weight decay p is not part of the gradient, not even
 * as 0 p: what is not finite stays where it is.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_UPDATE_STEPS_H
#define MRT_CPU_UPDATE_STEPS_H

#include "updates.h"

/* ---- descend ------------------------------------------------------------- */

typedef struct descend_step {
  real scale, l2, lr; /* p = p - lr (scale g + l2 p) */
} descend_step;

static inline descend_step descend_of(const mrt_call *c,
                                      const mrt_descend_options *o, int at) {
  return (descend_step){ (real)scalar(c, at + 1), (real)o->weight_decay,
                         (real)scalar(c, at) };
}

static inline void descend_piece(const void *step, const piece *e) {
  const descend_step a = *(const descend_step *)step;
  const real *gs = e->x;
  real *ps = e->var[0];
  if (a.l2 == 0) {
#pragma omp simd
    for (int64_t i = 0; i < e->n; i++) ps[i] -= a.lr * (gs[i] * a.scale);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i];
    ps[i] = p - a.lr * (gs[i] * a.scale + a.l2 * p);
  }
}

/* ---- adamw --------------------------------------------------------------- */

typedef struct adamw_step {
  real scale, l2;          /* g = scale g + l2 p */
  real keep_m, add_m;      /* beta1, 1 - beta1 */
  real keep_v, add_v;      /* beta2, 1 - beta2 */
  real unbias_m, unbias_v; /* 1 / (1 - beta^t) */
  real lr, decay, eps;     /* decay: lr weight_decay */
} adamw_step;

static inline adamw_step adamw_of(const mrt_call *c, const mrt_adamw_options *o,
                                  int at) {
  double t = scalar(c, at), lr = scalar(c, at + 1), decay = o->weight_decay;
  return (adamw_step){
    .scale = (real)scalar(c, at + 2),
    .l2 = (real)(o->coupled ? decay : 0),
    .keep_m = (real)o->beta1,
    .add_m = (real)(1 - o->beta1),
    .keep_v = (real)o->beta2,
    .add_v = (real)(1 - o->beta2),
    .unbias_m = (real)(1 / (1 - pow(o->beta1, t))),
    .unbias_v = (real)(1 / (1 - pow(o->beta2, t))),
    .lr = (real)lr,
    .decay = (real)(o->coupled ? 0 : lr * decay),
    .eps = (real)o->eps,
  };
}

static inline void adamw_piece(const void *step, const piece *e) {
  const adamw_step a = *(const adamw_step *)step;
  const real *gs = e->x;
  real *ps = e->var[0], *ms = e->var[1], *vs = e->var[2];
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i], g = gs[i] * a.scale + a.l2 * p;
    real m = a.keep_m * ms[i] + a.add_m * g;
    real v = a.keep_v * vs[i] + a.add_v * (g * g);
    real change = m * a.unbias_m / (m_sqrt(v * a.unbias_v) + a.eps);
    ms[i] = m;
    vs[i] = v;
    ps[i] = p - a.decay * p - a.lr * change;
  }
}

/* ---- sgd ----------------------------------------------------------------- */

typedef struct sgd_step {
  real scale, l2;    /* g = scale g + l2 p */
  real keep, add;    /* buf = keep buf + add g */
  real lr_g, lr_buf; /* p = p - lr_g g - lr_buf buf */
} sgd_step;

static inline sgd_step sgd_of(const mrt_call *c, const mrt_sgd_options *o,
                              int at) {
  double lr = scalar(c, at);
  return (sgd_step){
    .scale = (real)scalar(c, at + 1),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->momentum,
    .add = (real)(1 - o->dampening),
    .lr_g = (real)(o->nesterov ? lr : 0),
    .lr_buf = (real)(o->nesterov ? lr * o->momentum : lr),
  };
}

static inline void sgd_piece(const void *step, const piece *e) {
  const sgd_step a = *(const sgd_step *)step;
  const real *gs = e->x;
  real *ps = e->var[0], *bufs = e->var[1];
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i], g = gs[i] * a.scale + a.l2 * p;
    real buf = a.keep * bufs[i] + a.add * g;
    bufs[i] = buf;
    ps[i] = p - a.lr_g * g - a.lr_buf * buf;
  }
}

/* ---- rmsprop ------------------------------------------------------------- */

typedef struct rmsprop_step {
  real scale, l2, keep, add, lr, eps;
} rmsprop_step;

static inline rmsprop_step rmsprop_of(const mrt_call *c,
                                      const mrt_rmsprop_options *o, int at) {
  return (rmsprop_step){
    .scale = (real)scalar(c, at + 1),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->keep,
    .add = (real)o->add,
    .lr = (real)scalar(c, at),
    .eps = (real)o->eps,
  };
}

static inline void rmsprop_each(const rmsprop_step a, const piece *e,
                                bool decays) {
  const real *gs = e->x;
  real *ps = e->var[0], *vs = e->var[1];
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i], g = gs[i] * a.scale;
    if (decays) g += a.l2 * p;
    real v = a.keep * vs[i] + a.add * (g * g);
    vs[i] = v;
    ps[i] = p - a.lr * g / (m_sqrt(v) + a.eps);
  }
}

static inline void rmsprop_piece(const void *step, const piece *e) {
  const rmsprop_step *a = step;
  if (a->l2 == 0)
    rmsprop_each(*a, e, false);
  else
    rmsprop_each(*a, e, true);
}

#endif
