/* places.h -- rows of dy that belong to a row of a table, by their ids
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_PLACES_H
#define MRT_CPU_PLACES_H

#include "floats.h"

/* The places of each of V ids, in order: first[id], then next[] of each; -1
 * ends. */
typedef struct id_places {
  int64_t *first, *next;
} id_places;

static inline size_t places_bytes(int64_t V, const mrt_operand *ids) {
  return (size_t)(V + mrt_type_count(&ids->type)) * sizeof(int64_t);
}

static inline id_places find_places(const mrt_operand *ids, int64_t V,
                                    void *scratch) {
  id_places p = { scratch, (int64_t *)scratch + V };
  for (int64_t v = 0; v < V; v++) p.first[v] = -1;
  for (int64_t i = mrt_type_count(&ids->type); i-- > 0;) {
    int64_t id = mrt_id(ids->data, ids->type.dtype, i);
    /* a bad id was reported when it was looked up */
    id = id < 0 ? 0 : id < V ? id : V - 1;
    p.next[i] = p.first[id], p.first[id] = i;
  }
  return p;
}

enum { PLACES_STRIP = 512 };

/* n columns from `at` of row v: x and the sum of its rows of dy, [.., C], to y.
 * The rows are added up first, and zeros are added where there are none: the
 * bits of an addition. */
static inline void add_places(const id_places *p, const mrt_operand *dy,
                              int64_t C, int64_t v, int64_t at, int64_t n,
                              const real *x, real *y) {
  real sum[PLACES_STRIP], room[PLACES_STRIP];
  if (p->first[v] < 0) {
    for (int64_t j = 0; j < n; j++) y[j] = x[j] + 0;
    return;
  }
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int64_t i = p->first[v]; i >= 0; i = p->next[i]) {
    const real *row = mrt_reals_in(dy, i * C + at, n, room);
    for (int64_t j = 0; j < n; j++) sum[j] += row[j];
  }
  for (int64_t j = 0; j < n; j++) y[j] = x[j] + sum[j];
}

#endif
