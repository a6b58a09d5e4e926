/* embedding_bag.c -- the sum, mean or largest of several rows of a table
 *
 *   embedding_bag       y[b,:] = sum, mean or max of w[i,:] over the ids i of
 *                       bag b; zeros for an empty bag
 *   embedding_bag_grad  dw = 0;  dw[i,:] += dy[b,:], for mean divided by the
 *                       number of ids in the bag
 *
 *   w        [V, C], f32 | f64
 *   ids      [..., L]: a bag for each row; or, with offsets, [M]
 *   offsets  [B], rising: bag b is ids offsets[b] .. offsets[b + 1] - 1, the
 *            last one goes to the end
 *   y        [..., C] or [B, C];  with max also which row won, i64, -1 in an
 *            empty bag: kept for the gradient
 *   cost     reads the rows, writes y; the rows are never stored
 *   fails    EDTYPE, ESHAPE;  EVALUE  ids into an empty table
 *            EDATA  when run: an id outside [0, V), offsets that are not rising
 *
 * SPDX-License-Identifier: MIT */
#include "op/embedding_bag.h"
#include "op/build.h"
#include "op/move.h"

static const char modes[] = "sum mean max";
static const mrt_option options[] = {
  MRT_OPTION(mrt_bag_options, mode, MRT_OPT_ENUM, .preset = MRT_BAG_MEAN,
             .words = modes),
};
static const mrt_option grad_options[] = {
  MRT_OPTION(mrt_bag_grad_options, mode, MRT_OPT_ENUM, .preset = MRT_BAG_MEAN,
             .words = modes),
  MRT_OPTION(mrt_bag_grad_options, rows, MRT_OPT_INT, .required = true),
};

/* The bags of input `ids` (and the next one, if there are offsets), and then C. */
static mrt_status bags_of(mrt_infer *c, int ids, bool offsets, int64_t C,
                          mrt_type *y) {
  const mrt_type *list = c->in[ids];
  MRT_TRY(mrt_want_integer(c, ids));
  if (offsets) MRT_TRY(mrt_want_integer(c, ids + 1));
  if (offsets ? list->rank != 1 || c->in[ids + 1]->rank != 1 : list->rank == 0)
    return mrt_refuse(c, MRT_ESHAPE,
                      offsets ? "ids %s with offsets, one dimension each wanted"
                              : "ids %s, at least one dimension wanted",
                      mrt_show(list).s);
  mrt_dtype dtype = y->dtype;
  *y = offsets ? *c->in[ids + 1] : *list;
  y->dtype = dtype;
  if (offsets) y->rank++;
  y->dims[y->rank - 1] = C;
  return MRT_OK;
}

static mrt_status infer(mrt_infer *c) {
  const mrt_bag_options *o = c->options;
  const mrt_type *w = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  if (w->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "table %s, two dimensions wanted",
                      mrt_show(w).s);
  if (w->dims[0] == 0 && mrt_type_count(c->in[1]) > 0)
    return mrt_refuse(c, MRT_EVALUE, "ids %s into %s, which is empty",
                      mrt_show(c->in[1]).s, mrt_show(w).s);
  c->out[0].dtype = w->dtype;
  MRT_TRY(bags_of(c, 1, c->nin > 2, w->dims[1], &c->out[0]));
  c->nout = o->mode == MRT_BAG_MAX ? 2 : 1;
  c->out[1] = c->out[0];
  c->out[1].dtype = MRT_i64;
  return MRT_OK;
}

/* dy, ids[, offsets] */
static mrt_status infer_grad(mrt_infer *c) {
  const mrt_bag_grad_options *o = c->options;
  const mrt_type *dy = c->in[0];
  MRT_TRY(mrt_want_real(c, 0));
  int64_t C = dy->rank ? dy->dims[dy->rank - 1] : 0;
  mrt_type wanted = { .dtype = dy->dtype };
  MRT_TRY(bags_of(c, 1, c->nin > 2, C, &wanted));
  MRT_TRY(mrt_want_shape(c, 0, wanted.rank, wanted.dims, "a row for each bag"));
  if (o->mode == MRT_BAG_MAX)
    return mrt_refuse(c, MRT_EVALUE, "mode max, sum or mean wanted");
  if (o->rows < (mrt_type_count(c->in[1]) > 0))
    return mrt_refuse(c, MRT_EVALUE, "%lld rows for ids %s, more wanted",
                      (long long)o->rows, mrt_show(c->in[1]).s);
  c->out[0] = (mrt_type){ dy->dtype, 2, { o->rows, C } };
  return MRT_OK;
}

/* dy goes to the rows that won. */
static mrt_tensor *to_winners(mrt_build *b) {
  mrt_tensor *won = b->out[1], *dy = b->dout[0], *w = b->in[0];
  int64_t C = mrt_of(w)->dims[1], bags = mrt_type_count(mrt_of(won));
  int64_t rows[] = { C ? bags / C : 0, C };
  won = mrt_reshape_to(b, won, 2, rows), dy = mrt_reshape_to(b, dy, 2, rows);
  mrt_tensor *zero = mrt_const_like(b, won, 0);
  mrt_tensor *none = mrt_expand_to(b, zero, mrt_of(won));
  mrt_tensor *empty = MRT_MAKE(b, lt, NULL, won, none);
  dy = mrt_where(b, empty, mrt_const_like(b, dy, 0), dy);
  won = MRT_MAKE(b, maximum, NULL, won, none);
  mrt_dim_options along = { 0 };
  mrt_tensor *zeros = mrt_expand_to(b, mrt_const_like(b, w, 0), mrt_of(w));
  return MRT_MAKE(b, scatter_add, &along, zeros, won, dy);
}

static void gradient(mrt_build *b) {
  const mrt_bag_options *o = b->options;
  if (o->mode == MRT_BAG_MAX) {
    b->din[0] = mrt_of(b->in[0])->dims[0] ? to_winners(b) : NULL;
    return;
  }
  mrt_bag_grad_options g = { o->mode, mrt_of(b->in[0])->dims[0] };
  mrt_tensor *in[] = { b->dout[0], b->in[1], b->nin > 2 ? b->in[2] : NULL };
  b->din[0] = mrt_make(b, MRT_OP_embedding_bag_grad, &g, b->nin, in);
}

static void grad_gradient(mrt_build *b) {
  const mrt_bag_grad_options *g = b->options;
  mrt_bag_options o = { g->mode };
  mrt_tensor *in[] = { b->dout[0], b->in[1], b->nin > 2 ? b->in[2] : NULL };
  b->din[0] = mrt_make(b, MRT_OP_embedding_bag, &o, b->nin, in);
}

/* Bags, each by itself, where each is a row of ids. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  bool bag = s->nin == 2 && input == 1 && dim < s->in[1]->rank - 1;
  return bag ? dim : MRT_RULE_UNKNOWN;
}

static double flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[1]) * (double)s->in[0]->dims[1];
}
static double bytes(const mrt_signature *s) {
  double row =
      (double)mrt_dtypes[s->in[0]->dtype].bytes * (double)s->in[0]->dims[1];
  return (double)mrt_type_count(s->in[1]) * row +
         (double)mrt_type_bytes(s->out[0]);
}
static double grad_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[1]) * (double)s->out[0]->dims[1];
}

const mrt_op mrt_op_embedding_bag = {
  .name = "embedding_bag",
  .number = MRT_OP_embedding_bag,
  .cost = MRT_COST_move,
  .doc = "y[b,:] = sum, mean or max of w[i,:] over the ids i of bag b",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(options, mrt_bag_options),
  .infer = infer,
  .shard_rule = shard_rule,
  .grad = gradient,
  .flops = flops,
  .bytes = bytes,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_FAULTS,
};
const mrt_op mrt_op_embedding_bag_grad = {
  .name = "embedding_bag_grad",
  .number = MRT_OP_embedding_bag_grad,
  .cost = MRT_COST_move,
  .doc = "dw = 0; dw[i,:] += dy[b,:] for the ids i of bag b; mean: divided",
  .min_inputs = 2,
  .max_inputs = 3,
  MRT_OPTIONS(grad_options, mrt_bag_grad_options),
  .infer = infer_grad,
  .grad = grad_gradient,
  .flops = grad_flops,
  .width = MRT_WIDE,
  .narrow_inputs = 1,
  .traits = MRT_LIBRARY | MRT_CLAMPS,
};
