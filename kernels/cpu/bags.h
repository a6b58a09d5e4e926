/* bags.h -- which ids a bag has
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_BAGS_H
#define MRT_CPU_BAGS_H

#include "cpu.h"

typedef struct bags {
  const mrt_call *call;
  const mrt_operand *ids, *offsets; /* offsets may be NULL */
  int64_t count, each, all;         /* each: ids of a bag; all: ids */
} bags;

/* offsets NULL: none */
static inline bags bags_of(const mrt_call *c, const mrt_operand *ids,
                           const mrt_operand *offsets) {
  bags b = { c, ids, offsets, 0, 0, 0 };
  b.all = mrt_type_count(&b.ids->type);
  b.each = mrt_cols(b.ids);
  b.count = b.offsets ? mrt_type_count(&b.offsets->type) : mrt_rows(b.ids);
  return b;
}

/* Where bag i ends, and the next one begins. */
static inline int64_t edge(const bags *b, int64_t i, bool report) {
  if (i == b->count) return b->all;
  int64_t at = mrt_id(b->offsets->data, b->offsets->type.dtype, i);
  if (report) return mrt_checked_id(b->call, at, b->all + 1);
  return at < 0 ? 0 : at < b->all ? at : b->all;
}

/* Ids [*from, *to) of bag i; a bag that ends before it begins is reported. */
static inline void bag(const bags *b, int64_t i, bool report, int64_t *from,
                       int64_t *to) {
  if (!b->offsets) {
    *from = i * b->each, *to = *from + b->each;
    return;
  }
  *from = edge(b, i, report), *to = edge(b, i + 1, report);
  if (*from <= *to) return;
  if (report) mrt_checked_id(b->call, *from, *to + 1);
  *from = *to;
}

/* Clamped into [0, V). */
static inline int64_t id_of(const bags *b, int64_t i, int64_t V, bool report) {
  int64_t id = mrt_id(b->ids->data, b->ids->type.dtype, i);
  if (report) return mrt_checked_id(b->call, id, V);
  return id < 0 ? 0 : id < V ? id : V - 1;
}

#endif
