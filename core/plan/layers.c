/* layers.c -- where does one layer of the network end and the next begin?
 *
 *   needs   an ordered flow
 *   gives   a layer for every forward node
 *   method  As the program said (mrt_layer_begin): what belongs to no layer
 *           goes with the layer it reads from.  Otherwise one walk over the
 *           forward nodes: a layer may end where a single value crosses to the
 *           rest of the forward pass (Chen et al. 2016 cut there by hand), and
 *           ends there once it holds a matrix product, its successor having
 *           one too.  A network without such places ends a layer before every
 *           matrix product.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute.h"

static const mrt_node *node(const mrt_keeping *k, int i) {
  return k->plan->graph.nodes[i];
}

static bool forward(const mrt_keeping *k, int i) {
  return !node(k, i)->origin.backward && !k->flow.update[i];
}

/* Work worth a layer of its own: more to compute than to move. */
static bool heavy(const mrt_keeping *k, int i) {
  const mrt_node *n = node(k, i);
  return n->op->flops && !(n->op->traits & (MRT_POINTWISE | MRT_VIEW)) &&
         mrt_node_flops(n) > 2 * mrt_node_bytes(n);
}

/* Layer by layer as the program said. */
static bool said(const mrt_keeping *k, int *layer, int *count) {
  const mrt_flow *f = &k->flow;
  *count = 0;
  for (int i = 0; i < f->real; i++) {
    if (!forward(k, i)) continue;
    layer[i] = node(k, i)->origin.layer;
    for (int r = f->reads.start[i]; !layer[i] && r < f->reads.start[i + 1];
         r++) {
      int from = layer[f->maker[f->reads.item[r]]];
      if (from > layer[i]) layer[i] = from;
    }
    if (layer[i] > *count) *count = layer[i];
  }
  for (int i = 0; i < f->real; i++)
    if (forward(k, i) && layer[i] == 0) layer[i] = 1; /* before the first */
  return *count > 1;
}

/* crossing[i]: how many values go from forward nodes up to i to later ones. */
static void count_crossing(const mrt_keeping *k, int *crossing) {
  const mrt_flow *f = &k->flow;
  for (int b = 0; b < f->blocks; b++) {
    int from = f->maker[b], to = from;
    if (!forward(k, from)) continue;
    for (int r = f->readers.start[b]; r < f->readers.start[b + 1]; r++) {
      int reader = f->readers.item[r];
      if (forward(k, reader) && reader > to) to = reader;
    }
    crossing[from]++, crossing[to]--;
  }
  for (int i = 1; i < f->real; i++) crossing[i] += crossing[i - 1];
}

/* A layer ends after the last node where at most `most` values cross, once it
 * holds a heavy node and before the next one. */
static int cut(const mrt_keeping *k, const int *crossing, int most,
               int *layer) {
  int now = 1, end = -1;
  bool full = false;
  for (int i = 0; i < k->flow.real; i++) {
    if (!forward(k, i)) continue;
    layer[i] = now;
    if (heavy(k, i)) {
      if (end >= 0) {
        now++;
        for (int j = end + 1; j <= i; j++)
          if (forward(k, j)) layer[j] = now;
      }
      full = true, end = -1;
    }
    if (full && crossing[i] <= most) end = i;
  }
  return now;
}

mrt_status mrt_layers_find(const mrt_keeping *k, int *layer, int *count) {
  if (said(k, layer, count)) return MRT_OK;
  int *crossing = MRT_NEW(k->arena, int, k->flow.real + 1);
  if (!crossing) return mrt_nomem(&k->plan->ctx->error);
  count_crossing(k, crossing);
  *count = cut(k, crossing, 1, layer);
  if (*count < 3) *count = cut(k, crossing, k->flow.blocks, layer);
  return MRT_OK;
}
