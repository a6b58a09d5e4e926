/* swap_nodes.c -- nodes that copy between tiers
 *
 * A copy is a node that starts it and one that waits for its end.  The wait
 * reads both sides, so lifetimes, which follow reads, hold both until the copy
 * is over: nothing else knows that it runs beside the steps.
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "plan/swap/swap.h"

#include <string.h>

static mrt_status make(mrt_graph *g, mrt_value *from, mrt_tier_lane lane,
                       mrt_copying *c) {
  mrt_swap_options o = { .transfer = g->transfer_count, .lane = lane };
  bool out = lane == MRT_TIER_OUT;
  const mrt_op *start = mrt_ops[out ? MRT_OP_swap_out : MRT_OP_swap_in];
  c->start =
      mrt_graph_node(g, start, 1, &from, &o, 1, &from->type, from->origin);
  if (!c->start) return mrt_nomem(&g->ctx->error);
  c->value = c->start->out[0];
  c->value->name = from->name;
  c->value->swapped = out;
  mrt_value *both[2] = { out ? from : c->value, out ? c->value : from };
  c->end = mrt_graph_node(g, mrt_ops[MRT_OP_swap_wait], 2, both, &o, 0, NULL,
                          from->origin);
  if (!c->end) return mrt_nomem(&g->ctx->error);
  g->transfer_count++;
  return MRT_OK;
}

mrt_status mrt_swap_out(mrt_graph *g, mrt_value *v, mrt_copying *c) {
  return make(g, v, MRT_TIER_OUT, c);
}

mrt_status mrt_swap_in(mrt_graph *g, mrt_value *swapped, mrt_copying *c) {
  return make(g, swapped, MRT_TIER_IN, c);
}

mrt_status mrt_value_over(mrt_graph *g, mrt_value *v, mrt_value *base,
                          mrt_value **out) {
  bool version = v->node && !mrt_node_is_view(v->node);
  *out = base;
  if (v->base == v || version) return MRT_OK;
  *out = mrt_graph_value(g, &v->type, v->origin);
  if (!*out) return mrt_nomem(&g->ctx->error);
  (*out)->base = base->base, (*out)->offset = v->offset;
  (*out)->name = v->name;
  memcpy((*out)->strides, v->strides, sizeof v->strides);
  return MRT_OK;
}
