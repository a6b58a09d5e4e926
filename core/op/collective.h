/* collective.h -- options of the operators that ranks compute together
 *
 * A meeting comes first in the options of every COLLECTIVE operator.  The
 * library fills it when the operator is applied: shapes depend on the number of
 * ranks, and plans keep them in ascending order of `sequence`.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_COLLECTIVE_H
#define MRT_OP_COLLECTIVE_H

#include "device/kernel.h"
#include "op/op.h"

typedef struct mrt_meeting {
  uint64_t
      sequence; /* its number among the collectives of the context, from 1 */
  int64_t rank, size; /* of the communicator */
  int64_t comm;       /* its number in the context */
} mrt_meeting;

/* Each row reads the few that are in its table.  A lazy one is computed where
 * its result is read, if at all; all ranks must read it alike. */
typedef struct mrt_collective_options {
  uint64_t sequence; /* mrt_meeting */
  int64_t rank, size, comm;
  int op;         /* mrt_reduction */
  int64_t peer;   /* broadcast: root; send: to; recv: from; shift: by */
  mrt_ints shape; /* recv: what comes */
  mrt_dtype dtype;
  bool lazy;
  bool reshard_after_forward; /* lazy: gathered once more for the backward pass
                                 rather than kept */
  bool ahead; /* lazy: what follows up to its `arrive` is done beside it */
} mrt_collective_options;

/* What a call of such an operator asks of its communicator. */
static inline mrt_collective mrt_collective_of(const mrt_call *call,
                                               mrt_collective_kind kind) {
  const mrt_collective_options *o = call->options;
  bool gets = kind == MRT_COLLECT_allgather || kind == MRT_COLLECT_recv;
  const mrt_type *whole = gets ? &call->out[0].type : &call->in[0].type;
  return (mrt_collective){ .kind = kind,
                           .reduction = (mrt_reduction)o->op,
                           .dtype = whole->dtype,
                           .count = mrt_type_count(whole),
                           .peer = (int)o->peer,
                           .in = call->nin ? call->in[0].data : NULL,
                           .out = call->out[0].data,
                           .file = call->file,
                           .line = call->line };
}

static inline bool mrt_is_lazy(const mrt_op *op, const void *options) {
  return (op->traits & MRT_COLLECTIVE) &&
         ((const mrt_collective_options *)options)->lazy;
}

static inline bool mrt_is_ahead(const mrt_op *op, const void *options) {
  return (op->traits & MRT_COLLECTIVE) &&
         ((const mrt_collective_options *)options)->ahead;
}

#endif
