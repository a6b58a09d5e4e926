/* read.h -- the values of a product's operand, rounded and packed
 *
 * Units (units.h) are packed as gemm/pack.h says, by vectors where k is
 * contiguous in memory.
 *
 * Only gemm/mixed.c and gemm/amx.c include this.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GEMM_READ_H
#define MRT_GEMM_READ_H

#include "gemm/block.h"
#include "gemm/pack.h"
#include "units.h"

/* Some rows at a time, a few steps of each strip, so that lines of both sides
 * are used whole. */
enum { SOME = (ROWS == 6 ? 6 : 4) * COLS, STEPS = 16, AHEAD = 2 };

_Static_assert((int)SOME % (int)ROWS == 0, "some rows of a are whole strips");

/* Units of at most SOME rows [i, i + n) at step p. */
static void read_step(const reader *r, void *to, int64_t i, int64_t p,
                      int64_t n, int64_t left) {
  if (!r->pairs) {
    read_values(r, to, i, p, r->across, n);
    return;
  }
  uint16_t room[2][SOME];
  const uint16_t *step[2] = { room[0], room[1] };
  for (int q = 0; q < 2; q++)
    if (q >= left)
      memset(room[q], 0, sizeof room[q]);
    else if (r->plain)
      step[q] = (const uint16_t *)element(r, i, p + q);
    else
      read_values(r, room[q], i, p + q, r->across, n);
  zip_pairs(to, step[0], step[1], n);
}

/* Ask for the n bytes at p: rows and steps are too short, and too far from one
 * another, for the processor to see that they are read in turn. */
static inline void ask_for(const char *p, int64_t n) {
  for (int64_t i = 0; i < n; i += 64) __builtin_prefetch(p + i);
}

/* Copy strips of `width` out of `n` units of `steps` steps, `row` apart. */
static inline __attribute__((always_inline)) void
spread(real *to, int width, const char *from, int64_t row, int64_t n,
       int64_t steps, int64_t k) {
  for (int64_t s = 0; s < n; s += width, from += width * UNIT)
    for (int64_t q = 0; q < steps; q++)
      memcpy(to + s * k + q * width, from + q * row * UNIT,
             (size_t)width * UNIT);
}

/* Strips of `width` rows of n, k units from step p on, of a matrix of which a
 * step is side by side. */
static inline __attribute__((always_inline)) void
pack_steps(const reader *r, real *to, int width, int unit, int64_t i, int64_t n,
           int64_t p, int64_t k, int64_t left) {
  _Alignas(64) char units[STEPS * SOME * UNIT];
  int each = r->pairs ? 2 : 1;
  for (int64_t s = 0; s < n; s += SOME, to += SOME * k) {
    int64_t count = least(SOME, n - s), all = round_up(count, unit);
    int64_t whole = all / width * width, rest = all - whole;
    for (int64_t q = 0; q < k; q += STEPS) {
      int64_t steps = least(STEPS, k - q);
      for (int64_t j = 0; j < steps; j++) {
        char *row = units + j * SOME * UNIT;
        ask_for(element(r, i + s, p + each * (q + j + STEPS)),
                count * r->bytes);
        read_step(r, row, i + s, p + each * (q + j), count,
                  left - each * (q + j));
        memset(row + count * UNIT, 0, (size_t)(all - count) * UNIT);
      }
      spread(to + q * width, width, units, SOME, whole, steps, k);
      if (rest)
        spread(to + whole * k + q * rest, (int)rest, units + whole * UNIT, SOME,
               rest, steps, k);
    }
  }
}

/* The same where steps are not: LANES rows at a time, turned.  `stage` is
 * LANES rows of k units rounded up to LANES. */
static inline __attribute__((always_inline)) void
pack_turned(const reader *r, int strip_width, real *to, real *stage, int64_t i,
            int64_t n, int64_t p, int64_t k, int64_t left) {
  int64_t row = round_up(k, LANES), steps = least(r->pairs ? 2 * k : k, left);
  for (int64_t s = 0; s < n; s += LANES) {
    int64_t strip = s / strip_width * strip_width;
    int64_t width = round_up(least(strip_width, n - strip), LANES);
    real *at = to + strip * k + (s - strip);
    for (int64_t j = 0; j < LANES; j++)
      if (s + j < n) {
        ask_for(element(r, i + s + j + AHEAD, p), steps * r->bytes);
        read_row(r, stage + j * row, i + s + j, p, k, left);
      } else
        memset(stage + j * row, 0, (size_t)row * sizeof(real));
    for (int64_t q = 0; q < k; q += LANES) {
      vec v[LANES];
#pragma GCC unroll 16
      for (int j = 0; j < LANES; j++) v[j] = vec_load(stage + j * row + q);
      transpose(v);
      int64_t count = least(LANES, k - q);
      for (int64_t j = 0; j < count; j++) vec_store(at + (q + j) * width, v[j]);
    }
  }
}

#endif
