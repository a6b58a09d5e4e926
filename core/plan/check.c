/* check.c -- proof that the plan is right
 *
 *   question  does every read see the value that was written for it?
 *   method    Walk the steps with a map from bytes to the value written there
 *             last: each node's inputs must still be whole, and its outputs
 *             then own their bytes.  Knows offsets only; nothing of lifetimes,
 *             of in-place rules or of how they were found.  What is behind the
 *             arena, in the swap tier, is told from it by FAR, and tiers from
 *             each other by TIER.  Collectives
 *             must stand in the order of the program, each once.
 *   cost      O(operands * log buffers)
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/planner.h"

#include <stdlib.h>

/* A set of numbers: bit i of level 0 for number i, bit i of a level above for
 * a word of the one below that is not 0. */
enum { LEVELS = 6 };
typedef struct set {
  uint64_t *level[LEVELS];
  int words[LEVELS], count;
} set;

/* Places are the distinct offsets of buffers, in ascending order.  What is
 * known to lie at a place reaches to `to`; no two overlap. */
typedef struct held {
  size_t to;
  int base; /* value id */
} held;

typedef struct plan_proof {
  const mrt_plan *plan;
  size_t *offset; /* by place */
  int *place;     /* by buffer */
  held *now;      /* by place, for those in `holding` */
  set holding;
  mrt_arena arena;
} plan_proof;

/* ---- the set ------------------------------------------------------------- */

static bool set_make(set *s, mrt_arena *arena, int n) {
  do {
    s->words[s->count] = n = n / 64 + 1;
    s->level[s->count] = MRT_NEW(arena, uint64_t, n);
    if (!s->level[s->count++]) return false;
  } while (n > 1);
  return true;
}

static void set_add(set *s, int i) {
  for (int l = 0; l < s->count; l++, i /= 64)
    s->level[l][i / 64] |= (uint64_t)1 << i % 64;
}

static void set_remove(set *s, int i) {
  for (int l = 0; l < s->count; l++, i /= 64)
    if (s->level[l][i / 64] &= ~((uint64_t)1 << i % 64)) return;
}

/* The first member from i on, up or down; -1: none. */
static int set_find(const set *s, int i, bool up) {
  for (int l = 0; l < s->count && i >= 0 && i / 64 < s->words[l]; l++) {
    uint64_t all = ~(uint64_t)0, word = s->level[l][i / 64];
    word &= up ? all << i % 64 : all >> (63 - i % 64);
    if (!word) {
      i = i / 64 + (up ? 1 : -1);
      continue;
    }
    for (i = i / 64;; word = s->level[--l][i]) {
      i = i * 64 + (up ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
      if (l == 0) return i;
    }
  }
  return -1;
}

/* ---- what lies where ----------------------------------------------------- */

static const size_t FAR = (size_t)1 << (sizeof(size_t) * 8 - 2);
static const size_t TIER = (size_t)1 << (sizeof(size_t) * 8 - 5);

static size_t begin(const mrt_buffer *s) {
  size_t tier = (size_t)s->tier * TIER;
  return mrt_buffer_is_swapped(s) ? FAR + tier + s->offset : s->offset;
}

/* Where the value lies, unless that is a place by itself. */
static const mrt_buffer *shared_buffer(const plan_proof *c,
                                       const mrt_value *v) {
  const mrt_buffer *s = &c->plan->buffers[v->base->buffer];
  return mrt_buffer_in_arena(s) || mrt_buffer_is_swapped(s) ? s : NULL;
}

static bool overlap(const mrt_buffer *s, const mrt_buffer *t) {
  return begin(s) < begin(t) + t->bytes && begin(t) < begin(s) + s->bytes;
}

static int by_size(const void *a, const void *b) {
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return x < y ? -1 : x > y;
}

static mrt_status make_places(plan_proof *c) {
  const mrt_plan *p = c->plan;
  int n = 0;
  c->offset = MRT_NEW(&c->arena, size_t, p->buffer_count);
  c->place = MRT_NEW(&c->arena, int, p->buffer_count);
  c->now = MRT_NEW(&c->arena, held, p->buffer_count);
  if (!c->offset || !c->place || !c->now ||
      !set_make(&c->holding, &c->arena, p->buffer_count))
    return mrt_nomem(&p->ctx->error);
  for (int i = 0; i < p->buffer_count; i++)
    c->offset[i] = begin(&p->buffers[i]);
  qsort(c->offset, (size_t)p->buffer_count, sizeof *c->offset, by_size);
  for (int i = 0; i < p->buffer_count; i++)
    if (n == 0 || c->offset[i] != c->offset[n - 1])
      c->offset[n++] = c->offset[i];
  for (int i = 0; i < p->buffer_count; i++) {
    size_t from = begin(&p->buffers[i]);
    c->place[i] = (int)((size_t *)bsearch(&from, c->offset, (size_t)n,
                                          sizeof *c->offset, by_size) -
                        c->offset);
  }
  return MRT_OK;
}

static bool whole(const plan_proof *c, const mrt_value *v) {
  int at = c->place[v->base->buffer];
  if (mrt_type_bytes(&v->base->type) == 0) return true;
  return set_find(&c->holding, at, true) == at &&
         c->now[at].base == v->base->id;
}

/* Whatever lies within `bytes` from a place is overwritten. */
static void overwrite(plan_proof *c, int place, size_t bytes) {
  size_t from = c->offset[place], to = from + bytes;
  if (bytes == 0) return;
  int at = set_find(&c->holding, place, false);
  if (at >= 0 && c->now[at].to > from) set_remove(&c->holding, at);
  while ((at = set_find(&c->holding, place, true)) >= 0 && c->offset[at] < to)
    set_remove(&c->holding, at);
}

static mrt_status fail(const plan_proof *c, int step, const char *what) {
  const mrt_node *n = c->plan->graph.nodes[step];
  return mrt_fail(&c->plan->ctx->error, MRT_EPLAN,
                  "plan check: step %d, %s (%s:%d): %s", step + 1, n->label,
                  n->origin.file, n->origin.line, what);
}

static mrt_status write_value(plan_proof *c, int step, const mrt_value *v) {
  const mrt_buffer *s = shared_buffer(c, v);
  if (!s || v->base != v) return MRT_OK;
  size_t bytes = mrt_type_bytes(&v->type);
  if (s->offset + bytes > (mrt_buffer_is_swapped(s)
                               ? c->plan->swap_bytes[s->tier]
                               : c->plan->arena_bytes))
    return fail(c, step, "an output lies outside the arena");
  int place = c->place[v->buffer];
  overwrite(c, place, bytes);
  if (bytes == 0) return MRT_OK;
  c->now[place] = (held){ begin(s) + bytes, v->id };
  set_add(&c->holding, place);
  return MRT_OK;
}

/* An output may lie on an input only exactly, and where the row allows it. */
static bool disturbs_input(const plan_proof *c, const mrt_node *n) {
  for (int k = 0; k < n->nout; k++) {
    const mrt_buffer *to = shared_buffer(c, n->out[k]);
    for (int m = 0; to && m < n->nin; m++) {
      const mrt_buffer *from = shared_buffer(c, n->in[m]);
      if (!from || !overlap(from, to)) continue;
      bool allowed = (m < 32 && (n->op->inplace >> m & 1)) ||
                     (m == k && k < n->op->updates);
      if (!allowed || to->offset != from->offset) return true;
    }
  }
  return false;
}

static bool disturbs_scratch(const plan_proof *c, const mrt_node *n) {
  const mrt_buffer *s = &c->plan->buffers[n->scratch_buffer];
  for (int k = 0; k < n->nout; k++) {
    const mrt_buffer *out = shared_buffer(c, n->out[k]);
    if (out && overlap(out, s)) return true;
  }
  return false;
}

static mrt_status check_step(plan_proof *c, int i) {
  const mrt_node *n = c->plan->graph.nodes[i];
  if (disturbs_input(c, n)) return fail(c, i, "an output lies on an input");
  for (int k = 0; k < n->nin; k++)
    if (shared_buffer(c, n->in[k]) && !whole(c, n->in[k]))
      return fail(c, i, "an input has been overwritten or was never written");
  if (n->scratch_buffer >= 0) {
    const mrt_buffer *s = &c->plan->buffers[n->scratch_buffer];
    if (s->offset + s->bytes > c->plan->arena_bytes)
      return fail(c, i, "the scratch lies outside the arena");
    overwrite(c, c->place[n->scratch_buffer], s->bytes);
    for (int k = 0; k < n->nin; k++)
      if (shared_buffer(c, n->in[k]) && !whole(c, n->in[k]))
        return fail(c, i, "the scratch overlaps an input");
    if (disturbs_scratch(c, n))
      return fail(c, i, "the scratch overlaps an output");
  }
  for (int k = 0; k < n->nout; k++) MRT_TRY(write_value(c, i, n->out[k]));
  for (int k = 0; k < n->nout; k++)
    if (shared_buffer(c, n->out[k]) && !whole(c, n->out[k]))
      return fail(c, i, "two outputs overlap");
  return MRT_OK;
}

/* All ranks call collectives in the order in which the program did. */
static mrt_status check_turns(const plan_proof *c) {
  const mrt_graph *g = &c->plan->graph;
  uint64_t last = 0;
  for (int i = 0; i < g->node_count; i++) {
    const mrt_node *n = g->nodes[i];
    if (!(n->op->traits & MRT_COLLECTIVE)) continue;
    const mrt_meeting *m = n->options;
    if (n->recomputed && !(n->op->traits & MRT_REPEATS))
      return fail(c, i, "a collective is called twice");
    if (n->recomputed) continue;
    if (m->sequence <= last) return fail(c, i, "a collective out of turn");
    last = m->sequence;
  }
  return MRT_OK;
}

mrt_status mrt_pass_check(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  plan_proof c = { .plan = plan };
  mrt_arena_init(&c.arena, plan->ctx->allocator);
  mrt_status s = mrt_graph_check(&plan->graph, &plan->ctx->error);
  if (!s) s = make_places(&c);
  for (int i = 0; i < plan->graph.node_count && !s; i++) s = check_step(&c, i);
  if (!s) s = check_turns(&c);
  if (!s) s = mrt_check_copies(plan, &c.arena);
  mrt_arena_free(&c.arena);
  return s;
}
