/* batch_dependence.h -- how a traced function's values depend on the batch
 *
 * Micro-batches are legal where each value is the rows of the whole batch's, the
 * same in all, or a total that may be added up.  The function is traced over the
 * whole batch and over a part; the two traces are walked side by side
 * (propagate.h), and a value that is none of the three is an error at its line.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_GRAPH_BATCH_DEPENDENCE_H
#define MRT_GRAPH_BATCH_DEPENDENCE_H

#include "graph/graph.h"
#include "mrt/frontend.h"
#include "tensor/trace.h"

/* What a random node draws for each row; by its key. */
typedef struct mrt_row_draw {
  uint64_t key;
  int64_t inner;
} mrt_row_draw;

struct mrt_batch {
  mrt_context *ctx;
  mrt_arena arena;
  const mrt_section *section; /* of the trace: the function over a part */
  int64_t all, part;          /* rows */
  bool statistics;            /* totals over a part stand for those over all */
  mrt_batch_value *marks;     /* tensors held */
  int mark_count, mark_room;
  mrt_row_draw *draws;
  int draw_count, draw_room;
  mrt_batch_value *cuts; /* of the last mrt_batch_cut */
  int cut_count, cut_room;
};

/* Tell the random nodes of a graph over a part how much they draw for a row;
 * EVALUE with the line of one that was not looked at.  EGRAD when there are
 * more than the last `updates` updates: parts write accumulators only. */
mrt_status mrt_batch_resolve(const mrt_batch *b, mrt_graph *g, int updates);

#endif
