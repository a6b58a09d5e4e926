/* update.c -- assign, adamw, sgd, rmsprop, lion, average, accumulate: one pass
 * over the variables
 *
 * Each element is read once and written once; the arithmetic hides behind the
 * memory.  Operands never overlap: the variables of an update are distinct.
 *
 * SPDX-License-Identifier: MIT */
#include "op/update.h"
#include "floats.h"
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

/* Do n elements of an update from `from` on; x: those of the input that is
 * read, in the dtype of the variable. */
typedef void elements(const void *update, const void *x, int64_t from,
                      int64_t n);

enum { PIECE = 1024 }; /* elements widened together */

static int64_t count(const mrt_call *c) {
  return mrt_type_count(&c->out[0].type);
}

/* All elements, in shares; `cost` in ns, of one. */
static void each_share(const mrt_call *c, int input, double cost, elements *run,
                       const void *update) {
  const mrt_operand *x = &c->in[input];
  bool narrow = x->type.dtype != c->out[0].type.dtype;
  int team = mrt_team(c, (double)count(c) * cost);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int part = 0; part < team; part++) {
    int64_t from, to;
    real room[PIECE];
    share(count(c), part, team, &from, &to);
    for (int64_t n; from < to; from += n) {
      void *at = mrt_element(x, from);
      n = narrow && to - from > PIECE ? PIECE : to - from;
      if (narrow) mrt_widen(x->type.dtype, at, room, n), at = room;
      run(update, at, from, n);
    }
  }
}

/* ---- assign ---------------------------------------------------------------- */

static void assign_share(const void *update, const void *x, int64_t from,
                         int64_t n) {
  const mrt_operand *var = &((const mrt_call *)update)->out[0];
  memcpy(mrt_element(var, from), x,
         (size_t)n * mrt_dtypes[var->type.dtype].bytes);
}

static void assign(const mrt_call *c) {
  double size = (double)mrt_dtypes[c->out[0].type.dtype].bytes;
  if (is_due(c, 2)) each_share(c, 1, 0.05 * size, assign_share, c);
}

/* ---- adamw ----------------------------------------------------------------- */

typedef struct adamw_step {
  real *p, *m, *v;
  real scale, l2;          /* g = scale g + l2 p */
  real keep_m, add_m;      /* beta1, 1 - beta1 */
  real keep_v, add_v;      /* beta2, 1 - beta2 */
  real unbias_m, unbias_v; /* 1 / (1 - beta^t) */
  real lr, decay, eps;     /* decay: lr weight_decay */
} adamw_step;

static void adamw_share(const void *update, const void *x, int64_t from,
                        int64_t n) {
  adamw_step a = *(const adamw_step *)update;
  const real *gs = x;
  a.p += from, a.m += from, a.v += from;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    real p = a.p[i], g = gs[i] * a.scale + a.l2 * p;
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
  each_share(c, 3, 1.0, adamw_share, &s);
}

/* ---- sgd ------------------------------------------------------------------- */

typedef struct sgd_step {
  real *p, *buf;
  real scale, l2;    /* g = scale g + l2 p */
  real keep, add;    /* buf = keep buf + add g */
  real lr_g, lr_buf; /* p = p - lr_g g - lr_buf buf */
} sgd_step;

static void sgd_share(const void *update, const void *x, int64_t from,
                      int64_t n) {
  sgd_step a = *(const sgd_step *)update;
  const real *gs = x;
  a.p += from, a.buf += from;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    real p = a.p[i], g = gs[i] * a.scale + a.l2 * p;
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
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->momentum,
    .add = (real)(1 - o->dampening),
    .lr_g = (real)(o->nesterov ? lr : 0),
    .lr_buf = (real)(o->nesterov ? lr * o->momentum : lr),
  };
  each_share(c, 2, 0.7, sgd_share, &s);
}

/* ---- rmsprop --------------------------------------------------------------- */

typedef struct rmsprop_step {
  real *p, *v;
  real scale, l2, keep, add, lr, eps;
} rmsprop_step;

static void rmsprop_share(const void *update, const void *x, int64_t from,
                          int64_t n) {
  rmsprop_step a = *(const rmsprop_step *)update;
  const real *gs = x;
  a.p += from, a.v += from;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    real p = a.p[i], g = gs[i] * a.scale + a.l2 * p;
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
    .scale = (real)scalar(c, 4),
    .l2 = (real)o->weight_decay,
    .keep = (real)o->keep,
    .add = (real)o->add,
    .lr = (real)scalar(c, 3),
    .eps = (real)o->eps,
  };
  each_share(c, 2, 0.8, rmsprop_share, &s);
}

/* ---- lion ------------------------------------------------------------------ */

typedef struct lion_step {
  real *p, *m;
  real scale, keep, add; /* of the direction */
  real keep_m, add_m, lr, decay;
} lion_step;

static void lion_share(const void *update, const void *x, int64_t from,
                       int64_t n) {
  lion_step a = *(const lion_step *)update;
  const real *gs = x;
  a.p += from, a.m += from;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    real p = a.p[i], g = gs[i] * a.scale, m = a.m[i];
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
    .scale = (real)scalar(c, 4),
    .keep = (real)o->beta1,
    .add = (real)(1 - o->beta1),
    .keep_m = (real)o->beta2,
    .add_m = (real)(1 - o->beta2),
    .lr = (real)lr,
    .decay = (real)(lr * o->weight_decay),
  };
  each_share(c, 2, 0.7, lion_share, &s);
}

/* ---- average --------------------------------------------------------------- */

static void average_share(const void *update, const void *value, int64_t from,
                          int64_t n) {
  const mrt_call *c = update;
  real *var = (real *)c->out[0].data + from, rate = (real)scalar(c, 2);
  const real *x = value;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) var[i] += rate * (x[i] - var[i]);
}

static void average(const mrt_call *c) {
  if (is_due(c, 3)) each_share(c, 1, 0.3, average_share, c);
}

/* ---- accumulate ------------------------------------------------------------ */

/* The first part of a batch overwrites what the batch before has left. */
static bool is_first(const mrt_call *c) {
  return c->run->all_rows && c->run->row == 0;
}

static void add_whole(const void *update, const void *value, int64_t from,
                      int64_t n) {
  const mrt_call *c = update;
  uint64_t *var = (uint64_t *)c->out[0].data + from;
  uint64_t keep = is_first(c) ? 0 : UINT64_MAX;
  const uint64_t *x = value;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) var[i] = (var[i] & keep) + x[i]; /* wraps */
}

static void add_real(const void *update, const void *value, int64_t from,
                     int64_t n) {
  const mrt_call *c = update;
  const mrt_accumulate_options *o = c->options;
  real *var = (real *)c->out[0].data + from, scale = (real)o->scale;
  const real *x = value;
  if (is_first(c)) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) var[i] = scale * x[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) var[i] += scale * x[i];
  }
}

static void accumulate(const mrt_call *c) {
  bool whole = c->out[0].type.dtype == MRT_i64;
  each_share(c, 1, 0.3, whole ? add_whole : add_real, c);
}

MRT_KERNEL(assign, .run = assign);
MRT_KERNEL(adamw, .run = adamw);
MRT_KERNEL(sgd, .run = sgd);
MRT_KERNEL(rmsprop, .run = rmsprop);
MRT_KERNEL(lion, .run = lion);
MRT_KERNEL(average, .run = average);
MRT_KERNEL(accumulate, .run = accumulate);
