/* update.c -- assign, adamw, sgd, rmsprop, lion, average, accumulate: one pass
 * over the variables
 *
 * Each element is read once and written once; the arithmetic hides behind the
 * memory.  Operands never overlap: the variables of an update are distinct.
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"
#include "cpu.h"
#include "vmath.h"

/* Input i is absent, or true. */
static bool is_due(const mrt_call *c, int i) {
  return c->nin <= i || *(const uint8_t *)c->in[i].data;
}

/* The scalar input i, 1 when absent. */
static double scalar(const mrt_call *c, int i) {
  if (c->nin <= i) return 1;
  const mrt_operand *x = &c->in[i];
  return x->type.dtype == MRT_f64 ? *(const double *)x->data
                                  : (double)*(const float *)x->data;
}

/* The share of n items that thread `part` does: whole blocks, so that no two
 * threads write one cache line. */
static void share(int64_t n, int part, int parts, int64_t *from, int64_t *to) {
  enum { BLOCK = 1024 };
  mrt_share((n + BLOCK - 1) / BLOCK, part, parts, from, to);
  *from *= BLOCK, *to *= BLOCK;
  if (*to > n) *to = n;
}

/* Do the elements [from, to) of an update. */
typedef void elements(const void *update, int64_t from, int64_t to);

/* All n elements, in shares; `cost` in ns, of one element. */
static void each_share(const mrt_call *c, int64_t n, double cost, elements *run,
                       const void *update) {
  int team = mrt_team(c, (double)n * cost);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int part = 0; part < team; part++) {
    int64_t from, to;
    share(n, part, team, &from, &to);
    if (from < to) run(update, from, to);
  }
}

static int64_t count(const mrt_call *c) {
  return mrt_type_count(&c->out[0].type);
}

/* ---- assign ---------------------------------------------------------------- */

static void assign_share(const void *update, int64_t from, int64_t to) {
  const mrt_call *c = update;
  memcpy((char *)c->out[0].data + from, (const char *)c->in[1].data + from,
         (size_t)(to - from));
}

static void assign(const mrt_call *c) {
  if (!is_due(c, 2)) return;
  int64_t nbytes = (int64_t)mrt_type_bytes(&c->in[0].type);
  each_share(c, nbytes, 0.05, assign_share, c);
}

/* ---- adamw ----------------------------------------------------------------- */

typedef struct adamw_step {
  real *p, *m, *v;
  const real *g;
  real scale, l2;          /* g = scale g + l2 p */
  real keep_m, add_m;      /* beta1, 1 - beta1 */
  real keep_v, add_v;      /* beta2, 1 - beta2 */
  real unbias_m, unbias_v; /* 1 / (1 - beta^t) */
  real lr, decay, eps;     /* decay: lr weight_decay */
} adamw_step;

static void adamw_share(const void *update, int64_t from, int64_t to) {
  const adamw_step a = *(const adamw_step *)update;
#pragma omp simd
  for (int64_t i = from; i < to; i++) {
    real p = a.p[i], g = a.g[i] * a.scale + a.l2 * p;
    real m = a.keep_m * a.m[i] + a.add_m * g;
    real v = a.keep_v * a.v[i] + a.add_v * (g * g);
    real change = m * a.unbias_m / (m_sqrt(v * a.unbias_v) + a.eps);
    a.m[i] = m;
    a.v[i] = v;
    a.p[i] = p - a.decay * p - a.lr * change;
  }
}

static void adamw(const mrt_call *c) {
  const mrt_adamw_options *o = c->options;
  if (!is_due(c, 7)) return;
  double t = scalar(c, 4), lr = scalar(c, 5), decay = o->weight_decay;
  adamw_step s = {
    .p = c->out[0].data,
    .m = c->out[1].data,
    .v = c->out[2].data,
    .g = c->in[3].data,
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
  each_share(c, count(c), 1.0, adamw_share, &s);
}

/* ---- sgd ------------------------------------------------------------------- */

typedef struct sgd_step {
  real *p, *buf;
  const real *g;
  real scale, l2;    /* g = scale g + l2 p */
  real keep, add;    /* buf = keep buf + add g */
  real lr_g, lr_buf; /* p = p - lr_g g - lr_buf buf */
} sgd_step;

static void sgd_share(const void *update, int64_t from, int64_t to) {
  const sgd_step a = *(const sgd_step *)update;
#pragma omp simd
  for (int64_t i = from; i < to; i++) {
    real p = a.p[i], g = a.g[i] * a.scale + a.l2 * p;
    real buf = a.keep * a.buf[i] + a.add * g;
    a.buf[i] = buf;
    a.p[i] = p - a.lr_g * g - a.lr_buf * buf;
  }
}

static void sgd(const mrt_call *c) {
  const mrt_sgd_options *o = c->options;
  if (!is_due(c, 5)) return;
  double lr = scalar(c, 3);
  sgd_step s = {
    .p = c->out[0].data,
    .buf = c->out[1].data,
    .g = c->in[2].data,
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->momentum,
    .add = (real)(1 - o->dampening),
    .lr_g = (real)(o->nesterov ? lr : 0),
    .lr_buf = (real)(o->nesterov ? lr * o->momentum : lr),
  };
  each_share(c, count(c), 0.7, sgd_share, &s);
}

/* ---- rmsprop --------------------------------------------------------------- */

typedef struct rmsprop_step {
  real *p, *v;
  const real *g;
  real scale, l2, keep, add, lr, eps;
} rmsprop_step;

static void rmsprop_share(const void *update, int64_t from, int64_t to) {
  const rmsprop_step a = *(const rmsprop_step *)update;
#pragma omp simd
  for (int64_t i = from; i < to; i++) {
    real p = a.p[i], g = a.g[i] * a.scale + a.l2 * p;
    real v = a.keep * a.v[i] + a.add * (g * g);
    a.v[i] = v;
    a.p[i] = p - a.lr * g / (m_sqrt(v) + a.eps);
  }
}

static void rmsprop(const mrt_call *c) {
  const mrt_rmsprop_options *o = c->options;
  if (!is_due(c, 5)) return;
  rmsprop_step s = {
    .p = c->out[0].data,
    .v = c->out[1].data,
    .g = c->in[2].data,
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->keep,
    .add = (real)o->add,
    .lr = (real)scalar(c, 3),
    .eps = (real)o->eps,
  };
  each_share(c, count(c), 0.8, rmsprop_share, &s);
}

/* ---- lion ------------------------------------------------------------------ */

typedef struct lion_step {
  real *p, *m;
  const real *g;
  real scale, keep, add; /* of the direction */
  real keep_m, add_m, lr, decay;
} lion_step;

static void lion_share(const lion_step *s, int64_t from, int64_t to) {
  const lion_step a = *s;
#pragma omp simd
  for (int64_t i = from; i < to; i++) {
    real p = a.p[i], g = a.g[i] * a.scale, m = a.m[i];
    real c = a.keep * m + a.add * g;
    real sign = c > 0 ? 1 : c < 0 ? -1 : c; /* NaN stays */
    a.m[i] = a.keep_m * m + a.add_m * g;
    a.p[i] = p - a.decay * p - a.lr * sign;
  }
}

static void lion(const mrt_call *c) {
  const mrt_lion_options *o = c->options;
  if (!is_due(c, 5)) return;
  double lr = scalar(c, 3);
  lion_step s = {
    .p = c->out[0].data,
    .m = c->out[1].data,
    .g = c->in[2].data,
    .scale = (real)scalar(c, 4),
    .keep = (real)o->beta1,
    .add = (real)(1 - o->beta1),
    .keep_m = (real)o->beta2,
    .add_m = (real)(1 - o->beta2),
    .lr = (real)lr,
    .decay = (real)(lr * o->weight_decay),
  };
  int64_t n = mrt_type_count(&c->out[0].type);
  int team = mrt_team(c, (double)n * 0.7);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int part = 0; part < team; part++) {
    int64_t from, to;
    share(n, part, team, &from, &to);
    lion_share(&s, from, to);
  }
}

/* ---- average --------------------------------------------------------------- */

static void average_share(const void *update, int64_t from, int64_t to) {
  const mrt_call *c = update;
  real *var = c->out[0].data, rate = (real)scalar(c, 2);
  const real *x = c->in[1].data;
#pragma omp simd
  for (int64_t i = from; i < to; i++) var[i] += rate * (x[i] - var[i]);
}

static void average(const mrt_call *c) {
  if (is_due(c, 3)) each_share(c, count(c), 0.3, average_share, c);
}

/* ---- accumulate ------------------------------------------------------------ */

/* The first part of a batch overwrites what the batch before has left. */
static bool is_first(const mrt_call *c) {
  return c->run->all_rows && c->run->row == 0;
}

static void add_whole(const void *update, int64_t from, int64_t to) {
  const mrt_call *c = update;
  uint64_t *var = c->out[0].data, keep = is_first(c) ? 0 : UINT64_MAX;
  const uint64_t *x = c->in[1].data;
#pragma omp simd
  for (int64_t i = from; i < to; i++)
    var[i] = (var[i] & keep) + x[i]; /* wraps */
}

static void add_real(const void *update, int64_t from, int64_t to) {
  const mrt_call *c = update;
  const mrt_accumulate_options *o = c->options;
  real *var = c->out[0].data, scale = (real)o->scale;
  const real *x = c->in[1].data;
  if (is_first(c)) {
#pragma omp simd
    for (int64_t i = from; i < to; i++) var[i] = scale * x[i];
  } else {
#pragma omp simd
    for (int64_t i = from; i < to; i++) var[i] += scale * x[i];
  }
}

static void accumulate(const mrt_call *c) {
  bool whole = c->out[0].type.dtype == MRT_i64;
  each_share(c, count(c), 0.3, whole ? add_whole : add_real, c);
}

MRT_KERNEL(assign, .run = assign);
MRT_KERNEL(adamw, .run = adamw);
MRT_KERNEL(sgd, .run = sgd);
MRT_KERNEL(rmsprop, .run = rmsprop);
MRT_KERNEL(lion, .run = lion);
MRT_KERNEL(average, .run = average);
MRT_KERNEL(accumulate, .run = accumulate);
