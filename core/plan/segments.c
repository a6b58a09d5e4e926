/* segments.c -- layers in segments, where the solver finds nothing that fits
 *
 *   needs   activations and their layers
 *   gives   the cheapest schedule among a few numbers of segments whose arena
 *           is small enough
 *   method  What segments hand on is kept, the rest computed again (Chen et al.
 *           2016); from one layer a segment to all layers in one, by halves.
 *           What then is left of the budget keeps whole layers at the end,
 *           which the backward pass frees first: as many as fit, by halving.
 *           What a policy has chosen stays as it is.
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute.h"

#include <string.h>

typedef struct cutting {
  mrt_keeping *k;
  const mrt_activation *asked;
  int layers, size; /* of a segment, in layers */
  int whole;        /* layers at the end of which all is kept */
  int64_t wanted;
  mrt_schedule best;
  int64_t height; /* of the best; 0: there is none */
} cutting;

static int segment_of(const cutting *c, int layer) {
  int cut = c->layers - c->whole;
  return layer > cut ? (cut + c->size - 1) / c->size + 1
                     : (layer - 1) / c->size + 1;
}

static void choose(const cutting *c) {
  mrt_checkpoint *asked = &c->k->asked;
  int last = segment_of(c, c->layers);
  memcpy(asked->activations, c->asked, (size_t)asked->count * sizeof *c->asked);
  for (int a = 0; a < asked->count; a++) {
    mrt_activation *v = &asked->activations[a];
    if (v->choice != MRT_CHOICE_OPEN) continue;
    v->segment = segment_of(c, v->layer);
    bool crosses = segment_of(c, v->last_layer) > v->segment;
    v->choice =
        crosses || v->segment == last ? MRT_CHOICE_KEEP : MRT_CHOICE_RECOMPUTE;
  }
}

static double cost(const mrt_keeping *k, const mrt_schedule *s) {
  double sum = 0;
  for (int i = 0; i < s->count; i++)
    if (s->act[i].kind == MRT_ACT_RUN) sum += k->problem.cost[s->act[i].index];
  return sum;
}

/* Bytes that this cut takes; it becomes the best if it is. */
static mrt_status try(cutting *c, int64_t *takes) {
  mrt_keeping *k = c->k;
  mrt_schedule s;
  choose(c);
  MRT_TRY(mrt_schedule_chosen(k, &s));
  MRT_TRY(mrt_schedule_height(k->arena, &k->plan->ctx->error, &k->problem, &s,
                              takes));
  s.cost = cost(k, &s);
  if (*takes > c->wanted || (c->height && s.cost >= c->best.cost))
    return MRT_OK;
  c->best = s, c->height = *takes;
  return MRT_OK;
}

/* With segments of this size, keep as many layers whole as fit. */
static mrt_status keep_whole(cutting *c, int size) {
  int fits = 0, too_many = c->layers;
  c->size = size;
  while (too_many - fits > 1 + c->layers / 64) {
    int64_t takes;
    c->whole = fits + (too_many - fits) / 2;
    MRT_TRY(try(c, &takes));
    *(takes <= c->wanted ? &fits : &too_many) = c->whole;
  }
  return MRT_OK;
}

static mrt_status cut(cutting *c) {
  int64_t least = INT64_MAX;
  int smallest = 0;
  for (c->size = 1; c->size <= c->layers; c->size *= 2) {
    int64_t takes;
    MRT_TRY(try(c, &takes));
    if (takes < least) least = takes, smallest = c->size;
  }
  return c->height ? keep_whole(c, smallest) : MRT_OK;
}

mrt_status mrt_schedule_segments(mrt_keeping *k, int64_t wanted,
                                 mrt_schedule *out, int64_t *height) {
  mrt_activation *asked = MRT_NEW(k->arena, mrt_activation, k->asked.count);
  size_t bytes = (size_t)k->asked.count * sizeof *asked;
  if (!asked) return mrt_nomem(&k->plan->ctx->error);
  memcpy(asked, k->asked.activations, bytes);
  cutting c = {
    .k = k, .asked = asked, .layers = k->asked.layers, .wanted = wanted
  };
  mrt_status s = cut(&c);
  memcpy(k->asked.activations, asked, bytes);
  if (s) return s;
  *out = c.best, *height = c.height;
  return c.height ? MRT_OK : MRT_EBUDGET;
}
