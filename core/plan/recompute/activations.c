/* activations.c -- what is a checkpoint policy asked about?
 *
 *   needs   an ordered dag
 *   gives   one entry for every value of the arena that a forward node makes,
 *           but for what an update reads, such as a batch's statistics: updates
 *           wait for the forward pass, and would have all of it run again
 *   method  Layers first (layers.c).  Values inside a region, read in the
 *           forward pass by that region only, are to be recomputed.  They
 *           belong to the innermost one that holds all these readers.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

static const mrt_node *node(const mrt_recompute *k, int i) {
  return k->plan->graph.nodes[i];
}

/* What its readers say of it. */
static void look_at_readers(const mrt_recompute *k, const int *layer,
                            int buffer, mrt_activation *a) {
  const mrt_dag *f = &k->dag;
  int maker = f->maker[buffer];
  a->last_use = maker, a->last_layer = layer[maker];
  int region = node(k, maker)->origin.region;
  for (int r = f->readers.start[buffer]; r < f->readers.start[buffer + 1];
       r++) {
    int i = f->readers.item[r];
    if (i > a->last_use) a->last_use = i;
    if (!k->forward[i]) {
      a->saved = true;
      continue;
    }
    if (layer[i] > a->last_layer) a->last_layer = layer[i];
    while (!mrt_region_inside(&k->plan->ctx->origins, node(k, i)->origin.region,
                              region))
      region = mrt_region_around(&k->plan->ctx->origins, region);
  }
  a->region = region != 0;
  a->segment = -region;
}

/* What has been gathered from the ranks stays, or is gathered again, as its
 * sharding says: no policy is asked.  A budget may have any gathered again. */
static void look_at_gather(const mrt_recompute *k, const mrt_node *n,
                           mrt_activation *a) {
  const mrt_collective_options *o = mrt_gathered(n);
  if (!o) return;
  bool again = o->reshard_after_forward || k->plan->options.memory;
  a->region = true;
  a->choice = again ? MRT_CHOICE_RECOMPUTE : MRT_CHOICE_KEEP;
}

static void describe(const mrt_recompute *k, const int *layer, int buffer,
                     mrt_activation *a) {
  int maker = k->dag.maker[buffer];
  const mrt_node *n = node(k, maker);
  const mrt_value *v = k->value[buffer];
  *a = (mrt_activation){ .op = n->label,
                         .name = v->name,
                         .file = v->origin.file,
                         .module = v->origin.module,
                         .line = v->origin.line,
                         .type = v->type,
                         .bytes = (size_t)k->dag.bytes[buffer],
                         .cost = mrt_cost_name(mrt_node_cost(n)),
                         .flops = mrt_node_flops(n),
                         .seconds = k->problem.cost[maker],
                         .first_use = maker,
                         .layer = layer[maker] };
  look_at_readers(k, layer, buffer, a);
  if (a->region) a->choice = MRT_CHOICE_RECOMPUTE;
  look_at_gather(k, n, a);
}

static mrt_status list_variables(mrt_recompute *k) {
  const mrt_graph *g = &k->plan->graph;
  k->asked.variables = MRT_NEW(k->arena, const char *, g->value_count);
  if (!k->asked.variables) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < g->value_count; i++)
    if (g->values[i]->leaf == MRT_LEAF_VARIABLE && g->values[i]->name)
      k->asked.variables[k->asked.variable_count++] = g->values[i]->name;
  return MRT_OK;
}

/* Does it wait for the forward pass, and for no more? */
static bool is_early_update(const mrt_recompute *k, int i) {
  return k->dag.update[i] && !(node(k, i)->op->traits & MRT_DERIVES);
}

static bool is_activation(const mrt_recompute *k, int buffer) {
  const mrt_dag *f = &k->dag;
  bool yes = k->forward[f->maker[buffer]];
  for (int r = f->readers.start[buffer]; r < f->readers.start[buffer + 1]; r++)
    yes &= !is_early_update(k, f->readers.item[r]);
  return yes;
}

mrt_status mrt_recompute_activations(mrt_recompute *k) {
  const mrt_dag *f = &k->dag;
  int *layer = MRT_NEW(k->arena, int, f->real);
  k->segment = MRT_NEW(k->arena, int, f->real);
  k->buffer_of = MRT_NEW(k->arena, int, f->buffers);
  k->activation_of = MRT_NEW(k->arena, int, f->buffers);
  k->asked.activations = MRT_NEW(k->arena, mrt_activation, f->buffers);
  if (!layer || !k->segment || !k->buffer_of || !k->activation_of ||
      !k->asked.activations)
    return mrt_nomem(&k->plan->ctx->error);
  MRT_TRY(mrt_recompute_layers(k, layer, &k->asked.layers));
  for (int b = 0; b < f->buffers; b++) {
    k->activation_of[b] = -1;
    if (!is_activation(k, b)) continue;
    int n = k->asked.count++;
    mrt_activation *a = &k->asked.activations[n];
    k->activation_of[b] = n, k->buffer_of[n] = b;
    describe(k, layer, b, a);
    if (a->saved) k->asked.saved += a->bytes;
  }
  return list_variables(k);
}
