/* readers.c -- pending values that read a variable, before it changes
 *
 *   question  how does laziness stay invisible when a variable is overwritten?
 *   method    Every variable lists the live expressions that read it.  Those
 *             somebody waits for are computed before the update; afterwards
 *             all of them are stale.
 *   never     computes what was made in a trace: it stands for the data of
 *             every run of its plan
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"
#include "tensor/marks.h"

static mrt_status add_pending(mrt_marks *marks, const mrt_expr *x,
                              mrt_readers *list) {
  for (int k = 0; k < x->nout; k++) {
    mrt_tensor *t = x->out[k];
    if (!t || t->storage || (!t->handles && !t->pending)) continue;
    if (mrt_mark_of(marks, t)) continue;
    if (!MRT_PUSH_ROOM(marks->arena, list->at, list->count, list->room) ||
        !mrt_mark(marks, t, 1))
      return mrt_nomem(&t->ctx->error);
    list->at[list->count++] = t;
  }
  return MRT_OK;
}

static mrt_status add_readers(mrt_marks *marks, const mrt_variable *v,
                              const mrt_expr *except, mrt_readers *list) {
  mrt_status s = MRT_OK;
  for (int r = 0; r < v->reader_count && !s; r++) {
    const mrt_expr *x = v->readers[r];
    if (x != except && !x->traced) s = add_pending(marks, x, list);
  }
  for (int p = 0; p < v->shard_count && !s; p++)
    s = add_readers(marks, v->shards[p]->variable, except, list);
  return s;
}

mrt_status mrt_readers_collect(mrt_arena *arena, mrt_tensor *const *variables,
                               int n, const mrt_expr *except,
                               mrt_readers *list) {
  mrt_status s = MRT_OK;
  mrt_marks marks;
  mrt_marks_begin(&marks, variables[0]->ctx, arena);
  for (int i = 0; i < n && !s; i++)
    s = add_readers(&marks, variables[i]->variable, except, list);
  mrt_marks_end(&marks);
  return s;
}

void mrt_shards_drop_copies(mrt_variable *bucket) {
  for (int i = 0; i < bucket->shard_count; i++) {
    mrt_tensor *t = bucket->shards[i];
    mrt_shards_drop_copies(t->variable); /* a piece may lie in pieces */
    if (!t->storage) continue;
    mrt_storage_unref(t->storage);
    t->storage = NULL;
    t->ctx->memory.moves++;
  }
}

void mrt_readers_invalidate(mrt_variable *v) {
  for (int i = 0; i < v->reader_count; i++) v->readers[i]->stale = true;
  v->reader_count = 0, v->writes++;
  for (int p = 0; p < v->shard_count; p++)
    mrt_readers_invalidate(v->shards[p]->variable);
  mrt_shards_drop_copies(v);
}
