/* partition_sequence.h -- what forms of attention share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_PARTITION_SEQUENCE_H
#define MRT_REWRITE_PARTITION_SEQUENCE_H

#include "rewrite/partition_walk.h"

/* Does dimension `dim` lie in pieces, in one run? */
bool mrt_is_cut_along(const mrt_partition *p, const mrt_value *v, int dim);
/* May queries be in pieces, of the node whose inputs that may be absent begin at
 * `after`?  Those with lengths of samples, or the gradient of a mask, may not. */
bool mrt_attention_divides(const mrt_node *n, int after);
/* Its lane: queries and what is of them in pieces, keys and values whole, whose
 * gradients are sums. */
void mrt_attention_lane(const mrt_node *n, int after, mrt_lane *lane);

#endif
