/* facts.c -- what rewrites and costs ask of a node or a value
 *
 * Each follows from the row and the options alone, so it holds before a plan
 * exists and for whoever asks.
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"
#include "op/fused.h"

#include <string.h>

bool mrt_value_uniform(mrt_value *v, double *k) {
  v = mrt_value_root(v);
  if (!v->node || !(v->node->op->traits & MRT_UNIFORM)) return false;
  memcpy(k, v->node->options, sizeof *k); /* `value` comes first */
  return true;
}

mrt_dtype mrt_node_real(const mrt_node *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->type.dtype == MRT_f64) return MRT_f64;
  for (int i = 0; i < n->nout; i++)
    if (n->out[i]->type.dtype == MRT_f64) return MRT_f64;
  if (n->op->number == MRT_OP_fused) {
    const mrt_fused_options *o = n->options;
    for (int i = 0; i < o->code_count; i++)
      if (o->code[i].in_dtype == MRT_f64 || o->code[i].out_dtype == MRT_f64)
        return MRT_f64;
  }
  return MRT_f32;
}
