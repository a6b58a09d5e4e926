/* direct.h -- what computing without a plan is made of
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_DIRECT_H
#define MRT_RUN_DIRECT_H

#include "op/op.h"
#include "run/run.h"

enum {
  MRT_FEW_INPUTS = 8,  /* of a call */
  MRT_FEW_OUTPUTS = 8, /* ditto */
  MRT_FEW_STEPS = 8,   /* calls of one evaluation */
  MRT_FEW_DEPTH = 8    /* views on views */
};

typedef struct mrt_few {
  mrt_context *ctx;
  int left;    /* calls that may still be made */
  int depth;   /* of those that wait for one under way */
  mrt_run run; /* what kernels find: that of a plan's first run */
  mrt_tensor *brief[MRT_FEW_STEPS]; /* have their data until it ends */
  int brief_count;
} mrt_few;

/* One call: of a row's kernel, or of the program that `fused` holds.  It holds
 * what it reads: while one input is looked up, another may be computed, and what
 * that read last is given back, though we read it again. */
typedef struct mrt_few_step {
  mrt_few *d;
  mrt_expr *x; /* whose outputs it writes */
  mrt_storage *held[MRT_FEW_INPUTS];
  mrt_operand in[MRT_FEW_INPUTS], out[MRT_FEW_OUTPUTS];
  mrt_storage *storage[MRT_FEW_OUTPUTS];
  mrt_call call;
  bool f32, f64; /* among what it reads and writes */
} mrt_few_step;

static inline bool mrt_few_pending(const mrt_tensor *t) {
  const mrt_expr *x = t->expr;
  if (t->storage || t->variable || t->input || t->instead || !x) return false;
  return !x->stale && !x->traced && !x->updates && !x->once;
}

static inline bool mrt_few_view(const mrt_expr *x) {
  return x->op->traits & MRT_VIEW;
}

static inline bool mrt_few_pointwise(const mrt_expr *x) {
  return (x->op->traits & MRT_POINTWISE) && x->nout == 1 && x->nin <= 3;
}

static inline void mrt_few_note_width(mrt_few_step *s, mrt_dtype d) {
  s->f32 |= d == MRT_f32, s->f64 |= d == MRT_f64;
}

/* Reads `t` as the next input; false: it is not to be had here. */
bool mrt_few_input(mrt_few_step *s, mrt_tensor *t);
/* Gives back what it holds. */
void mrt_few_let_go(mrt_few_step *s);
/* `wanted`, an output of s->x, and others that a program holds, by `op`. */
bool mrt_few_run(mrt_few_step *s, const mrt_op *op, const void *options,
                 const mrt_tensor *wanted);
/* What computes the one number that `t` is everywhere, or NULL. */
mrt_expr *mrt_few_uniform(const mrt_tensor *t);
/* `t`, which is pointwise or reduces what is, by a program. */
bool mrt_few_program(mrt_few *d, mrt_tensor *t);

#endif
