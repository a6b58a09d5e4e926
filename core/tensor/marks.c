/* marks.c -- what a walk over tensors notes on them
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/marks.h"

void mrt_marks_begin(mrt_marks *m, mrt_context *ctx, mrt_arena *arena) {
  *m = (mrt_marks){ .arena = arena, .walk = ++ctx->walks };
}

void mrt_marks_end(mrt_marks *m) {
  while (m->count > 0) {
    const struct mrt_marked *was = &m->list[--m->count];
    was->tensor->walk = was->walk;
    was->tensor->mark = was->mark;
  }
}

bool mrt_mark(mrt_marks *m, mrt_tensor *t, int mark) {
  if (t->walk != m->walk) {
    if (!MRT_PUSH_ROOM(m->arena, m->list, m->count, m->room)) return false;
    m->list[m->count++] = (struct mrt_marked){ t, t->walk, t->mark };
    t->walk = m->walk;
  }
  t->mark = mark;
  return true;
}
