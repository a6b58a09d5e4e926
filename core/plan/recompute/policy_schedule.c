/* policy_schedule.c -- the schedule that a policy's choices describe
 *
 *   needs   a choice for every activation
 *   gives   acts: every node once in its order, and again what is missing
 *           right before the node that needs it
 *   method  Walk the order.  A value to be recomputed goes after its last
 *           reader in the forward pass.  When a backward node misses it, the
 *           missing ancestors run again in order (their closure).  What was
 *           asked for stays until its last use.  So does, within one segment,
 *           what was computed on the way and has uses to come: a segment is
 *           run again once (Chen et al. 2016).  From other segments it goes
 *           again at once.  Where something is missed when a variable that it
 *           is made of was updated, all of its segment is held for clones too.
 *           What is kept goes after its last reader, clones included.  A weight
 *           would be gathered for a third time where its second use in the
 *           forward pass is a lookup: that is kept.
 *   never   drops what cannot be had again: then it is kept
 *
 * SPDX-License-Identifier: MIT */
#include "plan/recompute/recompute.h"

typedef struct policy_walk {
  mrt_recompute *k;
  mrt_schedule *s;
  int room;
  bool *drops;         /* by buffer: to be recomputed */
  bool *there;         /* by buffer */
  int *left;           /* by buffer: readers to come in the program */
  int *before;         /* by buffer: of these, in the forward pass */
  int *wanted;         /* by buffer: reads by the closure being run */
  bool *passing;       /* by buffer: here for the closure only */
  bool *held;          /* by buffer: in its segment it stays for clones */
  int *closure, count; /* nodes */
  int *in_closure;     /* by node: position of the wanter + 1 */
  int again;           /* a buffer that must be kept, or -1 */
} policy_walk;

static mrt_status act(policy_walk *w, mrt_act_kind kind, int index) {
  mrt_schedule *s = w->s;
  if (!MRT_PUSH_ROOM(w->k->arena, s->act, s->count, w->room))
    return mrt_nomem(&w->k->plan->ctx->error);
  s->act[s->count++] = (mrt_act){ kind, index };
  return MRT_OK;
}

static mrt_status drop(policy_walk *w, int buffer) {
  w->there[buffer] = false;
  return act(w, MRT_ACT_DROP, buffer);
}

/* Add the maker of a missing buffer to the closure, and what it misses. */
static void add_missing(policy_walk *w, int wanter, int buffer) {
  const mrt_dag *f = &w->k->dag;
  int maker = f->maker[buffer], next = w->count;
  if (w->in_closure[maker] == wanter + 1) return;
  w->in_closure[maker] = wanter + 1;
  w->closure[w->count++] = maker;
  for (; next < w->count; next++) {
    int i = w->closure[next];
    for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++) {
      int b = f->reads.item[r], m = f->maker[b];
      if (w->there[b] || w->in_closure[m] == wanter + 1) continue;
      w->in_closure[m] = wanter + 1;
      w->closure[w->count++] = m;
    }
  }
}

/* Ascending. */
static void sort(int *at, int n) {
  for (int gap = n / 2; gap > 0; gap /= 2)
    for (int i = gap; i < n; i++)
      for (int j = i; j >= gap && at[j - gap] > at[j]; j -= gap) {
        int t = at[j];
        at[j] = at[j - gap], at[j - gap] = t;
      }
}

/* Is a value of `a` held while clones are made for this segment?  What a region
 * hands on inside stays while inner ones are worked through. */
static bool belongs(const policy_walk *w, const mrt_activation *a,
                    int segment) {
  if (a->segment < 0 && segment < 0)
    return mrt_region_inside(&w->k->plan->ctx->origins, -segment, -a->segment);
  return a->segment <= segment && a->last_segment >= segment;
}

static bool stays(const policy_walk *w, int wanter, int buffer) {
  int a = w->k->activation_of[buffer];
  return (w->left[buffer] > 0 || w->held[buffer]) && a >= 0 &&
         belongs(w, &w->k->asked.activations[a], w->k->segment[wanter]);
}

static mrt_status run_again(policy_walk *w, int wanter, int i) {
  const mrt_dag *f = &w->k->dag;
  if (wanter >= w->k->problem.until[i]) {
    w->again = f->made[i];
    return MRT_OK;
  }
  MRT_TRY(act(w, MRT_ACT_RUN, i));
  for (int b = f->made[i]; b < f->made[i + 1]; b++) {
    if (w->there[b]) continue;
    w->there[b] = true;
    w->passing[b] = !stays(w, wanter, b);
    if (w->passing[b] && w->wanted[b] == 0) MRT_TRY(drop(w, b));
  }
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++) {
    int b = f->reads.item[r];
    if (--w->wanted[b] == 0 && w->passing[b]) MRT_TRY(drop(w, b));
  }
  return MRT_OK;
}

/* Bring what node i misses. */
static mrt_status bring(policy_walk *w, int i) {
  const mrt_dag *f = &w->k->dag;
  w->count = 0;
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++)
    if (!w->there[f->reads.item[r]]) add_missing(w, i, f->reads.item[r]);
  if (w->count == 0) return MRT_OK;
  sort(w->closure, w->count);
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++)
    w->wanted[f->reads.item[r]]++;
  for (int c = 0; c < w->count; c++)
    for (int r = f->reads.start[w->closure[c]];
         r < f->reads.start[w->closure[c] + 1]; r++)
      w->wanted[f->reads.item[r]]++;
  for (int c = 0; c < w->count && w->again < 0; c++)
    MRT_TRY(run_again(w, i, w->closure[c]));
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++) {
    w->wanted[f->reads.item[r]]--;
    w->passing[f->reads.item[r]] = false; /* asked for: it stays */
  }
  return MRT_OK;
}

static mrt_status run(policy_walk *w, int i) {
  const mrt_dag *f = &w->k->dag;
  MRT_TRY(bring(w, i));
  MRT_TRY(act(w, MRT_ACT_RUN, i));
  for (int b = f->made[i]; b < f->made[i + 1]; b++) w->there[b] = true;
  for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++) {
    int b = f->reads.item[r];
    w->left[b]--;
    w->before[b] -= w->k->forward[i];
    bool gap = w->k->forward[i] && w->before[b] == 0;
    bool over = w->left[b] == 0 && !w->held[b];
    if (w->drops[b] && (over || gap)) MRT_TRY(drop(w, b));
  }
  for (int b = f->made[i]; b < f->made[i + 1]; b++)
    if (w->drops[b] && w->before[b] == 0) MRT_TRY(drop(w, b));
  return MRT_OK;
}

static void count_readers(policy_walk *w) {
  const mrt_dag *f = &w->k->dag;
  for (int b = 0; b < f->buffers; b++) {
    w->left[b] = w->before[b] = w->wanted[b] = 0;
    w->there[b] = w->passing[b] = false;
    for (int r = f->readers.start[b]; r < f->readers.start[b + 1]; r++)
      w->left[b]++, w->before[b] += w->k->forward[f->readers.item[r]];
  }
}

static mrt_status attempt(policy_walk *w) {
  w->s->count = 0, w->again = -1;
  count_readers(w);
  for (int i = 0; i < w->k->dag.real; i++) w->in_closure[i] = 0;
  for (int i = 0; i < w->k->dag.real && w->again < 0; i++) MRT_TRY(run(w, i));
  return MRT_OK;
}

/* Values without a DROP get one after the last run that reads them. */
static mrt_status drop_the_rest(policy_walk *w) {
  const mrt_dag *f = &w->k->dag;
  mrt_schedule was = *w->s;
  int *last = w->left; /* by buffer: the act that reads it last, -1: dropped */
  for (int b = 0; b < f->buffers; b++) last[b] = -1;
  for (int a = 0; a < was.count; a++) {
    int i = was.act[a].index;
    if (was.act[a].kind == MRT_ACT_DROP) last[i] = -1;
    if (was.act[a].kind != MRT_ACT_RUN) continue;
    for (int b = f->made[i]; b < f->made[i + 1]; b++)
      if (last[b] < 0) last[b] = a;
    for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++)
      last[f->reads.item[r]] = a;
  }
  w->s->act = NULL, w->s->count = w->room = 0;
  for (int a = 0; a < was.count; a++) {
    int i = was.act[a].index;
    MRT_TRY(act(w, was.act[a].kind, i));
    if (was.act[a].kind != MRT_ACT_RUN) continue;
    for (int r = f->reads.start[i]; r < f->reads.start[i + 1]; r++)
      if (last[f->reads.item[r]] == a)
        MRT_TRY(act(w, MRT_ACT_DROP, f->reads.item[r]));
    for (int b = f->made[i]; b < f->made[i + 1]; b++)
      if (last[b] == a) MRT_TRY(act(w, MRT_ACT_DROP, b));
  }
  return MRT_OK;
}

/* w->again is missed when it cannot be had: hold its segment, or keep it. */
static void mend(policy_walk *w) {
  const mrt_recompute *k = w->k;
  const mrt_dag *f = &k->dag;
  const mrt_activation *all = k->asked.activations;
  int a = k->activation_of[w->again];
  if (a < 0 || w->held[w->again]) {
    for (int b = w->again; b < f->made[f->maker[w->again] + 1]; b++)
      w->drops[b] = false;
    return;
  }
  for (int i = 0; i < k->asked.count; i++)
    if (all[i].segment == all[a].segment) w->held[k->buffer_of[i]] = true;
}

static bool is_product(const mrt_recompute *k, int i) {
  return k->plan->graph.nodes[i]->op->width == MRT_NARROW;
}

/* Keep what forward nodes other than products make of the buffer; any? */
static bool keep_made_of(policy_walk *w, int buffer) {
  const mrt_recompute *k = w->k;
  const mrt_dag *f = &k->dag;
  bool any = false;
  for (int r = f->readers.start[buffer]; r < f->readers.start[buffer + 1];
       r++) {
    int i = f->readers.item[r];
    if (!k->forward[i] || is_product(k, i)) continue;
    for (int b = f->made[i]; b < f->made[i + 1]; b++) {
      if (mrt_gathered(k->plan->graph.nodes[i])) {
        any |= keep_made_of(w, b);
      } else if (w->drops[b]) {
        w->drops[b] = false, any = true;
      }
    }
  }
  return any;
}

/* Are gathers there that run more than twice, and can that be helped? */
static bool keep_lookups(policy_walk *w) {
  const mrt_dag *f = &w->k->dag;
  bool any = false;
  for (int i = 0; i < f->real; i++) w->in_closure[i] = 0;
  for (int a = 0; a < w->s->count; a++)
    if (w->s->act[a].kind == MRT_ACT_RUN) w->in_closure[w->s->act[a].index]++;
  for (int i = 0; i < f->real; i++)
    if (w->in_closure[i] > 2 && mrt_gathered(w->k->plan->graph.nodes[i]))
      for (int b = f->made[i]; b < f->made[i + 1]; b++)
        any |= keep_made_of(w, b);
  return any;
}

mrt_status mrt_recompute_policy_schedule(mrt_recompute *k, mrt_schedule *s) {
  const mrt_dag *f = &k->dag;
  *s = (mrt_schedule){ 0 };
  policy_walk w = { .k = k,
                    .s = s,
                    .drops = MRT_NEW(k->arena, bool, f->buffers),
                    .there = MRT_NEW(k->arena, bool, f->buffers),
                    .left = MRT_NEW(k->arena, int, f->buffers),
                    .before = MRT_NEW(k->arena, int, f->buffers),
                    .wanted = MRT_NEW(k->arena, int, f->buffers),
                    .passing = MRT_NEW(k->arena, bool, f->buffers),
                    .held = MRT_NEW(k->arena, bool, f->buffers),
                    .closure = MRT_NEW(k->arena, int, f->real),
                    .in_closure = MRT_NEW(k->arena, int, f->real) };
  if (!w.drops || !w.there || !w.left || !w.before || !w.wanted || !w.passing ||
      !w.held || !w.closure || !w.in_closure)
    return mrt_nomem(&k->plan->ctx->error);
  MRT_TRY(mrt_recompute_segment_of(k));
  for (int a = 0; a < k->asked.count; a++)
    w.drops[k->buffer_of[a]] =
        k->asked.activations[a].choice == MRT_CHOICE_RECOMPUTE;
  do {
    MRT_TRY(attempt(&w));
    if (w.again >= 0) mend(&w);
  } while (w.again >= 0 || keep_lookups(&w));
  return drop_the_rest(&w);
}
