/* keep.c -- which values an evaluation keeps that nobody asked it for
 *
 *   question  an evaluation passes through values that the program still has a
 *             handle on: which of them are worth their memory?
 *   method    One walk over what is pending below the roots, inputs first.  A
 *             held value is kept when computing it again would take more than
 *             pointwise operators; one of these alone is cheaper to fuse into
 *             its reader than to write, so it is kept the second time an
 *             evaluation passes through it.  What is read from kept values
 *             begins anew.
 *   cost      O(pending expressions)
 *   so        n evaluations of a program take work linear in its length,
 *             however its lines share values (spec/tensor/keep_spec.lua)
 *   never     keeps what only C's own walks hold, or what a trace has made
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"
#include "run/run.h"
#include "tensor/marks.h"

/* Marks: of a value that is not computed yet. */
enum { SEEN = 1, ROOT = 2, HEAVY = 4, LISTED = 8 };

typedef struct keeping {
  mrt_marks marks;
  mrt_expr **order;
  int count, room;
  mrt_tensor **stack;
  int depth, stack_room;
  mrt_error *e;
} keeping;

static mrt_status mark(keeping *k, mrt_tensor *t, int bits) {
  bool ok = mrt_mark(&k->marks, t, mrt_mark_of(&k->marks, t) | bits);
  return ok ? MRT_OK : mrt_nomem(k->e);
}

static mrt_status push(keeping *k, mrt_tensor *t) {
  if (t->storage || t->variable || t->input || !t->expr) return MRT_OK;
  if (mrt_mark_of(&k->marks, t) & SEEN) return MRT_OK;
  if (!MRT_PUSH_ROOM(k->marks.arena, k->stack, k->depth, k->stack_room))
    return mrt_nomem(k->e);
  k->stack[k->depth++] = t;
  return mark(k, t, SEEN);
}

static mrt_status add_expr(keeping *k, mrt_expr *x) {
  for (int i = 0; i < x->nout; i++)
    if (x->out[i] && (mrt_mark_of(&k->marks, x->out[i]) & LISTED))
      return MRT_OK;
  for (int i = 0; i < x->nout; i++)
    if (x->out[i]) MRT_TRY(mark(k, x->out[i], SEEN | LISTED));
  if (!MRT_PUSH_ROOM(k->marks.arena, k->order, k->count, k->room))
    return mrt_nomem(k->e);
  k->order[k->count++] = x;
  for (int i = 0; i < x->nin; i++) MRT_TRY(push(k, x->in[i]));
  return MRT_OK;
}

static bool is_heavy(const keeping *k, const mrt_expr *x) {
  bool heavy = x->nin && !(x->op->traits & (MRT_POINTWISE | MRT_VIEW));
  for (int i = 0; i < x->nin && !heavy; i++)
    heavy = mrt_mark_of(&k->marks, x->in[i]) & HEAVY;
  return heavy;
}

/* Its data would be read by somebody, and have to be made. */
static bool may_keep(const keeping *k, const mrt_tensor *t) {
  return t && t->handles && !t->storage && !t->variable &&
         !(mrt_mark_of(&k->marks, t) & ROOT);
}

static mrt_status look_at(keeping *k, mrt_expr *x, mrt_readers *kept) {
  bool heavy = is_heavy(k, x), again = x->passed;
  x->passed = true;
  if (x->updates || x->traced || x->stale) return MRT_OK;
  for (int i = 0; i < x->nout; i++) {
    mrt_tensor *t = x->out[i];
    if (may_keep(k, t) && (heavy || again)) {
      if (!MRT_PUSH_ROOM(k->marks.arena, kept->at, kept->count, kept->room))
        return mrt_nomem(k->e);
      kept->at[kept->count++] = t;
    } else if (t && heavy) {
      MRT_TRY(mark(k, t, HEAVY));
    }
  }
  return MRT_OK;
}

static mrt_status find(keeping *k, mrt_tensor *const *roots, int n,
                       mrt_expr *const *updates, int update_count,
                       mrt_readers *kept) {
  for (int i = 0; i < n; i++) {
    MRT_TRY(push(k, roots[i]));
    MRT_TRY(mark(k, roots[i], ROOT));
  }
  for (int i = 0; i < update_count; i++) MRT_TRY(add_expr(k, updates[i]));
  while (k->depth) MRT_TRY(add_expr(k, k->stack[--k->depth]->expr));
  mrt_exprs_sort(k->order, k->count);
  for (int i = 0; i < k->count; i++) MRT_TRY(look_at(k, k->order[i], kept));
  return MRT_OK;
}

mrt_status mrt_keep_find(mrt_context *ctx, mrt_arena *arena,
                         mrt_tensor *const *roots, int n,
                         mrt_expr *const *updates, int update_count,
                         mrt_readers *kept) {
  keeping k = { .e = &ctx->error };
  mrt_marks_begin(&k.marks, ctx, arena);
  mrt_status s = find(&k, roots, n, updates, update_count, kept);
  mrt_marks_end(&k.marks);
  return s;
}
