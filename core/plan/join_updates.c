/* join_updates.c -- which updates wait, for one launch to do them together?
 *
 *   question  a device does the updates that stand together in one launch
 *             (run/group.c); which can wait for later ones, in the memory that
 *             the plan has?
 *   needs     offsets in the arena
 *   gives     an order in which updates that take less than a launch does stand
 *             before a later update by the same kernel; what they read lives
 *             until then, elsewhere if another needs its place
 *   method    From the last to the first: as late as what comes after it
 *             permits, to where one stands already; that fails where what it
 *             reads has no place for so long, and half as far is tried.
 *   holds     the arena is no larger than before
 *   cost      O(updates * log updates * buffers)
 *   never     moves an update that takes longer: while it waits its gradient
 *             leaves the cache, which costs as much as a launch
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "plan/dag.h"
#include "plan/planner.h"

#include <stdlib.h>

/* Steps are told by where they stood. */
typedef struct update_joining {
  mrt_plan *plan;
  mrt_arena arena;
  mrt_dag dag;
  int *time;  /* by step: it runs just before the one there; or there */
  int *place; /* steps where updates stand, the last first */
  int places;
  int moved;
  mrt_buffer **near; /* scratch */
} update_joining;

static bool is_update(const mrt_step *s) {
  return !s->hosted && s->kernel->together && mrt_node_is_update(s->node);
}

static bool is_small(const mrt_plan *plan, const mrt_step *s) {
  return s->seconds < 2 * plan->device.launch && s->node->scratch_buffer < 0;
}

/* The last step before which it may run. */
static int latest(const update_joining *w, int step) {
  const mrt_lists *after = &w->dag.after;
  int last = w->plan->step_count - 1;
  for (int k = after->start[step]; k < after->start[step + 1]; k++)
    if (w->time[after->item[k]] < last) last = w->time[after->item[k]];
  return last;
}

/* ---- a place for what it reads ------------------------------------------- */

static int by_offset(const void *a, const void *b) {
  const mrt_buffer *x = *(mrt_buffer *const *)a, *y = *(mrt_buffer *const *)b;
  int higher = (x->offset > y->offset) - (x->offset < y->offset);
  return higher ? higher : (x > y) - (x < y);
}

/* Others that live in the arena at a step from `first` to `last`; in the order
 * of their offsets. */
static int find_near(update_joining *w, const mrt_buffer *but, int last) {
  mrt_plan *plan = w->plan;
  int n = 0;
  for (int i = 0; i < plan->buffer_count; i++) {
    mrt_buffer *b = &plan->buffers[i];
    if (b != but && mrt_buffer_in_arena(b) && b->bytes && b->first <= last &&
        b->last >= but->first)
      w->near[n++] = b;
  }
  qsort(w->near, (size_t)n, sizeof *w->near, by_offset);
  return n;
}

/* Let it live until `last`, where it lies or elsewhere; false: no room. */
static bool keep_until(update_joining *w, mrt_buffer *b, int last) {
  size_t align = w->plan->ctx->device.align, free = 0, end = 0;
  bool stays = true, found = false;
  if (b->last >= last) return true;
  if (b->align > align) align = b->align;
  for (int i = 0, n = find_near(w, b, last); i < n; i++) {
    const mrt_buffer *c = w->near[i];
    stays &=
        c->offset >= b->offset + b->bytes || b->offset >= c->offset + c->bytes;
    if (!found && free + b->bytes <= c->offset) found = true;
    if (c->offset + c->bytes > end) end = c->offset + c->bytes;
    if (!found) free = (end + align - 1) / align * align;
  }
  if (!stays && free + b->bytes > w->plan->arena_bytes) return false;
  if (!stays) b->offset = free;
  b->last = last;
  return true;
}

static bool keep_inputs(update_joining *w, const mrt_node *n, int last) {
  for (int k = 0; k < n->nin; k++) {
    mrt_buffer *b = &w->plan->buffers[n->in[k]->base->buffer];
    if (mrt_buffer_in_arena(b) && !keep_until(w, b, last)) return false;
  }
  return true;
}

/* ---- moves --------------------------------------------------------------- */

static void try_to_move(update_joining *w, int step) {
  const mrt_plan *plan = w->plan;
  const mrt_step *s = &plan->steps[step];
  int last = latest(w, step), k = 0;
  while (k < w->places && w->place[k] > last) k++;
  for (int left = w->places - k; left > 0;) {
    int to = w->place[w->places - left];
    bool alike = plan->steps[to].kernel == s->kernel;
    if (alike && keep_inputs(w, s->node, to)) {
      w->time[step] = to, w->moved++;
      return;
    }
    left -= alike ? (left + 1) / 2 : 1;
  }
}

static void move_all(update_joining *w) {
  const mrt_plan *plan = w->plan;
  for (int i = plan->step_count; i-- > 0;) {
    w->time[i] = i;
    if (!is_update(&plan->steps[i])) continue;
    if (is_small(plan, &plan->steps[i])) try_to_move(w, i);
    if (w->time[i] == i) w->place[w->places++] = i;
  }
}

/* ---- the new order ------------------------------------------------------- */

/* Where each step comes to stand: updates just before the one they wait for, as
 * they stood. */
static void find_positions(const update_joining *w, int *at, int *waiting) {
  int n = w->plan->step_count;
  for (int i = 0; i <= n; i++) waiting[i] = 0;
  for (int i = 0; i < n; i++) waiting[w->time[i]]++;
  for (int i = 0, before = 0; i < n; i++) {
    int here = waiting[i];
    waiting[i] = before, before += here;
  }
  for (int i = 0; i < n; i++) at[i] = waiting[w->time[i]]++;
}

static mrt_status reorder(update_joining *w) {
  mrt_plan *plan = w->plan;
  mrt_graph *g = &plan->graph;
  int n = plan->step_count;
  int *at = MRT_NEW(&w->arena, int, n);
  int *waiting = MRT_NEW(&w->arena, int, n + 1);
  mrt_node **nodes = MRT_NEW(&g->arena, mrt_node *, n);
  if (!at || !waiting || !nodes) return MRT_ENOMEM;
  find_positions(w, at, waiting);
  for (int i = 0; i < n; i++) nodes[at[i]] = g->nodes[i];
  for (int i = 0; i < plan->buffer_count; i++) {
    mrt_buffer *b = &plan->buffers[i];
    if (b->node) b->first = at[b->first], b->last = at[b->last];
  }
  MRT_TRY(mrt_plan_insert(plan, nodes, n));
  plan->info.lower_bound = 0;
  return mrt_plan_live(plan, &plan->info.lower_bound, &plan->info.peak_step);
}

static mrt_status join(update_joining *w) {
  const mrt_plan *plan = w->plan;
  int n = plan->step_count;
  MRT_TRY(mrt_plan_dag(&w->dag, NULL, plan, &w->arena, false));
  w->time = MRT_NEW(&w->arena, int, n);
  w->place = MRT_NEW(&w->arena, int, n);
  w->near = MRT_NEW(&w->arena, mrt_buffer *, plan->buffer_count);
  if (!w->time || !w->place || !w->near) return MRT_ENOMEM;
  move_all(w);
  return w->moved ? reorder(w) : MRT_OK;
}

/* At least two updates, one of them small? */
static bool is_worth_it(const mrt_plan *plan) {
  int updates = 0, small = 0;
  for (int i = 0; i < plan->step_count; i++) {
    if (!is_update(&plan->steps[i])) continue;
    updates++, small += is_small(plan, &plan->steps[i]);
  }
  return updates > 1 && small > 0;
}

mrt_status mrt_pass_join_updates(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  const mrt_plan_options *o = &plan->options;
  update_joining w = { .plan = plan };
  if (o->keep_order || o->no_share || o->place || plan->swaps ||
      plan->graph.transfer_count || !is_worth_it(plan))
    return MRT_OK;
  mrt_arena_init(&w.arena, plan->ctx->allocator);
  mrt_status s = join(&w);
  mrt_arena_free(&w.arena);
  return s == MRT_ENOMEM ? mrt_nomem(&plan->ctx->error) : s;
}
