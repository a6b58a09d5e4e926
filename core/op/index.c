/* index.c -- elements chosen by index
 *
 *   gather          y[i,j] = x[index[i,j], j]  for dim 1 of two
 *   embedding       y[i,:] = w[ids[i],:]
 *   embedding_grad  dw = 0;  dw[ids[i],:] += dy[i,:]
 *   embedding_add   y = c + embedding_grad(ids, dy), which may lie on c: the pass
 *                   add_products makes it
 *
 *   index  i64 | i32 | u8, 0-based; the rank of x, no size above x's but
 *          along dim
 *   x      gather, embedding: any dtype.  embedding_grad: f32 | f64
 *   cost   what is moved: whole rows where the index repeats along them (a view
 *          of one per row); embedding_grad also writes its zeros
 *   grad   gather's is scatter_add (scatter.c); embedding and embedding_grad
 *          are each other's; where dy is a product and w has fewer rows than there are
 *          ids, rows are added up before the product (lookup.h)
 *   fails  EDTYPE  an index that is not an integer
 *          ESHAPE  an index that does not fit
 *          EVALUE  an index into a dimension of size 0
 *          EDATA   when run: an index outside [0, n)
 *
 * Sums at one place are added in the order of the index, whatever the number
 * of threads.
 *
 * SPDX-License-Identifier: MIT */
#include "op/index.h"
#include "op/lookup.h"
#include "op/move.h"

#include <string.h>

static const mrt_option dim_table[] = {
  MRT_OPTION(mrt_dim_options, dim, MRT_OPT_DIM, .required = true),
};

/* With something to look up there must be a place to look: kernels clamp bad
 * indices to a good one. */
mrt_status mrt_want_index(mrt_infer *c, int64_t *dim) {
  const mrt_type *x = c->in[0], *index = c->in[1];
  MRT_TRY(mrt_want_dim(c, dim, x->rank));
  MRT_TRY(mrt_want_integer(c, 1));
  bool fits = x->rank == index->rank;
  for (int i = 0; fits && i < x->rank; i++)
    fits = i == *dim || index->dims[i] <= x->dims[i];
  if (!fits)
    return mrt_refuse(c, MRT_ESHAPE,
                      "index %s for %s along dim %lld, the same rank and no "
                      "larger size wanted",
                      mrt_show(index).s, mrt_show(x).s, (long long)*dim + 1);
  if (x->dims[*dim] == 0 && mrt_type_count(index) > 0)
    return mrt_refuse(c, MRT_EVALUE,
                      "index into dim %lld of %s, which is empty",
                      (long long)*dim + 1, mrt_show(x).s);
  return MRT_OK;
}

static mrt_tensor *zeros(mrt_build *b, const mrt_type *type, mrt_tensor *like) {
  return mrt_expand_to(b, mrt_const_like(b, like, 0), type);
}

/* ---- gather -------------------------------------------------------------- */

static mrt_status gather_infer(mrt_infer *c) {
  MRT_TRY(mrt_want_index(c, &((mrt_dim_options *)c->options)->dim));
  c->out[0] = *c->in[1];
  c->out[0].dtype = c->in[0]->dtype;
  return MRT_OK;
}

static void gather_gradient(mrt_build *b) {
  mrt_tensor *none = zeros(b, mrt_of(b->in[0]), b->in[0]);
  b->din[0] = MRT_MAKE(b, scatter_add, b->options, none, b->in[1], b->dout[0]);
}

/* Positions that are read only as far as the index goes are no pieces. */
static int shard_rule(const mrt_signature *s, int input, int dim) {
  const mrt_dim_options *o = s->options;
  bool all = s->in[0]->dims[dim] == s->in[1]->dims[dim];
  return dim == o->dim || !all ? MRT_RULE_UNKNOWN : dim;
}

const mrt_op mrt_op_gather = {
  .name = "gather",
  .number = MRT_OP_gather,
  .cost = MRT_COST_move,
  .doc = "y[i,j] = x[index[i,j], j], for dim 1 of two",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(dim_table, mrt_dim_options),
  .infer = gather_infer,
  .shard_rule = shard_rule,
  .grad = gather_gradient,
  .strided = 3,
  .width = MRT_FOLLOW,
  .traits = MRT_FAULTS,
};

/* ---- embedding, embedding_grad ------------------------------------------- */

/* The shape of `ids` and then C. */
static mrt_status rows_of(mrt_infer *c, const mrt_type *ids, int64_t C,
                          mrt_type *rows) {
  if (ids->rank == MRT_MAX_RANK)
    return mrt_refuse(c, MRT_ESHAPE, "ids %s, at most %d dimensions wanted",
                      mrt_show(ids).s, MRT_MAX_RANK - 1);
  rows->rank = ids->rank + 1;
  memcpy(rows->dims, ids->dims, sizeof rows->dims);
  rows->dims[ids->rank] = C;
  return MRT_OK;
}

static mrt_status embedding_infer(mrt_infer *c) {
  const mrt_type *w = c->in[0], *ids = c->in[1];
  if (w->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "table %s, two dimensions wanted",
                      mrt_show(w).s);
  MRT_TRY(mrt_want_integer(c, 1));
  if (w->dims[0] == 0 && mrt_type_count(ids) > 0)
    return mrt_refuse(c, MRT_EVALUE, "ids %s into %s, which is empty",
                      mrt_show(ids).s, mrt_show(w).s);
  c->out[0].dtype = w->dtype;
  return rows_of(c, ids, w->dims[1], &c->out[0]);
}

static void embedding_gradient(mrt_build *b) {
  mrt_tensor *w = b->in[0], *ids = b->in[1], *dy = b->dout[0];
  b->din[0] = mrt_lookup_product(b, w, ids, dy);
  if (!b->din[0]) b->din[0] = mrt_lookup_sum(b, w, ids, dy);
}

static int embedding_shard_rule(const mrt_signature *s, int input, int dim) {
  if (input == 1) return dim;
  return dim == 1 ? s->out[0]->rank - 1 : MRT_RULE_UNKNOWN;
}

const mrt_op mrt_op_embedding = {
  .name = "embedding",
  .number = MRT_OP_embedding,
  .cost = MRT_COST_move,
  .doc = "y[i,:] = w[ids[i],:]",
  .min_inputs = 2,
  .max_inputs = 2,
  .infer = embedding_infer,
  .shard_rule = embedding_shard_rule,
  .grad = embedding_gradient,
  .width = MRT_FOLLOW,
  .narrow_inputs = 1,
  .narrow_outputs = 1,
  .traits = MRT_FAULTS,
};

static const mrt_option embedding_grad_table[] = {
  MRT_OPTION(mrt_embedding_grad_options, rows, MRT_OPT_INT, .required = true),
};

static mrt_status embedding_grad_infer(mrt_infer *c) {
  const mrt_embedding_grad_options *o = c->options;
  const mrt_type *ids = c->in[0], *dy = c->in[1];
  MRT_TRY(mrt_want_integer(c, 0));
  MRT_TRY(mrt_want_real(c, 1));
  int64_t C = dy->rank ? dy->dims[dy->rank - 1] : 0;
  mrt_type wanted = { 0 };
  MRT_TRY(rows_of(c, ids, C, &wanted));
  MRT_TRY(mrt_want_shape(c, 1, wanted.rank, wanted.dims, "ids and then C"));
  if (o->rows < (mrt_type_count(ids) > 0))
    return mrt_refuse(c, MRT_EVALUE, "%lld rows for ids %s, more wanted",
                      (long long)o->rows, mrt_show(ids).s);
  c->out[0] = (mrt_type){ dy->dtype, 2, { o->rows, C } };
  return MRT_OK;
}

static void embedding_grad_gradient(mrt_build *b) {
  b->din[1] = MRT_MAKE(b, embedding, NULL, b->dout[0], b->in[0]);
}

static int embedding_grad_shard_rule(const mrt_signature *s, int input,
                                     int dim) {
  bool column = input == 1 && dim == s->in[1]->rank - 1;
  return column ? 1 : MRT_RULE_PARTIAL;
}

static double embedding_grad_flops(const mrt_signature *s) {
  return (double)mrt_type_count(s->in[1]);
}

const mrt_op mrt_op_embedding_grad = {
  .name = "embedding_grad",
  .number = MRT_OP_embedding_grad,
  .cost = MRT_COST_move,
  .doc = "dw = 0; dw[ids[i],:] += dy[i,:]",
  .min_inputs = 2,
  .max_inputs = 2,
  MRT_OPTIONS(embedding_grad_table, mrt_embedding_grad_options),
  .infer = embedding_grad_infer,
  .shard_rule = embedding_grad_shard_rule,
  .grad = embedding_grad_gradient,
  .flops = embedding_grad_flops,
  .width = MRT_WIDE,
  .narrow_inputs = 2,
  .traits = MRT_LIBRARY | MRT_CLAMPS,
};

static mrt_status embedding_add_infer(mrt_infer *c) {
  const mrt_type *table = c->in[2];
  if (table->rank != 2)
    return mrt_refuse(c, MRT_ESHAPE, "table %s, two dimensions wanted",
                      mrt_show(table).s);
  mrt_embedding_grad_options o = { .rows = table->dims[0] };
  mrt_infer rows = *c;
  rows.nin = 2, rows.options = &o;
  MRT_TRY(embedding_grad_infer(&rows));
  c->out[0] = rows.out[0];
  MRT_TRY(mrt_want_same_dtype(c, 1, 2));
  return mrt_want_shape(c, 2, 2, c->out[0].dims, "a row for each id's C");
}

static void embedding_add_parts(mrt_build *b, mrt_tensor **value) {
  mrt_embedding_grad_options o = { .rows = mrt_of(b->in[2])->dims[0] };
  value[0] =
      mrt_add(b, b->in[2], MRT_MAKE(b, embedding_grad, &o, b->in[0], b->in[1]));
}
static void embedding_add_gradient(mrt_build *b) {
  mrt_grad_decomposed(b, embedding_add_parts);
}

const mrt_op mrt_op_embedding_add = {
  .name = "embedding_add",
  .number = MRT_OP_embedding_add,
  .cost = MRT_COST_move,
  .doc = "y = c; y[ids[i],:] += dy[i,:], from ids, dy, c",
  .min_inputs = 3,
  .max_inputs = 3,
  .infer = embedding_add_infer,
  .grad = embedding_add_gradient,
  .flops = embedding_grad_flops,
  .inplace = 4,
  .width = MRT_WIDE,
  .narrow_inputs = 2,
  .traits = MRT_LIBRARY | MRT_CLAMPS,
};
