/* check.c -- proof that the plan is right
 *
 *   question  does every read see the value that was written for it?
 *   method    Walk the steps with a map from bytes to the value written there
 *             last: each node's inputs must still be whole, and its outputs
 *             then own their bytes.  Knows places only; nothing of lifetimes,
 *             of in-place rules or of how offsets were found.
 *   cost      O(steps * slots alive)
 *
 * SPDX-License-Identifier: MIT */
#include "plan/plan.h"

/* What is known to lie at [from, to) of the arena. */
typedef struct held {
  size_t from, to;
  int base; /* value id */
} held;

typedef struct checking {
  const mrt_plan *plan;
  held *now;
  int count, room;
  mrt_arena arena;
} checking;

static const mrt_slot *arena_slot(const checking *c, const mrt_value *v) {
  const mrt_slot *s = &c->plan->slots[v->base->slot];
  return mrt_slot_in_arena(s) ? s : NULL;
}

static bool whole(const checking *c, const mrt_value *v) {
  for (int i = 0; i < c->count; i++)
    if (c->now[i].base == v->base->id) return true;
  return false;
}

/* Whatever lies in [from, to) is overwritten. */
static void overwrite(checking *c, size_t from, size_t to) {
  int kept = 0;
  for (int i = 0; i < c->count; i++)
    if (c->now[i].to <= from || c->now[i].from >= to)
      c->now[kept++] = c->now[i];
  c->count = kept;
}

static mrt_status fail(const checking *c, int step, const char *what) {
  const mrt_node *n = c->plan->graph.nodes[step];
  return mrt_fail(&c->plan->ctx->error, MRT_EPLAN,
                  "plan check: step %d, %s (%s:%d): %s", step + 1, n->label,
                  n->origin.file, n->origin.line, what);
}

static mrt_status write_value(checking *c, int step, const mrt_value *v) {
  const mrt_slot *s = arena_slot(c, v);
  if (!s || v->base != v) return MRT_OK;
  size_t bytes = mrt_type_bytes(&v->type);
  if (s->offset + bytes > c->plan->arena_bytes)
    return fail(c, step, "an output lies outside the arena");
  overwrite(c, s->offset, s->offset + bytes);
  if (!MRT_PUSH_ROOM(&c->arena, c->now, c->count, c->room))
    return mrt_nomem(&c->plan->ctx->error);
  c->now[c->count++] = (held){ s->offset, s->offset + bytes, v->id };
  return MRT_OK;
}

/* An output may lie on an input only exactly, and where the row allows it. */
static bool disturbs_input(const checking *c, const mrt_node *n) {
  for (int k = 0; k < n->nout; k++) {
    const mrt_slot *to = arena_slot(c, n->out[k]);
    for (int m = 0; to && m < n->nin; m++) {
      const mrt_slot *from = arena_slot(c, n->in[m]);
      if (!from || to->offset >= from->offset + from->bytes ||
          from->offset >= to->offset + to->bytes)
        continue;
      bool allowed = m < 32 && (n->op->inplace >> m & 1);
      if (!allowed || to->offset != from->offset) return true;
    }
  }
  return false;
}

static mrt_status check_step(checking *c, int i) {
  const mrt_node *n = c->plan->graph.nodes[i];
  if (disturbs_input(c, n)) return fail(c, i, "an output lies on an input");
  for (int k = 0; k < n->nin; k++)
    if (arena_slot(c, n->in[k]) && !whole(c, n->in[k]))
      return fail(c, i, "an input has been overwritten or was never written");
  if (n->scratch_slot >= 0) {
    const mrt_slot *s = &c->plan->slots[n->scratch_slot];
    overwrite(c, s->offset, s->offset + s->bytes);
    for (int k = 0; k < n->nin; k++)
      if (arena_slot(c, n->in[k]) && !whole(c, n->in[k]))
        return fail(c, i, "the scratch overlaps an input");
  }
  for (int k = 0; k < n->nout; k++) MRT_TRY(write_value(c, i, n->out[k]));
  for (int k = 0; k < n->nout; k++)
    if (arena_slot(c, n->out[k]) && !whole(c, n->out[k]))
      return fail(c, i, "two outputs overlap");
  return MRT_OK;
}

mrt_status mrt_pass_check(mrt_plan *plan) {
  checking c = { .plan = plan };
  mrt_arena_init(&c.arena, plan->ctx->allocator);
  mrt_status s = mrt_graph_check(&plan->graph, &plan->ctx->error);
  for (int i = 0; i < plan->graph.node_count && !s; i++) s = check_step(&c, i);
  mrt_arena_free(&c.arena);
  return s;
}
