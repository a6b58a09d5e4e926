/* experts.c -- rows go to the ranks that have the matrices of their experts
 *
 *   needs   a captured graph of ranks with rows of their own, among which
 *           weights of grouped_matmul lie in pieces along their first dimension
 *           (mrt_variable_cut), and whose gradients are reduced to pieces; it is
 *           right as it stands, by gathering these weights
 *   gives   products of the experts that this rank has, with the rows of all
 *           ranks that go to them; exchanges of rows before and after
 *   method  One walk in order.  Such a product takes the rows where they are
 *           computed (experts_route.c), and what is computed of them row by row
 *           stays there; whoever wants anything else has the results come back.
 *           Products of rows with rows, a weight's gradient, are over the rows
 *           of all ranks there, and need no reduction.
 *   from    Lepikhin et al., GShard, 2020 (arXiv:2006.16668)
 *   bits    gradients of these weights are sums in another order; all else is the
 *           same, where rows are not dropped
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/experts.h"
#include "op/apply.h"
#include "op/collective.h"
#include "op/search.h"
#include "rewrite/partition_build.h"

#include <math.h>

/* What there is of a value, made when it is first wanted. */
typedef struct placed {
  mrt_value *local;  /* as the program has it */
  mrt_value *routed; /* its rows where `by` takes them */
  const mrt_route *by;
  bool here;        /* computed there; else only sent there */
  mrt_value *piece; /* of a weight: the part of this rank's experts */
  mrt_value
      *sum;     /* of a gradient: that part of what all ranks have, added up */
  bool weight;  /* a weight in pieces, or a view or cast of one */
  bool reduced; /* all that reads it reduces it to pieces in the end */
} placed;

typedef struct experts_walk {
  mrt_partition p;
  double capacity; /* places for rows, of those that an even share takes; 0:
                      for all */
  placed *values;  /* by id */
  bool *alike;     /* ditto: the same on all ranks */
  mrt_route *routes;
} experts_walk;

static placed *placed_of(const experts_walk *w, const mrt_value *v) {
  return &w->values[v->id];
}

static const mrt_placement first_pieces = { .kind = MRT_SHARD, .outer = 1 };

static bool is_op(const mrt_node *n, int op) { return n->op->number == op; }

/* ---- what is to be seen before the walk ---------------------------------- */

static bool is_cut(const experts_walk *w, const mrt_value *v) {
  const mrt_variable *own =
      v->leaf == MRT_LEAF_VARIABLE ? v->tensor->variable : NULL;
  return own && own->bucket && own->own_rows && own->outer == 1 &&
         own->comm == w->p.comm && v->type.rank == 3;
}

static void find_weights(experts_walk *w) {
  const mrt_graph *g = w->p.g;
  mrt_lane lane;
  for (int i = 0; i < w->p.count; i++)
    if (!g->values[i]->node && is_cut(w, g->values[i]))
      placed_of(w, g->values[i])->weight = true;
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    if (mrt_shows_experts(n) && placed_of(w, n->in[0])->weight &&
        mrt_by_experts(n, w->p.size, &w->p.scratch, &lane))
      placed_of(w, n->out[0])->weight = true;
  }
}

static bool reduces(const experts_walk *w, const mrt_node *n) {
  const mrt_collective_options *o = n->options;
  return is_op(n, MRT_OP_reduce_scatter) && o->comm == w->p.comm &&
         (o->op == MRT_REDUCE_SUM || o->op == MRT_REDUCE_MEAN);
}

static bool carries(experts_walk *w, const mrt_node *n) {
  mrt_lane lane;
  return (mrt_shows_experts(n) || is_op(n, MRT_OP_add)) &&
         placed_of(w, n->out[0])->reduced &&
         mrt_by_experts(n, w->p.size, &w->p.scratch, &lane);
}

static void find_reduced(experts_walk *w) {
  const mrt_graph *g = w->p.g;
  mrt_graph_count_uses(w->p.g);
  for (int i = 0; i < w->p.count; i++)
    w->values[i].reduced = g->values[i]->uses > 0;
  for (int i = 0; i < g->output_count; i++)
    placed_of(w, g->outputs[i])->reduced = false;
  for (int i = g->node_count; i-- > 0;) {
    const mrt_node *n = g->nodes[i];
    bool in_the_end = reduces(w, n) || carries(w, n);
    for (int k = 0; k < n->nin && !in_the_end; k++)
      placed_of(w, n->in[k])->reduced = false;
  }
}

/* ---- as it is wanted ----------------------------------------------------- */

static mrt_status local_of(experts_walk *w, mrt_value *v, mrt_value **out) {
  if (v->id >= w->p.count) return *out = v, MRT_OK; /* made by the walk */
  placed *at = placed_of(w, v);
  if (!at->local)
    MRT_TRY(mrt_route_return(&w->p, at->by, at->routed, &at->local));
  return *out = at->local, MRT_OK;
}

/* Does it have the same in all rows, and on all ranks? */
static mrt_value *repeated(const experts_walk *w, const mrt_value *v) {
  const mrt_node *n = v->node;
  if (!n || !is_op(n, MRT_OP_expand) || !w->alike[v->id]) return NULL;
  const mrt_type *from = &n->in[0]->type;
  return from->rank < v->type.rank || from->dims[0] == 1 ? n->in[0] : NULL;
}

static mrt_status repeat(experts_walk *w, const mrt_value *v, int64_t rows,
                         mrt_value **out) {
  mrt_shape_options o = { .shape = { .count = v->type.rank } };
  mrt_value *from;
  for (int i = 0; i < v->type.rank; i++)
    o.shape.at[i] = i ? v->type.dims[i] : rows;
  MRT_TRY(local_of(w, repeated(w, v), &from));
  return mrt_partition_put(&w->p, MRT_OP_expand, &o, 1, &from, v->origin, out);
}

static mrt_status routed_of(experts_walk *w, const mrt_route *r, mrt_value *v,
                            mrt_value **out) {
  placed *at = placed_of(w, v);
  if (at->by == r) return *out = at->routed, MRT_OK;
  if (repeated(w, v)) return repeat(w, v, r->room * w->p.size, out);
  mrt_value *local;
  MRT_TRY(local_of(w, v, &local));
  MRT_TRY(mrt_route_send(&w->p, r, local, out));
  if (!at->by) at->by = r, at->routed = *out;
  return MRT_OK;
}

/* The node over this rank's pieces of what it reads. */
static mrt_status by_pieces(experts_walk *w, const mrt_node *n,
                            mrt_value *const *in, mrt_value **out) {
  mrt_lane lane;
  mrt_arena *a = &w->p.scratch;
  void *options = mrt_arena_alloc(a, 1, n->op->options_size);
  mrt_type *types = MRT_NEW(a, mrt_type, MRT_MAX_OUT);
  if (!options || !types ||
      !mrt_by_experts(n, w->p.size, &w->p.scratch, &lane) ||
      !mrt_lane_local(n, &lane, w->p.size, a, options, types))
    return mrt_nomem(&w->p.g->ctx->error); /* it has been tried */
  return mrt_partition_put(&w->p, n->op->number, options, n->nin, in, n->origin,
                           out);
}

static mrt_status piece_of(experts_walk *w, mrt_value *v, mrt_value **out) {
  placed *at = placed_of(w, v);
  if (at->piece) return *out = at->piece, MRT_OK;
  if (v->node) {
    MRT_TRY(piece_of(w, v->node->in[0], out));
    MRT_TRY(by_pieces(w, v->node, out, out));
  } else {
    MRT_TRY(mrt_graph_variable(w->p.g, v->tensor->variable->bucket, out));
    MRT_TRY(mrt_partition_reshape(
        &w->p, *out, mrt_piece_type(&v->type, &first_pieces, w->p.size), out));
  }
  at->piece = *out;
  return MRT_OK;
}

static mrt_status sum_of(experts_walk *w, mrt_value *v, mrt_value **out) {
  placed *at = placed_of(w, v);
  mrt_collective_options o = { .rank = w->p.rank,
                               .size = w->p.size,
                               .comm = w->p.comm,
                               .op = MRT_REDUCE_SUM,
                               .lazy = true };
  mrt_value *local;
  if (at->sum) return *out = at->sum, MRT_OK;
  MRT_TRY(local_of(w, v, &local));
  MRT_TRY(mrt_partition_put(&w->p, MRT_OP_reduce_scatter, &o, 1, &local,
                            v->origin, out));
  at->sum = *out;
  return MRT_OK;
}

/* ---- routes -------------------------------------------------------------- */

static int64_t room_for(const experts_walk *w, int64_t rows) {
  if (!(w->capacity > 0)) return rows;
  double places = ceil(w->capacity * (double)rows / (double)w->p.size);
  return places >= (double)rows ? rows : places < 1 ? 1 : (int64_t)places;
}

/* Are the counts those of so many ids at most? */
static bool counts_rows(const mrt_value *counts, int64_t rows) {
  const mrt_node *n = counts->node;
  return n && is_op(n, MRT_OP_bincount) && n->nin == 1 &&
         mrt_type_count(&n->in[0]->type) <= rows;
}

static mrt_status route_of(experts_walk *w, mrt_value *counts, int64_t rows,
                           const mrt_route **out) {
  mrt_value *local;
  for (const mrt_route *r = w->routes; r; r = r->next)
    if (r->of == counts && r->rows == rows) return *out = r, MRT_OK;
  mrt_route *r = MRT_NEW(&w->p.g->temporary, mrt_route, 1);
  if (!r) return mrt_nomem(&w->p.g->ctx->error);
  *r = (mrt_route){ .of = counts, .rows = rows, .room = room_for(w, rows) };
  int64_t places;
  if (__builtin_mul_overflow(r->room, w->p.size, &places))
    return mrt_fail(&w->p.g->ctx->error, MRT_EVALUE,
                    "experts: room for %lld rows on each of %lld ranks is too "
                    "large",
                    (long long)r->room, (long long)w->p.size);
  MRT_TRY(local_of(w, counts, &local));
  MRT_TRY(mrt_route_make(&w->p, local, counts_rows(counts, rows), r));
  r->next = w->routes, w->routes = r;
  return *out = r, MRT_OK;
}

/* ---- nodes --------------------------------------------------------------- */

static void is_routed(experts_walk *w, const mrt_node *n, const mrt_route *r,
                      mrt_value *out) {
  placed *at = placed_of(w, n->out[0]);
  out->name = n->out[0]->name;
  at->routed = out, at->by = r, at->here = true;
}

/* Rows times matrices of experts, or rows times rows. */
static mrt_status product(experts_walk *w, const mrt_node *n, bool of_rows) {
  const mrt_route *r;
  mrt_value *in[3], *out;
  MRT_TRY(route_of(w, n->in[2], n->in[0]->type.dims[0], &r));
  MRT_TRY(routed_of(w, r, n->in[0], &in[0]));
  MRT_TRY(of_rows ? routed_of(w, r, n->in[1], &in[1])
                  : piece_of(w, n->in[1], &in[1]));
  in[2] = r->own;
  MRT_TRY(mrt_partition_put(&w->p, n->op->number, n->options, 3, in, n->origin,
                            &out));
  if (of_rows)
    placed_of(w, n->out[0])->sum = out;
  else
    is_routed(w, n, r, out);
  return MRT_OK;
}

static int rule_of(const mrt_node *n, int input, int dim) {
  mrt_node_types t;
  mrt_node_types_init(&t, n);
  if (n->op->shard_rule) return n->op->shard_rule(&t.s, input, dim);
  return n->op->traits & MRT_POINTWISE ? dim : MRT_RULE_UNKNOWN;
}

static bool has_rows(const mrt_node *n, int input) {
  for (int d = 0; d < n->in[input]->type.rank; d++)
    if (rule_of(n, input, d) == 0) return true;
  return false;
}

/* The route of the rows that a node reads, if it makes each of its rows of them
 * alone and of what all ranks have alike; NULL: it does not. */
static const mrt_route *row_by_row(const experts_walk *w, const mrt_node *n) {
  const mrt_route *r = NULL;
  uint32_t never = MRT_UPDATES | MRT_SWAPS | MRT_WAITS | MRT_RANDOM |
                   MRT_COLLECTIVE | MRT_BATCH_STATISTICS | MRT_FIXED;
  if (n->nout != 1 || n->nin > 8 || n->op->traits & never) return NULL;
  for (int i = 0; i < n->nin; i++) {
    const placed *at = placed_of(w, n->in[i]);
    if (!at->here) continue;
    if ((r && at->by != r) || rule_of(n, i, 0) != 0) return NULL;
    r = at->by;
  }
  for (int i = 0; r && i < n->nin; i++) {
    bool there = placed_of(w, n->in[i])->by == r;
    if (has_rows(n, i) ? !there && !repeated(w, n->in[i])
                       : !w->alike[n->in[i]->id])
      return NULL;
  }
  return r;
}

/* Does the row make of so many rows what it makes of the program's? */
static bool takes_rows(experts_walk *w, const mrt_node *n, const mrt_route *r,
                       bool *failed) {
  mrt_arena *a = &w->p.scratch;
  void *options = mrt_arena_alloc(a, 1, n->op->options_size);
  mrt_type own[8], types[MRT_MAX_OUT], wanted = n->out[0]->type;
  const mrt_type *in[8];
  mrt_error said = { 0 };
  int count;
  if (!options) return *failed = true, false;
  mrt_copy_options(n->op, options, n->options);
  wanted.dims[0] = r->room * w->p.size;
  for (int i = 0; i < n->nin; i++) {
    own[i] = n->in[i]->type, in[i] = &own[i];
    if (has_rows(n, i)) own[i].dims[0] = wanted.dims[0];
  }
  return wanted.rank == 2 &&
         !mrt_infer_types(n->op, n->nin, in, options, types, &count, &said) &&
         count == 1 && mrt_type_equal(&types[0], &wanted);
}

static mrt_status over_rows(experts_walk *w, const mrt_node *n,
                            const mrt_route *r) {
  mrt_value *in[8], *out;
  for (int i = 0; i < n->nin; i++)
    MRT_TRY(has_rows(n, i) ? routed_of(w, r, n->in[i], &in[i])
                           : local_of(w, n->in[i], &in[i]));
  MRT_TRY(mrt_partition_put(&w->p, n->op->number, n->options, n->nin, in,
                            n->origin, &out));
  return is_routed(w, n, r, out), MRT_OK;
}

/* Views, casts and sums of what is to be reduced. */
static mrt_status carry(experts_walk *w, const mrt_node *n) {
  mrt_value *in[2], *out;
  for (int i = 0; i < n->nin; i++) MRT_TRY(sum_of(w, n->in[i], &in[i]));
  MRT_TRY(by_pieces(w, n, in, &out));
  return placed_of(w, n->out[0])->sum = out, MRT_OK;
}

/* What is reduced already, as the reduction has it: a mean is of wide numbers. */
static mrt_status reduce(experts_walk *w, const mrt_node *n) {
  const mrt_collective_options *o = n->options;
  building b = { &w->p, n->origin, MRT_OK };
  mrt_value *sum = placed_of(w, n->in[0])->sum;
  placed *at = placed_of(w, n->out[0]);
  at->local = sum;
  if (o->op == MRT_REDUCE_SUM) return MRT_OK;
  mrt_dtype dtype = sum->type.dtype;
  if (mrt_is_narrow(dtype)) sum = cast(&b, sum, MRT_f32);
  if (!sum) return b.status;
  mrt_value *share = constant(&b, 1 / (double)w->p.size, &sum->type);
  at->local = cast(&b, PUT(&b, mul, NULL, sum, share), dtype);
  return b.status;
}

static mrt_status keep(experts_walk *w, mrt_node *n) {
  for (int i = 0; i < n->nin; i++) MRT_TRY(local_of(w, n->in[i], &n->in[i]));
  for (int k = 0; k < n->nout; k++) placed_of(w, n->out[k])->local = n->out[k];
  return mrt_graph_append(w->p.g, n);
}

static mrt_status rewrite(experts_walk *w, mrt_node *n) {
  bool failed = false;
  mrt_arena_clear(&w->p.scratch);
  bool rows = n->nin == 3 && n->in[0]->type.dims[0] > 0;
  if (is_op(n, MRT_OP_grouped_matmul) && rows && placed_of(w, n->in[1])->weight)
    return product(w, n, false);
  if (is_op(n, MRT_OP_grouped_matmul_dw) && rows &&
      n->out[0]->type.dims[0] % w->p.size == 0 &&
      placed_of(w, n->out[0])->reduced)
    return product(w, n, true);
  bool summed = false;
  for (int i = 0; i < n->nin; i++)
    summed |= placed_of(w, n->in[i])->sum != NULL;
  if (summed && reduces(w, n)) return reduce(w, n);
  if (summed && carries(w, n)) return carry(w, n);
  const mrt_route *r = row_by_row(w, n);
  if (r && takes_rows(w, n, r, &failed)) return over_rows(w, n, r);
  return failed ? mrt_nomem(&w->p.g->ctx->error) : keep(w, n);
}

/* ---- the pass ------------------------------------------------------------ */

static mrt_status walk(experts_walk *w) {
  mrt_graph *g = w->p.g;
  find_weights(w), find_reduced(w);
  int count = g->node_count;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < w->p.count; i++)
    if (!g->values[i]->node) w->values[i].local = g->values[i];
  for (int i = 0; i < count; i++) MRT_TRY(rewrite(w, nodes[i]));
  for (int i = 0; i < g->output_count; i++)
    MRT_TRY(local_of(w, g->outputs[i], &g->outputs[i]));
  return MRT_OK;
}

mrt_status mrt_pass_experts(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (r->options->experts < 1) return MRT_OK;
  experts_walk w = { .p = { .g = g, .comm = r->options->experts - 1 },
                     .capacity = r->options->capacity };
  const mrt_communicator *c = mrt_communicator_find(g->ctx, w.p.comm);
  if (!c) return g->ctx->error.status;
  w.p.rank = c->rank, w.p.size = c->size, w.p.count = g->value_count;
  w.values = MRT_NEW(&g->temporary, placed, w.p.count);
  w.alike = MRT_NEW(&g->temporary, bool, w.p.count);
  if (!w.values || !w.alike) return mrt_nomem(&g->ctx->error);
  mrt_find_alike(g, w.p.comm, w.alike);
  mrt_arena_init(&w.p.scratch, g->ctx->allocator);
  mrt_status s = walk(&w);
  mrt_arena_free(&w.p.scratch);
  return s;
}
