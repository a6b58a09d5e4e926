/* keep_images.c -- which images are rounded once for all convolutions of them?
 *
 *   needs   a captured graph, its dtypes final
 *   gives   for an f32 image that convolutions, or gradients of their weights,
 *           round to bf16 or f16: one cast.  Else each value is rounded for each
 *           place of a kernel that reads it, which for the three channels of a
 *           picture takes longer than to multiply
 *   where   a CPU; images of no more than a quarter of the result's values,
 *           so that the cast is small beside what is there anyway
 *   method  One walk; the cast stands before its first reader
 *   never   changes a bit: convolutions round to the same.  Where a budget
 *           leaves no room a plan is made without this pass (plan/pipeline.c)
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/precision.h"

#include <string.h>

enum { TIMES_LARGER = 4 };

/* What a convolution, or the gradient of its weights, rounds its image to;
 * MRT_DTYPE_COUNT: it is none, or does not. */
static mrt_dtype rounds_to(const mrt_node *n) {
  int op = n->op->number;
  const mrt_option *o = op == MRT_OP_conv2d || op == MRT_OP_conv2d_dw
                            ? mrt_narrow_option(n->op)
                            : NULL;
  mrt_dtype compute;
  if (!o || n->in[0]->type.dtype != MRT_f32) return MRT_DTYPE_COUNT;
  memcpy(&compute, (const char *)n->options + o->offset, sizeof compute);
  return compute == MRT_bf16 || compute == MRT_f16 ? compute : MRT_DTYPE_COUNT;
}

/* y, or dy. */
static const mrt_type *larger_side(const mrt_node *n) {
  return n->op->number == MRT_OP_conv2d ? &n->out[0]->type : &n->in[1]->type;
}

static bool is_small(const mrt_node *n) {
  return (double)mrt_type_count(&n->in[0]->type) * TIMES_LARGER <=
         (double)mrt_type_count(larger_side(n));
}

static mrt_status replace(mrt_graph *g, mrt_node *n, mrt_value *image) {
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, n->nin);
  if (!in) return mrt_nomem(&g->ctx->error);
  memcpy(in, n->in, (size_t)n->nin * sizeof *in);
  in[0] = image, n->in = in;
  return MRT_OK;
}

mrt_status mrt_pass_keep_images(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  if (!mrt_rewrite_for_cpu(r)) return MRT_OK;
  /* by id and dtype */
  mrt_value **made =
      MRT_NEW(&g->temporary, mrt_value *, g->value_count * MRT_DTYPE_COUNT);
  int count = g->node_count;
  mrt_node **nodes = made ? mrt_graph_take_order(g) : NULL;
  if (!nodes) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < count; i++) {
    mrt_node *n = nodes[i];
    mrt_dtype to = rounds_to(n);
    if (to != MRT_DTYPE_COUNT && is_small(n)) {
      mrt_value **memo = &made[(size_t)n->in[0]->id * MRT_DTYPE_COUNT + to];
      if (!*memo)
        MRT_TRY(mrt_graph_cast(g, n->in[0], to, n->in[0]->origin, memo));
      MRT_TRY(replace(g, n, *memo));
    }
    MRT_TRY(mrt_graph_append(g, n));
  }
  return MRT_OK;
}
