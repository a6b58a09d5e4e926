/* common.h -- what all transports have: what a rank asks for, parts, a clock
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_COLLECTIVES_COMMON_H
#define MRT_COLLECTIVES_COMMON_H

#include "reduce.h"

/* What must agree. */
typedef struct mrt_asked {
  uint32_t what; /* kind, reduction, dtype */
  int32_t peer;
  int64_t count;
} mrt_asked;

typedef struct mrt_asker {
  int line;
  char file[60];
} mrt_asker;

/* "allreduce sum f32[12] (a.lua:3)" */
typedef struct mrt_asked_text {
  char s[160];
} mrt_asked_text;

mrt_asked mrt_asked_of(const mrt_collective *c);
mrt_asker mrt_asker_of(const mrt_collective *c);
mrt_asked_text mrt_asked_print(const mrt_asked *asked, const mrt_asker *asker);
mrt_asked_text mrt_collective_print(const mrt_collective *c);
bool mrt_asked_same(const mrt_asked *a, const mrt_asked *b);
#define MRT_ASKED_DIFFER "rank %d asks for %s, rank %d for %s"

static inline bool mrt_collective_gathers(const mrt_collective *c) {
  return c->kind == MRT_COLLECT_allgather || c->kind == MRT_COLLECT_compare;
}

/* A rank in a split, and its place there: its number in its part, the part's
 * size and first rank. */
typedef struct mrt_member {
  int32_t color, key;
} mrt_member;
typedef struct mrt_place {
  int rank, size, first;
} mrt_place;
mrt_place mrt_place_of(const mrt_member *all, int rank, int size);

double mrt_clock(void); /* seconds; only goes forward */

#endif
