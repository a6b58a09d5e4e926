/* distance.c -- cdist and its gradient
 *
 * A row of x is compared with a strip of rows of y at a time, a lane for each,
 * so that short rows are as quick as long ones: y is turned for it, in scratch.
 * Sums are in the order of k (of j in the gradient), whatever the number of
 * threads, which share out rows of x.
 *
 * SPDX-License-Identifier: MIT */
#include "op/distance.h"
#include "cpu.h"

#ifdef MRT_F64
#define POW  pow
#define SQRT sqrt
#else
#define POW  powf
#define SQRT sqrtf
#endif

enum { STRIP = 64 }; /* rows of y that are done together */

typedef enum distance { COUNT, SUM, EUCLID, LARGEST, POWER } distance;

static distance distance_of(real p) {
  if (p == 0) return COUNT;
  if (p == 1) return SUM;
  if (p == 2) return EUCLID;
  return isinf(p) ? LARGEST : POWER;
}

static inline real size_of(real u) { return u < 0 ? -u : u; }

/* sum[j] += what |x - y[j]| adds to it, for j in [0, n). */
static inline void add_terms(distance how, real p, real x, const real *y,
                             real *sum, int64_t n) {
  if (how == COUNT)
    for (int64_t j = 0; j < n; j++) sum[j] += x != y[j] ? 1 : 0;
  else if (how == SUM)
    for (int64_t j = 0; j < n; j++) sum[j] += size_of(x - y[j]);
  else if (how == EUCLID)
    for (int64_t j = 0; j < n; j++) {
      real u = x - y[j];
      sum[j] = fma_(u, u, sum[j]);
    }
  else if (how == LARGEST)
    for (int64_t j = 0; j < n; j++) {
      real u = size_of(x - y[j]);
      sum[j] = u > sum[j] || u != u ? u : sum[j];
    }
  else
    for (int64_t j = 0; j < n; j++) sum[j] += POW(size_of(x - y[j]), p);
}

static void finish(distance how, real p, const real *sum, real *d, int64_t n) {
  for (int64_t j = 0; j < n; j++)
    d[j] = how == EUCLID  ? SQRT(sum[j])
           : how == POWER ? POW(sum[j], 1 / p)
                          : sum[j];
}

typedef struct sizes {
  int64_t B, P, R, M;
} sizes;

static sizes sizes_of(const mrt_operand *x, const mrt_operand *y) {
  return (sizes){ x->type.dims[0], x->type.dims[1], y->type.dims[1],
                  x->type.dims[2] };
}

/* y [B,R,M] in scratch as strips: [B, R / STRIP, M, STRIP], the last narrower. */
static void turn_part(const mrt_call *c, const void *unused, int part,
                      int parts) {
  sizes s = sizes_of(&c->in[0], &c->in[1]);
  int64_t from, to, strips = (s.R + STRIP - 1) / STRIP;
  (void)unused;
  mrt_share(s.B * strips, part, parts, &from, &to);
  for (; from < to; from++) {
    int64_t first = from % strips * STRIP, left = s.R - first;
    int64_t n = left < STRIP ? left : STRIP;
    const real *y =
        (const real *)c->in[1].data + (from / strips * s.R + first) * s.M;
    real *turned = (real *)c->scratch + from * STRIP * s.M;
    for (int64_t j = 0; j < n; j++)
      for (int64_t k = 0; k < s.M; k++) turned[k * STRIP + j] = y[j * s.M + k];
  }
}

static void distance_part(const mrt_call *c, const void *unused, int part,
                          int parts) {
  sizes s = sizes_of(&c->in[0], &c->in[1]);
  real p = (real)((const mrt_cdist_options *)c->options)->p, sum[STRIP];
  distance how = distance_of(p);
  int64_t from, to, strips = (s.R + STRIP - 1) / STRIP;
  (void)unused;
  mrt_share(s.B * s.P, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++) {
    const real *x = (const real *)c->in[0].data + i * s.M;
    real *d = (real *)c->out[0].data + i * s.R;
    for (int64_t t = 0; t < strips; t++) {
      const real *y =
          (const real *)c->scratch + (i / s.P * strips + t) * STRIP * s.M;
      int64_t left = s.R - t * STRIP, n = left < STRIP ? left : STRIP;
      for (int64_t j = 0; j < STRIP; j++) sum[j] = 0;
      if (n == STRIP)
        for (int64_t k = 0; k < s.M; k++)
          add_terms(how, p, x[k], y + k * STRIP, sum, STRIP);
      else
        for (int64_t k = 0; k < s.M; k++)
          add_terms(how, p, x[k], y + k * STRIP, sum, n);
      finish(how, p, sum, d + t * STRIP, n);
    }
  }
}

static size_t scratch(const mrt_call *c) {
  sizes s = sizes_of(&c->in[0], &c->in[1]);
  size_t strips = (size_t)((s.R + STRIP - 1) / STRIP);
  return (size_t)s.B * strips * STRIP * (size_t)s.M * sizeof(real);
}

static void cdist(const mrt_call *c) {
  sizes s = sizes_of(&c->in[0], &c->in[1]);
  real p = (real)((const mrt_cdist_options *)c->options)->p;
  double each = distance_of(p) == POWER ? 10 : 0.5;
  double pairs = (double)s.B * (double)s.P * (double)s.R;
  int team = mrt_team(c, pairs * ((double)s.M + 2) * each);
  mrt_parallel(c, team, turn_part, NULL);
  mrt_parallel(c, team, distance_part, NULL);
}

/* ---- cdist_grad ---------------------------------------------------------- */

/* The slope of d in u = x - y. */
static inline real slope(distance how, real p, real u, real d) {
  real sign = (real)((u > 0) - (u < 0)), a = size_of(u);
  if (how == SUM) return sign;
  if (how == EUCLID) return d == 0 ? 0 : u / d;
  if (how == LARGEST) return a == d ? sign : 0;
  if (how == COUNT || a == 0 || d == 0) return 0;
  return sign * POW(a, p - 1) / POW(d, p - 1);
}

static void slope_part(const mrt_call *c, const void *unused, int part,
                       int parts) {
  sizes s = sizes_of(&c->in[1], &c->in[2]);
  real p = (real)((const mrt_cdist_options *)c->options)->p;
  distance how = distance_of(p);
  int64_t from, to;
  (void)unused;
  mrt_share(s.B * s.P, part, parts, &from, &to);
  for (int64_t i = from; i < to; i++) {
    const real *x = (const real *)c->in[1].data + i * s.M;
    const real *y = (const real *)c->in[2].data + i / s.P * s.R * s.M;
    const real *g = (const real *)c->in[0].data + i * s.R;
    const real *d = (const real *)c->in[3].data + i * s.R;
    real *dx = (real *)c->out[0].data + i * s.M;
    for (int64_t k = 0; k < s.M; k++) dx[k] = 0;
    for (int64_t j = 0; j < s.R; j++)
      for (int64_t k = 0; k < s.M; k++)
        dx[k] += g[j] * slope(how, p, x[k] - y[j * s.M + k], d[j]);
  }
}

static void cdist_grad(const mrt_call *c) {
  sizes s = sizes_of(&c->in[1], &c->in[2]);
  double terms = (double)s.B * (double)s.P * (double)s.R * (double)s.M;
  mrt_parallel(c, mrt_team(c, terms), slope_part, NULL);
}

MRT_KERNEL(cdist, .run = cdist, .scratch = scratch);
MRT_KERNEL(cdist_grad, .run = cdist_grad);
