/* capture.c -- from lazy tensors to a graph
 *
 * Everything reachable from the roots that has not been computed becomes a
 * node, in the order the program made it; variables, computed tensors and the
 * trace's inputs become leaves.  A tensor's mark is 1 + its value's id.
 *
 * Invariants
 *   - nodes stand in ascending order of their expressions' ids, which is a
 *     topological order and the program's: equal programs give equal graphs;
 *   - the graph holds its leaves' tensors, and they keep their data;
 *   - tensors are not changed: a graph may be dropped at any time.
 *
 * SPDX-License-Identifier: MIT */
#include "graph/graph.h"
#include "op/cast.h"
#include "tensor/marks.h"

#include <string.h>

typedef struct capture {
  mrt_graph *g;
  mrt_error *e;
  uint64_t first_id;
  mrt_expr **found;
  int count, room;
  mrt_tensor **stack;
  int depth, stack_room;
  mrt_marks marks;
} capture;

static mrt_status push(capture *c, mrt_tensor *t) {
  if (!MRT_PUSH_ROOM(&c->g->arena, c->stack, c->depth, c->stack_room))
    return mrt_nomem(c->e);
  c->stack[c->depth++] = t;
  return MRT_OK;
}

static mrt_status mark(capture *c, mrt_tensor *t, int value) {
  return mrt_mark(&c->marks, t, value) ? MRT_OK : mrt_nomem(c->e);
}

static int mark_of(const capture *c, const mrt_tensor *t) {
  return mrt_mark_of(&c->marks, t);
}

/* The graph needs the numbers of `t` as long as it lives. */
static mrt_status hold(capture *c, mrt_tensor *t) {
  mrt_graph *g = c->g;
  if (!MRT_PUSH_ROOM(&g->arena, g->held, g->held_count, g->held_room))
    return mrt_nomem(c->e);
  mrt_hold(t);
  mrt_tensor_await(t);
  g->held[g->held_count++] = t;
  return MRT_OK;
}

static mrt_value *value_of(const capture *c, const mrt_tensor *t) {
  return c->g->values[mark_of(c, t) - 1];
}

/* Is it what its row never lets be rounded to a narrow dtype? */
static bool stays_wide(const mrt_tensor *t) {
  return t->expr && t->index < 32 && t->expr->op->wide_outputs >> t->index & 1;
}

/* `t` is a widening of the leaf that is read for it. */
static mrt_status add_widening(capture *c, mrt_tensor *t) {
  mrt_cast_options o = { .dtype = t->type.dtype };
  mrt_value *in = value_of(c, t->instead);
  mrt_node *n = mrt_graph_node(c->g, mrt_ops[MRT_OP_cast], 1, &in, &o, 1,
                               &t->type, t->origin);
  if (!n) return mrt_nomem(c->e);
  MRT_TRY(mark(c, t, n->out[0]->id + 1));
  return mrt_graph_append(c->g, n);
}

static mrt_status add_leaf(capture *c, mrt_tensor *t);
static mrt_status add_node(capture *c, mrt_expr *x);

/* What is read for a tensor: a leaf, or made of one, before all else. */
static mrt_status add_instead(capture *c, mrt_tensor *t) {
  if (mark_of(c, t)) return MRT_OK;
  if (t->input || t->variable || !t->expr) return add_leaf(c, t);
  for (int i = 0; i < t->expr->nin; i++)
    MRT_TRY(add_instead(c, t->expr->in[i]));
  return add_node(c, t->expr);
}

static void note_wide(mrt_value *v, bool wide) {
  while (v->node && v->node->nin == 1) v = v->node->in[0];
  v->wide = wide;
}

/* A tensor that needs no computing becomes a leaf. */
static mrt_status add_leaf(capture *c, mrt_tensor *t) {
  if (t->instead) {
    MRT_TRY(add_instead(c, t->instead));
    if (t->instead->type.dtype != t->type.dtype) return add_widening(c, t);
    note_wide(value_of(c, t->instead), stays_wide(t));
    return mark(c, t, mark_of(c, t->instead));
  }
  mrt_value *v = mrt_graph_value(c->g, &t->type, t->origin);
  if (!v) return mrt_nomem(c->e);
  v->tensor = t;
  if (t->name && !(v->name = mrt_arena_strdup(&c->g->arena, t->name)))
    return mrt_nomem(c->e); /* a copy: the tensor may get another name */
  v->leaf = t->input      ? MRT_LEAF_INPUT
            : t->variable ? MRT_LEAF_VARIABLE
                          : MRT_LEAF_CONSTANT;
  v->index = t->input - 1;
  MRT_TRY(hold(c, t));
  return mark(c, t, v->id + 1);
}

static bool is_leaf(const mrt_tensor *t) {
  return t->input || t->variable || t->storage || t->instead;
}

enum { QUEUED = -1 };

/* Mark what an expression computes as queued; true the first time. */
static mrt_status queue(capture *c, mrt_expr *x, bool *first) {
  *first = true;
  for (int i = 0; i < x->nout; i++)
    if (x->out[i] && mark_of(c, x->out[i]) == QUEUED) *first = false;
  if (!*first) return MRT_OK;
  for (int i = 0; i < x->nout; i++)
    if (x->out[i] && mark_of(c, x->out[i]) == 0 && !is_leaf(x->out[i]))
      MRT_TRY(mark(c, x->out[i], QUEUED));
  if (!MRT_PUSH_ROOM(&c->g->arena, c->found, c->count, c->room))
    return mrt_nomem(c->e);
  c->found[c->count++] = x;
  return MRT_OK;
}

static mrt_status visit_expr(capture *c, mrt_expr *x) {
  bool first;
  MRT_TRY(queue(c, x, &first));
  for (int i = 0; first && i < x->nin; i++)
    if (mark_of(c, x->in[i]) == 0) MRT_TRY(push(c, x->in[i]));
  return MRT_OK;
}

/* A pending tensor from before the trace: to be computed first. */
static mrt_status add_outside(capture *c, mrt_tensor *t) {
  mrt_graph *g = c->g;
  if (!MRT_PUSH_ROOM(&g->arena, g->outside, g->outside_count, g->outside_room))
    return mrt_nomem(c->e);
  g->outside[g->outside_count++] = t;
  MRT_TRY(hold(c, t));
  return mark(c, t, QUEUED);
}

static mrt_status visit(capture *c, mrt_tensor *t) {
  if (mark_of(c, t)) return MRT_OK;
  if (is_leaf(t)) return add_leaf(c, t);
  if (t->expr && t->expr->id < c->first_id) return add_outside(c, t);
  if (!t->expr || t->expr->stale)
    return mrt_fail(c->e, MRT_ESTATE,
                    "a value made at %s:%d was let go, and a variable it reads "
                    "has been assigned since",
                    t->origin.file, t->origin.line);
  return visit_expr(c, t->expr);
}

static mrt_status add_node(capture *c, mrt_expr *x) {
  mrt_graph *g = c->g;
  if (x->op->traits & MRT_VOUCHES) /* that was for the trace */
    return x->out[0] && !is_leaf(x->out[0])
               ? mark(c, x->out[0], mark_of(c, x->in[0]))
               : MRT_OK;
  mrt_value **in = MRT_NEW(&g->arena, mrt_value *, x->nin);
  if (!in) return mrt_nomem(c->e);
  for (int i = 0; i < x->nin; i++) in[i] = value_of(c, x->in[i]);
  mrt_node *n = mrt_graph_node(g, x->op, x->nin, in, x->options, x->nout,
                               x->out_types, x->origin);
  if (!n) return mrt_nomem(c->e);
  for (int i = 0; i < x->nout; i++) {
    if (!x->out[i] || is_leaf(x->out[i])) continue;
    if (x->out[i]->name) {
      n->out[i]->name = mrt_arena_strdup(&g->arena, x->out[i]->name);
      if (!n->out[i]->name) return mrt_nomem(c->e);
    }
    MRT_TRY(mark(c, x->out[i], n->out[i]->id + 1));
  }
  return mrt_graph_append(g, n);
}

static mrt_status run(capture *c, mrt_tensor *const *roots, int root_count,
                      mrt_expr *const *updates, int update_count) {
  mrt_graph *g = c->g;
  for (int i = 0; i < root_count; i++) MRT_TRY(push(c, roots[i]));
  for (int i = 0; i < update_count; i++) MRT_TRY(visit_expr(c, updates[i]));
  while (c->depth) MRT_TRY(visit(c, c->stack[--c->depth]));
  if (g->outside_count) return MRT_OK; /* the caller starts over */
  mrt_exprs_sort(c->found, c->count);
  for (int i = 0; i < c->count; i++) MRT_TRY(add_node(c, c->found[i]));
  g->outputs = MRT_NEW(&g->arena, mrt_value *, root_count);
  if (!g->outputs) return mrt_nomem(c->e);
  for (int i = 0; i < root_count; i++) g->outputs[i] = value_of(c, roots[i]);
  g->output_count = root_count;
  return MRT_OK;
}

mrt_status mrt_graph_capture(mrt_graph *g, mrt_context *ctx,
                             mrt_tensor *const *roots, int root_count,
                             mrt_expr *const *updates, int update_count,
                             uint64_t first_id) {
  *g = (mrt_graph){ .ctx = ctx };
  mrt_arena_init(&g->arena, ctx->allocator);
  capture c = { .g = g, .e = &ctx->error, .first_id = first_id };
  mrt_marks_begin(&c.marks, ctx, &g->arena);
  mrt_status s = run(&c, roots, root_count, updates, update_count);
  mrt_marks_end(&c.marks);
  if (s) mrt_graph_free(g);
  return s;
}
