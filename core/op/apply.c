/* apply.c -- applying an operator: check now, compute later
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "mrt/frontend.h"
#include "op/cast.h"
#include "op/collective.h"
#include "op/random.h"
#include "tensor/trace.h"

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

void mrt_copy_options(const mrt_op *op, void *into, const void *from) {
  char *to = into;
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
  d.key = (uint32_t)ctx->random.next++;
  if (!ctx->trace) d.key |= MRT_DRAW_PINNED, d.seed = ctx->random.seed;
  memcpy(options, &d, sizeof d);
}

/* Who meets, and after which other collectives. */
static mrt_status give_turn(mrt_context *ctx, const mrt_op *op, void *options) {
  mrt_meeting m;
  memcpy(&m, options, sizeof m);
  const mrt_communicator *comm = mrt_communicator_find(ctx, m.comm);
  const mrt_error said = ctx->error;
  if (!comm)
    return mrt_fail(&ctx->error, said.status, "%s: %s", op->name, said.message);
  m.sequence = ++ctx->ranks.sequence, m.rank = comm->rank, m.size = comm->size;
  memcpy(options, &m, sizeof m);
  return MRT_OK;
}

static mrt_tensor *read_as(mrt_tensor *t, mrt_reading reading) {
  return reading == MRT_NEWEST ? mrt_tensor_current(t) : t;
}

/* x in another dtype, with one reference. */
static mrt_status cast_of(mrt_context *ctx, mrt_tensor *x, mrt_dtype dtype,
                          mrt_tensor **out) {
  mrt_cast_options o = { .dtype = dtype };
  mrt_expr *made;
  MRT_TRY(mrt_apply_expr(ctx, ctx->ops[MRT_OP_cast], &x, 1, &o, MRT_RECORDED,
                         &made, NULL));
  *out = mrt_expr_output(ctx, made, 0);
  if (!*out) mrt_expr_free(ctx, made);
  return *out ? MRT_OK : mrt_nomem(&ctx->error);
}

/* What a call works with. */
typedef struct call {
  mrt_context *ctx;
  const mrt_op *op;
  mrt_tensor *const *given;
  mrt_reading reading;
  int nin;
  mrt_tensor **in; /* what is read; held where it is not what was given */
  const mrt_type **in_types;
} call;

/* Does an input say what the results are stored in?  One behind the first that
 * is never read rounded does not: frequencies beside what they turn. */
static bool is_told_by(const mrt_op *op, int i, mrt_dtype d) {
  bool wide = i > 0 && i < 32 && op->wide_inputs >> i & 1;
  return mrt_is_float(d) && !wide;
}

/* Replace narrow floats by what they are in f32, or f64 beside that.  *narrow:
 * their dtype, if no float is wider; else MRT_DTYPE_COUNT. */
static mrt_status widen(const call *c, mrt_dtype *narrow) {
  mrt_dtype real = MRT_f32;
  *narrow = MRT_DTYPE_COUNT;
  for (int i = 0; i < c->nin; i++) {
    mrt_dtype d = c->in[i]->type.dtype;
    if (d == MRT_f64) real = d;
    if (is_told_by(c->op, i, d))
      *narrow = *narrow == MRT_DTYPE_COUNT || *narrow == d ? d : MRT_f32;
  }
  if (*narrow != MRT_DTYPE_COUNT && !mrt_is_narrow(*narrow))
    *narrow = MRT_DTYPE_COUNT;
  for (int i = c->op->updates; i < c->nin; i++) {
    if (!mrt_is_narrow(c->in[i]->type.dtype)) continue;
    MRT_TRY(cast_of(c->ctx, c->in[i], real, &c->in[i]));
    c->in_types[i] = &c->in[i]->type;
  }
  return MRT_OK;
}

static bool any_narrow(const call *c) {
  bool any = false;
  for (int i = c->op->updates; i < c->nin; i++)
    any |= mrt_is_narrow(c->in[i]->type.dtype);
  return any;
}

/* Inference; where the row wants real numbers and some are narrow, once more
 * with these widened. */
static mrt_status infer(const call *c, void *options, mrt_type *types,
                        int *nout, mrt_dtype *narrow) {
  mrt_error *e = &c->ctx->error;
  mrt_status s =
      mrt_infer_types(c->op, c->nin, c->in_types, options, types, nout, e);
  if (s != MRT_EDTYPE || !any_narrow(c)) return s;
  mrt_error first = *e;
  MRT_TRY(widen(c, narrow));
  s = mrt_infer_types(c->op, c->nin, c->in_types, options, types, nout, e);
  if (s == MRT_EDTYPE) *e = first;
  return s;
}

/* Does it need random numbers?  Updates round what they store narrow. */
static bool draws(const call *c) {
  bool any = !(c->op->traits & MRT_UPDATES);
  for (int i = 0; i < c->op->updates && i < c->nin; i++)
    any |= mrt_is_narrow(c->in[i]->type.dtype);
  return any && (c->op->traits & MRT_RANDOM);
}

/* Two contexts on one device are strangers too. */
static const char *same_name(const mrt_context *a, const mrt_context *b) {
  return strcmp(a->device.name, b->device.name) == 0 ? " of another context"
                                                     : "";
}

static mrt_status make_expr(call *c, const void *options, mrt_expr **out,
                            mrt_dtype *narrow) {
  _Alignas(max_align_t) char own[MRT_MAX_OPTIONS];
  mrt_type types[MRT_MAX_OUT];
  mrt_context *ctx = c->ctx;
  int nout = 1;
  mrt_options_init(c->op, own);
  if (options) mrt_copy_options(c->op, own, options);
  if (draws(c)) give_draw(ctx, own);
  for (int i = 0; i < c->nin; i++)
    if (c->in[i]->ctx != ctx)
      return mrt_fail(&ctx->error, MRT_ESTATE,
                      "%s: input %d is on %s%s, the others are on %s; x:to "
                      "copies",
                      c->op->name, i + 1, c->in[i]->ctx->device.name,
                      same_name(ctx, c->in[i]->ctx), ctx->device.name);
  if (c->op->traits & MRT_COLLECTIVE) MRT_TRY(give_turn(ctx, c->op, own));
  MRT_TRY(infer(c, own, types, &nout, narrow));
  *out = mrt_expr_new(ctx, c->op, c->nin, c->in, own, c->op->options_size, nout,
                      types);
  if (!*out) return mrt_nomem(&ctx->error);
  (*out)->updates = c->op->updates;
  (*out)->once = c->op->traits & MRT_COLLECTIVE;
  return MRT_OK;
}

mrt_status mrt_apply_expr(mrt_context *ctx, const mrt_op *op,
                          mrt_tensor *const *given, int nin,
                          const void *options, mrt_reading reading,
                          mrt_expr **out, mrt_dtype *narrow) {
  struct {
    mrt_tensor *in;
    const mrt_type *type;
  } few[FEW];
  mrt_dtype none;
  if (!narrow) narrow = &none;
  *narrow = MRT_DTYPE_COUNT;
  if (nin < 0 || op->options_size > MRT_MAX_OPTIONS)
    return mrt_fail(&ctx->error, MRT_EVALUE, "%s: bad call", op->name);
  size_t bytes = (size_t)nin * (sizeof few[0].in + sizeof few[0].type);
  void *room = nin > FEW ? mrt_calloc(ctx->allocator, 1, bytes) : few;
  if (!room) return mrt_nomem(&ctx->error);
  call c = { ctx, op, given, reading, nin, room, NULL };
  c.in_types = (const mrt_type **)(c.in + nin);
  for (int i = 0; i < nin; i++) {
    c.in[i] = read_as(given[i], reading);
    c.in_types[i] = &c.in[i]->type;
  }
  mrt_status s = make_expr(&c, options, out, narrow);
  for (int i = 0; i < nin; i++)
    if (c.in[i] != read_as(given[i], reading)) mrt_drop(c.in[i]);
  if (room != few) mrt_release(ctx->allocator, room, bytes);
  return s;
}

mrt_status mrt_apply_output(mrt_context *ctx, mrt_expr *x, int i,
                            mrt_dtype narrow, mrt_tensor **out) {
  mrt_tensor *t = mrt_expr_output(ctx, x, i);
  if (!t) {
    if (i == 0) mrt_expr_free(ctx, x);
    return mrt_nomem(&ctx->error);
  }
  bool stays = narrow == MRT_DTYPE_COUNT || t->type.dtype != MRT_f32 ||
               x->op->wide_outputs >> (i < 32 ? i : 31) & 1;
  bool call = x->once && !mrt_is_lazy(x->op, x->options);
  mrt_status s = call ? mrt_call_note(ctx, t) : MRT_OK;
  if (stays && !s) return *out = t, MRT_OK;
  if (!s) s = cast_of(ctx, t, narrow, out);
  mrt_drop(t);
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
  mrt_dtype narrow;
  mrt_status s = MRT_OK;
  MRT_TRY(mrt_apply_expr(ctx, op, in, nin, options, MRT_NEWEST, &x, &narrow));
  int n = x->nout < room ? x->nout : room, made = 0;
  while (made < n && !s) {
    s = mrt_apply_output(ctx, x, made, narrow, &out[made]);
    if (!s) out[made++]->handles++;
  }
  while (s && made > 0) mrt_tensor_unref(out[--made]);
  *nout = n;
  return s;
}

/* Another variable's value is read through a node, like any value, so that it
 * is computed before that variable changes. */
MRT_API mrt_status mrt_variable_new(mrt_context *ctx, mrt_tensor *init,
                                    const char *name, mrt_tensor **out) {
  int n;
  if (init->variable)
    MRT_TRY(
        mrt_apply(ctx, ctx->ops[MRT_OP_detach], &init, 1, NULL, &init, 1, &n));
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

MRT_API const char *mrt_tensor_maker(const mrt_tensor *t, int *nin,
                                     mrt_tensor *const **in) {
  const mrt_expr *x = t->variable ? NULL : t->expr;
  *nin = x ? x->nin : 0, *in = x ? x->in : NULL;
  return x ? x->op->name : NULL;
}

static double bytes_of(const mrt_type *const *types, int n) {
  double bytes = 0;
  for (int i = 0; i < n; i++) bytes += (double)mrt_type_bytes(types[i]);
  return bytes;
}

MRT_API mrt_work mrt_tensor_work(const mrt_tensor *t) {
  enum { MOST = 64 }; /* of longer lists, as of norms, the beginning counts */
  const mrt_expr *x = t->variable ? NULL : t->expr;
  const mrt_type *in[MOST], *out[MOST];
  if (!x) return (mrt_work){ 0 };
  mrt_signature s = { x->op,
                      x->options,
                      x->nin < MOST ? x->nin : MOST,
                      x->nout < MOST ? x->nout : MOST,
                      in,
                      out };
  for (int i = 0; i < s.nin; i++) in[i] = &x->in[i]->type;
  for (int i = 0; i < s.nout; i++) out[i] = &x->out_types[i];
  return (mrt_work){ x->op->flops ? x->op->flops(&s) : 0,
                     bytes_of(in, s.nin) + bytes_of(out, s.nout),
                     (x->op->traits & MRT_VIEW) != 0, x->id, x->origin.module };
}

MRT_API bool mrt_tensor_alike(const mrt_tensor *a, const mrt_tensor *b) {
  const mrt_expr *x = a->variable ? NULL : a->expr;
  const mrt_expr *y = b->variable ? NULL : b->expr;
  return x && y && x->op == y->op && x->nin == y->nin && a->index == b->index &&
         memcmp(x->options, y->options, x->op->options_size) == 0;
}
