/* settle.c -- a tensor has its data: what it was waiting for is let go
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

/* Nobody waits for what `x` computes: it need not keep its inputs alive. */
static bool resolved(const mrt_expr *x) {
  for (int i = 0; i < x->nout; i++) {
    const mrt_tensor *t = x->out[i];
    if (t && !t->storage && (t->handles || t->pending)) return false;
  }
  return true;
}

typedef struct going {
  mrt_arena arena;
  mrt_expr **stack;
  int depth, room;
} going;

/* Without memory for the walk, inputs merely stay alive longer. */
static void let_go(going *g, mrt_expr *x) {
  mrt_expr_computed(x);
  for (int i = 0; i < x->nin; i++) {
    mrt_expr *from = x->in[i]->expr;
    if (!from || from->computed || x->in[i]->storage || !resolved(from))
      continue;
    if (!MRT_PUSH_ROOM(&g->arena, g->stack, g->depth, g->room)) break;
    g->stack[g->depth++] = from;
  }
}

void mrt_settle(mrt_tensor *t) {
  if (t->expr && !t->expr->computed && resolved(t->expr)) {
    mrt_expr *first[8]; /* mostly enough */
    going g = { .stack = first, .room = MRT_COUNT(first) };
    mrt_arena_init(&g.arena, t->ctx->allocator);
    let_go(&g, t->expr);
    while (g.depth) let_go(&g, g.stack[--g.depth]);
    mrt_arena_free(&g.arena);
  }
  mrt_tensor_trim(t);
}
