/* marks.h -- what a walk over tensors notes on them
 *
 * A walk has a number, and a tensor's mark counts for the walk that wrote it
 * only.  Walks may nest (a custom gradient evaluates, or takes a gradient): the
 * inner one puts back what it found.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_MARKS_H
#define MRT_TENSOR_MARKS_H

#include "tensor/tensor.h"

typedef struct mrt_marks {
  mrt_arena *arena;
  uint64_t walk;
  struct mrt_marked {
    mrt_tensor *tensor;
    uint64_t walk; /* what it had before */
    int mark;
  } * list;
  int count, room;
} mrt_marks;

void mrt_marks_begin(mrt_marks *m, mrt_context *ctx, mrt_arena *arena);
/* The tensors marked must still live. */
void mrt_marks_end(mrt_marks *m);
/* False when memory is out. */
bool mrt_mark(mrt_marks *m, mrt_tensor *t, int mark);
/* 0 where this walk has not been. */
static inline int mrt_mark_of(const mrt_marks *m, const mrt_tensor *t) {
  return t->walk == m->walk ? t->mark : 0;
}

#endif
