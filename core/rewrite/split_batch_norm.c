/* split_batch_norm.c -- batch_norm as statistics, and pointwise operators of x
 *
 *   needs   a captured graph, its dtypes final
 *   gives   mean, rstd = batch_stats(x) and standardize(x, mean, rstd * w) + b
 *           in place of batch_norm(x, w, b), with casts where x or y is narrow
 *   why     What follows it (an addition, an activation) becomes one pass over
 *           memory with it (fuse), and y is had again from x and a few numbers
 *           of each channel.
 *   where   the device has a kernel of batch_stats, and chains are fused
 *   never   changes a bit: the kernel of batch_norm rounds in the same places
 *
 * SPDX-License-Identifier: MIT */
#include "op/cast.h"
#include "op/views.h"
#include "rewrite/rewrite.h"

#include <string.h>

/* The one output of op(in), appended. */
static mrt_status append(mrt_graph *g, int op, int nin, mrt_value *const *in,
                         const void *options, mrt_type type, mrt_origin origin,
                         mrt_value **out) {
  mrt_node *n =
      mrt_graph_node(g, mrt_ops[op], nin, in, options, 1, &type, origin);
  if (!n) return mrt_nomem(&g->ctx->error);
  *out = n->out[0];
  return mrt_graph_append(g, n);
}

static mrt_status cast(mrt_graph *g, mrt_value **v, mrt_dtype to,
                       mrt_origin origin) {
  mrt_cast_options o = { .dtype = to };
  mrt_type t = (*v)->type;
  if (t.dtype == to) return MRT_OK;
  t.dtype = to;
  return append(g, MRT_OP_cast, 1, v, &o, t, origin, v);
}

/* `by`, [C], repeated for each row of a value of type t. */
static mrt_status repeat(mrt_graph *g, mrt_value **by, mrt_type t,
                         mrt_origin origin) {
  mrt_shape_options o = { .shape.count = t.rank };
  memcpy(o.shape.at, t.dims, (size_t)t.rank * sizeof *t.dims);
  return t.rank > 1 ? append(g, MRT_OP_expand, 1, by, &o, t, origin, by)
                    : MRT_OK;
}

/* *y = standardize(*y, mean, scale) + shift, which may be NULL. */
static mrt_status apply(mrt_graph *g, mrt_value **y, mrt_value *mean,
                        mrt_value *scale, mrt_value *shift, mrt_origin from) {
  mrt_type t = (*y)->type;
  MRT_TRY(repeat(g, &mean, t, from));
  MRT_TRY(repeat(g, &scale, t, from));
  mrt_value *in[] = { *y, mean, scale };
  MRT_TRY(append(g, MRT_OP_standardize, 3, in, NULL, t, from, y));
  if (!shift) return MRT_OK;
  MRT_TRY(repeat(g, &shift, t, from));
  in[0] = *y, in[1] = shift;
  return append(g, MRT_OP_add, 2, in, NULL, t, from, y);
}

static mrt_status split(mrt_graph *g, mrt_node *n) {
  mrt_origin from = n->origin;
  mrt_type channels[2] = { n->out[1]->type, n->out[2]->type };
  mrt_node *stats = mrt_graph_node(g, mrt_ops[MRT_OP_batch_stats], 1, n->in,
                                   n->options, 2, channels, from);
  if (!stats) return mrt_nomem(&g->ctx->error);
  MRT_TRY(mrt_graph_append(g, stats));
  mrt_value *y = n->in[0], *mean = stats->out[0], *scale = stats->out[1];
  mrt_value *in[] = { scale, n->nin > 1 ? n->in[1] : NULL };
  if (n->nin > 1)
    MRT_TRY(append(g, MRT_OP_mul, 2, in, NULL, channels[1], from, &scale));
  MRT_TRY(cast(g, &y, channels[0].dtype, from));
  MRT_TRY(apply(g, &y, mean, scale, n->nin > 2 ? n->in[2] : NULL, from));
  MRT_TRY(cast(g, &y, n->out[0]->type.dtype, from));
  mrt_value *now[] = { y, stats->out[0], stats->out[1] };
  for (int i = 0; i < 3; i++)
    now[i]->name = n->out[i]->name, n->out[i]->other = now[i];
  return MRT_OK;
}

static bool wanted(const mrt_rewrite *r) {
  const mrt_device *d = &r->graph->ctx->device;
  bool fused = !(r->options->off >> MRT_REWRITE_fuse & 1);
  return fused && mrt_rewrite_for_cpu(r) &&
         d->kernel(d, MRT_OP_batch_stats, MRT_f32);
}

mrt_status mrt_pass_split_batch_norm(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  int count = g->node_count;
  bool any = false;
  for (int i = 0; i < count; i++)
    any |= g->nodes[i]->op->number == MRT_OP_batch_norm;
  if (!any || !wanted(r)) return MRT_OK;
  mrt_node **nodes = mrt_graph_take_order(g);
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    bool is = nodes[i]->op->number == MRT_OP_batch_norm;
    MRT_TRY(is ? split(g, nodes[i]) : mrt_graph_append(g, nodes[i]));
  }
  mrt_graph_substitute(g);
  return MRT_OK;
}
