/* update8.c -- adamw8, sgd8, lion8: moments in 8 bits, block by block, in f32
 *
 * SPDX-License-Identifier: MIT */
#include "blockwise8.h"
#include "updates.h"

/* Elements [at, at + n) of a piece, of the block k. */
typedef struct update8_part {
  real *p;
  const real *g;
  int n;
  int64_t from, k;
} update8_part;

static update8_part part_of(const piece *e, int64_t at) {
  int n = (int)(e->n - at < BLOCK ? e->n - at : BLOCK);
  int64_t from = e->from + at;
  return (update8_part){ e->var[0] + at, e->x + at, n, from, from / BLOCK };
}

/* ---- adamw --------------------------------------------------------------- */

typedef struct adamw8_step {
  const mrt_call *c;
  map m, v;
  real scale, l2; /* g = scale g + l2 p */
  real keep_m, add_m, keep_v, add_v;
  real rate, eps; /* both bias corrections are in them */
  real keep;      /* 1 - lr weight_decay */
} adamw8_step;

/* Of one block, as it is worked on. */
typedef struct coded_block {
  _Alignas(64) real m[BLOCK], v[BLOCK];
  real most_m, most_v;
} coded_block;

/* New moments, 0 past the last, and weights. */
static void move(const adamw8_step *s, coded_block *w, const update8_part *e) {
  real most_m = 0, most_v = 0, *p = e->p;
  const real *g = e->g;
#pragma omp simd reduction(max : most_m, most_v)
  for (int i = 0; i < e->n; i++) {
    real x = g[i] * s->scale + s->l2 * p[i];
    real m = s->keep_m * w->m[i] + s->add_m * x;
    real v = s->keep_v * w->v[i] + s->add_v * (x * x);
    bool finite = m < MRT_INF && m > -MRT_INF && v < MRT_INF;
    real moved = (p[i] - s->rate * (m / (m_sqrt(v) + s->eps))) * s->keep;
    p[i] = finite ? moved : p[i];
    w->m[i] = m = finite ? m : 0;
    w->v[i] = v = finite ? v : 0;
    real size = m < 0 ? -m : m;
    most_m = size > most_m ? size : most_m;
    most_v = v > most_v ? v : most_v;
  }
  for (int i = e->n; i < BLOCK; i++) w->m[i] = w->v[i] = 0;
  w->most_m = most_m, w->most_v = most_v;
}

static void adamw8_piece(const void *step, const piece *all) {
  const adamw8_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[3].data, *b = out[4].data;
  coded_block w;
  for (int64_t at = 0; at < all->n; at += BLOCK) {
    update8_part e = part_of(all, at);
    uint8_t *m8 = mrt_element(&out[1], e.from);
    uint8_t *v8 = mrt_element(&out[2], e.from);
    get_signed(&s->m, m8, a[e.k], e.n, w.m);
    get_unsigned(&s->v, v8, b[e.k], e.n, w.v);
    move(s, &w, &e);
    put_signed(&s->m, w.m, w.most_m, e.n, m8);
    put_unsigned(&s->v, w.v, w.most_v, e.n, v8);
    a[e.k] = (float)w.most_m, b[e.k] = (float)w.most_v;
  }
}

static void adamw8(const mrt_call *c) {
  const mrt_adamw_options *o = c->options;
  if (!is_due(c, 9)) return;
  double t = scalar(c, 6), lr = scalar(c, 7), decay = o->weight_decay;
  double unbias = sqrt(1 - pow(o->beta2, t));
  adamw8_step s = {
    .c = c,
    .scale = (real)scalar(c, 8),
    .l2 = (real)(o->coupled ? decay : 0),
    .keep_m = (real)o->beta1,
    .add_m = (real)(1 - o->beta1),
    .keep_v = (real)o->beta2,
    .add_v = (real)(1 - o->beta2),
    .rate = (real)(lr * unbias / (1 - pow(o->beta1, t))),
    .eps = (real)(o->eps * unbias),
    .keep = (real)(o->coupled ? 1 : 1 - lr * decay),
  };
  make_map(&s.m, 0);
  make_map(&s.v, 1);
  each_piece(c, 1, 5, 4.0, adamw8_piece, &s);
}

/* ---- sgd and lion -------------------------------------------------------- */

/* c = keep m + add g, m = keep_m m + add_m g;  then p = p - decay p - lr_g g
 * - lr_m m - lr_sign sign(c), for g = scale g + l2 p. */
typedef struct momentum_step {
  const mrt_call *c;
  map m;
  real scale, l2, keep, add, keep_m, add_m;
  real decay, lr_g, lr_m, lr_sign;
} momentum_step;

/* New moments, 0 past the last, and weights; returns the largest moment. */
static real move_momentum(const momentum_step *s, const update8_part *e,
                          real *ms) {
  real most = 0, *p = e->p;
  const real *gs = e->g;
#pragma omp simd reduction(max : most)
  for (int i = 0; i < e->n; i++) {
    real g = gs[i] * s->scale + s->l2 * p[i], old = ms[i];
    real c = s->keep * old + s->add * g;
    real m = s->keep_m * old + s->add_m * g;
    real sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    bool finite = m < MRT_INF && m > -MRT_INF;
    real moved = p[i] - s->decay * p[i] - s->lr_g * g - s->lr_m * m;
    p[i] = finite ? moved - s->lr_sign * sign : p[i];
    ms[i] = m = finite ? m : 0;
    real size = m < 0 ? -m : m;
    most = size > most ? size : most;
  }
  for (int i = e->n; i < BLOCK; i++) ms[i] = 0;
  return most;
}

static void momentum_piece(const void *step, const piece *all) {
  const momentum_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[2].data;
  _Alignas(64) real m[BLOCK];
  for (int64_t at = 0; at < all->n; at += BLOCK) {
    update8_part e = part_of(all, at);
    uint8_t *m8 = mrt_element(&out[1], e.from);
    get_signed(&s->m, m8, a[e.k], e.n, m);
    real most = move_momentum(s, &e, m);
    put_signed(&s->m, m, most, e.n, m8);
    a[e.k] = (float)most;
  }
}

static void run_momentum(const mrt_call *c, momentum_step *s) {
  s->c = c, s->scale = (real)scalar(c, 5);
  make_map(&s->m, 0);
  each_piece(c, 1, 3, 2.5, momentum_piece, s);
}

static void sgd8(const mrt_call *c) {
  const mrt_sgd_options *o = c->options;
  if (!is_due(c, 6)) return;
  double lr = scalar(c, 4);
  momentum_step s = {
    .l2 = (real)o->weight_decay,
    .keep_m = (real)o->momentum,
    .add_m = (real)(1 - o->dampening),
    .lr_g = (real)(o->nesterov ? lr : 0),
    .lr_m = (real)(o->nesterov ? lr * o->momentum : lr),
  };
  run_momentum(c, &s);
}

static void lion8(const mrt_call *c) {
  const mrt_lion_options *o = c->options;
  if (!is_due(c, 6)) return;
  double lr = scalar(c, 4);
  momentum_step s = {
    .keep = (real)o->beta1,
    .add = (real)(1 - o->beta1),
    .keep_m = (real)o->beta2,
    .add_m = (real)(1 - o->beta2),
    .decay = (real)(lr * o->weight_decay),
    .lr_sign = (real)lr,
  };
  run_momentum(c, &s);
}

MRT_KERNEL(adamw8, .run = adamw8);
MRT_KERNEL(sgd8, .run = sgd8);
MRT_KERNEL(lion8, .run = lion8);
