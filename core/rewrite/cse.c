/* cse.c -- what is computed twice?
 *
 *   needs   a captured graph
 *   method  a hash table over (operator, options, inputs), one walk in order
 *   never   merges updates or collectives.  Random nodes merge only with equal
 *           keys, that is when they draw the same numbers.
 *
 * SPDX-License-Identifier: MIT */
#include "rewrite/rewrite.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t hash(const mrt_node *n) {
  uint64_t h = mix((uint64_t)n->op->number, (uint64_t)n->nin);
  const unsigned char *bytes = n->options;
  for (size_t i = 0; i < n->op->options_size; i++) h = mix(h, bytes[i]);
  for (int i = 0; i < n->nin; i++) h = mix(h, (uint64_t)n->in[i]->id);
  return h;
}

static bool equal(const mrt_node *a, const mrt_node *b) {
  if (a->op != b->op || a->nin != b->nin ||
      memcmp(a->options, b->options, a->op->options_size) != 0)
    return false;
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] != b->in[i]) return false;
  return true;
}

mrt_status mrt_pass_cse(mrt_rewrite *r) {
  mrt_graph *g = r->graph;
  size_t size = 16;
  while (size < 2 * (size_t)g->node_count) size *= 2;
  mrt_node **table = MRT_NEW(&g->temporary, mrt_node *, size);
  if (!table) return mrt_nomem(&g->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    mrt_node *n = g->nodes[i];
    for (int k = 0; k < n->nin; k++) n->in[k] = mrt_value_instead(n->in[k]);
    if (n->op->traits & (MRT_UPDATES | MRT_FIXED | MRT_COLLECTIVE)) continue;
    size_t at = (size_t)hash(n) & (size - 1);
    while (table[at] && !equal(table[at], n)) at = (at + 1) & (size - 1);
    if (!table[at]) {
      table[at] = n;
      continue;
    }
    for (int k = 0; k < n->nout; k++) {
      mrt_value *first = n->out[k]->other = table[at]->out[k];
      if (!first->name) first->name = n->out[k]->name;
    }
    n->dead = true;
  }
  mrt_graph_substitute(g);
  mrt_graph_sweep(g);
  return MRT_OK;
}
