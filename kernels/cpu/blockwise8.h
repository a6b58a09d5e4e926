/* blockwise8.h -- blocks of moments in 8 bits: their codes as numbers, and back
 *
 * The codes of a magnitude in [0, 1] fall into ranges, about one for each power
 * of ten, with equal distances between their numbers: a few constants of each
 * give the nearest code of a number and the number of a code, without a search
 * and without a large table.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_CODES8_H
#define MRT_CPU_CODES8_H

#include "op/update.h"
#include "vmath.h"

enum { BLOCK = MRT_BLOCK8, ZERO = 127, DECADES = 7, SLOTS = 16 };

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

static inline void put_line(lines *l, int slot, double slope, double start,
                            double about) {
  double unit = ldexp(1, ilogb(about) - 16);
  double high[2] = { rint(slope / unit) * unit, rint(start / unit) * unit };
  l->slope[0][slot] = (real)high[0],
  l->slope[1][slot] = (real)(slope - high[0]);
  l->start[0][slot] = (real)high[1],
  l->start[1][slot] = (real)(start - high[1]);
}

static inline void make_map(map *k, int extra) {
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
static inline void codes_of(const map *k, const real *x, real most,
                            ireal *code) {
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
static inline void numbers_of(const map *k, real *x, real most) {
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

/* x[BLOCK] = the moments that n codes stand for; `most` is their scale. */
static inline void get_signed(const map *k, const uint8_t *codes, real most,
                              int n, real *x) {
  uint8_t q[BLOCK] = { 0 };
  memcpy(q, codes, (size_t)n);
  for (int i = 0; i < BLOCK; i++) {
    int at = (int)q[i] - ZERO;
    x[i] = (real)(at < 0 ? -at : at);
  }
  numbers_of(k, x, most);
  for (int i = 0; i < BLOCK; i++) x[i] = q[i] < ZERO ? -x[i] : x[i];
}

/* The same of squares: 0 past the last. */
static inline void get_unsigned(const map *k, const uint8_t *codes, real most,
                                int n, real *x) {
  uint8_t q[BLOCK] = { 0 };
  memcpy(q, codes, (size_t)n);
  for (int i = 0; i < BLOCK; i++) x[i] = (real)(q[i] + 1);
  numbers_of(k, x, most);
}

/* n moments x[BLOCK] in codes; `most` is the largest magnitude, what is past
 * the last is less. */
static inline void put_signed(const map *k, const real *x, real most, int n,
                              uint8_t *codes) {
  _Alignas(64) real size[BLOCK];
  _Alignas(64) ireal q[BLOCK];
  uint8_t to[BLOCK];
  for (int i = 0; i < BLOCK; i++) size[i] = x[i] < 0 ? -x[i] : x[i];
  codes_of(k, size, most > 0 ? most : 1, q);
  for (int i = 0; i < BLOCK; i++) {
    ireal below = q[i] < 1 ? 1 : q[i] > ZERO ? ZERO : q[i];
    to[i] = (uint8_t)(ZERO + (x[i] < 0 ? -below : q[i]));
  }
  memcpy(codes, to, (size_t)n);
}

static inline void put_unsigned(const map *k, const real *x, real most, int n,
                                uint8_t *codes) {
  _Alignas(64) ireal q[BLOCK];
  uint8_t to[BLOCK];
  codes_of(k, x, most > 0 ? most : 1, q);
  for (int i = 0; i < BLOCK; i++) to[i] = (uint8_t)q[i];
  memcpy(codes, to, (size_t)n);
}

#endif
