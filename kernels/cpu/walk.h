/* walk.h -- going through strided operands row by row
 *
 *     walk w = ...;                     dims, and a step per operand and dim
 *     walk_join(&w);
 *     walk_seek(&w, from);
 *     for (int64_t n; from < to; from += n, walk_next(&w)) {
 *       n = walk_row(&w, to - from);    elements left in this row
 *       ... n elements from place[k] on, step[k][w.rank - 1] apart
 *     }
 *
 * Positions are counted in row-major order of dims, so that a range of them is
 * the share of one thread, whatever the shape.
 *
 * Operands share dims; a step of 0 repeats an element.  Two dims are joined only
 * where every operand crosses both evenly, so order and places stay.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_WALK_H
#define MRT_WALK_H

#include "cpu.h"

enum { WALK_OPERANDS = 3 };

typedef struct walk {
  int rank; /* 1 or more once joined */
  int64_t count;
  int64_t dims[MRT_MAX_RANK], at[MRT_MAX_RANK];
  int64_t step[WALK_OPERANDS][MRT_MAX_RANK], place[WALK_OPERANDS];
} walk;

/* Join neighbours that every operand has evenly spaced; drop dims of size 1.
 * Row-major order stays.  Sets the count. */
static inline void walk_join(walk *w) {
  int rank = 0;
  w->count = 1;
  for (int i = 0; i < w->rank; i++) {
    int64_t n = w->dims[i];
    w->count *= n;
    if (n == 1) continue;
    bool joins = rank > 0;
    for (int k = 0; joins && k < WALK_OPERANDS; k++)
      joins = w->step[k][rank - 1] == n * w->step[k][i];
    rank += !joins;
    w->dims[rank - 1] = joins ? w->dims[rank - 1] * n : n;
    for (int k = 0; k < WALK_OPERANDS; k++)
      w->step[k][rank - 1] = w->step[k][i];
  }
  if (rank == 0) {
    w->dims[0] = 1;
    for (int k = 0; k < WALK_OPERANDS; k++) w->step[k][0] = 1;
    rank = 1;
  }
  w->rank = rank;
}

static inline void walk_seek(walk *w, int64_t i) {
  for (int k = 0; k < WALK_OPERANDS; k++) w->place[k] = 0;
  if (w->count == 0) return;
  for (int d = w->rank - 1; d >= 0; d--) {
    w->at[d] = i % w->dims[d];
    i /= w->dims[d];
    for (int k = 0; k < WALK_OPERANDS; k++)
      w->place[k] += w->at[d] * w->step[k][d];
  }
}

static inline int64_t walk_row(const walk *w, int64_t most) {
  int64_t rest = w->dims[w->rank - 1] - w->at[w->rank - 1];
  return rest < most ? rest : most;
}

/* To the start of the next row. */
static inline void walk_next(walk *w) {
  int d = w->rank - 1;
  for (int k = 0; k < WALK_OPERANDS; k++)
    w->place[k] -= w->at[d] * w->step[k][d];
  w->at[d] = 0;
  while (d-- > 0) {
    for (int k = 0; k < WALK_OPERANDS; k++) w->place[k] += w->step[k][d];
    if (++w->at[d] < w->dims[d]) return;
    for (int k = 0; k < WALK_OPERANDS; k++)
      w->place[k] -= w->dims[d] * w->step[k][d];
    w->at[d] = 0;
  }
}

/* Elements by size, whatever they mean. */
typedef uint8_t __attribute__((may_alias)) unit1;
typedef uint16_t __attribute__((may_alias)) unit2;
typedef uint32_t __attribute__((may_alias)) unit4;
typedef uint64_t __attribute__((may_alias)) unit8;

/* Copy some bytes: a row, perhaps of one element. */
static inline void walk_copy(char *y, const char *x, int64_t bytes) {
  if (bytes == 8)
    memcpy(y, x, 8);
  else if (bytes == 4)
    memcpy(y, x, 4);
  else if (bytes == 16)
    memcpy(y, x, 16);
  else if (bytes)
    memcpy(y, x, (size_t)bytes);
}

static inline size_t mrt_size(const mrt_operand *x) {
  return mrt_dtypes[x->type.dtype].bytes;
}

#endif
