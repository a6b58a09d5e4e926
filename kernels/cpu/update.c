/* update.c -- assign, descend, adamw, sgd, rmsprop, lion, average, accumulate:
 * one pass over the variables
 *
 * SPDX-License-Identifier: MIT */
#include "update_steps.h"

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

/* ---- rows with a gradient alone ------------------------------------------ */

typedef struct live_rows {
  int written; /* and the gradient comes after them */
  int64_t rows, width;
  elements *run;
  const void *step;
} live_rows;

static bool is_live(const mrt_call *c, const live_rows *l, int64_t row) {
  real room[PIECE];
  for (int64_t j = 0, n; j < l->width; j += n) {
    n = l->width - j < PIECE ? l->width - j : PIECE;
    int64_t at = row * l->width + j;
    if (!is_zero(mrt_reals_in(&c->in[l->written], at, n, room), n)) return true;
  }
  return false;
}

static void run_rows(const mrt_call *c, const live_rows *l, int64_t from,
                     int64_t to) {
  if (from < to)
    run_pieces(c, l->written, l->written, l->run, l->step, from * l->width,
               to * l->width);
}

static void live_share(const mrt_call *c, const void *shared, int part,
                       int parts) {
  const live_rows *l = shared;
  int64_t row, end, live;
  mrt_share(l->rows, part, parts, &row, &end);
  for (live = row; row < end; row++) {
    if (is_live(c, l, row)) continue;
    run_rows(c, l, live, row);
    live = row + 1;
  }
  run_rows(c, l, live, end);
}

/* All elements, but for rows without a gradient if `lazy`. */
static void each_live(const mrt_call *c, int written, bool lazy, double cost,
                      elements *run, const void *step) {
  const mrt_type *t = &c->out[0].type;
  int64_t rows = t->rank ? t->dims[0] : 1, n = count(c);
  live_rows l = { written, rows, rows ? n / rows : 0, run, step };
  if (lazy)
    mrt_parallel(c, mrt_team(c, (double)n * cost), live_share, &l);
  else
    each_piece(c, written, written, cost, run, step);
}

/* ---- steps of update_steps.h --------------------------------------------- */

static void descend(const mrt_call *c) {
  const mrt_descend_options *o = c->options;
  descend_step s = descend_of(c, o, 2);
  if (is_due(c, 4)) each_live(c, 1, o->lazy, 0.4, descend_piece, &s);
}

static void adamw(const mrt_call *c) {
  const mrt_adamw_options *o = c->options;
  adamw_step s = adamw_of(c, o, 4);
  if (is_due(c, 7)) each_live(c, 3, o->lazy, 1.0, adamw_piece, &s);
}

static void sgd(const mrt_call *c) {
  const mrt_sgd_options *o = c->options;
  sgd_step s = sgd_of(c, o, 3);
  if (is_due(c, 5)) each_live(c, 2, o->lazy, 0.7, sgd_piece, &s);
}

static void rmsprop(const mrt_call *c) {
  const mrt_rmsprop_options *o = c->options;
  rmsprop_step s = rmsprop_of(c, o, 3);
  if (is_due(c, 5)) each_live(c, 2, o->lazy, 0.8, rmsprop_piece, &s);
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
  return c->run->all_rows && c->run->row == c->run->first_row;
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
MRT_KERNEL(descend, .run = descend);
MRT_KERNEL(adamw, .run = adamw);
MRT_KERNEL(sgd, .run = sgd);
MRT_KERNEL(rmsprop, .run = rmsprop);
MRT_KERNEL(lion, .run = lion);
MRT_KERNEL(average, .run = average);
MRT_KERNEL(accumulate, .run = accumulate);
