/* common.h -- what all transports have: what a rank asks for, parts, a clock
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_COMMON_H
#define MRT_COLLECTIVES_COMMON_H

#include "reduce.h"

/* What must agree. */
typedef struct mrt_descriptor {
  uint32_t what; /* kind, reduction, dtype */
  int32_t peer;
  int64_t count;
} mrt_descriptor;

typedef struct mrt_caller {
  int line;
  char file[60];
} mrt_caller;

/* "allreduce sum f32[12] (a.lua:3)" */
typedef struct mrt_descriptor_text {
  char s[160];
} mrt_descriptor_text;

mrt_descriptor mrt_descriptor_of(const mrt_collective *c);
mrt_caller mrt_caller_of(const mrt_collective *c);
mrt_descriptor_text mrt_descriptor_print(const mrt_descriptor *d,
                                         const mrt_caller *caller);
mrt_descriptor_text mrt_collective_print(const mrt_collective *c);
bool mrt_descriptor_same(const mrt_descriptor *a, const mrt_descriptor *b);
#define MRT_DESCRIPTORS_DIFFER "rank %d asks for %s, rank %d for %s"

static inline bool mrt_collective_gathers(const mrt_collective *c) {
  return c->kind == MRT_COLLECT_allgather || c->kind == MRT_COLLECT_compare;
}

/* Bytes that each rank gives to each; 0: all it has. */
static inline size_t mrt_collective_piece_bytes(const mrt_collective *c,
                                                int size) {
  bool cut = c->kind == MRT_COLLECT_reduce_scatter ||
             c->kind == MRT_COLLECT_all_to_all;
  return cut ? mrt_collective_in_bytes(c, size) / (size_t)size : 0;
}

/* Whose data a shift brings this rank. */
static inline int mrt_shift_from(const mrt_communicator *comm,
                                 const mrt_collective *c) {
  return (comm->rank - c->peer + comm->size) % comm->size;
}

/* A rank in a split, and its place there: its number in its part, the part's
 * size and first rank. */
typedef struct mrt_split_key {
  int32_t color, key;
} mrt_split_key;
typedef struct mrt_split_place {
  int rank, size, first;
} mrt_split_place;
mrt_split_place mrt_split_place_of(const mrt_split_key *all, int rank,
                                   int size);

double mrt_clock(void); /* seconds; only goes forward */

#endif
