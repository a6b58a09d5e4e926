/* adamw8.c -- AdamW with moments in 8 bits: block by block, in f32
 *
 * The codes of a magnitude in [0, 1] fall into ranges with equal distances
 * between their numbers, so the nearest is computed, not searched.
 *
 * SPDX-License-Identifier: MIT */
#include "updates.h"

enum { BLOCK = MRT_ADAMW8_BLOCK, ZERO = 127, DECADES = 7, RANGES = 8 };

/* Numbers from least[r] on are in range r; the code of x is then
 * first[r] + floor(x scale[r] - shift[r]), at most first[r] + last[r].  Below
 * least[0] it is 0; range 7 is the number 1 alone. */
typedef struct map {
  real least[RANGES], scale[RANGES], shift[RANGES], last[RANGES];
  real first[RANGES];
} map;

/* And the numbers, by code.  2^i, or with `extra` 2^(i+1) numbers in the decade i. */
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

typedef struct adamw8_step {
  const mrt_call *c;
  map m, v;
  real value_m[256], value_v[256]; /* by code */
  real scale, keep_m, add_m, keep_v, add_v;
  real rate, eps; /* both bias corrections are in them */
  real keep;      /* 1 - lr weight_decay */
} adamw8_step;

/* Of one block, as it is worked on. */
typedef struct block {
  real m[BLOCK], v[BLOCK];
  real most_m, most_v;
} block;

/* New moments and weights of n elements; a, b: scales of the old moments. */
static void move(const adamw8_step *s, block *w, real *p, const real *g, int n,
                 const uint8_t *m8, const uint8_t *v8, real a, real b) {
  real most_m = 0, most_v = 0;
#pragma omp simd reduction(max : most_m, most_v)
  for (int i = 0; i < n; i++) {
    real x = g[i] * s->scale;
    real m = s->keep_m * (s->value_m[m8[i]] * a) + s->add_m * x;
    real v = s->keep_v * (s->value_v[v8[i]] * b) + s->add_v * (x * x);
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

static void store(const adamw8_step *s, const block *w, int n, uint8_t *m8,
                  uint8_t *v8) {
  real a = w->most_m > 0 ? w->most_m : 1, b = w->most_v > 0 ? w->most_v : 1;
  real size[BLOCK] = { 0 }, q[BLOCK];
  for (int i = 0; i < n; i++) size[i] = w->m[i] < 0 ? -w->m[i] : w->m[i];
  codes_of(&s->m, size, a, q);
  for (int i = 0; i < n; i++) {
    real below = q[i] < 1 ? 1 : q[i] > ZERO ? ZERO : q[i];
    q[i] = ZERO + (w->m[i] < 0 ? -below : q[i]);
  }
  for (int i = 0; i < n; i++) m8[i] = (uint8_t)(ireal)q[i];
  codes_of(&s->v, w->v, b, q);
  for (int i = 0; i < n; i++) v8[i] = (uint8_t)(ireal)q[i];
}

static void adamw8_piece(const void *step, const piece *e) {
  const adamw8_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[3].data, *b = out[4].data;
  block w = { .v = { 0 } };
  for (int64_t at = 0; at < e->n; at += BLOCK) {
    int n = (int)(e->n - at < BLOCK ? e->n - at : BLOCK);
    int64_t from = e->from + at, k = from / BLOCK;
    uint8_t *m8 = mrt_element(&out[1], from), *v8 = mrt_element(&out[2], from);
    move(s, &w, e->var[0] + at, e->x + at, n, m8, v8, a[k], b[k]);
    store(s, &w, n, m8, v8);
    a[k] = (float)w.most_m, b[k] = (float)w.most_v;
  }
}

static void adamw8(const mrt_call *c) {
  const mrt_adamw8_options *o = c->options;
  if (!is_due(c, 9)) return;
  double t = scalar(c, 6), lr = scalar(c, 7);
  double unbias = sqrt(1 - pow(o->beta2, t));
  adamw8_step s = {
    .c = c,
    .scale = (real)scalar(c, 8),
    .keep_m = (real)o->beta1,
    .add_m = (real)(1 - o->beta1),
    .keep_v = (real)o->beta2,
    .add_v = (real)(1 - o->beta2),
    .rate = (real)(lr * unbias / (1 - pow(o->beta1, t))),
    .eps = (real)(o->eps * unbias),
    .keep = (real)(1 - lr * o->weight_decay),
  };
  make_map(&s.m, s.value_m + ZERO, 0);
  make_map(&s.v, s.value_v, 1);
  for (int q = 1; q <= ZERO; q++) s.value_m[ZERO - q] = -s.value_m[ZERO + q];
  each_piece(c, 1, 5, 4.0, adamw8_piece, &s);
}

MRT_KERNEL(adamw8, .run = adamw8);
