/* direct_program.c -- pointwise operators, and what joins their result, as one
 * program
 *
 * SPDX-License-Identifier: MIT */
#include "op/fused.h"
#include "run/direct.h"

#include <string.h>

enum { CODE = 18 }; /* operators of one program, constants too */

/* Registers: inputs, then what instructions write, in their order. */
typedef struct program {
  mrt_few_step s;
  mrt_tensor *input[MRT_FEW_INPUTS];
  mrt_tensor *value[CODE];
  int count, depth;
  bool joined; /* by a reduction, so that its result is not written */
} program;

/* What computes the one number that `t` is everywhere, or NULL. */
mrt_expr *mrt_few_uniform(const mrt_tensor *t) {
  for (int i = 0; i < MRT_FEW_DEPTH && mrt_few_pending(t);
       i++, t = t->expr->in[0]) {
    if (t->expr->op->traits & MRT_UNIFORM) return t->expr;
    if (!mrt_few_view(t->expr)) break;
  }
  return NULL;
}

static int find(mrt_tensor *const *list, int n, const mrt_tensor *t) {
  for (int i = 0; i < n; i++)
    if (list[i] == t) return i;
  return -1;
}

/* A program is for f32 or f64, but for one operator alone; what is to be kept
 * is computed by itself. */
static bool may_join(program *p, const mrt_tensor *t) {
  const mrt_expr *x = t->expr;
  bool f32 = p->s.f32, f64 = p->s.f64, first = p->s.x == x;
  if (!first && t->handles && x->passed) return false;
  mrt_few_note_width(&p->s, x->out_types[0].dtype);
  for (int i = 0; i < x->nin; i++)
    mrt_few_note_width(&p->s, x->in[i]->type.dtype);
  if (first || !p->s.f32 || !p->s.f64) return true;
  p->s.f32 = f32, p->s.f64 = f64;
  return false;
}

/* `t` gets a register, after all that it is computed from. */
static bool take_in(program *p, mrt_tensor *t) {
  mrt_call *c = &p->s.call;
  if (find(p->value, p->count, t) >= 0 || find(p->input, c->nin, t) >= 0)
    return true;
  bool number = mrt_few_uniform(t);
  bool computed = mrt_few_pending(t) && mrt_few_pointwise(t->expr) && !number;
  if (!number && !(computed && may_join(p, t))) {
    if (!mrt_few_input(&p->s, t)) return false;
    p->input[c->nin - 1] = t;
    return true;
  }
  if (p->depth == CODE) return false;
  p->depth++;
  for (int i = 0; !number && i < t->expr->nin; i++)
    if (!take_in(p, t->expr->in[i])) return false;
  p->depth--;
  if (p->count == CODE) return false;
  p->value[p->count++] = t;
  return true;
}

static int register_of(const program *p, const mrt_tensor *t) {
  int nin = p->s.call.nin, i = find(p->input, nin, t);
  return i >= 0 ? i : nin + find(p->value, p->count, t);
}

static void write_code(const program *p, int i, mrt_fused_code *c) {
  const mrt_tensor *t = p->value[i];
  const mrt_expr *number = mrt_few_uniform(t), *x = number ? number : t->expr;
  *c = (mrt_fused_code){ .op = x->op->number,
                         .out = p->s.call.nin + i,
                         .nin = x->nin,
                         .in_dtype = t->type.dtype,
                         .out_dtype = t->type.dtype,
                         .options = x->options };
  for (int k = 0; k < x->nin; k++) {
    c->in[k] = register_of(p, x->in[k]);
    c->in_dtype = x->in[k]->type.dtype;
  }
}

/* Where something heavy is below it, what is held is to be kept: by a plan. */
static bool pass_through(program *p, bool heavy) {
  int inside = p->count - !p->joined;
  for (int i = 0; i < inside; i++)
    if (heavy && p->value[i]->handles && !mrt_few_uniform(p->value[i]))
      return false;
  for (int i = 0; i < inside; i++) p->value[i]->expr->passed = true;
  return p->count > 0;
}

static bool run_program(program *p, mrt_tensor *t) {
  const mrt_op *const *ops = p->s.d->ctx->ops;
  mrt_fused_code code[CODE];
  int out = p->s.call.nin + p->count - 1;
  mrt_fused_options o = { .code_count = p->count,
                          .registers = out + 1,
                          .code = code,
                          .out_register = &out,
                          .out_types = &p->value[p->count - 1]->type };
  for (int i = 0; i < p->count; i++) write_code(p, i, &code[i]);
  if (!p->joined) return mrt_few_run(&p->s, ops[MRT_OP_fused], &o, t);
  mrt_fused_reduce_options r = { .program = o,
                                 .kind = t->expr->op->reduce_kind,
                                 .out = t->type };
  memcpy(&r.over, t->expr->options, sizeof r.over);
  return mrt_few_run(&p->s, ops[MRT_OP_fused_reduce], &r, t);
}

/* `t`, or `t` as the reduction of what a program computes. */
static bool try_program(mrt_few *d, mrt_tensor *t, bool *heavy) {
  program p;
  p.s.d = d, p.s.x = t->expr, p.s.call = (mrt_call){ 0 };
  p.s.f32 = p.s.f64 = false, p.count = p.depth = 0;
  p.joined = !mrt_few_pointwise(t->expr);
  int before = d->left;
  bool taken = take_in(&p, p.joined ? t->expr->in[0] : t);
  *heavy = taken && d->left < before;
  bool done = taken && pass_through(&p, *heavy) && run_program(&p, t);
  mrt_few_let_go(&p.s);
  return done;
}

/* What is heavy below has its data after the first try, and keeps it while anybody
 * waits for it: what is held above it is light then. */
bool mrt_few_program(mrt_few *d, mrt_tensor *t) {
  bool heavy;
  return try_program(d, t, &heavy) || (heavy && try_program(d, t, &heavy));
}
