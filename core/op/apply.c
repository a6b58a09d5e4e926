/* apply.c -- applying an operator: check now, compute later
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/random.h"

#include <stddef.h>
#include <string.h>

static mrt_status check_count(const mrt_op *op, int nin, mrt_error *e) {
  if (nin >= op->min_inputs && (op->max_inputs < 0 || nin <= op->max_inputs))
    return MRT_OK;
  if (op->max_inputs < 0)
    return mrt_fail(e, MRT_EVALUE, "%s: %d tensors, at least %d wanted",
                    op->name, nin, op->min_inputs);
  if (op->min_inputs == op->max_inputs)
    return mrt_fail(e, MRT_EVALUE, "%s: %d tensors, %d wanted", op->name, nin,
                    op->min_inputs);
  return mrt_fail(e, MRT_EVALUE, "%s: %d tensors, %d to %d wanted", op->name,
                  nin, op->min_inputs, op->max_inputs);
}

mrt_status mrt_infer_types(const mrt_op *op, int nin, const mrt_type *const *in,
                           void *options, mrt_type *types, int *nout,
                           mrt_error *e) {
  MRT_TRY(check_count(op, nin, e));
  mrt_infer c = { .op = op,
                  .nin = nin,
                  .in = in,
                  .options = options,
                  .nout = 1,
                  .out = types,
                  .e = e };
  MRT_TRY(op->infer(&c));
  for (int i = 0; i < c.nout; i++)
    MRT_TRY(mrt_type_check(&types[i], op->name, e));
  *nout = c.nout;
  return MRT_OK;
}

size_t mrt_option_bytes(mrt_option_kind kind) {
  static const size_t sizes[] = {
    [MRT_OPT_INT] = sizeof(int64_t),   [MRT_OPT_NUM] = sizeof(double),
    [MRT_OPT_BOOL] = sizeof(bool),     [MRT_OPT_DIM] = sizeof(int64_t),
    [MRT_OPT_INDEX] = sizeof(int64_t), [MRT_OPT_DTYPE] = sizeof(mrt_dtype),
    [MRT_OPT_ENUM] = sizeof(int),      [MRT_OPT_INTS] = sizeof(mrt_ints),
    [MRT_OPT_DIMS] = sizeof(mrt_ints), [MRT_OPT_HIDDEN] = sizeof(void *),
  };
  return sizes[kind];
}

/* Field by field, so that equal options are equal bytes: padding stays zero. */
static void copy_options(const mrt_op *op, char *to, const void *from) {
  for (int i = 0; i < op->option_count; i++) {
    const mrt_option *o = &op->options[i];
    memcpy(to + o->offset, (const char *)from + o->offset,
           mrt_option_bytes(o->kind));
    if (o->kind != MRT_OPT_INTS && o->kind != MRT_OPT_DIMS) continue;
    mrt_ints list;
    memcpy(&list, to + o->offset, sizeof list);
    for (int k = list.count < 0 ? 0 : list.count; k < MRT_MAX_RANK; k++)
      list.at[k] = 0;
    memcpy(to + o->offset, &list, sizeof list);
  }
}

/* Inference sees the inputs' types through pointers: enough for most on the
 * stack, from the heap for operators over long lists. */
enum { FEW = 16 };

/* A random node that has no key yet gets one. */
static void give_draw(mrt_context *ctx, void *options) {
  mrt_draw d;
  memcpy(&d, options, sizeof d);
  if (d.key != 0) return;
  d.key = (uint32_t)ctx->next_key++;
  if (!ctx->trace) d.key |= MRT_DRAW_PINNED, d.seed = ctx->seed;
  memcpy(options, &d, sizeof d);
}

mrt_status mrt_apply_expr(mrt_context *ctx, const mrt_op *op,
                          mrt_tensor *const *given, int nin,
                          const void *options, mrt_reading reading,
                          mrt_expr **out) {
  _Alignas(max_align_t) char own[MRT_MAX_OPTIONS];
  mrt_type types[MRT_MAX_OUT];
  struct {
    mrt_tensor *in;
    const mrt_type *type;
  } few[FEW];
  if (nin < 0 || op->options_size > sizeof own)
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s: bad call", op->name);
  size_t bytes = (size_t)nin * (sizeof few[0].in + sizeof few[0].type);
  void *room = nin > FEW ? mrt_calloc(ctx->allocator, 1, bytes) : few;
  if (!room) return mrt_nomem(&ctx->error);
  mrt_tensor **in = room;
  const mrt_type **in_types = (const mrt_type **)(in + nin);

  mrt_options_init(op, own);
  if (options) copy_options(op, own, options);
  if (op->traits & MRT_RANDOM) give_draw(ctx, own);
  mrt_status s = MRT_OK;
  for (int i = 0; i < nin; i++) {
    in[i] = reading == MRT_NEWEST ? mrt_tensor_current(given[i]) : given[i];
    in_types[i] = &in[i]->type;
    if (in[i]->ctx != ctx)
      s = mrt_fail(&ctx->error, MRT_ESTATE,
                   "%s: input %d belongs to another context", op->name, i + 1);
  }
  int nout = 1;
  if (!s)
    s = mrt_infer_types(op, nin, in_types, own, types, &nout, &ctx->error);
  if (!s) {
    *out = mrt_expr_new(ctx, op, nin, in, own, op->options_size, nout, types);
    if (*out)
      (*out)->updates = op->updates;
    else
      s = mrt_nomem(&ctx->error);
  }
  if (room != few) mrt_release(ctx->allocator, room, bytes);
  return s;
}

MRT_API mrt_status mrt_apply(mrt_context *ctx, const mrt_op *op,
                             mrt_tensor *const *in, int nin,
                             const void *options, mrt_tensor **out, int room,
                             int *nout) {
  if (op->traits & MRT_UPDATES)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "%s writes its inputs: it is applied with update",
                    op->name);
  if (op->traits & MRT_INTERNAL)
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s is made by the library only",
                    op->name);
  mrt_expr *x;
  MRT_TRY(mrt_apply_expr(ctx, op, in, nin, options, MRT_NEWEST, &x));
  int n = x->nout < room ? x->nout : room;
  for (int i = 0; i < n; i++) {
    out[i] = mrt_expr_output(ctx, x, i);
    if (out[i]) {
      out[i]->handles++;
      continue;
    }
    if (i == 0) mrt_expr_free(ctx, x);
    while (i > 0) mrt_tensor_unref(out[--i]);
    return mrt_nomem(&ctx->error);
  }
  *nout = n;
  return MRT_OK;
}

/* Another variable's value is read through a node, like any value, so that it
 * is computed before that variable changes. */
MRT_API mrt_status mrt_variable_new(mrt_context *ctx, mrt_tensor *init,
                                    const char *name, mrt_tensor **out) {
  int n;
  if (init->variable)
    MRT_TRY(
        mrt_apply(ctx, mrt_ops[MRT_OP_detach], &init, 1, NULL, &init, 1, &n));
  else
    mrt_tensor_ref(init);
  mrt_tensor *t = mrt_tensor_new(ctx, &init->type);
  if (t) t->handles = 1, t->variable = mrt_variable_of(ctx, init);
  mrt_tensor_unref(init);
  if (t && t->variable && (!name || !mrt_tensor_set_name(t, name)))
    return *out = t, MRT_OK;
  mrt_tensor_unref(t);
  return mrt_nomem(&ctx->error);
}
