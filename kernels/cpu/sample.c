/* sample.c -- poisson, binomial and standard_gamma
 *
 * Each element has a stream of its own: draw k of element i is counter
 * i + 2^40 k of Philox, under the seed, the node's key and the step; two words
 * make a number in (0, 1).  All is computed in double.  Whatever the
 * parameters, rejection ends: after ROUNDS, of which more than 20 are never
 * needed, the mean is taken.
 *
 * SPDX-License-Identifier: MIT */
#include "op/sample.h"
#include "philox.h"

enum { ROUNDS = 10000, INDEX_BITS = 40 };

typedef struct stream {
  uint64_t seed, at;
  uint32_t node, step, word[4];
  int left; /* words not yet used */
} stream;

static stream stream_of(const mrt_block *b, uint64_t index) {
  mrt_draw d;
  memcpy(&d, b->options, sizeof d);
  bool pinned = (d.key & MRT_DRAW_PINNED) != 0;
  return (stream){ .seed = pinned ? d.seed : b->run->seed,
                   .at = index,
                   .node = (uint32_t)d.key,
                   .step = pinned ? 0 : (uint32_t)b->run->step };
}

/* In (0, 1), of 52 bits. */
static double uniform(stream *s) {
  if (s->left == 0) {
    mrt_philox c = { { (uint32_t)s->at, (uint32_t)(s->at >> 32), s->node,
                       s->step } };
    c = mrt_philox_draw(c, s->seed);
    memcpy(s->word, c.w, sizeof s->word);
    s->at += UINT64_C(1) << INDEX_BITS;
    s->left = 4;
  }
  s->left -= 2;
  uint64_t high = s->word[s->left], low = s->word[s->left + 1];
  return ((double)(high << 20 | low >> 12) + 0.5) * 0x1p-52;
}

/* Box & Muller; the other of the pair is not used. */
static double normal(stream *s) {
  double radius = sqrt(-2 * log(uniform(s)));
  return radius * cos(6.28318530717958647693 * uniform(s));
}

/* log x! for x >= 0: Stirling's series, from 10 on. */
static double log_factorial(double x) {
  double z = x + 1, product = 1;
  for (; z < 10; z++) product *= z;
  double i = 1 / z, i2 = i * i;
  double rest =
      i * (1.0 / 12 - i2 * (1.0 / 360 - i2 * (1.0 / 1260 - i2 / 1680)));
  return (z - 0.5) * log(z) - z + 0.91893853320467274178 + rest - log(product);
}

/* ---- poisson ------------------------------------------------------------- */

/* How many uniform numbers have a product of at least e^-rate. */
static double poisson_by_product(stream *s, double rate) {
  double limit = exp(-rate), product = uniform(s), k = 0;
  for (; product > limit; k++) product *= uniform(s);
  return k;
}

/* PTRS; the names are the paper's. */
static double poisson_by_rejection(stream *s, double rate) {
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  double inverse = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  double log_rate = log(rate);
  for (int i = 0; i < ROUNDS; i++) {
    double u = uniform(s) - 0.5, v = uniform(s), us = 0.5 - fabs(u);
    double k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    double density = k * log_rate - rate - log_factorial(k);
    if (log(v * inverse / (a / (us * us) + b)) <= density) return k;
  }
  return floor(rate);
}

static double poisson(stream *s, double rate, double unused) {
  (void)unused;
  if (!(rate >= 0 && rate < INFINITY)) return NAN;
  return rate < 10 ? poisson_by_product(s, rate)
                   : poisson_by_rejection(s, rate);
}

/* ---- binomial ------------------------------------------------------------ */

/* Trials up to the next success have a geometric distribution. */
static double binomial_by_waiting(stream *s, double n, double p) {
  double scale = 1 / log1p(-p), tried = 0;
  for (double k = 0;; k++) {
    tried += ceil(log(uniform(s)) * scale);
    if (!(tried <= n)) return k;
  }
}

/* BTRS; the names are the paper's.  p <= 1/2. */
static double binomial_by_rejection(stream *s, double n, double p) {
  double spq = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spq;
  double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
  double vr = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spq;
  double odds = log(p / (1 - p)), m = floor((n + 1) * p);
  double mode = log_factorial(m) + log_factorial(n - m);
  for (int i = 0; i < ROUNDS; i++) {
    double u = uniform(s) - 0.5, v = uniform(s), us = 0.5 - fabs(u);
    double k = floor((2 * a / us + b) * u + c);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= vr) return k;
    double density = mode - log_factorial(k) - log_factorial(n - k);
    if (log(v * alpha / (a / (us * us) + b)) <= density + (k - m) * odds)
      return k;
  }
  return floor(n * p);
}

static double binomial(stream *s, double n, double p) {
  if (!(n >= 0 && n < INFINITY && p >= 0 && p <= 1) || n != floor(n))
    return NAN;
  if (p > 0.5) return n - binomial(s, n, 1 - p);
  if (p == 0 || n == 0) return 0;
  return n * p < 10 ? binomial_by_waiting(s, n, p)
                    : binomial_by_rejection(s, n, p);
}

/* ---- standard_gamma ------------------------------------------------------ */

/* Marsaglia & Tsang; below 1 that of a + 1 times u^(1/a). */
static double standard_gamma(stream *s, double a, double unused) {
  (void)unused;
  if (!(a > 0 && a < INFINITY)) return NAN;
  double boost = a < 1 ? log(uniform(s)) / a : 0;
  double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d), y = d;
  for (int i = 0; i < ROUNDS; i++) {
    double x = normal(s), v = 1 + c * x;
    v = v * v * v;
    double u = uniform(s);
    if (!(v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))) continue;
    y = d * v;
    break;
  }
  return y * exp(boost);
}

/* ---- kernels ------------------------------------------------------------- */

typedef double drawing(stream *s, double x, double y);
typedef struct job {
  drawing *draw;
  double least; /* what is less becomes this */
} job;

static int64_t count(const mrt_call *c) {
  return mrt_rows(&c->in[0]) * mrt_cols(&c->in[0]);
}

static void draw_part(const mrt_call *c, const void *shared, int part,
                      int parts) {
  const job *j = shared;
  const real *x = c->in[0].data, *y = c->nin > 1 ? c->in[1].data : NULL;
  real *out = c->out[0].data;
  mrt_block b = { .options = c->options, .run = c->run };
  int64_t i, end, run;
  mrt_share(count(c), part, parts, &i, &end);
  while (i < end) {
    int64_t index = mrt_whole_index(&b, i, &run);
    for (; i < end && run > 0; i++, index++, run--) {
      stream s = stream_of(&b, (uint64_t)index);
      double value = j->draw(&s, x[i], y ? y[i] : 0);
      out[i] = (real)(value < j->least ? j->least : value);
    }
  }
}

static void run(const mrt_call *c, drawing *draw, double least) {
  job j = { draw, least };
  mrt_parallel(c, mrt_team(c, 60.0 * (double)count(c)), draw_part, &j);
}

#ifdef MRT_F64
static const double smallest = 0x1p-1022;
#else
static const double smallest = 0x1p-126;
#endif

static void run_poisson(const mrt_call *c) { run(c, poisson, 0); }
static void run_binomial(const mrt_call *c) { run(c, binomial, 0); }
static void run_gamma(const mrt_call *c) { run(c, standard_gamma, smallest); }

MRT_KERNEL(poisson, .run = run_poisson);
MRT_KERNEL(binomial, .run = run_binomial);
MRT_KERNEL(standard_gamma, .run = run_gamma);
