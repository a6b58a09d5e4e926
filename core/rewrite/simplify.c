/* simplify.c -- which nodes change nothing?
 *
 *   needs   a captured graph
 *   method  one walk in order; rows say what is an identity: a view whose
 *           layout equals its input's, an input equal to the row's `unit`, an
 *           involution applied twice
 *   never   x + 0 (which turns -0 into 0) or x * 0 (which hides NaN): results
 *           stay the same bit for bit
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/rewrite.h"

#include <string.h>

static bool is_identity_view(const mrt_node *n) {
  if (!mrt_node_is_view(n) || n->nout != 1) return false;
  mrt_value *in = n->in[0], *out = n->out[0];
  if (!mrt_type_equal(&in->type, &out->type)) return false;
  int64_t strides[MRT_MAX_RANK], from[MRT_MAX_RANK];
  mrt_type_strides(&in->type, from);
  mrt_view v = { .op = n->op,
                 .options = n->options,
                 .in = &in->type,
                 .out = &out->type,
                 .in_strides = from,
                 .strides = strides };
  if (!n->op->view(&v) || v.offset != 0) return false;
  for (int i = 0; i < out->type.rank; i++)
    if (out->type.dims[i] != 1 && strides[i] != from[i]) return false;
  return true;
}

static mrt_value *same_as(const mrt_node *n) {
  if (is_identity_view(n)) return n->in[0];
  for (int i = 0; i < 2 && n->op->unit_inputs && n->nin == 2; i++) {
    double k;
    bool may = n->op->unit_inputs >> i & 1;
    if (may && mrt_value_uniform(n->in[i], &k) &&
        memcmp(&k, &n->op->unit, sizeof k) == 0 &&
        mrt_type_equal(&n->in[1 - i]->type, &n->out[0]->type))
      return n->in[1 - i];
  }
  mrt_node *before = n->nin ? n->in[0]->node : NULL;
  if ((n->op->traits & MRT_INVOLUTION) && before && before->op == n->op)
    return mrt_value_instead(before->in[0]);
  return NULL;
}

mrt_status mrt_pass_simplify(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
    mrt_value *same = same_as(n);
    if (!same) continue;
    n->out[0]->other = same;
    n->dead = true;
  }
  mrt_graph_substitute(g);
  mrt_graph_sweep(g);
  return MRT_OK;
}
