/* piece.c -- what one rank has of a value in pieces
 *
 *   own_piece  y = x[:, rank, :], where x is read as [outer, size, inner]
 *
 *   x      any shape whose elements `outer` and `size` divide, outer first
 *   y      [outer, inner]: the rank's piece
 *   cost   none: a view where x is contiguous
 *   fails  EVALUE, ESHAPE
 *
 * A rank that has all of x needs no other to know its piece.  Where x itself is
 * in such pieces, nobody ever has all of it (rewrite/partition.c).
 *
 * SPDX-License-Identifier: MIT */
#include "op/views.h"

static const mrt_option piece_table[] = {
  MRT_OPTION(mrt_piece_options, outer, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_piece_options, rank, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_piece_options, size, MRT_OPT_INT, .required = true),
  MRT_OPTION(mrt_piece_options, comm, MRT_OPT_INT, .preset = -1),
};

static mrt_status piece_infer(mrt_infer *c) {
  const mrt_piece_options *o = c->options;
  int64_t count = mrt_type_count(c->in[0]), pieces;
  if (o->outer < 1 || o->size < 1 || o->rank < 0 || o->rank >= o->size)
    return mrt_refuse(c, MRT_EVALUE,
                      "piece %lld of %lld after %lld elements, a piece from 0 "
                      "wanted",
                      (long long)o->rank, (long long)o->size,
                      (long long)o->outer);
  if (__builtin_mul_overflow(o->outer, o->size, &pieces) || count % pieces)
    return mrt_refuse(c, MRT_ESHAPE, "%s is not cut into %lld pieces",
                      mrt_show(c->in[0]).s, (long long)o->size);
  c->out[0] = (mrt_type){ c->in[0]->dtype, 2, { o->outer, count / pieces } };
  return MRT_OK;
}

static bool piece_view(mrt_view *v) {
  const mrt_piece_options *o = v->options;
  int64_t plain[MRT_MAX_RANK], inner = v->out->dims[1];
  mrt_type_strides(v->in, plain);
  for (int i = 0; i < v->in->rank; i++)
    if (v->in->dims[i] != 1 && plain[i] != v->in_strides[i]) return false;
  v->offset = o->rank * inner;
  v->strides[0] = o->size * inner, v->strides[1] = 1;
  return true;
}

/* What nobody but its rank reads of x has no gradient from here. */
static int piece_shard_rule(const mrt_signature *s, int input, int dim) {
  return MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_own_piece = {
  .name = "own_piece",
  .number = MRT_OP_own_piece,
  .cost = MRT_COST_view,
  .doc = "y = the piece of x, read as [outer, size, inner], that a rank has",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(piece_table, mrt_piece_options),
  .infer = piece_infer,
  .shard_rule = piece_shard_rule,
  .view = piece_view,
  .width = MRT_FOLLOW,
  .traits = MRT_VIEW | MRT_LINEAR | MRT_LIBRARY,
};
