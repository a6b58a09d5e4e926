/* spend.c -- what is computed again unasked, because that costs next to nothing
 *
 *   needs   activations that nobody has decided about (OPEN)
 *   gives   RECOMPUTE for some of these; all others stay as they are
 *   rule    A value may go that memory bounds: making it takes no longer than
 *           moving its bytes a few times.  What it is made of is there when it
 *           is wanted again: a leaf, what the backward pass reads too, or
 *           something small.  So one node runs again for it, and no chain.
 *           All together take no more than the share `spend` of the step.
 *   method  Greedily, by bytes for a second; what one is made of stays kept.
 *   never   is asked within a budget, where the solver does better, nor beside
 *           a policy, which has the word
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

#include <stdlib.h>

enum {
  LEAST = 1 << 16, /* bytes: below, a launch is worth more */
  MOVES = 8,       /* of its bytes through memory, in the time it is made in */
  SMALL = 32       /* part of it that what it is made of may be, and be kept */
};

typedef struct offer {
  int activation;
  double seconds, gain; /* bytes for a second */
} offer;

static int by_gain(const void *a, const void *b) {
  const offer *x = a, *y = b;
  if (x->gain != y->gain) return x->gain < y->gain ? 1 : -1;
  return x->activation - y->activation;
}

static const mrt_activation *made_of(const mrt_recompute *k, int read) {
  int a = k->activation_of[k->dag.reads.item[read]];
  return a < 0 ? NULL : &k->asked.activations[a];
}

/* Is all that the value is made of there, or little? */
static bool at_hand(const mrt_recompute *k, int a) {
  int i = k->dag.maker[k->buffer_of[a]];
  size_t little = k->asked.activations[a].bytes / SMALL;
  for (int r = k->dag.reads.start[i]; r < k->dag.reads.start[i + 1]; r++) {
    const mrt_activation *v = made_of(k, r);
    if (!v) continue;
    bool stays = v->choice == MRT_CHOICE_OPEN || v->choice == MRT_CHOICE_KEEP;
    if (!stays || (!v->saved && v->bytes > little)) return false;
  }
  return true;
}

/* Is it worth asking? */
static bool offers(const mrt_recompute *k, int a, offer *o) {
  const mrt_activation *v = &k->asked.activations[a];
  double move = 2 * (double)v->bytes / k->plan->device.bandwidth;
  *o = (offer){ a, v->seconds, 0 };
  if (!v->saved || v->choice != MRT_CHOICE_OPEN || v->bytes < LEAST ||
      !(v->seconds > 0) || v->seconds > MOVES * move)
    return false;
  o->gain = (double)v->bytes / v->seconds;
  return at_hand(k, a);
}

static void keep_made_of(mrt_recompute *k, int a) {
  int i = k->dag.maker[k->buffer_of[a]];
  for (int r = k->dag.reads.start[i]; r < k->dag.reads.start[i + 1]; r++) {
    int from = k->activation_of[k->dag.reads.item[r]];
    if (from >= 0) k->asked.activations[from].choice = MRT_CHOICE_KEEP;
  }
}

mrt_status mrt_recompute_spend(mrt_recompute *k, double share, int *count) {
  offer *list = MRT_NEW(k->arena, offer, k->asked.count);
  double seconds = 0;
  int n = 0;
  *count = 0;
  if (!list) return mrt_nomem(&k->plan->ctx->error);
  for (int i = 0; i < k->dag.real; i++) seconds += k->problem.cost[i];
  for (int a = 0; a < k->asked.count; a++) n += offers(k, a, &list[n]);
  if (n > 0) qsort(list, (size_t)n, sizeof *list, by_gain);
  seconds *= share;
  for (int j = 0; j < n; j++) {
    mrt_activation *v = &k->asked.activations[list[j].activation];
    if (list[j].seconds > seconds || v->choice != MRT_CHOICE_OPEN ||
        !at_hand(k, list[j].activation))
      continue;
    v->choice = MRT_CHOICE_RECOMPUTE;
    seconds -= list[j].seconds, ++*count;
    keep_made_of(k, list[j].activation);
  }
  return MRT_OK;
}
