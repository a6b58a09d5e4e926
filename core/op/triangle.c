/* triangle.c -- matrices with zeros on one side of a diagonal, or but for one
 *
 *   tril        y[..., i, j] = x[..., i, j] where j <= i + diagonal, else 0
 *   triu        ditto where j >= i + diagonal
 *   diag_embed  y[..., i, i + offset] = x[..., i], else 0: rows and columns are
 *               the dimensions dim1 and dim2 of y
 *
 *   x     any dtype and layout
 *   cost  reads x once, writes y once
 *   grad  tril, triu  dx = the same of dy;  diag_embed  dx = dy's diagonal
 *   fails EVALUE  a dimension that is not there, the same one twice
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"

/* ---- tril, triu ---------------------------------------------------------- */

static const mrt_option triangle_table[] = {
  MRT_OPTION(mrt_triangle_options, diagonal, MRT_OPT_INT, .preset = 0),
};

static mrt_status triangle_infer(mrt_infer *c) {
  if (c->in[0]->rank < 2)
    return mrt_refuse(c, MRT_EVALUE, "%s, at least 2 dimensions wanted",
                      mrt_show(c->in[0]).s);
  c->out[0] = *c->in[0];
  return MRT_OK;
}

static void tril_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, tril, b->options, b->dout[0]);
}
static void triu_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, triu, b->options, b->dout[0]);
}

static int triangle_shard_rule(const mrt_signature *s, int input, int dim) {
  return dim < s->in[0]->rank - 2 ? dim : MRT_RULE_UNKNOWN;
}

#define TRIANGLE(op, words)                                                    \
  const mrt_op mrt_op_##op = {                                                 \
    .name = #op,                                                               \
    .number = MRT_OP_##op,                                                     \
    .cost = MRT_COST_move,                                                     \
    .doc = words,                                                              \
    .min_inputs = 1,                                                           \
    .max_inputs = 1,                                                           \
    MRT_OPTIONS(triangle_table, mrt_triangle_options),                         \
    .infer = triangle_infer,                                                   \
    .shard_rule = triangle_shard_rule,                                         \
    .grad = op##_gradient,                                                     \
    .strided = 1,                                                              \
    .width = MRT_FOLLOW,                                                       \
    .traits = MRT_LINEAR,                                                      \
  }
TRIANGLE(tril, "x with zeros above the diagonal, of the last two dimensions");
TRIANGLE(triu, "x with zeros below the diagonal, of the last two dimensions");

/* ---- diag_embed ---------------------------------------------------------- */

static const mrt_option embed_table[] = {
  MRT_OPTION(mrt_diagonal_options, offset, MRT_OPT_INT, .preset = 0),
  MRT_OPTION(mrt_diagonal_options, dim1, MRT_OPT_DIM, .preset = -2),
  MRT_OPTION(mrt_diagonal_options, dim2, MRT_OPT_DIM, .preset = -1),
};

static mrt_status embed_infer(mrt_infer *c) {
  mrt_diagonal_options *o = c->options;
  const mrt_type *x = c->in[0];
  const int64_t most = INT64_C(1) << 60; /* the sum does not overflow */
  if (x->rank == 0 || x->rank == MRT_MAX_RANK)
    return mrt_refuse(c, MRT_EVALUE, "%s, 1 to %d dimensions wanted",
                      mrt_show(x).s, MRT_MAX_RANK - 1);
  MRT_TRY(mrt_want_dim(c, &o->dim1, x->rank + 1));
  MRT_TRY(mrt_want_dim(c, &o->dim2, x->rank + 1));
  if (o->dim1 == o->dim2)
    return mrt_refuse(c, MRT_EVALUE,
                      "dim %lld twice, two different ones wanted",
                      (long long)o->dim1 + 1);
  if (o->offset > most || o->offset < -most)
    return mrt_refuse(c, MRT_EVALUE, "offset %lld is too large",
                      (long long)o->offset);
  int64_t side = x->dims[x->rank - 1];
  side += o->offset < 0 ? -o->offset : o->offset;
  mrt_type *y = &c->out[0];
  *y = (mrt_type){ .dtype = x->dtype, .rank = x->rank + 1 };
  for (int i = 0, k = 0; i < y->rank; i++)
    y->dims[i] = i == o->dim1 || i == o->dim2 ? side : x->dims[k++];
  return MRT_OK;
}

static void embed_gradient(mrt_build *b) {
  b->din[0] = MRT_MAKE(b, diagonal, b->options, b->dout[0]);
}

static int embed_shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_diagonal_options *o = s->options;
  if (dim == s->in[0]->rank - 1) return MRT_RULE_UNKNOWN;
  for (int i = 0, k = 0; i < s->out[0]->rank; i++)
    if (i != o->dim1 && i != o->dim2 && k++ == dim) return i;
  return MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_diag_embed = {
  .name = "diag_embed",
  .number = MRT_OP_diag_embed,
  .cost = MRT_COST_move,
  .doc = "matrices with the last dimension of x on a diagonal, zeros elsewhere",
  .min_inputs = 1,
  .max_inputs = 1,
  MRT_OPTIONS(embed_table, mrt_diagonal_options),
  .infer = embed_infer,
  .shard_rule = embed_shard_rule,
  .grad = embed_gradient,
  .strided = 1,
  .width = MRT_FOLLOW,
  .traits = MRT_LINEAR,
};
