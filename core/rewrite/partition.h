/* partition.h -- values in pieces on ranks that share weights
 *
 * A value is whole on every rank (REPLICATE), in pieces (SHARD), or the sum of
 * what the ranks have (PARTIAL).  One in pieces is read as [outer, ranks, inner],
 * and rank r has [:, r, :] of it: `outer` says all.
 *
 * Invariants
 *   - all ranks decide alike: nothing here depends on the rank but offsets;
 *   - a node that is computed by pieces has a row that vouches for it
 *     (mrt_shard_rule), and its local types are what the row infers.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_PARTITION_H
#define MRT_REWRITE_PARTITION_H

#include "mrt/frontend.h"
#include "rewrite/rewrite.h"

/* How a node is computed by pieces. */
typedef struct mrt_lane {
  mrt_placement *in, *out;
  int64_t block; /* of RULE_RUNS: positions of one; 0: none are divided */
  double moves;  /* bytes that the form moves itself, on each rank */
  const struct mrt_form *form; /* what stands for it; NULL: the operator */
} mrt_lane;

static inline mrt_placement mrt_in_pieces(int64_t outer) {
  return (mrt_placement){ .kind = MRT_SHARD, .outer = outer };
}
static inline bool mrt_same_placement(const mrt_placement *a,
                                      const mrt_placement *b) {
  return a->kind == b->kind && (a->kind != MRT_SHARD || a->outer == b->outer);
}

/* Do so many positions make up `runs` runs of n equal pieces, with none empty? */
static inline bool mrt_divides(int64_t positions, int64_t runs, int64_t n) {
  return positions > 0 && runs > 0 && positions % runs == 0 &&
         positions / runs % n == 0;
}
/* The dimension that n pieces after `outer` elements are cut along; *before:
 * how many lie before them in it.  -1: they are not. */
int mrt_piece_dim(const mrt_type *t, int64_t outer, int64_t n, int64_t *before);
/* The type of a rank's piece. */
mrt_type mrt_piece_type(const mrt_type *t, const mrt_placement *p, int64_t n);

/* The lane of a node whose input `input` has this placement; false: there is
 * none.  `lane` has room for all inputs and outputs. */
bool mrt_lane_from(const mrt_node *n, int input, const mrt_placement *p,
                   int64_t pieces, mrt_arena *scratch, mrt_lane *lane);
/* That of sums still to be taken, where the inputs marked are such. */
bool mrt_lane_of_sums(const mrt_node *n, const bool *partial, mrt_lane *lane);
/* Fill options and output types of the node over pieces; false: the row refuses
 * them. */
bool mrt_lane_local(const mrt_node *n, const mrt_lane *lane, int64_t pieces,
                    mrt_arena *scratch, void *options, mrt_type *types);

#endif
