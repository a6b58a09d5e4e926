/* check_async.c -- proof that what runs beside the steps is left alone
 *
 *   question  does anything touch what is being copied between tiers, or what
 *             a collective that began ahead reads and writes?
 *   method    Walk the steps with the copies that run.  Until its wait, which
 *             names both sides, a copy's source must not change and its target
 *             must be neither read nor written.  So too of a collective; where
 *             its result lies in its input's place the wait names that alone.
 *   cost      O(operands * copies at once)
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/plan.h"

/* The two sides of a copy that has begun. */
typedef struct running {
  const mrt_value *from, *to;
} running;

typedef struct async_proof {
  const mrt_plan *plan;
  running *copies;
  int count, room;
} async_proof;

static mrt_status fail(const async_proof *c, int step, const char *what) {
  const mrt_node *n = c->plan->graph.nodes[step];
  return mrt_fail(&c->plan->ctx->error, MRT_EPLAN,
                  "plan check: step %d, %s (%s:%d): %s", step + 1, n->label,
                  n->origin.file, n->origin.line, what);
}

/* Bytes in common, in the arena or behind it. */
static bool buffers_meet(const mrt_buffer *s, const mrt_buffer *t) {
  bool arena = mrt_buffer_in_arena(s) && mrt_buffer_in_arena(t);
  bool behind = mrt_buffer_is_swapped(s) && mrt_buffer_is_swapped(t) &&
                s->tier == t->tier;
  return (arena || behind) && s->offset < t->offset + t->bytes &&
         t->offset < s->offset + s->bytes;
}

static bool meet(const async_proof *c, const mrt_value *v, const mrt_value *w) {
  const mrt_buffer *buffers = c->plan->buffers;
  return v->base == w->base ||
         buffers_meet(&buffers[v->base->buffer], &buffers[w->base->buffer]);
}

static bool disturbs(const async_proof *c, const mrt_node *n,
                     const running *r) {
  const mrt_buffer *buffers = c->plan->buffers;
  for (int k = 0; k < n->nin; k++)
    if (meet(c, n->in[k], r->to)) return true;
  for (int k = 0; k < n->nout; k++)
    if (meet(c, n->out[k], r->from) || meet(c, n->out[k], r->to)) return true;
  if (n->scratch_buffer < 0) return false;
  return buffers_meet(&buffers[n->scratch_buffer],
                      &buffers[r->from->base->buffer]) ||
         buffers_meet(&buffers[n->scratch_buffer],
                      &buffers[r->to->base->buffer]);
}

static bool end(async_proof *c, const mrt_node *n) {
  for (int i = 0; i < c->count; i++) {
    const mrt_value *from = c->copies[i].from->base;
    const mrt_value *to = c->copies[i].to->base;
    const mrt_value *a = n->in[0]->base, *b = n->in[n->nin - 1]->base;
    bool in_place = n->nin == 1 && a == to && from->buffer == to->buffer;
    if (!(a == from && b == to) && !(a == to && b == from) && !in_place)
      continue;
    c->copies[i] = c->copies[--c->count];
    return true;
  }
  return false;
}

static mrt_status check_step(async_proof *c, mrt_arena *arena, int i) {
  const mrt_node *n = c->plan->graph.nodes[i];
  if ((n->op->traits & MRT_WAITS) && !end(c, n))
    return fail(c, i, "waits for a copy that has not begun");
  for (int k = 0; k < c->count; k++)
    if (disturbs(c, n, &c->copies[k]))
      return fail(c, i, "touches what is being copied");
  if (!(n->op->traits & MRT_SWAPS) && !mrt_is_ahead(n->op, n->options))
    return MRT_OK;
  if (!MRT_PUSH_ROOM(arena, c->copies, c->count, c->room))
    return mrt_nomem(&c->plan->ctx->error);
  c->copies[c->count++] = (running){ n->in[0], n->out[0] };
  return MRT_OK;
}

mrt_status mrt_check_copies(const mrt_plan *plan, mrt_arena *arena) {
  async_proof c = { .plan = plan };
  int n = plan->graph.node_count;
  for (int i = 0; i < n; i++) MRT_TRY(check_step(&c, arena, i));
  return c.count ? fail(&c, n - 1, "a copy is never waited for") : MRT_OK;
}
