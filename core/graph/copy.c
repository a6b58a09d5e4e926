/* copy.c -- a captured graph once more, to be planned another way
 *
 * Values and nodes keep their ids, so what is found out for one copy holds for
 * the others.  Options are shared: a pass that changes a node's makes its own.
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"

/* Leaves' tensors stay those of `from`, which outlives the copy. */
static mrt_status copy_values(mrt_graph *to, const mrt_graph *from) {
  for (int i = 0; i < from->value_count; i++) {
    const mrt_value *v = from->values[i];
    mrt_value *copy = mrt_graph_value(to, &v->type, v->origin);
    if (!copy) return mrt_nomem(&to->ctx->error);
    copy->name = v->name, copy->wide = v->wide;
    copy->leaf = v->leaf, copy->tensor = v->tensor;
    if (v->leaf) copy->index = v->index;
  }
  return MRT_OK;
}

static mrt_status copy_node(mrt_graph *to, const mrt_node *n) {
  mrt_node *copy = MRT_NEW(&to->arena, mrt_node, 1);
  if (!copy) return mrt_nomem(&to->ctx->error);
  *copy = *n;
  copy->dead = false, copy->scratch_buffer = -1, copy->mark = 0;
  copy->in = MRT_NEW(&to->arena, mrt_value *, n->nin);
  copy->out = MRT_NEW(&to->arena, mrt_value *, n->nout);
  if (!copy->in || !copy->out) return mrt_nomem(&to->ctx->error);
  for (int k = 0; k < n->nin; k++) copy->in[k] = to->values[n->in[k]->id];
  for (int k = 0; k < n->nout; k++) {
    mrt_value *v = to->values[n->out[k]->id];
    v->node = copy, v->index = k;
    copy->out[k] = v;
  }
  return mrt_graph_append(to, copy);
}

/* Room for all, and for half as many values that passes make. */
static mrt_status reserve(mrt_graph *to, const mrt_graph *from) {
  to->value_room = from->value_count + from->value_count / 2;
  to->values = MRT_NEW(&to->arena, mrt_value *, to->value_room);
  to->node_room = from->node_count;
  to->nodes = MRT_NEW(&to->arena, mrt_node *, to->node_room);
  return to->values && to->nodes ? MRT_OK : mrt_nomem(&to->ctx->error);
}

mrt_status mrt_graph_copy(mrt_graph *to, const mrt_graph *from) {
  MRT_TRY(reserve(to, from));
  MRT_TRY(copy_values(to, from));
  for (int i = 0; i < from->node_count; i++)
    MRT_TRY(copy_node(to, from->nodes[i]));
  to->next_node = from->next_node;
  to->output_count = from->output_count;
  to->outputs = MRT_NEW(&to->arena, mrt_value *, to->output_count);
  if (!to->outputs) return mrt_nomem(&to->ctx->error);
  for (int i = 0; i < to->output_count; i++)
    to->outputs[i] = to->values[from->outputs[i]->id];
  return MRT_OK;
}
