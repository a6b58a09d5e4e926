/* batch_dependence.c -- how does each value of a function depend on the batch?
 *
 *   question  which values are computed row by row, which are sums over the
 *             batch, which need the whole batch at once?
 *   input     the function traced over the whole batch and over a part of its
 *             rows, so that a size or number that comes from the batch shows
 *   method    One walk over both traces side by side, inputs before readers,
 *             asks the operators' rows (propagate.c).  A cut is where a walk
 *             back from results first meets what can be had part by part.
 *   cost      O(expressions reached) for each question
 *
 * SPDX-License-Identifier: MIT */
#include "graph/propagate.h"
#include "op/random.h"

#include <string.h>

/* ---- collecting both traces ---------------------------------------------- */

static mrt_status differs(mrt_propagation *l, const mrt_tensor *whole,
                          const mrt_tensor *micro) {
  return mrt_fail(
      l->e, MRT_EVALUE,
      "accumulate: with %lld rows this function computes %s at %s:%d where it "
      "computes %s at %s:%d with %lld; the same operators wanted",
      (long long)l->b->all, whole->expr ? whole->expr->op->name : "nothing",
      whole->origin.file, whole->origin.line,
      micro->expr ? micro->expr->op->name : "nothing", micro->origin.file,
      micro->origin.line, (long long)l->b->part);
}

static mrt_status add(mrt_propagation *l, mrt_tensor *whole,
                      mrt_tensor *micro) {
  int at = mrt_mark_of(&l->marks, micro);
  if (at) {
    const mrt_batch_pair *p = &l->pairs[at - 1];
    return p->marked || p->whole == whole ? MRT_OK : differs(l, whole, micro);
  }
  if (!MRT_PUSH_ROOM(&l->arena, l->pairs, l->count, l->room) ||
      !mrt_mark(&l->marks, micro, l->count + 1))
    return mrt_nomem(l->e);
  l->pairs[l->count++] = (mrt_batch_pair){ .whole = whole, .micro = micro };
  return MRT_OK;
}

static mrt_status add_inputs(mrt_propagation *l, int at) {
  const mrt_batch_pair p = l->pairs[at];
  if (mrt_batch_pair_ends(&p)) return MRT_OK;
  const mrt_expr *x = p.whole->expr, *y = p.micro->expr;
  if (x->op != y->op || x->nin != y->nin || p.whole->index != p.micro->index)
    return differs(l, p.whole, p.micro);
  for (int i = 0; i < x->nin; i++) MRT_TRY(add(l, x->in[i], y->in[i]));
  return MRT_OK;
}

static mrt_status add_updates(mrt_propagation *l) {
  const mrt_section *micro = l->b->section, *whole = &l->b->ctx->trace->now;
  if (micro->update_count != whole->update_count)
    return mrt_fail(l->e, MRT_EVALUE,
                    "accumulate: this function updates %d times with %lld rows "
                    "and %d times with %lld; as often wanted",
                    whole->update_count, (long long)l->b->all,
                    micro->update_count, (long long)l->b->part);
  for (int i = 0; i < whole->update_count; i++)
    MRT_TRY(add(l, whole->results[i], micro->results[i]));
  return MRT_OK;
}

/* Ids grow with creation, so their ascending order is topological. */
static mrt_status sort(mrt_propagation *l) {
  mrt_expr **exprs = MRT_NEW(&l->arena, mrt_expr *, l->count);
  l->order = MRT_NEW(&l->arena, int, l->count);
  int n = 0, at = 0;
  if (!exprs || !l->order) return mrt_nomem(l->e);
  for (int i = 0; i < l->count; i++) {
    if (mrt_batch_pair_ends(&l->pairs[i]))
      l->order[at++] = i;
    else
      exprs[n++] = l->pairs[i].micro->expr;
  }
  mrt_exprs_sort(exprs, n);
  for (int i = 0; i < n; i++) {
    if (i > 0 && exprs[i] == exprs[i - 1]) continue;
    for (int k = 0; k < exprs[i]->nout; k++) {
      const mrt_tensor *t = exprs[i]->out[k];
      int mark = t ? mrt_mark_of(&l->marks, t) : 0;
      if (mark && !mrt_batch_pair_ends(&l->pairs[mark - 1]))
        l->order[at++] = mark - 1;
    }
  }
  return MRT_OK;
}

/* ---- asking -------------------------------------------------------------- */

static bool is_settled(const mrt_propagation *l, const mrt_batch_pair *p) {
  bool any = false;
  if (mrt_batch_pair_ends(p))
    return p->marked && p->placement.kind == MRT_PARTIAL;
  const mrt_expr *y = p->micro->expr;
  for (int i = 0; i < y->nin; i++) {
    const mrt_batch_pair *x = &l->pairs[mrt_mark_of(&l->marks, y->in[i]) - 1];
    any |= x->settled;
    if (!x->settled && x->placement.kind != MRT_REPLICATE) return false;
  }
  return any;
}

static mrt_status look(mrt_propagation *l, mrt_tensor *const *whole,
                       mrt_tensor *const *micro, int n, bool updates) {
  mrt_batch *b = l->b;
  if (!b->ctx->trace)
    return mrt_fail(l->e, MRT_ESTATE, "the trace of this batch is over");
  for (int i = 0; i < b->mark_count; i++) {
    MRT_TRY(add(l, b->marks[i].whole, b->marks[i].micro));
    l->pairs[i].placement = b->marks[i].placement, l->pairs[i].marked = true;
  }
  for (int i = 0; i < n; i++)
    MRT_TRY(add(l, mrt_tensor_current(whole[i]), micro[i]));
  if (updates) MRT_TRY(add_updates(l));
  for (int i = b->mark_count; i < l->count; i++) MRT_TRY(add_inputs(l, i));
  MRT_TRY(sort(l));
  for (int i = 0; i < l->count; i++) {
    mrt_batch_pair *p = &l->pairs[l->order[i]];
    MRT_TRY(mrt_batch_pair_propagate(l, p));
    p->settled = is_settled(l, p);
  }
  return MRT_OK;
}

static void begin(mrt_propagation *l, mrt_batch *b) {
  *l = (mrt_propagation){ .b = b, .e = &b->ctx->error };
  mrt_arena_init(&l->arena, b->ctx->allocator);
  mrt_marks_begin(&l->marks, b->ctx, &l->arena);
}

static mrt_status finish(mrt_propagation *l, mrt_status s) {
  mrt_marks_end(&l->marks);
  mrt_arena_free(&l->arena);
  return s;
}

MRT_API mrt_status mrt_batch_placement(mrt_batch *b, mrt_tensor *whole,
                                       mrt_tensor *micro,
                                       mrt_placement *placement) {
  mrt_propagation l;
  if (mrt_tensor_current(whole) == micro)
    return *placement = (mrt_placement){ MRT_REPLICATE, 0, 0 }, MRT_OK;
  begin(&l, b);
  mrt_status s = look(&l, &whole, &micro, 1, false);
  if (!s) *placement = l.pairs[mrt_mark_of(&l.marks, micro) - 1].placement;
  return finish(&l, s);
}

typedef struct visit {
  int at, reader; /* pairs; the reader of a root is itself */
} visit;

typedef struct batch_cutting {
  visit *stack;
  int depth, room;
  bool updates; /* may be among what is looked at */
} batch_cutting;

/* Add a pair to the cut, or what it is computed from. */
static mrt_status descend(mrt_propagation *l, batch_cutting *c, visit v) {
  mrt_batch *b = l->b;
  mrt_batch_pair *p = &l->pairs[v.at];
  if (p->cut || (p->placement.kind == MRT_REPLICATE && !p->marked))
    return MRT_OK;
  p->cut = true;
  bool settled = p->settled && c->updates; /* added up below it */
  if (p->marked || (p->placement.kind != MRT_UNKNOWN && !settled)) {
    if (!MRT_PUSH_ROOM(&b->arena, b->cuts, b->cut_count, b->cut_room))
      return mrt_nomem(l->e);
    b->cuts[b->cut_count++] =
        (mrt_batch_value){ p->whole, p->micro, l->pairs[v.reader].whole,
                           p->placement, p->marked };
    return MRT_OK;
  }
  if (mrt_batch_pair_ends(p))
    return MRT_OK; /* a number; the whole trace has the right one */
  const mrt_expr *y = p->micro->expr;
  if ((y->op->traits & MRT_UPDATES) && !c->updates)
    return mrt_fail(l->e, MRT_EGRAD,
                    "accumulate: the loss reads a variable after its update "
                    "(%s at %s:%d) in this function; make that two functions",
                    y->op->name, y->origin.file, y->origin.line);
  for (int i = y->nin; i-- > 0;) {
    if (!MRT_PUSH_ROOM(&l->arena, c->stack, c->depth, c->room))
      return mrt_nomem(l->e);
    c->stack[c->depth++] =
        (visit){ mrt_mark_of(&l->marks, y->in[i]) - 1, v.at };
  }
  return MRT_OK;
}

static mrt_status find_cuts(mrt_propagation *l, mrt_tensor *const *micro, int n,
                            bool updates) {
  batch_cutting c = { .updates = updates };
  const mrt_section *s = l->b->section;
  int roots = n + (updates ? s->update_count : 0);
  for (int i = 0; i < roots; i++) {
    const mrt_tensor *t = i < n ? micro[i] : s->results[i - n];
    int at = mrt_mark_of(&l->marks, t) - 1;
    MRT_TRY(descend(l, &c, (visit){ at, at }));
    while (c.depth) MRT_TRY(descend(l, &c, c.stack[--c.depth]));
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_batch_cut(mrt_batch *b, mrt_tensor *const *whole,
                                 mrt_tensor *const *micro, int n, bool updates,
                                 const mrt_batch_value **cuts, int *count) {
  mrt_propagation l;
  b->cut_count = 0;
  begin(&l, b);
  mrt_status s = look(&l, whole, micro, n, updates);
  if (!s) s = find_cuts(&l, micro, n, updates);
  *cuts = b->cuts, *count = s ? 0 : b->cut_count;
  return finish(&l, s);
}

/* ---- making -------------------------------------------------------------- */

MRT_API mrt_status mrt_batch_new(mrt_context *ctx, int section, int64_t all,
                                 int64_t part, bool statistics,
                                 mrt_batch **out) {
  if (!ctx->trace || section < 0 || section >= ctx->trace->section_count)
    return mrt_fail(&ctx->error, MRT_ESTATE, "no such section of a trace");
  if (part < 1 || part >= all)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "a part of %lld rows, 1 to %lld wanted", (long long)part,
                    (long long)all - 1);
  mrt_batch *b = mrt_calloc(ctx->allocator, 1, sizeof *b);
  if (!b) return mrt_nomem(&ctx->error);
  b->ctx = ctx, b->section = ctx->trace->sections[section];
  b->all = all, b->part = part, b->statistics = statistics;
  mrt_arena_init(&b->arena, ctx->allocator);
  mrt_context_ref(ctx);
  *out = b;
  return MRT_OK;
}

MRT_API void mrt_batch_free(mrt_batch *b) {
  if (!b) return;
  mrt_context *ctx = b->ctx;
  for (int i = 0; i < b->mark_count; i++) {
    mrt_drop(b->marks[i].whole);
    mrt_drop(b->marks[i].micro);
  }
  mrt_arena_free(&b->arena);
  mrt_release(ctx->allocator, b, sizeof *b);
  mrt_context_unref(ctx);
}

MRT_API mrt_status mrt_batch_mark(mrt_batch *b, mrt_tensor *whole,
                                  mrt_tensor *micro, mrt_placement placement) {
  if (!MRT_PUSH_ROOM(&b->arena, b->marks, b->mark_count, b->mark_room))
    return mrt_nomem(&b->ctx->error);
  mrt_hold(whole);
  mrt_hold(micro);
  b->marks[b->mark_count++] =
      (mrt_batch_value){ whole, micro, NULL, placement, true };
  return MRT_OK;
}

mrt_status mrt_batch_resolve(const mrt_batch *b, mrt_graph *g, int updates) {
  for (int i = g->node_count; i-- > 0;) {
    mrt_node *n = g->nodes[i];
    mrt_draw d;
    if (mrt_node_is_update(n) && updates-- == 0)
      return mrt_fail(&b->ctx->error, MRT_EGRAD,
                      "accumulate: a gradient reads a variable after its "
                      "update (%s at %s:%d) in this function; take it before",
                      n->op->name, n->origin.file, n->origin.line);
    if (!(n->op->traits & MRT_RANDOM)) continue;
    memcpy(&d, n->options, sizeof d);
    int k = 0;
    while (k < b->draw_count && b->draws[k].key != d.key) k++;
    if (k == b->draw_count)
      return mrt_fail(&b->ctx->error, MRT_EVALUE,
                      "accumulate: %s at %s:%d draws numbers of which no row "
                      "of the batch has its own",
                      n->op->name, n->origin.file, n->origin.line);
    d.inner = b->draws[k].inner;
    memcpy(n->options, &d, sizeof d);
  }
  return MRT_OK;
}
