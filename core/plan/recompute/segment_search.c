/* segment_search.c -- layers in segments, as published schemes cut them
 *
 *   needs   activations and their layers
 *   gives   the cuts that take least; the schedule of one
 *   method  What segments hand on is kept, the rest computed again (Chen et al.
 *           2016).  Segments of n layers, n segments, or a cut
 *           wherever enough bytes have gathered, each by steps of a third or
 *           a half; of bytes smaller ones around the best.  What a policy has
 *           chosen stays as it is.
 *   cost    a walk over the graph for each cut: fewer cuts of a large graph
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

#include <math.h>
#include <string.h>

enum { NEAR = 5 }; /* sixteenths of a doubling, up and down */

typedef struct segment_cutting {
  mrt_recompute *k;
  const mrt_activation *asked;
  int64_t *bytes; /* by layer: what it makes */
  int *segment;   /* by layer */
  int layers;
  mrt_arena scratch;
} segment_cutting;

/* ---- one cut ------------------------------------------------------------- */

static void lay_out(segment_cutting *c, const mrt_segments *cut) {
  int64_t gathered = 0, n = c->layers, now = 1;
  for (int l = 1; l <= n; l++) {
    gathered += c->bytes[l];
    c->segment[l] = (int)(cut->every   ? (l - 1) / cut->every + 1
                          : cut->parts ? (l - 1) * cut->parts / n + 1
                                       : now);
    if (cut->bytes && gathered >= cut->bytes) now++, gathered = 0;
  }
}

static void choose(const segment_cutting *c) {
  mrt_checkpoint *asked = &c->k->asked;
  int last = c->segment[c->layers];
  memcpy(asked->activations, c->asked, (size_t)asked->count * sizeof *c->asked);
  for (int a = 0; a < asked->count; a++) {
    mrt_activation *v = &asked->activations[a];
    if (v->choice != MRT_CHOICE_OPEN) continue;
    v->segment = c->segment[v->layer];
    bool crosses = c->segment[v->last_layer] > v->segment;
    v->choice =
        crosses || v->segment == last ? MRT_CHOICE_KEEP : MRT_CHOICE_RECOMPUTE;
  }
}

/* Its schedule, with peak and cost. */
static mrt_status try(segment_cutting *c, const mrt_segments *cut,
                      mrt_schedule *s) {
  mrt_recompute *k = c->k;
  lay_out(c, cut);
  choose(c);
  MRT_TRY(mrt_recompute_policy_schedule(k, s));
  return mrt_schedule_simulate(k->arena, &k->plan->ctx->error, &k->problem, s);
}

static mrt_status begin(segment_cutting *c, mrt_recompute *k) {
  int count = k->asked.count, layers = k->asked.layers;
  mrt_activation *asked = MRT_NEW(k->arena, mrt_activation, count);
  *c = (segment_cutting){ .k = k,
                          .asked = asked,
                          .layers = layers,
                          .bytes = MRT_NEW(k->arena, int64_t, layers + 1),
                          .segment = MRT_NEW(k->arena, int, layers + 1) };
  if (!asked || !c->bytes || !c->segment)
    return mrt_nomem(&k->plan->ctx->error);
  memcpy(asked, k->asked.activations, (size_t)count * sizeof *asked);
  for (int a = 0; a < count; a++)
    c->bytes[asked[a].layer] += (int64_t)asked[a].bytes;
  return MRT_OK;
}

static void end(const segment_cutting *c) {
  memcpy(c->k->asked.activations, c->asked,
         (size_t)c->k->asked.count * sizeof *c->asked);
}

/* ---- which cuts ---------------------------------------------------------- */

/* Among the best, unless others take less or as much. */
static void rank(const mrt_segments *cut, mrt_segments *cuts, int *count) {
  int at = *count;
  while (at > 0 && cuts[at - 1].peak > cut->peak) at--;
  if (at == MRT_SEGMENTS || (at > 0 && cuts[at - 1].peak == cut->peak)) return;
  if (*count < MRT_SEGMENTS) ++*count;
  for (int i = *count - 1; i > at; i--) cuts[i] = cuts[i - 1];
  cuts[at] = *cut;
}

/* Schedules that are only ranked share one place. */
static mrt_status rank_one(segment_cutting *c, mrt_segments cut,
                           mrt_segments *cuts, int *count) {
  mrt_schedule s;
  mrt_arena *own = c->k->arena;
  c->k->arena = &c->scratch;
  mrt_status status = try(c, &cut, &s);
  c->k->arena = own;
  mrt_arena_clear(&c->scratch);
  MRT_TRY(status);
  cut.peak = s.peak, cut.seconds = s.cost;
  rank(&cut, cuts, count);
  return MRT_OK;
}

static mrt_status rank_bytes(segment_cutting *c, double bytes,
                             mrt_segments *cuts, int *count) {
  if (bytes < 1) return MRT_OK;
  return rank_one(c, (mrt_segments){ .bytes = (int64_t)bytes }, cuts, count);
}

/* Segments of a few more or less bytes than the best have. */
static mrt_status refine(segment_cutting *c, mrt_segments *cuts, int *count) {
  int64_t bytes = 0;
  for (int i = *count; i-- > 0;)
    if (cuts[i].bytes) bytes = cuts[i].bytes;
  for (int k = -NEAR; k <= NEAR; k++)
    if (k) MRT_TRY(rank_bytes(c, (double)bytes * exp2(k / 16.0), cuts, count));
  return MRT_OK;
}

static mrt_status rank_all(segment_cutting *c, mrt_segments *cuts, int *count) {
  const mrt_plan *plan = c->k->plan;
  bool large = plan->graph.node_count >= MRT_PLAN_LARGE;
  bool few = large && plan->candidate.least; /* to begin with: somebody waits */
  double all = 0, step = large ? 2 : sqrt(2);
  int root = (int)(sqrt(c->layers) + 0.5);
  for (int l = 1; l <= c->layers; l++) all += (double)c->bytes[l];
  for (int n = 1; !few && n <= c->layers; n *= 2)
    MRT_TRY(rank_one(c, (mrt_segments){ .every = n }, cuts, count));
  if (root > 1)
    MRT_TRY(rank_one(c, (mrt_segments){ .parts = root }, cuts, count));
  for (int n = 3; !large && n <= c->layers; n += (n + 1) / 3)
    MRT_TRY(rank_one(c, (mrt_segments){ .parts = n }, cuts, count));
  for (double n = step; n < c->layers; n *= step)
    MRT_TRY(rank_bytes(c, all / n, cuts, count));
  return few ? MRT_OK : refine(c, cuts, count);
}

mrt_status mrt_recompute_segment_search(mrt_recompute *k, mrt_segments *cuts,
                                        int *count) {
  segment_cutting c;
  *count = 0;
  MRT_TRY(begin(&c, k));
  mrt_arena_init(&c.scratch, k->plan->ctx->allocator);
  mrt_status s = rank_all(&c, cuts, count);
  mrt_arena_free(&c.scratch);
  end(&c);
  return s;
}

mrt_status mrt_recompute_segment_schedule(mrt_recompute *k,
                                          const mrt_segments *cut,
                                          mrt_schedule *out) {
  segment_cutting c;
  MRT_TRY(begin(&c, k));
  mrt_status s = try(&c, cut, out);
  end(&c);
  return s;
}
