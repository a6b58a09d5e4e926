/* index.h -- what operators that take an index share
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_INDEX_H
#define MRT_OP_INDEX_H

#include "op/op.h"

/* Input 1 is an index into dimension *dim of input 0: integers, its rank, no
 * larger size but along dim.  Makes *dim 0-based. */
mrt_status mrt_want_index(mrt_infer *c, int64_t *dim);

#endif
