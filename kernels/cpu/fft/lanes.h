/* lanes.h -- Fourier transforms side by side, one in each lane of a vector
 *
 * A number is a pair of vectors, the real and the imaginary parts of LANES
 * transforms, so that all arithmetic is of whole vectors, whatever the radix,
 * and a transform's bits do not depend on its lane or on its neighbours.
 *
 *   method  Stockham: each pass takes one factor of n and leaves numbers in
 *           order, going to and fro between two buffers (Cochran et al. 1967;
 *           Van Loan 1992, Computational frameworks for the FFT)
 *   radix   4, 2, 3, 5, and any prime up to PRIME by its definition
 *   cost    n (2 radix) pairs of vectors moved, and 5 n log2 n flop or so
 *
 * Always forward, e^-: with real and imaginary parts swapped on the way in and
 * on the way out it is the inverse.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_FFT_LANES_H
#define MRT_CPU_FFT_LANES_H

#include "cpu.h"

enum { PRIME = 127, PASSES = 32 };

typedef struct __attribute__((may_alias)) cvec {
  vec re, im;
} cvec;

/* A complex scalar table: e^(-2 pi i k / n) at re, im of 2 k step. */
typedef struct unit_table {
  const real *at;
  int64_t step;
} unit_table;

typedef struct fft_plan {
  int64_t n;
  int passes;
  int radix[PASSES];
} fft_plan;

/* The factors of n; false: one is too large. */
static inline bool fft_factor(fft_plan *p, int64_t n) {
  *p = (fft_plan){ .n = n };
  while (n % 4 == 0) p->radix[p->passes++] = 4, n /= 4;
  for (int r = 2; r <= PRIME; r++)
    while (n % r == 0) p->radix[p->passes++] = r, n /= r;
  return n == 1;
}

/* ---- tables -------------------------------------------------------------- */

/* cos and sin of 2 pi i / n, exact in each eighth: the angle is at most pi/4. */
static inline void fft_unit(int64_t i, int64_t n, double *c, double *s) {
  int64_t eighth = 8 * i / n, rest = 8 * i - eighth * n;
  bool odd = eighth % 2;
  double angle =
      (double)(odd ? n - rest : rest) / (double)n * 0.78539816339744831;
  double x = cos(angle), y = sin(angle);
  if (odd) {
    double was = x;
    x = y, y = was;
  }
  switch (eighth / 2 % 4) {
  case 0:
    *c = x, *s = y;
    return;
  case 1:
    *c = -y, *s = x;
    return;
  case 2:
    *c = -x, *s = -y;
    return;
  default:
    *c = y, *s = -x;
    return;
  }
}

/* e^(-2 pi i k / n) for any k by two short tables, of k's high and low part. */
typedef struct fft_roots {
  int64_t n;
  int shift;
  double *low, *high; /* pairs */
} fft_roots;

static inline int fft_roots_shift(int64_t n) {
  int shift = 0;
  while ((int64_t)1 << (2 * shift) < n) shift++;
  return shift;
}
/* How many doubles. */
static inline int64_t fft_roots_room(int64_t n) {
  int shift = fft_roots_shift(n);
  return 2 * (((int64_t)1 << shift) + (n >> shift) + 1);
}

static inline fft_roots fft_roots_make(int64_t n, double *room) {
  fft_roots r = { n, fft_roots_shift(n), room, NULL };
  int64_t lows = (int64_t)1 << r.shift, highs = (n >> r.shift) + 1;
  r.high = room + 2 * lows;
  for (int64_t i = 0; i < lows; i++)
    fft_unit(i % n, n, &r.low[2 * i], &r.low[2 * i + 1]);
  for (int64_t i = 0; i < highs; i++)
    fft_unit((i << r.shift) % n, n, &r.high[2 * i], &r.high[2 * i + 1]);
  return r;
}

/* 0 <= k < n */
static inline void fft_root(const fft_roots *r, int64_t k, double *re,
                            double *im) {
  const double *a = r->high + 2 * (k >> r->shift);
  const double *b = r->low + 2 * (k & (((int64_t)1 << r->shift) - 1));
  *re = a[0] * b[0] - a[1] * b[1];
  *im = -(a[0] * b[1] + a[1] * b[0]);
}

/* e^(-2 pi i k / m) for k < m, m a divisor of the roots' n. */
static inline void fft_table(const fft_roots *r, int64_t m, real *to) {
  for (int64_t k = 0; k < m; k++) {
    double re, im;
    fft_root(r, k * (r->n / m), &re, &im);
    to[2 * k] = (real)re, to[2 * k + 1] = (real)im;
  }
}

/* ---- butterflies --------------------------------------------------------- */

static inline cvec c_add(cvec a, cvec b) {
  return (cvec){ a.re + b.re, a.im + b.im };
}
static inline cvec c_sub(cvec a, cvec b) {
  return (cvec){ a.re - b.re, a.im - b.im };
}
static inline cvec c_turn(cvec a) { return (cvec){ a.im, -a.re }; } /* -i a */
static inline cvec c_mul(cvec a, real re, real im) {
  return (cvec){ a.re * re - a.im * im, a.re * im + a.im * re };
}
static inline cvec c_mul_vec(cvec a, cvec w) {
  return (cvec){ a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re };
}

/* Sums of r numbers `step` apart, times e^(-2 pi i j k / r), into a[0..r). */
static inline void fft_sums2(const cvec *x, int64_t step, cvec *a) {
  a[0] = c_add(x[0], x[step]), a[1] = c_sub(x[0], x[step]);
}

static inline void fft_sums3(const cvec *x, int64_t step, cvec *a) {
  const real half = REAL(0.5), sine = REAL(0.86602540378443865);
  cvec sum = c_add(x[step], x[2 * step]);
  cvec turn = c_turn(c_sub(x[step], x[2 * step]));
  cvec mid = { x[0].re - sum.re * half, x[0].im - sum.im * half };
  turn.re *= sine, turn.im *= sine;
  a[0] = c_add(x[0], sum), a[1] = c_add(mid, turn), a[2] = c_sub(mid, turn);
}

static inline void fft_sums4(const cvec *x, int64_t step, cvec *a) {
  cvec p = c_add(x[0], x[2 * step]), q = c_sub(x[0], x[2 * step]);
  cvec r = c_add(x[step], x[3 * step]);
  cvec s = c_turn(c_sub(x[step], x[3 * step]));
  a[0] = c_add(p, r), a[1] = c_add(q, s);
  a[2] = c_sub(p, r), a[3] = c_sub(q, s);
}

static inline void fft_sums5(const cvec *x, int64_t step, cvec *a) {
  const real c1 = REAL(0.30901699437494742), c2 = REAL(-0.80901699437494742);
  const real s1 = REAL(0.95105651629515357), s2 = REAL(0.58778525229247313);
  cvec p = c_add(x[step], x[4 * step]), q = c_add(x[2 * step], x[3 * step]);
  cvec r = c_turn(c_sub(x[step], x[4 * step]));
  cvec s = c_turn(c_sub(x[2 * step], x[3 * step]));
  cvec u = { x[0].re + p.re * c1 + q.re * c2, x[0].im + p.im * c1 + q.im * c2 };
  cvec v = { x[0].re + p.re * c2 + q.re * c1, x[0].im + p.im * c2 + q.im * c1 };
  cvec e = { r.re * s1 + s.re * s2, r.im * s1 + s.im * s2 };
  cvec f = { r.re * s2 - s.re * s1, r.im * s2 - s.im * s1 };
  a[0] = c_add(x[0], c_add(p, q));
  a[1] = c_add(u, e), a[4] = c_sub(u, e);
  a[2] = c_add(v, f), a[3] = c_sub(v, f);
}

/* By the definition, r odd; w[2 k step] are the roots of unity of r.  Numbers j
 * and r - j have one cosine, and sines that differ in sign: their sums and
 * differences serve results k and r - k. */
static inline void fft_sums_any(const cvec *x, int64_t step, int r,
                                const real *w, int64_t w_step, cvec *a) {
  int most = r / 2;
  cvec sum[PRIME / 2 + 1], dif[PRIME / 2 + 1], all = x[0];
  for (int j = 1; j <= most; j++) {
    sum[j] = c_add(x[j * step], x[(r - j) * step]);
    dif[j] = c_sub(x[j * step], x[(r - j) * step]);
    all = c_add(all, sum[j]);
  }
  a[0] = all;
  for (int k = 1; k <= most; k++) {
    cvec even = x[0], odd = { { 0 }, { 0 } };
    for (int j = 1, at = k; j <= most; j++) {
      real c = w[2 * at * w_step], s = w[2 * at * w_step + 1];
      even.re += sum[j].re * c, even.im += sum[j].im * c;
      odd.re -= dif[j].im * s, odd.im += dif[j].re * s;
      at += k;
      if (at >= r) at -= r;
    }
    a[k] = c_add(even, odd), a[r - k] = c_sub(even, odd);
  }
}

/* ---- a pass -------------------------------------------------------------- */

/* One pass: x are `s` interleaved sequences of n numbers, y will be r s of
 * n / r.  `SUMS` takes (from, step, a); the first of each are not turned. */
#define FFT_PASS(name, most, r, SUMS)                                          \
  static inline void fft_pass_##name(const cvec *x, cvec *y, int64_t n,        \
                                     int64_t s, int radix, int64_t whole,      \
                                     unit_table w) {                           \
    int64_t m = n / (r), step = s * m;                                         \
    (void)radix, (void)whole;                                                  \
    for (int64_t q = 0; q < s; q++) {                                          \
      cvec a[most];                                                            \
      SUMS(x + q, step, a);                                                    \
      for (int k = 0; k < (r); k++) y[q + k * s] = a[k];                       \
    }                                                                          \
    for (int64_t p = 1; p < m; p++) {                                          \
      real turn[2 * (most)];                                                   \
      for (int k = 1; k < (r); k++) {                                          \
        turn[2 * k] = w.at[2 * (p * k * s * w.step)];                          \
        turn[2 * k + 1] = w.at[2 * (p * k * s * w.step) + 1];                  \
      }                                                                        \
      for (int64_t q = 0; q < s; q++) {                                        \
        cvec a[most], *to = y + q + s * (r)*p;                                 \
        SUMS(x + q + s * p, step, a);                                          \
        to[0] = a[0];                                                          \
        for (int k = 1; k < (r); k++)                                          \
          to[k * s] = c_mul(a[k], turn[2 * k], turn[2 * k + 1]);               \
      }                                                                        \
    }                                                                          \
  }

#define FFT_SUMS_ANY(from, step, a)                                            \
  fft_sums_any(from, step, radix, w.at, whole / radix * w.step, a)
FFT_PASS(2, 2, 2, fft_sums2)
FFT_PASS(3, 3, 3, fft_sums3)
FFT_PASS(4, 4, 4, fft_sums4)
FFT_PASS(5, 5, 5, fft_sums5)
FFT_PASS(any, PRIME, radix, FFT_SUMS_ANY)

/* Transform x[0..n), using y; returns which of them has the result.  Large, and
 * called from several places. */
static __attribute__((noinline)) cvec *
fft_lanes(const fft_plan *p, unit_table w, cvec *x, cvec *y) {
  int64_t n = p->n, s = 1;
  for (int i = 0; i < p->passes; i++) {
    int r = p->radix[i];
    if (r == 4)
      fft_pass_4(x, y, n, s, r, p->n, w);
    else if (r == 2)
      fft_pass_2(x, y, n, s, r, p->n, w);
    else if (r == 3)
      fft_pass_3(x, y, n, s, r, p->n, w);
    else if (r == 5)
      fft_pass_5(x, y, n, s, r, p->n, w);
    else
      fft_pass_any(x, y, n, s, r, p->n, w);
    cvec *was = x;
    x = y, y = was;
    n /= r, s *= r;
  }
  return x;
}

#endif
