/* segment_of.c -- what is computed again together?
 *
 *   needs   choices for all activations
 *   gives   a segment for every activation that has none, for every node of
 *           the backward pass the segment it belongs to
 *   method  Layers are cut where all that one hands on is kept.  What lies
 *           between two cuts runs again once, as one segment.  Where that
 *           would hold more than all that is kept, the n layers become about
 *           sqrt(n) segments: on the way to the last what they hand on is
 *           held, and each runs again from there: twice in all (Chen et al.
 *           2016, one level down).
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

typedef struct layer_cutting {
  mrt_recompute *k;
  int *crossing; /* by layer: values it or one before hands on, not kept */
  size_t *bytes; /* by layer: saved by the backward pass, not kept */
  int *segment;  /* by layer */
  int *last;     /* by layer: the last segment up to the next cut */
  size_t kept;
} layer_cutting;

static bool dropped(const mrt_activation *a) {
  return a->choice == MRT_CHOICE_RECOMPUTE;
}

static void add_up(layer_cutting *c) {
  const mrt_checkpoint *asked = &c->k->asked;
  for (int i = 0; i < asked->count; i++) {
    const mrt_activation *a = &asked->activations[i];
    if (a->region) continue;
    if (dropped(a)) c->crossing[a->layer]++, c->crossing[a->last_layer]--;
    if (a->saved && dropped(a))
      c->bytes[a->layer] += a->bytes;
    else if (a->saved && a->choice != MRT_CHOICE_SWAP)
      c->kept += a->bytes;
  }
  for (int l = 1; l <= asked->layers; l++) c->crossing[l] += c->crossing[l - 1];
}

/* Number layers from..to, between two cuts; the last number. */
static int number(layer_cutting *c, int from, int to, int last) {
  int size = to - from + 1, root = 1;
  size_t bytes = 0;
  for (int l = from; l <= to; l++) bytes += c->bytes[l];
  while (root * root < size) root++;
  if (bytes > c->kept) size = root;
  for (int l = from; l <= to; l++) {
    c->segment[l] = last + 1 + (l - from) / size;
    c->last[l] = last + 1 + (to - from) / size;
  }
  return c->last[to];
}

static mrt_status cut(mrt_recompute *k) {
  int layers = k->asked.layers;
  layer_cutting c = { .k = k,
                      .crossing = MRT_NEW(k->arena, int, layers + 1),
                      .bytes = MRT_NEW(k->arena, size_t, layers + 1),
                      .segment = MRT_NEW(k->arena, int, layers + 1),
                      .last = MRT_NEW(k->arena, int, layers + 1) };
  if (!c.crossing || !c.bytes || !c.segment || !c.last)
    return mrt_nomem(&k->plan->ctx->error);
  add_up(&c);
  for (int l = 1, from = 1, last = 0; l <= layers; l++) {
    if (l < layers && c.crossing[l] > 0) continue;
    last = number(&c, from, l, last);
    from = l + 1;
  }
  for (int i = 0; i < k->asked.count; i++) {
    mrt_activation *a = &k->asked.activations[i];
    if (a->segment != 0) continue;
    a->segment = c.segment[a->layer];
    bool crosses = c.segment[a->last_layer] > a->segment;
    a->last_segment = crosses ? c.last[a->layer] : a->segment;
  }
  return MRT_OK;
}

/* The last segment whose values a node of the backward pass reads; what is made
 * of nothing, as constants are, belongs nowhere. */
static int segment_of(const mrt_recompute *k, int i) {
  const mrt_lists *reads = &k->dag.reads;
  int segment = 0, made = -1;
  for (int r = reads->start[i]; r < reads->start[i + 1]; r++) {
    int b = reads->item[r], a = k->activation_of[b];
    if (a < 0 || k->dag.maker[b] < made) continue;
    if (k->plan->graph.nodes[k->dag.maker[b]]->nin == 0) continue;
    made = k->dag.maker[b], segment = k->asked.activations[a].segment;
  }
  return segment;
}

mrt_status mrt_recompute_segment_of(mrt_recompute *k) {
  for (int i = 0; i < k->asked.count; i++)
    k->asked.activations[i].last_segment = k->asked.activations[i].segment;
  MRT_TRY(cut(k));
  for (int i = 0; i < k->dag.real; i++) k->segment[i] = segment_of(k, i);
  return MRT_OK;
}
