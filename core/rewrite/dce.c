/* dce.c -- what does nobody read?
 *
 *   needs   any graph
 *   method  uses counted once, then a walk backwards
 *   never   drops an update, a lookup without columns, which is there to check ids
 *           (check_ids.c), or a collective, for which other ranks wait, unless it
 *           is lazy
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "rewrite/rewrite.h"

static bool only_checks(const mrt_node *n) {
  return n->op->traits & MRT_FAULTS && mrt_type_count(&n->out[0]->type) == 0;
}

mrt_status mrt_pass_dce(mrt_rewrite *r) {
  const uint32_t kept = MRT_UPDATES | MRT_FIXED | MRT_COLLECTIVE;
  mrt_graph *g = r->graph;
  mrt_graph_count_uses(g);
  for (int i = g->node_count; i-- > 0;) {
    mrt_node *n = g->nodes[i];
    bool used = (n->op->traits & kept) && !mrt_is_lazy(n->op, n->options);
    used |= only_checks(n);
    for (int k = 0; k < n->nout; k++) used |= n->out[k]->uses > 0;
    if (used) continue;
    n->dead = true;
    for (int k = 0; k < n->nin; k++) n->in[k]->uses--;
  }
  mrt_graph_sweep(g);
  return MRT_OK;
}
