/* units.h -- values of any float dtype, rounded, as units of a product
 *
 * A value becomes a unit of four bytes: an f32, or with dot products a pair of
 * bf16 of two steps of a sum, the first in the lower half.
 *
 * Who includes this has `least`.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_UNITS_H
#define MRT_UNITS_H

#include "floats.h"
#include "gemm/gemm.h"

/* An operand: x(i, p) for i across, p along k. */
typedef struct reader {
  const char *data;
  int64_t across, along; /* in elements */
  int64_t bytes;         /* of an element */
  mrt_dtype dtype;
  mrt_dtype compute; /* what f32 values are rounded to first, or f32 */
  bool pairs;
  bool plain; /* elements are as wanted: f32, or bf16 for pairs */
} reader;

static inline reader reader_of(const mrt_matrix *x, int64_t across,
                               int64_t along, mrt_dtype compute, bool pairs) {
  mrt_dtype wanted = pairs ? MRT_bf16 : MRT_f32;
  bool rounds = compute != MRT_DTYPE_COUNT && compute != x->dtype;
  return (reader){
    .data = x->data,
    .across = across,
    .along = along,
    .bytes = (int64_t)mrt_dtypes[x->dtype].bytes,
    .dtype = x->dtype,
    /* Pairs are rounded to bf16 in any case. */
    .compute = rounds && compute != wanted ? compute : MRT_f32,
    .pairs = pairs,
    .plain = x->dtype == wanted && (!rounds || compute == MRT_f32),
  };
}

enum { UNIT = 4, CHUNK = 256 };

static inline const char *element(const reader *r, int64_t i, int64_t p) {
  return r->data + (i * r->across + p * r->along) * r->bytes;
}

/* n values that begin at (i, p) and are `step` apart: f32 or bf16. */
static inline void read_values(const reader *r, void *to, int64_t i, int64_t p,
                               int64_t step, int64_t n) {
  const char *from = element(r, i, p);
  if (n == 0) return; /* of products over nothing, which may have no address */
  if (r->plain && step == 1) {
    memcpy(to, from, (size_t)(n * r->bytes));
    return;
  }
  for (int64_t at = 0; at < n; at += CHUNK) {
    float values[CHUNK];
    int64_t count = least(CHUNK, n - at);
    float *y = r->pairs ? values : (float *)to + at;
    mrt_widen_apart(r->dtype, from + at * step * r->bytes, step, y, count);
    if (mrt_is_narrow(r->compute)) mrt_round_reals(r->compute, y, count);
    if (r->pairs) mrt_round(MRT_bf16, y, (uint16_t *)to + at, count);
  }
}

/* Units [0, k) of row i from step p on, `left` steps of which there are; pairs
 * after them are 0. */
static inline void read_row(const reader *r, void *to, int64_t i, int64_t p,
                            int64_t k, int64_t left) {
  int64_t steps = least(r->pairs ? 2 * k : k, left);
  read_values(r, to, i, p, r->along, steps);
  if (r->pairs && steps < 2 * k)
    memset((uint16_t *)to + steps, 0, (size_t)(2 * k - steps) * 2);
}

/* Pairs of a and b. */
static inline void zip_pairs(void *to, const uint16_t *a, const uint16_t *b,
                             int64_t n) {
  uint32_t *units = to;
  for (int64_t j = 0; j < n; j++) units[j] = a[j] | (uint32_t)b[j] << 16;
}

#endif
