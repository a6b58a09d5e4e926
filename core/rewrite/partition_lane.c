/* partition_lane.c -- how is a node computed by pieces?
 *
 *   question  given that one input lies in pieces: how must the others lie, and
 *             how do the results?
 *   method    The row says where positions of that input go (mrt_shard_rule);
 *             the other inputs' dimensions that go there too are cut alike, and
 *             inputs without one stay whole.  The row's infer then has the last
 *             word on the local types.
 *   never     guesses: a rule that is not there, sizes that do not divide, or a
 *             row that infers anything else give no lane
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"
#include "rewrite/partition.h"

#include <string.h>

static const mrt_placement whole = { .kind = MRT_REPLICATE },
                           sums = { .kind = MRT_PARTIAL };

int mrt_piece_dim(const mrt_type *t, int64_t outer, int64_t n,
                  int64_t *before) {
  int64_t prefix = 1;
  for (int d = 0; d < t->rank && prefix <= outer; prefix *= t->dims[d++]) {
    if (prefix == 0 || outer % prefix) return -1;
    *before = outer / prefix;
    if (mrt_divides(t->dims[d], *before, n)) return d;
  }
  return -1;
}

mrt_type mrt_piece_type(const mrt_type *t, const mrt_placement *p, int64_t n) {
  mrt_type own = *t;
  int64_t before;
  int dim = p->kind == MRT_SHARD ? mrt_piece_dim(t, p->outer, n, &before) : -1;
  if (dim >= 0) own.dims[dim] /= n;
  return own;
}

/* ---- the row's rule ------------------------------------------------------ */

typedef struct ruling {
  const mrt_node *n;
  const mrt_type **in;
  int64_t pieces;
  int dim, to;          /* of the input that is cut, where it goes */
  int64_t size, before; /* positions of that dimension, runs of pieces */
  int64_t block;        /* positions of one run */
} ruling;

static int rule(const ruling *r, int nin, int input, int dim, int output) {
  const mrt_node *n = r->n;
  const mrt_type *out = &n->out[output]->type;
  mrt_signature s = { n->op, n->options, nin, 1, r->in, &out };
  if (n->op->shard_rule) return n->op->shard_rule(&s, input, dim);
  return n->op->traits & MRT_POINTWISE ? dim : MRT_RULE_UNKNOWN;
}

/* What is added to a sum is added once: without it the sum is one. */
static int rule_of(const ruling *r, int input, int dim, int output) {
  int lane = rule(r, r->n->nin, input, dim, output), more = r->n->op->addend;
  if (lane != MRT_RULE_UNKNOWN || !more || more >= r->n->nin || input >= more)
    return lane;
  return rule(r, more, input, dim, output) == MRT_RULE_PARTIAL
             ? MRT_RULE_PARTIAL
             : lane;
}

static bool place_output(const ruling *r, int to, int output,
                         const mrt_placement *from, mrt_placement *p) {
  const mrt_type *t = &r->n->out[output]->type;
  int64_t before = r->before;
  *p = sums;
  if (to == MRT_RULE_PARTIAL) return mrt_is_float(t->dtype);
  if (to == MRT_RULE_SAME) {
    *p = *from;
    return mrt_piece_dim(t, from->outer, r->pieces, &before) >= 0;
  }
  int dim = to == MRT_RULE_RUNS ? r->dim : to;
  if (dim < 0 || dim >= t->rank) return false;
  if (to == MRT_RULE_RUNS) {
    if (t->dims[dim] % r->block) return false;
    before = t->dims[dim] / r->block;
  }
  *p = mrt_in_pieces(mrt_extent(t, 0, dim) * before);
  return mrt_divides(t->dims[dim], before, r->pieces) &&
         mrt_piece_dim(t, p->outer, r->pieces, &before) >= 0;
}

/* The dimension of an input that goes where the cut one goes; -1: none does. */
static int partner(const ruling *r, int input) {
  const mrt_type *t = r->in[input];
  for (int d = 0; d < t->rank; d++)
    if (rule_of(r, input, d, 0) == r->to &&
        (r->to != MRT_RULE_PARTIAL || t->dims[d] == r->size) &&
        (r->to != MRT_RULE_RUNS || d == r->dim))
      return d;
  return -1;
}

static bool place_input(const ruling *r, int input, const mrt_placement *from,
                        mrt_placement *p) {
  const mrt_type *t = r->in[input];
  *p = whole;
  if (r->to == MRT_RULE_SAME) return *p = *from, true;
  int d = partner(r, input);
  if (d < 0) {
    if (r->to == MRT_RULE_PARTIAL && input == r->n->op->addend && input)
      *p = sums;
    return true;
  }
  if (t->dims[d] == 1) return true; /* repeated along it */
  int64_t before = r->before;
  if (r->to == MRT_RULE_RUNS) {
    if (t->dims[d] % r->block) return false;
    before = t->dims[d] / r->block;
  }
  *p = mrt_in_pieces(mrt_extent(t, 0, d) * before);
  return mrt_divides(t->dims[d], before, r->pieces) &&
         mrt_piece_dim(t, p->outer, r->pieces, &before) >= 0;
}

/* Other groups' collectives are in pieces what they are of the whole: all ranks
 * of theirs have the same of it. */
static bool may_divide(const mrt_node *n) {
  bool meets = (n->op->traits & MRT_COLLECTIVE) && !n->op->shard_rule;
  return !meets && !(n->op->traits & (MRT_UPDATES | MRT_SWAPS | MRT_WAITS |
                                      MRT_RANDOM | MRT_BATCH_STATISTICS));
}

bool mrt_lane_from(const mrt_node *n, int input, const mrt_placement *p,
                   int64_t pieces, mrt_arena *scratch, mrt_lane *lane) {
  ruling r = { .n = n, .pieces = pieces };
  if (!may_divide(n)) return false;
  r.in = MRT_NEW(scratch, const mrt_type *, n->nin);
  if (!r.in) return false;
  for (int i = 0; i < n->nin; i++) r.in[i] = &n->in[i]->type;
  r.dim = mrt_piece_dim(r.in[input], p->outer, pieces, &r.before);
  if (r.dim < 0) return false;
  r.size = r.in[input]->dims[r.dim], r.block = r.size / r.before;
  r.to = rule_of(&r, input, r.dim, 0);
  if (r.to == MRT_RULE_UNKNOWN || r.to == MRT_RULE_UNREAD) return false;
  if (r.to == MRT_RULE_SAME && n->nin > 1) return false;
  for (int k = 0; k < n->nout; k++) {
    int to = rule_of(&r, input, r.dim, k);
    if (to == MRT_RULE_UNKNOWN || !place_output(&r, to, k, p, &lane->out[k]))
      return false;
  }
  for (int i = 0; i < n->nin; i++)
    if (!place_input(&r, i, p, &lane->in[i])) return false;
  lane->in[input] = *p;
  lane->block = r.to == MRT_RULE_RUNS ? r.block : 0;
  return true;
}

/* ---- sums still to be taken ---------------------------------------------- */

static bool rounds(const mrt_node *n) {
  const mrt_type *in = &n->in[0]->type, *out = &n->out[0]->type;
  return !mrt_is_float(out->dtype) ||
         mrt_dtypes[out->dtype].bytes < mrt_dtypes[in->dtype].bytes;
}

bool mrt_lane_of_sums(const mrt_node *n, const bool *partial, mrt_lane *lane) {
  uint32_t traits = n->op->traits;
  int count = 0;
  for (int i = 0; i < n->nin; i++) count += partial[i];
  if (!count || !may_divide(n) || rounds(n)) return false;
  bool linear = (traits & MRT_LINEAR) && count == n->nin;
  bool factor = (traits & MRT_PRODUCT) && count == 1;
  bool divided = (traits & MRT_QUOTIENT) && count == 1 && partial[0];
  if (!linear && !factor && !divided) return false;
  for (int i = 0; i < n->nin; i++) lane->in[i] = partial[i] ? sums : whole;
  for (int k = 0; k < n->nout; k++) lane->out[k] = sums;
  lane->block = 0;
  return true;
}

/* ---- local types --------------------------------------------------------- */

/* A shape among the options is that of the result. */
static void shape_option(const mrt_op *op, const mrt_type *t, void *options) {
  for (int i = 0; i < op->option_count; i++) {
    const mrt_option *o = &op->options[i];
    if (o->kind != MRT_OPT_INTS || strcmp(o->name, "shape") != 0) continue;
    mrt_ints *shape = (mrt_ints *)((char *)options + o->offset);
    for (int d = 0; d < t->rank && d < shape->count; d++)
      shape->at[d] = t->dims[d];
  }
}

bool mrt_lane_local(const mrt_node *n, const mrt_lane *lane, int64_t pieces,
                    mrt_arena *scratch, void *options, mrt_type *types) {
  mrt_type *own = MRT_NEW(scratch, mrt_type, n->nin),
           *wanted = MRT_NEW(scratch, mrt_type, n->nout);
  const mrt_type **in = MRT_NEW(scratch, const mrt_type *, n->nin);
  mrt_error said = { 0 };
  if (!own || !wanted || !in) return false;
  for (int i = 0; i < n->nin; i++) {
    own[i] = mrt_piece_type(&n->in[i]->type, &lane->in[i], pieces);
    in[i] = &own[i];
  }
  for (int k = 0; k < n->nout; k++)
    wanted[k] = mrt_piece_type(&n->out[k]->type, &lane->out[k], pieces);
  if (n->op->options_size) memcpy(options, n->options, n->op->options_size);
  shape_option(n->op, &wanted[0], options);
  if (lane->block && n->op->divide_runs &&
      !n->op->divide_runs(options, lane->block, pieces))
    return false;
  memcpy(types, wanted, (size_t)n->nout * sizeof *types);
  mrt_infer c = { n->op, n->nin, in, options, n->nout, types, &said };
  if (n->op->infer(&c) || c.nout != n->nout) return false;
  for (int k = 0; k < n->nout; k++)
    if (!mrt_type_equal(&types[k], &wanted[k])) return false;
  return true;
}
