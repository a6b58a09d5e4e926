/* partition_move.c -- from one placement to another
 *
 *     from \ to   whole           in pieces                a sum
 *     whole       -               own piece: free          zeros but on rank 0
 *     in pieces   allgather       by way of whole          by way of whole
 *     a sum       allreduce       reduce_scatter           -
 *
 * Ranks cut along the middle of [outer, ranks, inner], collectives along the
 * first dimension: a permutation between the two, which is nothing where `outer`
 * is 1.
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/collective.h"
#include "op/make.h"
#include "op/views.h"
#include "rewrite/partition_walk.h"

#include <string.h>

mrt_status mrt_partition_put_all(mrt_partition *p, int op, const void *options,
                                 int nin, mrt_value *const *in, mrt_origin at,
                                 mrt_value **out, int nout) {
  mrt_graph *g = p->g;
  const mrt_op *row = mrt_ops[op];
  mrt_arena *a = &p->scratch;
  void *own = mrt_arena_alloc(a, 1, row->options_size);
  mrt_type *types = MRT_NEW(a, mrt_type, MRT_MAX_OUT);
  const mrt_type **of = MRT_NEW(a, const mrt_type *, nin);
  int count;
  if (!own || !types || !of) return mrt_nomem(&g->ctx->error);
  if (options) mrt_copy_options(row, own, options);
  for (int i = 0; i < nin; i++) of[i] = &in[i]->type;
  MRT_TRY(mrt_infer_types(row, nin, of, own, types, &count, &g->ctx->error));
  mrt_node *n = mrt_graph_node(g, row, nin, in, own, count, types, at);
  if (!n) return mrt_nomem(&g->ctx->error);
  for (int k = 0; k < nout; k++) out[k] = n->out[k];
  return mrt_graph_append(g, n);
}

mrt_status mrt_partition_put(mrt_partition *p, int op, const void *options,
                             int nin, mrt_value *const *in, mrt_origin at,
                             mrt_value **out) {
  return mrt_partition_put_all(p, op, options, nin, in, at, out, 1);
}

mrt_status mrt_partition_reshape(mrt_partition *p, mrt_value *v, mrt_type type,
                                 mrt_value **out) {
  mrt_shape_options o = { .shape = { .count = type.rank } };
  if (mrt_type_equal(&v->type, &type)) return *out = v, MRT_OK;
  for (int i = 0; i < type.rank; i++) o.shape.at[i] = type.dims[i];
  return mrt_partition_put(p, MRT_OP_reshape, &o, 1, &v, v->origin, out);
}

static mrt_type shape3(mrt_dtype dtype, int64_t a, int64_t b, int64_t c) {
  return (mrt_type){ .dtype = dtype, .rank = 3, .dims = { a, b, c } };
}

/* [a, b, c] as [b, a, c]. */
static mrt_status swap(mrt_partition *p, mrt_value *v, mrt_value **out) {
  mrt_permute_options o = { .dims = { .count = 3, .at = { 1, 0, 2 } } };
  const int64_t *d = v->type.dims;
  mrt_type type = shape3(v->type.dtype, d[1], d[0], d[2]);
  if (d[0] == 1 || d[1] == 1) return mrt_partition_reshape(p, v, type, out);
  return mrt_partition_put(p, MRT_OP_permute, &o, 1, &v, v->origin, out);
}

static mrt_status meet(mrt_partition *p, int op, mrt_value *v,
                       mrt_value **out) {
  mrt_collective_options o = { .rank = p->rank,
                               .size = p->size,
                               .comm = p->comm,
                               .op = MRT_REDUCE_SUM,
                               .lazy = true };
  return mrt_partition_put(p, op, &o, 1, &v, v->origin, out);
}

static mrt_status own(mrt_partition *p, mrt_value *v, int64_t outer,
                      mrt_type type, mrt_value **out) {
  mrt_piece_options o = { outer, p->rank, p->size, p->comm };
  MRT_TRY(mrt_partition_put(p, MRT_OP_own_piece, &o, 1, &v, v->origin, &v));
  return mrt_partition_reshape(p, v, type, out);
}

static mrt_status gather(mrt_partition *p, mrt_value *v, int64_t outer,
                         mrt_type whole, mrt_value **out) {
  int64_t inner = mrt_type_count(&v->type) / outer;
  mrt_type own = shape3(whole.dtype, 1, outer, inner);
  MRT_TRY(mrt_partition_reshape(p, v, own, &v));
  MRT_TRY(meet(p, MRT_OP_allgather, v, &v));
  MRT_TRY(swap(p, v, &v));
  return mrt_partition_reshape(p, v, whole, out);
}

static mrt_status scatter(mrt_partition *p, mrt_value *v, int64_t outer,
                          mrt_type piece, mrt_value **out) {
  int64_t inner = mrt_type_count(&piece) / outer, n = p->size;
  mrt_dtype d = piece.dtype;
  MRT_TRY(mrt_partition_reshape(p, v, shape3(d, outer, n, inner), &v));
  MRT_TRY(swap(p, v, &v));
  MRT_TRY(meet(p, MRT_OP_reduce_scatter, v, &v));
  return mrt_partition_reshape(p, v, piece, out);
}

static mrt_status uniform(mrt_partition *p, double value, mrt_dtype dtype,
                          const mrt_value *like, mrt_value **out) {
  mrt_full_options o = { .value = value, .dtype = dtype };
  mrt_shape_options shape = { .shape = { .count = like->type.rank } };
  for (int i = 0; i < like->type.rank; i++)
    shape.shape.at[i] = like->type.dims[i];
  mrt_origin at = like->origin;
  MRT_TRY(mrt_partition_put(p, MRT_OP_full, &o, 0, NULL, at, out));
  return mrt_partition_put(p, MRT_OP_expand, &shape, 1, out, at, out);
}

/* The value on rank 0, zeros on the others: by the same nodes on all of them,
 * none of which a rank can do without, so that all meet in the same order. */
static mrt_status once(mrt_partition *p, mrt_value *v, mrt_value **out) {
  mrt_value *in[3] = { NULL, v, NULL };
  MRT_TRY(uniform(p, p->rank == 0, MRT_bool, v, &in[0]));
  MRT_TRY(uniform(p, 0, v->type.dtype, v, &in[2]));
  return mrt_partition_put(p, MRT_OP_where, NULL, 3, in, v->origin, out);
}

/* What is all of `v` if all of what it shows is there; NULL: it shows nothing
 * else. */
static const mrt_value *shown_by(const mrt_partition *p, const mrt_value *v) {
  bool view = v->node && v->node->nin == 1 && mrt_node_is_view(v->node) &&
              v->node->op->number != MRT_OP_own_piece;
  return view && v->node->in[0]->id < p->count ? v->node->in[0] : NULL;
}

static bool is_there(const mrt_partition *p, const mrt_value *v) {
  for (; v; v = shown_by(p, v)) {
    const mrt_located *at = mrt_located_of(p, v);
    if (at->gathered || at->at.kind == MRT_REPLICATE) return true;
  }
  return false;
}

static mrt_status whole_of(mrt_partition *p, mrt_value *v, mrt_value **out);

/* The view of all of what it shows. */
static mrt_status view_again(mrt_partition *p, mrt_value *v) {
  const mrt_node *n = v->node;
  mrt_value *from, **all = MRT_NEW(&p->scratch, mrt_value *, n->nout);
  if (!all) return mrt_nomem(&p->g->ctx->error);
  MRT_TRY(whole_of(p, n->in[0], &from));
  MRT_TRY(mrt_partition_put_all(p, n->op->number, n->options, 1, &from,
                                n->origin, all, n->nout));
  for (int k = 0; k < n->nout; k++) {
    mrt_located *at = mrt_located_of(p, n->out[k]);
    if (!at->gathered) at->whole = all[k], at->gathered = true;
  }
  return MRT_OK;
}

static mrt_status whole_of(mrt_partition *p, mrt_value *v, mrt_value **out) {
  mrt_located *own = mrt_located_of(p, v);
  mrt_value *made = own->local;
  if (!own->gathered && own->at.kind != MRT_REPLICATE && shown_by(p, v) &&
      is_there(p, shown_by(p, v)))
    MRT_TRY(view_again(p, v));
  if (own->gathered) return *out = own->whole, MRT_OK;
  if (own->at.kind == MRT_SHARD)
    MRT_TRY(gather(p, own->local, own->at.outer, v->type, &made));
  if (own->at.kind == MRT_PARTIAL)
    MRT_TRY(meet(p, MRT_OP_allreduce, own->local, &made));
  own->gathered = true;
  return *out = own->whole = made, MRT_OK;
}

static mrt_status make(mrt_partition *p, mrt_value *v,
                       const mrt_placement *want, mrt_value **out) {
  mrt_located *at = mrt_located_of(p, v);
  mrt_type piece = mrt_piece_type(&v->type, want, p->size);
  mrt_value *whole;
  if (want->kind == MRT_SHARD && at->at.kind == MRT_PARTIAL && !at->gathered)
    return scatter(p, at->local, want->outer, piece, out);
  MRT_TRY(whole_of(p, v, &whole));
  if (want->kind == MRT_PARTIAL) return once(p, whole, out);
  return own(p, whole, want->outer, piece, out);
}

mrt_status mrt_partition_move(mrt_partition *p, mrt_value *v,
                              const mrt_placement *want, mrt_value **out) {
  mrt_located *at = mrt_located_of(p, v);
  if (mrt_same_placement(&at->at, want)) return *out = at->local, MRT_OK;
  if (want->kind == MRT_REPLICATE) return whole_of(p, v, out);
  if (at->repeated && mrt_same_placement(&at->again, want))
    return *out = at->other, MRT_OK;
  MRT_TRY(make(p, v, want, out));
  at->again = *want, at->other = *out, at->repeated = true;
  return MRT_OK;
}

/* A weight that is gathered forward is gathered again backward, and its gradient
 * then is a sum over the ranks. */
enum { WEIGHT_MOVES = 3 };

double mrt_partition_bytes(const mrt_partition *p, const mrt_value *v,
                           const mrt_placement *want) {
  const mrt_located *at = mrt_located_of(p, v);
  double n = (double)p->size, bytes = (double)mrt_type_bytes(&v->type);
  double moved = (n - 1) / n * bytes * (at->weight ? WEIGHT_MOVES : 1);
  bool sums = at->at.kind == MRT_PARTIAL;
  if (mrt_same_placement(&at->at, want)) return 0;
  if (want->kind != MRT_REPLICATE && at->repeated &&
      mrt_same_placement(&at->again, want))
    return 0;
  if (is_there(p, v)) return 0;
  return want->kind == MRT_SHARD && sums ? 0 : moved;
}
