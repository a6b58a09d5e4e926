/* experts_alike.c -- which values are the same on all ranks of a group
 *
 *   question  a rank computes with rows of others: which of what it computes them
 *             with would these ranks have used, too?
 *   method    Ranks run one program: variables and plain numbers are alike, inputs
 *             and constants, which scripts may fill with data, are not, and what
 *             is made of things that are alike is so.  What all have reduced or
 *             gathered is alike, whatever they gave.
 *   never     calls alike what ranks draw for themselves
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "op/views.h"
#include "rewrite/experts.h"

static bool is_alike(const mrt_node *n, int64_t comm, const bool *alike) {
  int op = n->op->number;
  const mrt_collective_options *met = n->options;
  const mrt_piece_options *piece = n->options;
  if (op == MRT_OP_recv || n->op->traits & MRT_RANDOM) return false;
  if (op == MRT_OP_own_piece && piece->comm == comm) return false;
  if (n->op->traits & MRT_COLLECTIVE && met->comm == comm)
    return op == MRT_OP_allreduce || op == MRT_OP_allgather ||
           op == MRT_OP_broadcast;
  for (int k = 0; k < n->nin; k++)
    if (!alike[n->in[k]->id]) return false;
  return true;
}

void mrt_find_alike(const mrt_graph *g, int64_t comm, bool *alike) {
  for (int i = 0; i < g->value_count; i++)
    alike[g->values[i]->id] = g->values[i]->leaf == MRT_LEAF_VARIABLE;
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    bool is = is_alike(n, comm, alike);
    for (int k = 0; k < n->nout; k++) alike[n->out[k]->id] = is;
  }
}
