/* rows.h -- reductions over one contiguous row
 *
 * Sums run in four chains of vectors, so that additions overlap, and are joined
 * by a fixed tree: the bits depend on the length and the vector width only.  Rows
 * shorter than a vector have no chains, whose sum would be 0.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_ROWS_H
#define MRT_ROWS_H

#include "cpu.h"
#include "vmath.h"

enum { CHAINS = 4 };

/* The larger of each pair of lanes; b's where they do not compare. */
static inline vec vec_larger(vec a, vec b) {
  ivec above = a > b;
  return (vec)(((ivec)a & above) | ((ivec)b & ~above));
}

static inline vec chains_sum(const vec *s) {
  return (s[0] + s[1]) + (s[2] + s[3]);
}

/* -infinity for an empty row; NaNs are passed over. */
static inline real row_max(const real *x, int64_t n) {
  vec m[CHAINS];
  int64_t i = 0;
  real max = -MRT_INF;
  if (n < LANES) {
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
  }
  for (int k = 0; k < CHAINS; k++) m[k] = vec_all(-MRT_INF);
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++)
      m[k] = vec_larger(vec_load(x + i + k * LANES), m[k]);
  for (; i + LANES <= n; i += LANES) m[0] = vec_larger(vec_load(x + i), m[0]);
  m[0] = vec_larger(vec_larger(m[0], m[1]), vec_larger(m[2], m[3]));
  max = vec_max(m[0]);
  for (; i < n; i++) max = x[i] > max ? x[i] : max;
  return max;
}

/* Adds whole vectors of x to the chains; returns how many elements. */
static inline int64_t add_chains(const real *x, int64_t n, vec *s) {
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++) s[k] += vec_load(x + i + k * LANES);
  for (; i + LANES <= n; i += LANES) s[0] += vec_load(x + i);
  return i;
}

static inline real row_sum(const real *x, int64_t n) {
  vec s[CHAINS] = { { 0 } };
  int64_t i = n < LANES ? 0 : add_chains(x, n, s);
  real sum = n < LANES ? 0 : vec_sum(chains_sum(s));
  for (; i < n; i++) sum += x[i];
  return sum;
}

/* Sum of x - center. */
static inline real row_offsets(const real *x, real center, int64_t n) {
  vec s[CHAINS] = { { 0 } };
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++)
      s[k] += vec_load(x + i + k * LANES) - center;
  for (; i + LANES <= n; i += LANES) s[0] += vec_load(x + i) - center;
  real sum = n < LANES ? 0 : vec_sum(chains_sum(s));
  for (; i < n; i++) sum += x[i] - center;
  return sum;
}

/* Sum of (x - center)^2. */
static inline real row_squares(const real *x, real center, int64_t n) {
  if (n < LANES) {
    real sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - center) * (x[i] - center);
    return sum;
  }
  vec s[CHAINS] = { { 0 } };
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++) {
      vec d = vec_load(x + i + k * LANES) - center;
      s[k] += d * d;
    }
  for (; i + LANES <= n; i += LANES) {
    vec d = vec_load(x + i) - center;
    s[0] += d * d;
  }
  real sum = vec_sum(chains_sum(s));
  for (; i < n; i++) sum += (x[i] - center) * (x[i] - center);
  return sum;
}

static inline real row_dot(const real *x, const real *y, int64_t n) {
  vec s[CHAINS] = { { 0 } };
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int k = 0; k < CHAINS; k++)
      s[k] += vec_load(x + i + k * LANES) * vec_load(y + i + k * LANES);
  for (; i + LANES <= n; i += LANES) s[0] += vec_load(x + i) * vec_load(y + i);
  real sum = n < LANES ? 0 : vec_sum(chains_sum(s));
  for (; i < n; i++) sum += x[i] * y[i];
  return sum;
}

/* exp(x) for x <= 0, about half the work of m_exp: there is no overflow, and
 * what would be subnormal is 0.  NaN passes through. */
#ifdef MRT_F64
static inline real exp_down(real x) { return m_exp(x); }
#else
static inline real exp_down(real x) {
  real y = m_exp_inside(x < -87 ? -87 : x);
  return x < -87 ? 0 : y;
}
#endif

/* y = exp(x - shift) with shift >= x, in place if y is x; the sum of y. */
static inline real row_exp(const real *x, real shift, real *y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = exp_down(x[i] - shift);
  return row_sum(y, n);
}

/* Sum of exp(x - shift), shift >= x, by blocks that stay in the first-level
 * cache. */
static inline real row_exp_sum(const real *x, real shift, int64_t n) {
  enum { BLOCK = 512 };
  real e[BLOCK], sum = 0;
  for (int64_t i = 0; i < n; i += BLOCK)
    sum += row_exp(x + i, shift, e, n - i < BLOCK ? n - i : BLOCK);
  return sum;
}

#endif
