/* propagate.h -- walking two traces of a function side by side
 *
 * A pair's placement follows from those of its inputs, by the rule of the
 * operator's row.  Where the traces have different operators the walk fails with
 * the lines of both.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_PROPAGATE_H
#define MRT_GRAPH_PROPAGATE_H

#include "graph/batch_dependence.h"
#include "tensor/marks.h"

/* A value over the whole batch and over a part of it. */
typedef struct mrt_batch_pair {
  mrt_tensor *whole, *micro;
  mrt_placement placement;
  bool marked, cut;
  bool settled; /* the whole trace computes it from totals that are marked, and
                   from what is alike */
} mrt_batch_pair;

typedef struct mrt_propagation {
  mrt_batch *b;
  mrt_error *e;
  mrt_arena arena;
  mrt_marks marks; /* of a micro tensor: 1 + its pair */
  mrt_batch_pair *pairs;
  int count, room;
  int *order; /* pairs, inputs before readers */
} mrt_propagation;

/* Is it looked through no further? */
bool mrt_batch_pair_ends(const mrt_batch_pair *p);
/* Fill the placement of one whose inputs have theirs. */
mrt_status mrt_batch_pair_propagate(mrt_propagation *l, mrt_batch_pair *p);

#endif
