/* lookup.c -- products with what was looked up in a small table
 *
 * Views between the lookup and the product are views of the ids, too, if they
 * leave the last dimension alone.
 *
 * SPDX-License-Identifier: MIT */
#include "op/lookup.h"
#include "op/matmul.h"
#include "op/move.h"
#include "op/sums.h"
#include "op/views.h"
#include "tensor/tensor.h"
#include "tensor/trace.h"

/* What `t` is made of, unless that was changed since, or is a constant of the
 * trace. */
static const mrt_expr *made_of(const mrt_build *b, const mrt_tensor *t) {
  const mrt_expr *x = t ? t->expr : NULL;
  uint64_t first = b->ctx->trace ? b->ctx->trace->first_id : 0;
  return x && t->index == 0 && !x->stale && x->id >= first ? x : NULL;
}

static bool moves_rows(const mrt_expr *x) {
  return x->nin > 0 &&
         mrt_moves_rows(x->op, x->options, &x->in[0]->type, &x->out_types[0]);
}

/* A value for each row of x's input as one for each row of x, or back. */
static mrt_tensor *move_ids(mrt_build *b, const mrt_expr *x, mrt_tensor *ids,
                            const mrt_type *to) {
  if (x->op->number == MRT_OP_transpose)
    return mrt_make(b, MRT_OP_transpose, x->options, 1, &ids);
  return mrt_reshape_to(b, ids, to->rank - 1, to->dims);
}

static mrt_tensor *flat(mrt_build *b, mrt_tensor *ids) {
  return mrt_reshape_to(b, ids, 1, (int64_t[]){ mrt_type_count(mrt_of(ids)) });
}

static bool pays(const mrt_type *table, const mrt_type *ids) {
  return mrt_is_real(table->dtype) && table->dims[0] < mrt_type_count(ids);
}

static mrt_tensor *ids_of(mrt_build *b, mrt_tensor *t, mrt_tensor **table) {
  const mrt_expr *x = made_of(b, t);
  if (!x) return NULL;
  if (x->op->number == MRT_OP_embedding) {
    *table = x->in[0];
    return pays(&x->in[0]->type, &x->in[1]->type) ? x->in[1] : NULL;
  }
  if (!moves_rows(x)) return NULL;
  mrt_tensor *ids = ids_of(b, x->in[0], table);
  return ids ? move_ids(b, x, ids, &t->type) : NULL;
}

mrt_tensor *mrt_lookup_table(mrt_build *b, mrt_tensor *x, mrt_tensor **ids) {
  mrt_tensor *table = NULL;
  *ids = ids_of(b, x, &table);
  if (!*ids) return NULL;
  *ids = flat(b, *ids);
  return table;
}

mrt_tensor *mrt_lookup_sum(mrt_build *b, mrt_tensor *table, mrt_tensor *ids,
                           mrt_tensor *dy) {
  mrt_embedding_grad_options o = { .rows = mrt_of(table)->dims[0] };
  return MRT_MAKE(b, embedding_grad, &o, ids, dy);
}

mrt_tensor *mrt_lookup_product(mrt_build *b, mrt_tensor *table, mrt_tensor *ids,
                               mrt_tensor *g) {
  if (!pays(mrt_of(table), mrt_of(ids))) return NULL;
  const mrt_expr *x = made_of(b, g);
  for (; x && moves_rows(x); x = made_of(b, x->in[0]))
    ids = move_ids(b, x, ids, &x->in[0]->type);
  if (!x || x->op->number != MRT_OP_matmul || !ids) return NULL;
  mrt_tensor *dy = x->in[0], *w = x->in[1];
  const mrt_matmul_options *o = x->options;
  if (mrt_of(dy)->rank != 2 || mrt_of(w)->rank != 2 ||
      o->compute != MRT_DTYPE_COUNT || mrt_sums_narrow(x->op, o) ||
      mrt_of(dy)->dtype != mrt_of(table)->dtype ||
      mrt_of(w)->dtype != mrt_of(table)->dtype)
    return NULL;
  return mrt_matmul(b, mrt_lookup_sum(b, table, flat(b, ids), dy), w);
}
