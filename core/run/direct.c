/* direct.c -- a few operators on what is computed already, without a plan
 *
 *   question  a program asks for the data of one tensor, and all that is
 *             pending below it is an operator or two: planning would take
 *             longer than computing.
 *   method    Views are read through their strides.  Pointwise operators become
 *             one fused program, as the fuse pass would have it; any other
 *             operator's kernel is called with what it reads.  What that waits
 *             for, if it is small, is computed first in the same way.
 *   gives     the bits of a plan, in no more memory or steps
 *   never     reports a failure: whatever is unusual here (no memory, a bad
 *             index, an interrupt, a device with memory of its own) is left to
 *             the plan that is made then, which says so or does better.  What
 *             has been computed on the way stays, like anything evaluated.
 *
 * SPDX-License-Identifier: MIT */
#include "run/direct.h"
#include "base/rounding.h"

#include <string.h>

enum {
  SMALL = 1 << 22, /* bytes: what is computed on the way */
  LARGE = 64 << 20 /* bytes: a plan asks first whether they are to be had */
};

static bool compute_first(mrt_few *d, mrt_tensor *t);

/* ---- what is read -------------------------------------------------------- */

static bool contiguous(const mrt_operand *o) {
  int64_t step = 1;
  for (int i = o->type.rank - 1; i >= 0; i--) {
    if (o->type.dims[i] == 0) return true;
    if (o->type.dims[i] != 1 && o->strides[i] != step) return false;
    step *= o->type.dims[i];
  }
  return true;
}

/* Its bytes are in memory, and nothing but reading them is to be done. */
static bool is_here(const mrt_tensor *t) {
  const mrt_variable *v = t->variable;
  if (!t->storage || !t->storage->data || t->storage->location) return false;
  return !t->input && !t->instead && !(v && (v->torn || v->bucket));
}

/* Where the elements of `t` lie, and in which storage; what has none yet is
 * computed. */
static bool read(mrt_few *d, mrt_tensor *t, int depth, mrt_operand *o,
                 mrt_storage **storage) {
  if (!t->storage && mrt_few_pending(t) && !mrt_few_view(t->expr) &&
      (mrt_type_bytes(&t->type) > SMALL || !compute_first(d, t)))
    return false;
  if (is_here(t)) {
    *storage = t->storage;
    o->data = t->storage->data, o->type = t->type;
    mrt_type_strides(&t->type, o->strides);
    return true;
  }
  if (!mrt_few_pending(t) || !mrt_few_view(t->expr) || depth == MRT_FEW_DEPTH)
    return false;
  mrt_operand from;
  mrt_expr *x = t->expr;
  if (!read(d, x->in[0], depth + 1, &from, storage)) return false;
  mrt_view v = { .op = x->op,
                 .options = x->options,
                 .index = t->index,
                 .in = &from.type,
                 .out = &t->type,
                 .in_strides = from.strides,
                 .strides = o->strides };
  /* No strides for it, but of a copy. */
  if (!x->op->view(&v) &&
      (!compute_first(d, x->in[0]) ||
       !read(d, x->in[0], depth + 1, &from, storage) || !x->op->view(&v)))
    return false;
  o->type = t->type;
  o->data =
      (char *)from.data + v.offset * (int64_t)mrt_dtypes[from.type.dtype].bytes;
  return true;
}

/* Reads `t` as the next input. */
bool mrt_few_input(mrt_few_step *s, mrt_tensor *t) {
  mrt_call *c = &s->call;
  int i = c->nin;
  if (i == MRT_FEW_INPUTS || !read(s->d, t, 0, &s->in[i], &s->held[i]))
    return false;
  mrt_storage_ref(s->held[i]);
  mrt_few_note_width(s, t->type.dtype);
  c->nin++;
  return true;
}

void mrt_few_let_go(mrt_few_step *s) {
  for (int i = 0; i < s->call.nin; i++) mrt_storage_unref(s->held[i]);
}

/* ---- the call ------------------------------------------------------------ */

static void drop_storages(mrt_few_step *s) {
  for (int i = 0; i < s->call.nout; i++) mrt_storage_unref(s->storage[i]);
}

/* A storage for each output; none when memory is out. */
static bool get_storages(mrt_few_step *s) {
  mrt_context *ctx = s->d->ctx;
  size_t bytes = 0;
  for (int i = 0; i < s->x->nout; i++)
    bytes += mrt_type_bytes(&s->x->out_types[i]);
  for (int i = 0; i < s->x->nout && bytes <= LARGE; i++) {
    mrt_operand *o = &s->out[i];
    o->type = s->x->out_types[i];
    mrt_type_strides(&o->type, o->strides);
    if (mrt_storage_new(ctx, mrt_type_bytes(&o->type), &s->storage[i]))
      return drop_storages(s), false;
    o->data = s->storage[i]->data;
    s->call.nout++;
  }
  return bytes <= LARGE;
}

static bool run_with(mrt_few_step *s, const mrt_kernel *kernel,
                     size_t scratch) {
  mrt_context *ctx = s->d->ctx;
  mrt_call *c = &s->call;
  size_t rounded;
  if (scratch > LARGE) return false;
  if (scratch) c->scratch = mrt_device_alloc(ctx, scratch, &rounded);
  if (scratch && !c->scratch) return false;
  c->run = &s->d->run;
  kernel->run(c);
  if (scratch) mrt_device_free(ctx, c->scratch, rounded);
  return !c->run->fault && !mrt_device_works(&ctx->device, &ctx->error);
}

static const mrt_kernel *kernel_of(const mrt_few_step *s, const mrt_op *op) {
  const mrt_device *d = &s->d->ctx->device;
  const mrt_kernel *k = d->kernel(d, op->number, s->f64 ? MRT_f64 : MRT_f32);
  return k && k->run && !k->takes && !k->prepare ? k : NULL;
}

static void resolve(const mrt_few_step *s, const mrt_tensor *wanted) {
  for (int i = 0; i < s->call.nout; i++) {
    mrt_tensor *t = s->x->out[i];
    if (t && !t->storage && (t == wanted || t->handles))
      mrt_tensor_resolve(t, s->storage[i]);
  }
}

/* `wanted`, an output of s->x, and others that a program holds, by `op`. */
bool mrt_few_run(mrt_few_step *s, const mrt_op *op, const void *options,
                 const mrt_tensor *wanted) {
  const mrt_device *device = &s->d->ctx->device;
  for (int i = 0; i < s->x->nout; i++)
    mrt_few_note_width(s, s->x->out_types[i].dtype);
  const mrt_kernel *kernel = kernel_of(s, op);
  if (!kernel || s->d->left == 0 || !get_storages(s)) return false;
  mrt_call *c = &s->call;
  c->options = options, c->in = s->in, c->out = s->out;
  c->threads = device->threads, c->workers = device->workers;
  c->dots = device->dots, c->tiles = device->tiles;
  c->winograd = device->winograd;
  c->file = s->x->origin.file, c->line = s->x->origin.line;
  bool done = run_with(s, kernel, kernel->scratch ? kernel->scratch(c) : 0);
  if (done) s->d->ctx->steps++, s->d->left--, resolve(s, wanted);
  drop_storages(s);
  return done;
}

/* ---- others -------------------------------------------------------------- */

static bool may_be_strided(const mrt_op *op, int input) {
  return op->strided >> (input < 31 ? input : 31) & 1;
}

/* As the next input; what the row does not read by strides is copied first. */
static bool add_operand(mrt_few_step *s, mrt_tensor *t) {
  int i = s->call.nin;
  if (!mrt_few_input(s, t)) return false;
  if (contiguous(&s->in[i]) || may_be_strided(s->x->op, i)) return true;
  if (mrt_type_bytes(&t->type) > SMALL) return false;
  mrt_storage_unref(s->held[i]);
  s->call.nin--;
  return compute_first(s->d, t) && mrt_few_input(s, t) && contiguous(&s->in[i]);
}

static bool compute_row(mrt_few *d, mrt_tensor *t) {
  mrt_expr *x = t->expr;
  mrt_few_step s = { .d = d, .x = x };
  bool done = x->nin <= MRT_FEW_INPUTS && x->nout <= MRT_FEW_OUTPUTS &&
              !(x->op->traits & MRT_CLAMPS);
  for (int i = 0; i < x->nin && done; i++) done = add_operand(&s, x->in[i]);
  done = done && mrt_few_run(&s, x->op, x->options, t);
  mrt_few_let_go(&s);
  return done;
}

/* What the view `t` is of, where it is all of it and nobody writes there. */
static bool is_whole(const mrt_few_step *s, const mrt_tensor *t) {
  const mrt_tensor *of = t;
  while (!of->storage) of = of->expr->in[0];
  return !of->variable && s->in[0].data == of->storage->data &&
         contiguous(&s->in[0]) &&
         mrt_type_bytes(&of->type) == mrt_type_bytes(&t->type);
}

/* What the view is all of may be large, as it takes its storage then. */
static void compute_below(mrt_few *d, const mrt_tensor *t) {
  mrt_tensor *below = t->expr->in[0];
  while (mrt_few_pending(below) && mrt_few_view(below->expr))
    below = below->expr->in[0];
  if (mrt_few_pending(below) &&
      mrt_type_count(&below->type) == mrt_type_count(&t->type))
    compute_first(d, below);
}

/* A view that somebody wants to have gets storage of its own, or shares it. */
static bool compute_view(mrt_few *d, mrt_tensor *t) {
  mrt_type types[] = { t->type };
  mrt_tensor *out[] = { t };
  mrt_expr copy = {
    .nout = 1, .out = out, .out_types = types, .origin = t->origin
  };
  mrt_few_step s = { .d = d, .x = &copy };
  compute_below(d, t);
  bool done = mrt_few_input(&s, t), shared = done && is_whole(&s, t);
  if (shared)
    mrt_tensor_resolve(t, s.held[0]);
  else
    done = done && mrt_few_run(&s, d->ctx->ops[MRT_OP_copy], NULL, t);
  mrt_few_let_go(&s);
  return done;
}

/* A reduction of what nobody has, but what a program may compute. */
static bool joins(const mrt_expr *x) {
  if (!x->op->reduce_kind) return false;
  const mrt_tensor *t = x->in[0];
  bool real = t->type.dtype == MRT_f32 || t->type.dtype == MRT_f64;
  return real && mrt_few_pending(t) && mrt_few_pointwise(t->expr) &&
         !mrt_few_uniform(t) && !(t->handles && t->expr->passed);
}

static bool compute(mrt_few *d, mrt_tensor *t) {
  if (!mrt_few_pending(t) || d->left == 0) return false;
  return mrt_few_view(t->expr)                     ? compute_view(d, t)
         : mrt_few_pointwise(t->expr)              ? mrt_few_program(d, t)
         : joins(t->expr) && mrt_few_program(d, t) ? true
                                                   : compute_row(d, t);
}

/* On the way to another: it stays where run/keep.c would keep it, and as long as
 * it is read. */
static bool compute_first(mrt_few *d, mrt_tensor *t) {
  int before = d->left;
  if (d->depth == MRT_FEW_STEPS) return false;
  d->depth++;
  bool done = compute(d, t);
  d->depth--;
  if (!done) return false;
  bool light = mrt_few_pointwise(t->expr) || mrt_few_view(t->expr);
  light &= before - d->left == 1;
  if (light && t->handles && !t->expr->passed)
    d->brief[d->brief_count++] = t;
  else
    mrt_settle(t);
  t->expr->passed = true;
  return true;
}

static void forget_brief(mrt_few *d) {
  while (d->brief_count) {
    mrt_tensor *t = d->brief[--d->brief_count];
    mrt_storage_unref(t->storage);
    t->storage = NULL;
  }
}

/* Nobody looks at single steps, or asks for less memory than there is. */
static bool is_usual(mrt_context *ctx) {
  return !ctx->trace && !ctx->device.remote && !ctx->device.queue &&
         !ctx->poison && !ctx->memory.budget && !ctx->memory.available &&
         !mrt_interrupts_raised(ctx);
}

bool mrt_compute_direct(mrt_context *ctx, mrt_tensor *t) {
  if (!is_usual(ctx) || !mrt_few_pending(t)) return false;
  mrt_few d = { .ctx = ctx,
                .left = MRT_FEW_STEPS,
                .run = { .seed = ctx->random.seed,
                         .ranks = 1,
                         .tier = &ctx->swap.row.tier,
                         .error = &ctx->error,
                         .device = ctx->device.state } };
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_hold(t);
  bool done = compute(&d, t);
  forget_brief(&d);
  if (done) mrt_settle(t);
  mrt_drop(t);
  mrt_rounding_end(&host);
  return done;
}
