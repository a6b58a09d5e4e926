/* partition_table.c -- operators over tables whose rows, or classes, are cut
 *
 * A rank has the rows first .. first + own - 1 of a table.  What it looks up
 * among the others' is 0, so results are sums over the ranks; the loss of logits
 * of which it has own columns meets the other ranks on the way.
 *
 *     embedding           y = sum over ranks of w[id - first], 0 elsewhere
 *     embedding_grad      dw of own rows
 *     cross_entropy       lse = m + log(sum over ranks of exp(lse' - m)),
 *                         loss = lse - sum over ranks of own z[target]
 *     cross_entropy_grad  dz of own columns
 *
 * Shoeybi et al., Megatron-LM, 2019 (arXiv:1909.08053), section 3, of word
 * embeddings and the parallel cross entropy.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/cross_entropy.h"
#include "op/move.h"
#include "op/reduce.h"
#include "rewrite/partition_build.h"

static const mrt_placement whole = { .kind = MRT_REPLICATE },
                           sums = { .kind = MRT_PARTIAL };

/* ---- building ------------------------------------------------------------ */

/* The first of a rank's `own` rows.  Nothing that passes might take for something
 * else on one rank only, whose plan then was another: no uniform constant (x - 0),
 * and by its step no number but that of equally many rows. */
static mrt_value *first_of(building *b, int64_t own, const mrt_type *like) {
  double first = (double)(own * b->p->rank);
  mrt_arange_options o = { first, first + 1, (double)own + 1, like->dtype };
  mrt_type one = { .dtype = like->dtype, .rank = like->rank };
  for (int i = 0; i < one.rank; i++) one.dims[i] = 1;
  mrt_value *x = put(b, MRT_OP_arange, &o, 0, NULL);
  if (x) x = shaped(b, MRT_OP_reshape, x, &one);
  return x ? shaped(b, MRT_OP_expand, x, like) : NULL;
}

/* x [...] as [..., n]. */
static mrt_value *along(building *b, mrt_value *x, int64_t n) {
  if (!x) return NULL;
  mrt_type t = x->type;
  t.dims[t.rank++] = 1;
  x = shaped(b, MRT_OP_reshape, x, &t);
  t.dims[t.rank - 1] = n;
  return shaped(b, MRT_OP_expand, x, &t);
}

static mrt_value *meet(building *b, mrt_reduction op, mrt_value *x) {
  mrt_collective_options o = { .rank = b->p->rank,
                               .size = b->p->size,
                               .comm = b->p->comm,
                               .op = op,
                               .lazy = true };
  return PUT(b, allreduce, &o, x);
}

/* ---- ids ----------------------------------------------------------------- */

typedef struct own_ids {
  mrt_value *safe, *inside; /* below own rows; bool: whether they were own */
} own_ids;

/* The ids, of which one that is no row of the table ends the run: looked up in
 * a table of as many rows and no columns, whose sum, 0, is added. */
static mrt_value *checked(building *b, mrt_value *ids, int64_t rows) {
  mrt_type none = { .dtype = MRT_f32, .rank = 2, .dims = { rows, 0 } };
  mrt_value *found = PUT(b, embedding, NULL, constant(b, 0, &none), ids);
  if (!found) return NULL;
  mrt_reduce_options last = { .dim = { 1, { found->type.rank - 1 } } };
  mrt_value *zero = PUT(b, sum, &last, found);
  return PUT(b, add, NULL, ids, cast(b, zero, ids->type.dtype));
}

static own_ids ids_here(building *b, mrt_value *ids, int64_t own) {
  const mrt_partition *p = b->p;
  ids = cast(b, ids, MRT_i64); /* which holds what is subtracted */
  if (!ids) return (own_ids){ 0 };
  const mrt_type *t = &ids->type;
  mrt_value *at =
      PUT(b, sub, NULL, checked(b, ids, own * p->size), first_of(b, own, t));
  mrt_value *zero = constant(b, 0, t);
  mrt_value *inside = PUT(b, logical_and, NULL, PUT(b, ge, NULL, at, zero),
                          PUT(b, lt, NULL, at, constant(b, (double)own, t)));
  return (own_ids){ PUT(b, where, NULL, inside, at, zero), inside };
}

/* x [..., n] where the ids are own, 0 elsewhere. */
static mrt_value *where_own(building *b, const own_ids *ids, mrt_value *x) {
  if (!x) return NULL;
  if (!ids->inside) return NULL;
  mrt_value *inside =
      x->type.rank > ids->inside->type.rank
          ? along(b, ids->inside, x->type.dims[x->type.rank - 1])
          : ids->inside;
  return PUT(b, where, NULL, inside, x, constant(b, 0, &x->type));
}

/* ---- lookups ------------------------------------------------------------- */

static bool is_rows(const mrt_partition *p, const mrt_value *table) {
  const mrt_placement *at = &mrt_located_of(p, table)->at;
  return at->kind == MRT_SHARD && at->outer == 1 && table->type.rank == 2 &&
         table->type.dims[0] % p->size == 0;
}

static bool embedding_lane(const mrt_partition *p, const mrt_node *n,
                           mrt_lane *lane) {
  lane->in[0] = mrt_in_pieces(1), lane->in[1] = whole, lane->out[0] = sums;
  return is_rows(p, n->in[0]);
}

static void embedding(building *b, const mrt_node *n, mrt_value *const *in,
                      mrt_value **out) {
  own_ids ids = ids_here(b, in[1], in[0]->type.dims[0]);
  out[0] = where_own(b, &ids, PUT(b, embedding, n->options, in[0], ids.safe));
}

/* Is there a weight in pieces that this is the gradient of? */
static bool grad_lane(const mrt_partition *p, const mrt_node *n,
                      mrt_lane *lane) {
  const mrt_type *t = &n->out[0]->type;
  lane->in[0] = lane->in[1] = whole, lane->out[0] = mrt_in_pieces(1);
  for (int i = 0; i < p->count; i++) {
    const mrt_value *v = p->g->values[i];
    if (v->leaf == MRT_LEAF_VARIABLE && mrt_type_same_shape(&v->type, t) &&
        is_rows(p, v))
      return true;
  }
  return false;
}

static void embedding_grad(building *b, const mrt_node *n, mrt_value *const *in,
                           mrt_value **out) {
  mrt_embedding_grad_options o = { .rows =
                                       n->out[0]->type.dims[0] / b->p->size };
  own_ids ids = ids_here(b, in[0], o.rows);
  out[0] = PUT(b, embedding_grad, &o, ids.safe, where_own(b, &ids, in[1]));
}

/* ---- losses -------------------------------------------------------------- */

/* Logits of which the ranks have columns; targets and the rest are whole. */
static bool classes_lane(const mrt_partition *p, const mrt_node *n,
                         mrt_lane *lane) {
  const mrt_cross_entropy_options *o = n->options;
  const mrt_type *z = &n->in[0]->type;
  const mrt_placement *at = &mrt_located_of(p, n->in[0])->at;
  int64_t rows = mrt_extent(z, 0, z->rank - 1);
  for (int i = 0; i < n->nin; i++) lane->in[i] = i ? whole : *at;
  return at->kind == MRT_SHARD && at->outer == rows &&
         o->label_smoothing == 0 && mrt_is_real(z->dtype);
}

static bool loss_lane(const mrt_partition *p, const mrt_node *n,
                      mrt_lane *lane) {
  lane->out[0] = lane->out[1] = whole;
  return classes_lane(p, n, lane);
}

static bool loss_grad_lane(const mrt_partition *p, const mrt_node *n,
                           mrt_lane *lane) {
  bool fits = classes_lane(p, n, lane);
  lane->out[0] = lane->in[0];
  return fits;
}

/* Which rows count: bool. */
static mrt_value *counting(building *b, const mrt_node *n, mrt_value *target) {
  const mrt_cross_entropy_options *o = n->options;
  return PUT(b, ne, NULL, target,
             constant(b, (double)o->ignore_index, &target->type));
}

static void loss(building *b, const mrt_node *n, mrt_value *const *in,
                 mrt_value **out) {
  mrt_value *z = in[0], *target = cast(b, in[1], MRT_i64);
  if (!target) return;
  mrt_value *counts = counting(b, n, target);
  mrt_value *none = constant(b, 0, &target->type);
  int64_t own = z->type.dims[z->type.rank - 1];
  own_ids ids = ids_here(b, PUT(b, where, NULL, counts, target, none), own);
  mrt_cross_entropy_options every = { .ignore_index = INT64_MIN };
  mrt_value *both[2], *args[2] = { z, ids.safe };
  if (!ids.safe || b->status) return;
  b->status = mrt_partition_put_all(b->p, MRT_OP_cross_entropy, &every, 2, args,
                                    b->origin, both, 2);
  if (b->status) return;
  mrt_value *lse = both[1];
  mrt_value *chosen = meet(b, MRT_REDUCE_SUM,
                           where_own(b, &ids, PUT(b, sub, NULL, lse, both[0])));
  mrt_value *most = meet(b, MRT_REDUCE_MAX, lse);
  mrt_value *sum =
      meet(b, MRT_REDUCE_SUM, PUT(b, exp, NULL, PUT(b, sub, NULL, lse, most)));
  out[1] = PUT(b, add, NULL, most, PUT(b, log, NULL, sum));
  if (!out[1]) return;
  mrt_value *each = PUT(b, sub, NULL, out[1], chosen);
  out[0] = PUT(b, where, NULL, counts, each, constant(b, 0, &out[1]->type));
}

static void loss_grad(building *b, const mrt_node *n, mrt_value *const *in,
                      mrt_value **out) {
  mrt_value *z = in[0], *target = cast(b, in[1], MRT_i64), *dy = in[3];
  if (!target) return;
  int64_t own = z->type.dims[z->type.rank - 1], first = own * b->p->rank;
  mrt_arange_options classes = { (double)first, (double)(first + own), 1,
                                 MRT_i64 };
  mrt_type ids = z->type;
  ids.dtype = MRT_i64;
  mrt_value *class_ =
      shaped(b, MRT_OP_expand, put(b, MRT_OP_arange, &classes, 0, NULL), &ids);
  mrt_value *hit =
      cast(b, PUT(b, eq, NULL, class_, along(b, target, own)), z->type.dtype);
  mrt_value *p = PUT(b, exp, NULL, PUT(b, sub, NULL, z, along(b, in[2], own)));
  dy = PUT(b, where, NULL, counting(b, n, target), dy,
           constant(b, 0, &dy->type));
  out[0] = PUT(b, mul, NULL, PUT(b, sub, NULL, p, hit), along(b, dy, own));
}

/* ---- the forms ----------------------------------------------------------- */

#define BUILD(name)                                                            \
  static mrt_status build_##name(mrt_partition *p, const mrt_node *n,          \
                                 mrt_value *const *in, mrt_value **out) {      \
    building b = { .p = p, .origin = n->origin };                              \
    name(&b, n, in, out);                                                      \
    return b.status;                                                           \
  }
BUILD(embedding)
BUILD(embedding_grad)
BUILD(loss)
BUILD(loss_grad)

const mrt_form mrt_table_forms[] = {
  { MRT_OP_embedding, embedding_lane, build_embedding },
  { MRT_OP_embedding_grad, grad_lane, build_embedding_grad },
  { MRT_OP_cross_entropy, loss_lane, build_loss },
  { MRT_OP_cross_entropy_grad, loss_grad_lane, build_loss_grad },
  { -1, NULL, NULL },
};
