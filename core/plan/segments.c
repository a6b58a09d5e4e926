/* segments.c -- layers in segments, where the solver finds nothing that fits
 *
 *   needs   activations and their layers
 *   gives   the cheapest schedule among a few numbers of segments whose arena
 *           is small enough
 *   method  What segments hand on is kept, the rest computed again (Chen et al.
 *           2016); from one layer a segment to all layers in one, by halves.
 *           What a policy has chosen stays as it is.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute.h"

#include <string.h>

static int segment_of(int layer, int size) { return (layer - 1) / size + 1; }

static void choose(mrt_keeping *k, const mrt_activation *asked, int size) {
  int last = segment_of(k->asked.layers, size);
  memcpy(k->asked.activations, asked, (size_t)k->asked.count * sizeof *asked);
  for (int a = 0; a < k->asked.count; a++) {
    mrt_activation *v = &k->asked.activations[a];
    if (v->choice != MRT_CHOICE_OPEN) continue;
    int segment = segment_of(v->layer, size);
    bool crosses = segment_of(v->last_layer, size) > segment;
    v->segment = segment;
    v->choice =
        crosses || segment == last ? MRT_CHOICE_KEEP : MRT_CHOICE_RECOMPUTE;
  }
}

static double cost(const mrt_keeping *k, const mrt_schedule *s) {
  double sum = 0;
  for (int i = 0; i < s->count; i++)
    if (s->act[i].kind == MRT_ACT_RUN) sum += k->problem.cost[s->act[i].index];
  return sum;
}

mrt_status mrt_schedule_segments(mrt_keeping *k, int64_t wanted,
                                 mrt_schedule *out, int64_t *height) {
  mrt_error *e = &k->plan->ctx->error;
  mrt_activation *asked = MRT_NEW(k->arena, mrt_activation, k->asked.count);
  if (!asked) return mrt_nomem(e);
  memcpy(asked, k->asked.activations, (size_t)k->asked.count * sizeof *asked);
  bool found = false;
  for (int size = 1; size <= k->asked.layers; size *= 2) {
    mrt_schedule s;
    int64_t takes;
    choose(k, asked, size);
    MRT_TRY(mrt_schedule_chosen(k, &s));
    MRT_TRY(mrt_schedule_height(k->arena, e, &k->problem, &s, &takes));
    s.cost = cost(k, &s);
    if (takes > wanted || (found && s.cost >= out->cost)) continue;
    found = true;
    *out = s, *height = takes;
  }
  memcpy(k->asked.activations, asked, (size_t)k->asked.count * sizeof *asked);
  return found ? MRT_OK : MRT_EBUDGET;
}
