/* adamw8.c -- AdamW with moments in 8 bits: block by block, in f32
 *
 * The codes of a magnitude in [0, 1] fall into ranges, about one for each power
 * of ten, with equal distances between their numbers: a few constants of each
 * give the nearest code of a number and the number of a code, without a search
 * and without a large table.
 *
 * SPDX-License-Identifier: MIT */
#include "updates.h"

enum { BLOCK = MRT_ADAMW8_BLOCK, ZERO = 127, DECADES = 7, SLOTS = 16 };

#ifdef MRT_F64
enum { FRACTION = 52, BIAS = 1023 };
#else
enum { FRACTION = 23, BIAS = 127 };
#endif

/* y = x slope + start in two parts, of which the first is exact: y is rounded
 * once. */
typedef struct lines {
  real slope[2][SLOTS], start[2][SLOTS];
} lines;

/* Range r has 2^(r + extra) codes, from first on, which is as many less extra;
 * its numbers begin at least[r].  Below least[0] the code is 0; range 7 is the
 * number 1 alone.  `number` is that of a code + extra, by exponent. */
typedef struct map {
  int extra;
  real least[SLOTS], scale[SLOTS];
  lines number;
} map;

static void put_line(lines *l, int slot, double slope, double start,
                     double about) {
  double unit = ldexp(1, ilogb(about) - 16);
  double high[2] = { rint(slope / unit) * unit, rint(start / unit) * unit };
  l->slope[0][slot] = (real)high[0],
  l->slope[1][slot] = (real)(slope - high[0]);
  l->start[0][slot] = (real)high[1],
  l->start[1][slot] = (real)(start - high[1]);
}

static void make_map(map *k, int extra) {
  double below = 0;
  *k = (map){ .extra = extra };
  for (int i = 0; i < DECADES; i++) {
    int n = 1 << (i + extra);
    double ten = pow(10, i - 6), width = 0.9 / n;
    k->least[i] = (real)((below + (0.1 + 0.5 * width) * ten) / 2);
    k->scale[i] = (real)(1 / (width * ten));
    below = (1 - 0.5 * width) * ten;
    put_line(&k->number, i + extra, width * ten,
             (0.1 + (0.5 - n) * width) * ten, ten);
  }
  k->least[DECADES] = (real)((below + 1) / 2);
  /* 2^7 is 1; or 2^0 is 0 and 2^8, which may share its slot, 1. */
  if (extra)
    for (int i = 0; i <= 8; i += 8)
      put_line(&k->number, i, 1.0 / 255, -1.0 / 255, 1.0 / 255);
  else
    put_line(&k->number, DECADES, 0, 1, 1);
}

/* Entries i of a table, of which the last 3 bits count at least; -1 is any. */
#if !defined(__clang__) && !defined(MRT_F64) && MRT_VECTOR_BYTES >= 32
typedef vec table;
static inline table table_of(const real *p) { return vec_load(p); }
static inline vec pick(table t, ivec i) { return __builtin_shuffle(t, i); }
#else
typedef const real *table;
static inline table table_of(const real *p) { return p; }
static inline vec pick(table t, ivec i) {
  vec y;
  for (int l = 0; l < LANES; l++) y[l] = t[i[l] & (SLOTS - 1)];
  return y;
}
#endif

static inline vec vec_fma(vec a, vec b, vec c) {
  vec y;
  for (int l = 0; l < LANES; l++) y[l] = fma_(a[l], b[l], c[l]);
  return y;
}
static inline vec vec_most(vec a, vec b) {
  vec y;
  for (int l = 0; l < LANES; l++) y[l] = a[l] > b[l] ? a[l] : b[l];
  return y;
}
static inline vec vec_least(vec a, vec b) {
  vec y;
  for (int l = 0; l < LANES; l++) y[l] = a[l] < b[l] ? a[l] : b[l];
  return y;
}
static inline vec vec_int(ivec x) { return __builtin_convertvector(x, vec); }
static inline ivec vec_cut(vec x) { return __builtin_convertvector(x, ivec); }

/* The codes of the numbers nearest to x / most of a block, 0 <= x <= most. */
static void codes_of(const map *k, const real *x, real most, ireal *code) {
  /* Bits as an integer are nearly a logarithm: 0.026 less at most, of ten, than
   * log10 y is.  Ranges begin 0.006 above powers of ten or higher. */
  const vec unit =
      vec_all((real)(0.30102999566 / (double)((int64_t)1 << FRACTION)));
  const vec start = vec_all(REAL(7.03) - (real)(BIAS * 0.30102999566));
  const vec ninth = vec_all((real)(0.1 / 0.9));
  const vec some = vec_all(REAL(0.25)); /* is cut off to 0 */
  const table least = table_of(k->least), scale = table_of(k->scale);
  const int extra = k->extra;
  for (int i = 0; i < BLOCK; i += LANES) {
    vec y = vec_load(x + i) / most;
    vec log = vec_fma(vec_int((ivec)y), unit, start);
    ivec r = vec_cut(vec_most(log, some)); /* or one less */
    r += (ivec)(y < pick(least, r));
    vec n = (vec)((r + (BIAS + extra)) << FRACTION); /* 2^-1 from 0 */
    vec at = vec_fma(-n, ninth, y * pick(scale, r)); /* n ninth is exact */
    at = vec_least(vec_most(at, some), n - 1);
    ivec q = vec_cut(at) + vec_cut(n - (real)extra);
    memcpy(code + i, &q, sizeof q);
  }
}

/* The numbers of codes, codes + extra being x >= 0, times `most`. */
static void numbers_of(const map *k, real *x, real most) {
  const lines *l = &k->number;
  const table slope[2] = { table_of(l->slope[0]), table_of(l->slope[1]) };
  const table start[2] = { table_of(l->start[0]), table_of(l->start[1]) };
  for (int i = 0; i < BLOCK; i += LANES) {
    vec y = vec_load(x + i);
    ivec e = ((ivec)y >> FRACTION) - BIAS, any = (ivec)(y > 0);
    vec low = vec_fma(y, pick(slope[1], e), pick(start[1], e));
    vec z = vec_fma(y, pick(slope[0], e), pick(start[0], e)) + low;
    vec_store(x + i, (vec)((ivec)z & any) * most);
  }
}

typedef struct rule {
  real scale, keep_m, add_m, keep_v, add_v;
  real rate, eps; /* both bias corrections are in them */
  real keep;      /* 1 - lr weight_decay */
} rule;

typedef struct adamw8_step {
  const mrt_call *c;
  map m, v;
  rule rule;
} adamw8_step;

/* Of one block, as it is worked on. */
typedef struct block {
  _Alignas(64) real m[BLOCK], v[BLOCK];
  real most_m, most_v;
} block;

/* The old moments; a, b: their scales. */
static void load(const adamw8_step *s, block *w, const uint8_t *m8,
                 const uint8_t *v8, real a, real b) {
  for (int i = 0; i < BLOCK; i++) {
    int q = (int)m8[i] - ZERO;
    w->m[i] = (real)(q < 0 ? -q : q);
    w->v[i] = (real)(v8[i] + 1);
  }
  numbers_of(&s->m, w->m, a);
  numbers_of(&s->v, w->v, b);
  for (int i = 0; i < BLOCK; i++) w->m[i] = m8[i] < ZERO ? -w->m[i] : w->m[i];
}

/* New moments and weights of n elements. */
static void move(const adamw8_step *of, block *w, real *p, const real *g,
                 int n) {
  const rule s = of->rule;
  real most_m = 0, most_v = 0;
#pragma omp simd reduction(max : most_m, most_v)
  for (int i = 0; i < n; i++) {
    real x = g[i] * s.scale;
    real m = s.keep_m * w->m[i] + s.add_m * x;
    real v = s.keep_v * w->v[i] + s.add_v * (x * x);
    bool finite = m < MRT_INF && m > -MRT_INF && v < MRT_INF;
    real moved = (p[i] - s.rate * (m / (m_sqrt(v) + s.eps))) * s.keep;
    p[i] = finite ? moved : p[i];
    w->m[i] = m = finite ? m : 0;
    w->v[i] = v = finite ? v : 0;
    real size = m < 0 ? -m : m;
    most_m = size > most_m ? size : most_m;
    most_v = v > most_v ? v : most_v;
  }
  for (int i = n; i < BLOCK; i++) w->m[i] = w->v[i] = 0;
  w->most_m = most_m, w->most_v = most_v;
}

static void store(const adamw8_step *s, const block *w, uint8_t *m8,
                  uint8_t *v8) {
  real a = w->most_m > 0 ? w->most_m : 1, b = w->most_v > 0 ? w->most_v : 1;
  _Alignas(64) real size[BLOCK];
  _Alignas(64) ireal q[BLOCK];
  for (int i = 0; i < BLOCK; i++) size[i] = w->m[i] < 0 ? -w->m[i] : w->m[i];
  codes_of(&s->m, size, a, q);
  for (int i = 0; i < BLOCK; i++) {
    ireal below = q[i] < 1 ? 1 : q[i] > ZERO ? ZERO : q[i];
    m8[i] = (uint8_t)(ZERO + (w->m[i] < 0 ? -below : q[i]));
  }
  codes_of(&s->v, w->v, b, q);
  for (int i = 0; i < BLOCK; i++) v8[i] = (uint8_t)q[i];
}

static void adamw8_piece(const void *step, const piece *e) {
  const adamw8_step *s = step;
  const mrt_operand *out = s->c->out;
  float *a = out[3].data, *b = out[4].data;
  block w;
  uint8_t codes[2][BLOCK] = { 0 };
  for (int64_t at = 0; at < e->n; at += BLOCK) {
    int n = (int)(e->n - at < BLOCK ? e->n - at : BLOCK);
    int64_t from = e->from + at, k = from / BLOCK;
    uint8_t *m8 = mrt_element(&out[1], from), *v8 = mrt_element(&out[2], from);
    memcpy(codes[0], m8, (size_t)n), memcpy(codes[1], v8, (size_t)n);
    load(s, &w, codes[0], codes[1], a[k], b[k]);
    move(s, &w, e->var[0] + at, e->x + at, n);
    store(s, &w, codes[0], codes[1]);
    memcpy(m8, codes[0], (size_t)n), memcpy(v8, codes[1], (size_t)n);
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
    .rule = { .scale = (real)scalar(c, 8),
              .keep_m = (real)o->beta1,
              .add_m = (real)(1 - o->beta1),
              .keep_v = (real)o->beta2,
              .add_v = (real)(1 - o->beta2),
              .rate = (real)(lr * unbias / (1 - pow(o->beta1, t))),
              .eps = (real)(o->eps * unbias),
              .keep = (real)(1 - lr * o->weight_decay) },
  };
  make_map(&s.m, 0);
  make_map(&s.v, 1);
  each_piece(c, 1, 5, 4.0, adamw8_piece, &s);
}

MRT_KERNEL(adamw8, .run = adamw8);
