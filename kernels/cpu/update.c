/* update.c -- assign, adamw, sgd, rmsprop, lion, average, accumulate: one pass
 * over the variables
 *
 * SPDX-License-Identifier: MIT */
#include "updates.h"

/* ---- assign -------------------------------------------------------------- */

static void assign_share(const mrt_call *c, const void *unused, int part,
                         int parts) {
  int64_t from, to;
  share(count(c), part, parts, &from, &to);
  if (from == to) return;
  const mrt_operand *var = &c->out[0], *x = &c->in[1];
  size_t size = mrt_dtypes[var->type.dtype].bytes;
  void *at = mrt_element(var, from);
  if (x->type.dtype == var->type.dtype)
    memcpy(at, mrt_element(x, from), (size_t)(to - from) * size);
  else
    mrt_widen(x->type.dtype, mrt_element(x, from), at, to - from);
}

static void assign(const mrt_call *c) {
  double size = (double)mrt_dtypes[c->out[0].type.dtype].bytes;
  if (!is_due(c, 2)) return;
  int team = mrt_team(c, (double)count(c) * size * 0.05);
  mrt_parallel(c, team, assign_share, NULL);
}

/* ---- adamw --------------------------------------------------------------- */

typedef struct adamw_step {
  real scale, l2;          /* g = scale g + l2 p */
  real keep_m, add_m;      /* beta1, 1 - beta1 */
  real keep_v, add_v;      /* beta2, 1 - beta2 */
  real unbias_m, unbias_v; /* 1 / (1 - beta^t) */
  real lr, decay, eps;     /* decay: lr weight_decay */
} adamw_step;

static void adamw_piece(const void *step, const piece *e) {
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

static void adamw(const mrt_call *c) {
  const mrt_adamw_options *o = c->options;
  if (!is_due(c, 7)) return;
  double t = scalar(c, 4), lr = scalar(c, 5), decay = o->weight_decay;
  adamw_step s = {
    .scale = (real)scalar(c, 6),
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
  each_piece(c, 3, 3, 1.0, adamw_piece, &s);
}

/* ---- sgd ----------------------------------------------------------------- */

typedef struct sgd_step {
  real scale, l2;    /* g = scale g + l2 p */
  real keep, add;    /* buf = keep buf + add g */
  real lr_g, lr_buf; /* p = p - lr_g g - lr_buf buf */
} sgd_step;

static void sgd_piece(const void *step, const piece *e) {
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

static void sgd(const mrt_call *c) {
  const mrt_sgd_options *o = c->options;
  if (!is_due(c, 5)) return;
  double lr = scalar(c, 3);
  sgd_step s = {
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->momentum,
    .add = (real)(1 - o->dampening),
    .lr_g = (real)(o->nesterov ? lr : 0),
    .lr_buf = (real)(o->nesterov ? lr * o->momentum : lr),
  };
  each_piece(c, 2, 2, 0.7, sgd_piece, &s);
}

/* ---- rmsprop ------------------------------------------------------------- */

typedef struct rmsprop_step {
  real scale, l2, keep, add, lr, eps;
} rmsprop_step;

static void rmsprop_piece(const void *step, const piece *e) {
  const rmsprop_step a = *(const rmsprop_step *)step;
  const real *gs = e->x;
  real *ps = e->var[0], *vs = e->var[1];
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i], g = gs[i] * a.scale + a.l2 * p;
    real v = a.keep * vs[i] + a.add * (g * g);
    vs[i] = v;
    ps[i] = p - a.lr * g / (m_sqrt(v) + a.eps);
  }
}

static void rmsprop(const mrt_call *c) {
  const mrt_rmsprop_options *o = c->options;
  if (!is_due(c, 5)) return;
  rmsprop_step s = {
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->keep,
    .add = (real)o->add,
    .lr = (real)scalar(c, 3),
    .eps = (real)o->eps,
  };
  each_piece(c, 2, 2, 0.8, rmsprop_piece, &s);
}

/* ---- lion ---------------------------------------------------------------- */

typedef struct lion_step {
  real scale, keep, add; /* of the direction */
  real keep_m, add_m, lr, decay;
} lion_step;

static void lion_piece(const void *step, const piece *e) {
  const lion_step a = *(const lion_step *)step;
  const real *gs = e->x;
  real *ps = e->var[0], *ms = e->var[1];
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) {
    real p = ps[i], g = gs[i] * a.scale, m = ms[i];
    real c = a.keep * m + a.add * g;
    real sign = c > 0 ? 1 : c < 0 ? -1 : c; /* NaN stays */
    ms[i] = a.keep_m * m + a.add_m * g;
    ps[i] = p - a.decay * p - a.lr * sign;
  }
}

static void lion(const mrt_call *c) {
  const mrt_lion_options *o = c->options;
  if (!is_due(c, 5)) return;
  double lr = scalar(c, 3);
  lion_step s = {
    .scale = (real)scalar(c, 4),
    .keep = (real)o->beta1,
    .add = (real)(1 - o->beta1),
    .keep_m = (real)o->beta2,
    .add_m = (real)(1 - o->beta2),
    .lr = (real)lr,
    .decay = (real)(lr * o->weight_decay),
  };
  each_piece(c, 2, 2, 0.7, lion_piece, &s);
}

/* ---- average ------------------------------------------------------------- */

static void average_piece(const void *step, const piece *e) {
  real *var = e->var[0], rate = *(const real *)step;
  const real *x = e->x;
#pragma omp simd
  for (int64_t i = 0; i < e->n; i++) var[i] += rate * (x[i] - var[i]);
}

static void average(const mrt_call *c) {
  real rate = (real)scalar(c, 2);
  if (is_due(c, 3)) each_piece(c, 1, 1, 0.3, average_piece, &rate);
}

/* ---- accumulate ---------------------------------------------------------- */

/* The first part of a batch overwrites what the batch before has left. */
static bool is_first(const mrt_call *c) {
  return c->run->all_rows && c->run->row == 0;
}

static void add_whole(const mrt_call *c) {
  uint64_t *var = c->out[0].data, keep = is_first(c) ? 0 : UINT64_MAX;
  const uint64_t *x = c->in[1].data;
  int64_t n = count(c);
#pragma omp simd
  for (int64_t i = 0; i < n; i++) var[i] = (var[i] & keep) + x[i]; /* wraps */
}

static void add_piece(const void *step, const piece *e) {
  const mrt_call *c = step;
  const mrt_accumulate_options *o = c->options;
  real *var = e->var[0], scale = (real)o->scale;
  const real *x = e->x;
  if (is_first(c)) {
#pragma omp simd
    for (int64_t i = 0; i < e->n; i++) var[i] = scale * x[i];
  } else if (o->largest) {
    for (int64_t i = 0; i < e->n; i++) {
      real y = scale * x[i];
      if (y > var[i] || y != y) var[i] = y;
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < e->n; i++) var[i] += scale * x[i];
  }
}

static void accumulate(const mrt_call *c) {
  if (c->out[0].type.dtype == MRT_i64)
    add_whole(c);
  else
    each_piece(c, 1, 1, 0.3, add_piece, c);
}

MRT_KERNEL(assign, .run = assign);
MRT_KERNEL(adamw, .run = adamw);
MRT_KERNEL(sgd, .run = sgd);
MRT_KERNEL(rmsprop, .run = rmsprop);
MRT_KERNEL(lion, .run = lion);
MRT_KERNEL(average, .run = average);
MRT_KERNEL(accumulate, .run = accumulate);
