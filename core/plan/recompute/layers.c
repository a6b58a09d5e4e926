/* layers.c -- where does one layer of the network end and the next begin?
 *
 *   needs   an ordered dag
 *   gives   a layer for every forward node
 *   method  As the program said (mrt_layer_begin): what belongs to no layer
 *           goes with the layer it reads from, and one without a matrix product
 *           or convolution with the one before.  Otherwise one walk over the
 *           forward nodes: a layer may end where a single value crosses to the
 *           rest of the forward pass (Chen et al. 2016 cut there by hand), and
 *           ends there once it holds a matrix product, its successor having
 *           one too.  A network without such places ends a layer before every
 *           matrix product.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

static const mrt_node *node(const mrt_recompute *k, int i) {
  return k->plan->graph.nodes[i];
}

/* Work worth a layer of its own. */
static bool heavy(const mrt_recompute *k, int i) {
  mrt_cost kind = mrt_node_cost(node(k, i));
  return kind == MRT_COST_matmul || kind == MRT_COST_convolution ||
         kind == MRT_COST_convolution_dx;
}

/* Number the layers that hold a heavy node; others belong to the one before. */
static int renumber(const mrt_recompute *k, int *layer, int last, int *number) {
  int now = 0;
  for (int i = 0; i < k->dag.real; i++)
    if (k->forward[i] && heavy(k, i)) number[layer[i]] = 1;
  for (int l = 0; l <= last; l++) number[l] = now += number[l];
  for (int i = 0; i < k->dag.real; i++)
    if (k->forward[i]) layer[i] = number[layer[i]] > 0 ? number[layer[i]] : 1;
  return now;
}

/* Layer by layer as the program said; *count is 0 if it said nothing. */
static mrt_status said(const mrt_recompute *k, int *layer, int *count) {
  const mrt_dag *f = &k->dag;
  int last = 0;
  for (int i = 0; i < f->real; i++) {
    if (!k->forward[i]) continue;
    layer[i] = node(k, i)->origin.layer;
    for (int r = f->reads.start[i]; !layer[i] && r < f->reads.start[i + 1];
         r++) {
      int from = layer[f->maker[f->reads.item[r]]];
      if (from > layer[i]) layer[i] = from;
    }
    if (layer[i] > last) last = layer[i];
  }
  int *number = MRT_NEW(k->arena, int, last + 1);
  if (!number) return mrt_nomem(&k->plan->ctx->error);
  *count = last ? renumber(k, layer, last, number) : 0;
  return MRT_OK;
}

/* crossing[i]: how many values go from forward nodes up to i to later ones. */
static void count_crossing(const mrt_recompute *k, int *crossing) {
  const mrt_dag *f = &k->dag;
  for (int b = 0; b < f->buffers; b++) {
    int from = f->maker[b], to = from;
    if (!k->forward[from]) continue;
    for (int r = f->readers.start[b]; r < f->readers.start[b + 1]; r++) {
      int reader = f->readers.item[r];
      if (k->forward[reader] && reader > to) to = reader;
    }
    crossing[from]++, crossing[to]--;
  }
  for (int i = 1; i < f->real; i++) crossing[i] += crossing[i - 1];
}

/* A layer ends after the last node where at most `most` values cross, once it
 * holds a heavy node and before the next one. */
static int cut(const mrt_recompute *k, const int *crossing, int most,
               int *layer) {
  int now = 1, end = -1;
  bool full = false;
  for (int i = 0; i < k->dag.real; i++) {
    if (!k->forward[i]) continue;
    layer[i] = now;
    if (heavy(k, i)) {
      if (end >= 0) {
        now++;
        for (int j = end + 1; j <= i; j++)
          if (k->forward[j]) layer[j] = now;
      }
      full = true, end = -1;
    }
    if (full && crossing[i] <= most) end = i;
  }
  return now;
}

mrt_status mrt_recompute_layers(const mrt_recompute *k, int *layer,
                                int *count) {
  MRT_TRY(said(k, layer, count));
  if (*count > 1) return MRT_OK;
  int *crossing = MRT_NEW(k->arena, int, k->dag.real + 1);
  if (!crossing) return mrt_nomem(&k->plan->ctx->error);
  count_crossing(k, crossing);
  *count = cut(k, crossing, 1, layer);
  if (*count < 3) *count = cut(k, crossing, k->dag.buffers, layer);
  return MRT_OK;
}
