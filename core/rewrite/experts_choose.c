/* experts_choose.c -- which weights are stacks of experts' matrices?
 *
 *   question  for each weight of a loss: can so many ranks share it, each with the
 *             matrices of some experts?
 *   method    It is what a grouped_matmul reads, by way of views and casts that
 *             leave the experts in the first dimension, which must divide.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/ranks.h"
#include "op/op.h"
#include "rewrite/experts.h"
#include "tensor/trace.h"

#include <string.h>

static const mrt_placement first_pieces = { .kind = MRT_SHARD, .outer = 1 };

bool mrt_shows_experts(const mrt_node *n) {
  return n->nin == 1 && n->nout == 1 &&
         (mrt_node_is_view(n) || n->op->number == MRT_OP_cast) &&
         n->op->number != MRT_OP_own_piece;
}

bool mrt_by_experts(const mrt_node *n, int64_t ranks, mrt_arena *a,
                    mrt_lane *lane) {
  *lane = (mrt_lane){ .in = MRT_NEW(a, mrt_placement, n->nin),
                      .out = MRT_NEW(a, mrt_placement, n->nout) };
  if (!lane->in || !lane->out ||
      !mrt_lane_from(n, 0, &first_pieces, ranks, a, lane) || lane->block)
    return false;
  for (int i = 0; i < n->nin; i++)
    if (!mrt_same_placement(&lane->in[i], &first_pieces)) return false;
  return mrt_same_placement(&lane->out[0], &first_pieces);
}

/* The variable that a product's matrices show, with the experts of each in its
 * first dimension; NULL: they show none. */
static const mrt_value *matrices_of(const mrt_node *n, int64_t ranks,
                                    mrt_arena *scratch) {
  const mrt_value *v = n->in[1];
  mrt_lane lane;
  for (; v->node; v = v->node->in[0])
    if (!mrt_shows_experts(v->node) ||
        !mrt_by_experts(v->node, ranks, scratch, &lane))
      return NULL;
  bool fits = v->leaf == MRT_LEAF_VARIABLE && v->type.rank == 3 &&
              v->type.dims[0] > 0 && v->type.dims[0] % ranks == 0;
  return fits ? v : NULL;
}

MRT_API mrt_status mrt_experts_to_cut(mrt_context *ctx, mrt_tensor *loss,
                                      mrt_tensor *const *weights, int count,
                                      int ranks, bool *cut) {
  mrt_graph g = { 0 };
  if (!ctx->trace)
    return mrt_fail(&ctx->error, MRT_ESTATE, "experts: there is no trace");
  if (ranks < 1)
    return mrt_fail(&ctx->error, MRT_EVALUE, "experts: %d ranks", ranks);
  loss = mrt_tensor_current(loss);
  memset(cut, 0, (size_t)count * sizeof *cut);
  mrt_status s = mrt_graph_capture(&g, ctx, &loss, 1, NULL, 0, 0);
  mrt_arena scratch;
  mrt_arena_init(&scratch, ctx->allocator);
  for (int i = 0; i < g.node_count && !s; i++) {
    const mrt_node *n = g.nodes[i];
    const mrt_value *v = n->op->number == MRT_OP_grouped_matmul
                             ? matrices_of(n, ranks, &scratch)
                             : NULL;
    for (int k = 0; v && k < count; k++) cut[k] |= weights[k] == v->tensor;
  }
  mrt_arena_free(&scratch);
  mrt_graph_free(&g);
  return s;
}
