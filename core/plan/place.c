/* place.c -- where in the arena does every buffer live?
 *
 *   needs   buffers with lifetimes
 *   gives   offsets, the arena's size, the lower bound
 *   method  pack.h, on the buffers that live in the arena; for longer where the
 *           first packing may not be the lowest and they are few; or a policy
 *           says so (options.place)
 *   holds   two buffers that live at one step never overlap; the arena is at
 *           least the lower bound, the largest sum of bytes alive at one step,
 *           and mostly equals it
 *   why     The peak of the plan is this height and what lies outside of the
 *           arena (pipeline.c, add_up): a byte saved here is a byte of the
 *           peak.
 *   never   looks at the clock: the same graph gives the same plan
 *
 * SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "mrt/policy.h"
#include "plan/swap/swap.h"
#include "solve/pack/pack.h"
#include "tensor/swap_tier.h"

#include <stdlib.h>

mrt_status mrt_plan_live(mrt_plan *plan, size_t *largest, int *step) {
  int n = plan->graph.node_count;
  int64_t *change = MRT_NEW(&plan->graph.arena, int64_t, n + 1);
  if (!change) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (!mrt_buffer_in_arena(s)) continue;
    change[s->first] += (int64_t)s->bytes;
    change[s->last + 1] -= (int64_t)s->bytes;
  }
  int64_t live = 0;
  for (int i = 0; i < n; i++) {
    live += change[i];
    if ((size_t)live > *largest) *largest = (size_t)live, *step = i;
  }
  return MRT_OK;
}

/* No sharing, for study: one after the other. */
static void stack_up(mrt_plan *plan) {
  for (int i = 0; i < plan->buffer_count; i++) {
    mrt_buffer *s = &plan->buffers[i];
    if (!mrt_buffer_in_arena(s)) continue;
    size_t align = s->align ? s->align : 1;
    s->offset = (plan->arena_bytes + align - 1) / align * align;
    plan->arena_bytes = s->offset + s->bytes;
  }
}

/* Would a lower packing help?  Within a budget only if this one is above it. */
static bool wants_lower(mrt_plan *plan, const mrt_pack_result *r) {
  size_t memory = plan->options.memory;
  if (r->proven) return false;
  if (!memory) return true;
  size_t rest = mrt_plan_rest(plan), room = memory > rest ? memory - rest : 0;
  return r->height > room && r->bound <= room;
}

enum { ARENA = -1 };

/* Is it one of the arena's, or of the tier's? */
static bool is_in(const mrt_buffer *s, int where) {
  return where == ARENA ? mrt_buffer_in_arena(s)
                        : mrt_buffer_is_swapped(s) && s->tier == where;
}

/* Pack the buffers there; *height is what they need.  Those behind have sizes
 * and places that a file likes. */
static mrt_status pack(mrt_plan *plan, mrt_arena *arena, int where,
                       size_t *height) {
  mrt_pack_buffer *items = MRT_NEW(arena, mrt_pack_buffer, plan->buffer_count);
  mrt_pack_result result;
  mrt_error *e = &plan->ctx->error;
  if (!items) return mrt_nomem(e);
  int n = 0;
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (!is_in(s, where)) continue;
    items[n++] = (mrt_pack_buffer){
      .size =
          mrt_buffer_is_swapped(s) ? mrt_swap_tier_round(s->bytes) : s->bytes,
      .alignment = mrt_buffer_is_swapped(s) ? MRT_TIER_ALIGN : s->align,
      .first = s->first,
      .last = s->last,
    };
  }
  int effort = plan->options.effort;
  effort = effort > 0 ? 1 : effort < 0 ? 0 : MRT_PACK_WORTH;
  if (plan->candidate.rough && n > MRT_PACK_SMALL) effort = 0;
  bool exact = (effort > 0 || plan->options.memory) && !plan->options.glance;
  MRT_TRY(mrt_pack_in(arena, e, items, n, 0, effort, &result));
  if (exact && n <= MRT_PACK_SMALL && wants_lower(plan, &result))
    MRT_TRY(mrt_pack_in(arena, e, items, n, 0, MRT_PACK_EFFORT, &result));
  n = 0;
  for (int i = 0; i < plan->buffer_count; i++)
    if (is_in(&plan->buffers[i], where))
      plan->buffers[i].offset = items[n++].offset;
  *height = result.height;
  return MRT_OK;
}

/* ---- by a policy ----------------------------------------------------------- */

static int by_first(const void *a, const void *b) {
  const mrt_placed *x = a, *y = b;
  int later = (x->first > y->first) - (x->first < y->first);
  return later ? later : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Does a block begin below the end of one that lives at the same step? */
static const mrt_placed *overlaps(const mrt_placing *asked, int i) {
  const mrt_placed *a = &asked->blocks[i];
  for (int k = 0; k < i; k++) {
    const mrt_placed *b = &asked->blocks[k];
    bool together = a->first <= b->last && b->first <= a->last;
    if (together && a->offset < b->offset + b->bytes &&
        b->offset < a->offset + a->bytes)
      return b;
  }
  return NULL;
}

static mrt_status check_answer(mrt_plan *plan, mrt_placing *asked) {
  mrt_error *e = &plan->ctx->error;
  for (int i = 0; i < asked->count; i++) {
    const mrt_placed *a = &asked->blocks[i], *b = overlaps(asked, i);
    if (a->offset % a->align || a->offset > SIZE_MAX / 2 - a->bytes)
      return mrt_fail(e, MRT_EVALUE,
                      "place: block %d (%s, %zu bytes) at %zu, a multiple of "
                      "%zu wanted",
                      i + 1, a->op, a->bytes, a->offset, a->align);
    if (b)
      return mrt_fail(
          e, MRT_EVALUE,
          "place: block %d (%s, %zu bytes at %zu) overlaps block %d "
          "(%s, %zu bytes at %zu), which lives then too",
          i + 1, a->op, a->bytes, a->offset, (int)(b - asked->blocks) + 1,
          b->op, b->bytes, b->offset);
    if (a->offset + a->bytes > asked->height)
      asked->height = a->offset + a->bytes;
  }
  return MRT_OK;
}

/* What the policy says of the arena. */
static mrt_status ask(mrt_plan *plan, mrt_arena *arena, size_t *height) {
  mrt_placed *blocks = MRT_NEW(arena, mrt_placed, plan->buffer_count);
  mrt_placing asked = { .blocks = blocks, .steps = plan->graph.node_count };
  if (!blocks) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    size_t least = plan->ctx->device.align;
    if (!mrt_buffer_in_arena(s) || s->bytes == 0) continue;
    blocks[asked.count++] = (mrt_placed){
      .op = s->node ? s->node->op->name : "",
      .name = s->value ? s->value->name : NULL,
      .bytes = s->bytes,
      .align = s->align > least ? s->align : least,
      .first = s->first,
      .last = s->last,
      .offset = (size_t)i, /* until it is answered: which buffer */
    };
  }
  qsort(blocks, (size_t)asked.count, sizeof *blocks, by_first);
  int *buffer = MRT_NEW(arena, int, asked.count + 1);
  if (!buffer) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < asked.count; i++) buffer[i] = (int)blocks[i].offset;
  MRT_TRY(plan->options.place(plan->options.place_user, &asked));
  MRT_TRY(check_answer(plan, &asked));
  for (int i = 0; i < asked.count; i++)
    plan->buffers[buffer[i]].offset = blocks[i].offset;
  *height = asked.height;
  return MRT_OK;
}

/* ---- swap tiers ---------------------------------------------------------- */

/* What packing has put above the tier's capacity goes to the next one, and
 * leaves the others where they lie. */
static mrt_status move_on(mrt_plan *plan, int tier) {
  size_t capacity = mrt_swap_capacity(plan, tier), homes = 0, height = 0;
  bool last = tier + 1 == mrt_device_tier_count(&plan->device);
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (s->kind == MRT_BUFFER_SWAPPED && !s->node && s->tier == tier)
      homes += mrt_swap_tier_round(s->bytes);
  }
  if (!capacity || homes + plan->swap_bytes[tier] <= capacity) return MRT_OK;
  for (int i = 0; i < plan->buffer_count; i++) {
    mrt_buffer *s = &plan->buffers[i];
    size_t end = s->offset + mrt_swap_tier_round(s->bytes);
    if (!is_in(s, tier)) continue;
    if (homes + end > capacity) {
      if (last) return mrt_swap_full(plan, s->value, tier);
      s->tier++;
    } else if (end > height) {
      height = end;
    }
  }
  plan->swap_bytes[tier] = height;
  return MRT_OK;
}

static mrt_status place_swapped(mrt_plan *plan, mrt_arena *arena) {
  for (int t = 0; t < mrt_device_tier_count(&plan->device); t++) {
    MRT_TRY(pack(plan, arena, t, &plan->swap_bytes[t]));
    MRT_TRY(move_on(plan, t));
  }
  return MRT_OK;
}

mrt_status mrt_pass_place(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  plan->arena_bytes = 0;
  plan->info.lower_bound = 0;
  MRT_TRY(mrt_plan_live(plan, &plan->info.lower_bound, &plan->info.peak_step));
  mrt_arena arena;
  mrt_arena_init(&arena, plan->ctx->allocator);
  mrt_status s = plan->swaps ? place_swapped(plan, &arena) : MRT_OK;
  if (plan->options.no_share)
    stack_up(plan);
  else if (!s && plan->options.place)
    s = ask(plan, &arena, &plan->arena_bytes);
  else if (!s)
    s = pack(plan, &arena, ARENA, &plan->arena_bytes);
  mrt_arena_free(&arena);
  return s;
}
