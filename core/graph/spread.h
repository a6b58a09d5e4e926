/* spread.h -- walking two traces of a function side by side
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_SPREAD_H
#define MRT_GRAPH_SPREAD_H

#include "graph/batch.h"
#include "tensor/marks.h"

/* A value over the whole batch and over a part of it. */
typedef struct mrt_pair {
  mrt_tensor *whole, *micro;
  mrt_spread spread;
  bool marked, cut;
  bool settled; /* the whole trace computes it from totals that are marked, and
                   from what is alike */
} mrt_pair;

typedef struct mrt_looking {
  mrt_batch *b;
  mrt_error *e;
  mrt_arena arena;
  mrt_marks marks; /* of a micro tensor: 1 + its pair */
  mrt_pair *pairs;
  int count, room;
  int *order; /* pairs, inputs before readers */
} mrt_looking;

/* Is it looked through no further? */
bool mrt_pair_ends(const mrt_pair *p);
/* Fill the spread of one whose inputs have theirs. */
mrt_status mrt_pair_spread(mrt_looking *l, mrt_pair *p);

#endif
