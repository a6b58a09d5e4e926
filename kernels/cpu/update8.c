/* update8.c -- adamw8, sgd8, lion8: moments in 8 bits, block by block, in f32
 *
 * The codes of a magnitude in [0, 1] fall into ranges with equal distances
 * between their numbers, so the nearest is computed, not searched.
 *
 * SPDX-License-Identifier: MIT */
#include "updates.h"

enum { BLOCK = MRT_BLOCK8, ZERO = 127, DECADES = 7, RANGES = 8 };

/* Numbers from least[r] on are in range r; the code of x is then
 * first[r] + floor(x scale[r] - shift[r]), at most first[r] + last[r].  Below
 * least[0] it is 0; range 7 is the number 1 alone. */
typedef struct map {
  real least[RANGES], scale[RANGES], shift[RANGES], last[RANGES];
  real first[RANGES];
} map;

/* And the numbers, by code. */
typedef struct book {
  map map;
  real value[256];
} book;

/* 2^i, or with `extra` 2^(i+1) numbers in the decade i. */
static void make_map(map *k, real *value, int extra) {
  double below = 0;
  int code = 1;
  *k = (map){ .least = { 0 } };
  value[0] = 0;
  for (int i = 0; i < DECADES; i++) {
    int n = 1 << (i + extra);
    double ten = pow(10, i - 6), width = 0.9 / n;
    k->least[i] = (real)((below + (0.1 + 0.5 * width) * ten) / 2);
    k->scale[i] = (real)(1 / (width * ten));
    k->shift[i] = (real)(0.1 / width);
    k->first[i] = (real)code, k->last[i] = (real)(n - 1);
    for (int j = 0; j < n; j++)
      value[code++] = (real)(below = (0.1 + (j + 0.5) * width) * ten);
  }
  k->least[DECADES] = (real)((below + 1) / 2);
  k->first[DECADES] = (real)code;
  value[code] = 1;
}

static void signed_book(book *b) {
  make_map(&b->map, b->value + ZERO, 0);
  for (int q = 1; q <= ZERO; q++) b->value[ZERO - q] = -b->value[ZERO + q];
}

static inline vec pick(ivec yes, vec a, vec b) {
  return (vec)((yes & (ivec)a) | (~yes & (ivec)b));
}

/* The codes of the numbers nearest to x / most of a block, 0 <= x <= most. */
static void codes_of(const map *k, const real *x, real most, real *code) {
  for (int i = 0; i < BLOCK; i += LANES) {
    vec y = vec_load(x + i) / most, zero = { 0 };
    vec scale = zero, shift = zero, first = zero, last = zero;
    for (int r = 0; r < RANGES; r++) {
      ivec there = (ivec)(y >= vec_all(k->least[r]));
      scale = pick(there, vec_all(k->scale[r]), scale);
      shift = pick(there, vec_all(k->shift[r]), shift);
      first = pick(there, vec_all(k->first[r]), first);
      last = pick(there, vec_all(k->last[r]), last);
    }
    vec at = y * scale - shift;
    at = pick((ivec)(at > zero), at, zero);
    at = pick((ivec)(at < last), at, last);
    at = __builtin_convertvector(__builtin_convertvector(at, ivec), vec);
    vec_store(code + i, first + at);
  }
}

/* n moments in codes; `most` is the largest magnitude. */
static void put_signed(const book *b, const real *m, real most, int n,
                       uint8_t *to) {
  real size[BLOCK] = { 0 }, q[BLOCK];
  for (int i = 0; i < n; i++) size[i] = m[i] < 0 ? -m[i] : m[i];
  codes_of(&b->map, size, most > 0 ? most : 1, q);
  for (int i = 0; i < n; i++) {
    real below = q[i] < 1 ? 1 : q[i] > ZERO ? ZERO : q[i];
    q[i] = ZERO + (m[i] < 0 ? -below : q[i]);
  }
  for (int i = 0; i < n; i++) to[i] = (uint8_t)(ireal)q[i];
}

/* The same of squares: v[BLOCK], 0 past the last. */
static void put_unsigned(const book *b, const real *v, real most, int n,
                         uint8_t *to) {
  real q[BLOCK];
  codes_of(&b->map, v, most > 0 ? most : 1, q);
  for (int i = 0; i < n; i++) to[i] = (uint8_t)(ireal)q[i];
}

/* Elements [at, at + n) of a piece, of the block k. */
typedef struct part {
  real *p;
  const real *g;
  int n;
  int64_t from, k;
} part;

static part part_of(const piece *e, int64_t at) {
  int n = (int)(e->n - at < BLOCK ? e->n - at : BLOCK);
  int64_t from = e->from + at;
  return (part){ e->var[0] + at, e->x + at, n, from, from / BLOCK };
}

/* ---- adamw ----------------------------------------------------------------- */

typedef struct adamw8_step {
  const mrt_call *c;
  book m, v;
  real scale, l2; /* g = scale g + l2 p */
  real keep_m, add_m, keep_v, add_v;
  real rate, eps; /* both bias corrections are in them */
  real keep;      /* 1 - lr weight_decay */
} adamw8_step;

/* Of one block, as it is worked on. */
typedef struct block {
  real m[BLOCK], v[BLOCK];
  real most_m, most_v;
} block;

/* New moments and weights; a, b: scales of the old moments. */
static void move(const adamw8_step *s, block *w, const part *e,
                 const uint8_t *m8, const uint8_t *v8, real a, real b) {
  real most_m = 0, most_v = 0, *p = e->p;
  const real *g = e->g;
#pragma omp simd reduction(max : most_m, most_v)
  for (int i = 0; i < e->n; i++) {
    real x = g[i] * s->scale + s->l2 * p[i];
    real m = s->keep_m * (s->m.value[m8[i]] * a) + s->add_m * x;
    real v = s->keep_v * (s->v.value[v8[i]] * b) + s->add_v * (x * x);
    bool finite = m < MRT_INF && m > -MRT_INF && v < MRT_INF;
    real moved = (p[i] - s->rate * (m / (m_sqrt(v) + s->eps))) * s->keep;
    p[i] = finite ? moved : p[i];
    w->m[i] = m = finite ? m : 0;
    w->v[i] = v = finite ? v : 0;
    real size = m < 0 ? -m : m;
    most_m = size > most_m ? size : most_m;
    most_v = v > most_v ? v : most_v;
  }
  w->most_m = most_m, w->most_v = most_v;
}

static void adamw8_piece(const void *step, const piece *all) {
  const adamw8_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[3].data, *b = out[4].data;
  block w = { .v = { 0 } };
  for (int64_t at = 0; at < all->n; at += BLOCK) {
    part e = part_of(all, at);
    uint8_t *m8 = mrt_element(&out[1], e.from);
    uint8_t *v8 = mrt_element(&out[2], e.from);
    move(s, &w, &e, m8, v8, a[e.k], b[e.k]);
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
  signed_book(&s.m);
  make_map(&s.v.map, s.v.value, 1);
  each_piece(c, 1, 5, 4.0, adamw8_piece, &s);
}

/* ---- sgd and lion ------------------------------------------------------------ */

/* c = keep m + add g, m = keep_m m + add_m g;  then p = p - decay p - lr_g g
 * - lr_m m - lr_sign sign(c), for g = scale g + l2 p. */
typedef struct momentum_step {
  const mrt_call *c;
  book m;
  real scale, l2, keep, add, keep_m, add_m;
  real decay, lr_g, lr_m, lr_sign;
} momentum_step;

static real move_momentum(const momentum_step *s, const part *e, real *ms,
                          const uint8_t *m8, real a) {
  real most = 0, *p = e->p;
  const real *gs = e->g;
#pragma omp simd reduction(max : most)
  for (int i = 0; i < e->n; i++) {
    real g = gs[i] * s->scale + s->l2 * p[i], old = s->m.value[m8[i]] * a;
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
  return most;
}

static void momentum_piece(const void *step, const piece *all) {
  const momentum_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[2].data;
  real m[BLOCK];
  for (int64_t at = 0; at < all->n; at += BLOCK) {
    part e = part_of(all, at);
    uint8_t *m8 = mrt_element(&out[1], e.from);
    real most = move_momentum(s, &e, m, m8, a[e.k]);
    put_signed(&s->m, m, most, e.n, m8);
    a[e.k] = (float)most;
  }
}

static void run_momentum(const mrt_call *c, momentum_step *s) {
  s->c = c, s->scale = (real)scalar(c, 5);
  signed_book(&s->m);
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
