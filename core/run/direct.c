/* direct.c -- a few operators on what is computed already, without a plan
 *
 *   question  a program asks for the data of one tensor, and all that is
 *             pending below it is an operator or two: planning would take
 *             longer than computing.
 *   method    Views are read through their strides.  Pointwise operators become
 *             one fused program, as the fuse pass would have it; any other
 *             operator's kernel is called with what it reads.  What that waits
 *             for, if it is small, is computed first in the same way.
 *   gives     the bits, memory and steps of a plan
 *   never     reports a failure: whatever is unusual here (no memory, a bad
 *             index, an interrupt, a device with memory of its own) is left to
 *             the plan that is made then, which says so or does better.  What
 *             has been computed on the way stays, like anything evaluated.
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "op/fused.h"
#include "op/op.h"
#include "run/run.h"

#include <string.h>

enum {
  CODE = 18,       /* pointwise operators of one program, constants too */
  INPUTS = 8,      /* of a call */
  OUTPUTS = 8,     /* ditto */
  STEPS = 8,       /* calls of one evaluation */
  DEPTH = 8,       /* views on views */
  SMALL = 1 << 22, /* bytes: what is computed on the way */
  LARGE = 64 << 20 /* bytes: a plan asks first whether they are to be had */
};

typedef struct few {
  mrt_context *ctx;
  int left;                 /* calls that may still be made */
  int depth;                /* of those that wait for one under way */
  mrt_run run;              /* what kernels find: that of a plan's first run */
  mrt_tensor *brief[STEPS]; /* have their data until it ends */
  int brief_count;
} few;

/* One call: of a row's kernel, or of the program that `fused` holds.  It holds
 * what it reads: while one input is looked up, another may be computed, and what
 * that read last is given back, though we read it again. */
typedef struct step {
  few *d;
  mrt_expr *x; /* whose outputs it writes */
  mrt_storage *held[INPUTS];
  mrt_operand in[INPUTS], out[OUTPUTS];
  mrt_storage *storage[OUTPUTS];
  mrt_call call;
  bool f32, f64; /* among what it reads and writes */
} step;

static bool compute_first(few *d, mrt_tensor *t);

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

static bool is_pending(const mrt_tensor *t) {
  const mrt_expr *x = t->expr;
  if (t->storage || t->variable || t->input || t->instead || !x) return false;
  return !x->stale && !x->traced && !x->updates && !x->once;
}

static bool is_view(const mrt_expr *x) { return x->op->traits & MRT_VIEW; }

/* Where the elements of `t` lie, and in which storage; what has none yet is
 * computed. */
static bool read(few *d, mrt_tensor *t, int depth, mrt_operand *o,
                 mrt_storage **storage) {
  if (!t->storage && is_pending(t) && !is_view(t->expr) &&
      (mrt_type_bytes(&t->type) > SMALL || !compute_first(d, t)))
    return false;
  if (is_here(t)) {
    *storage = t->storage;
    o->data = t->storage->data, o->type = t->type;
    mrt_type_strides(&t->type, o->strides);
    return true;
  }
  if (!is_pending(t) || !is_view(t->expr) || depth == DEPTH) return false;
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

static void note_width(step *s, mrt_dtype d) {
  s->f32 |= d == MRT_f32, s->f64 |= d == MRT_f64;
}

/* Reads `t` as the next input. */
static bool add_input(step *s, mrt_tensor *t) {
  mrt_call *c = &s->call;
  int i = c->nin;
  if (i == INPUTS || !read(s->d, t, 0, &s->in[i], &s->held[i])) return false;
  mrt_storage_ref(s->held[i]);
  note_width(s, t->type.dtype);
  c->nin++;
  return true;
}

static void let_go(step *s) {
  for (int i = 0; i < s->call.nin; i++) mrt_storage_unref(s->held[i]);
}

/* ---- the call ------------------------------------------------------------ */

static void drop_storages(step *s) {
  for (int i = 0; i < s->call.nout; i++) mrt_storage_unref(s->storage[i]);
}

/* A storage for each output; none when memory is out. */
static bool get_storages(step *s) {
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

static bool run_with(step *s, const mrt_kernel *kernel, size_t scratch) {
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

static const mrt_kernel *kernel_of(const step *s, const mrt_op *op) {
  const mrt_device *d = &s->d->ctx->device;
  const mrt_kernel *k = d->kernel(d, op->number, s->f64 ? MRT_f64 : MRT_f32);
  return k && k->run && !k->takes && !k->prepare ? k : NULL;
}

static void resolve(const step *s, const mrt_tensor *wanted) {
  for (int i = 0; i < s->call.nout; i++) {
    mrt_tensor *t = s->x->out[i];
    if (t && !t->storage && (t == wanted || t->handles))
      mrt_tensor_resolve(t, s->storage[i]);
  }
}

/* `wanted`, an output of s->x, and others that a program holds, by `op`. */
static bool run(step *s, const mrt_op *op, const void *options,
                const mrt_tensor *wanted) {
  const mrt_device *device = &s->d->ctx->device;
  for (int i = 0; i < s->x->nout; i++) note_width(s, s->x->out_types[i].dtype);
  const mrt_kernel *kernel = kernel_of(s, op);
  if (!kernel || s->d->left == 0 || !get_storages(s)) return false;
  mrt_call *c = &s->call;
  c->options = options, c->in = s->in, c->out = s->out;
  c->threads = device->threads, c->workers = device->workers;
  c->dots = device->dots;
  c->file = s->x->origin.file, c->line = s->x->origin.line;
  bool done = run_with(s, kernel, kernel->scratch ? kernel->scratch(c) : 0);
  if (done) s->d->ctx->steps++, s->d->left--, resolve(s, wanted);
  drop_storages(s);
  return done;
}

/* ---- pointwise operators ------------------------------------------------- */

/* Registers: inputs, then what instructions write, in their order. */
typedef struct program {
  step s;
  mrt_tensor *input[INPUTS];
  mrt_tensor *value[CODE];
  int count, depth;
  bool joined; /* by a reduction, so that its result is not written */
} program;

static bool pointwise(const mrt_expr *x) {
  return (x->op->traits & MRT_POINTWISE) && x->nout == 1 && x->nin <= 3;
}

/* What computes the one number that `t` is everywhere, or NULL. */
static mrt_expr *uniform(const mrt_tensor *t) {
  for (int i = 0; i < DEPTH && is_pending(t); i++, t = t->expr->in[0]) {
    if (t->expr->op->traits & MRT_UNIFORM) return t->expr;
    if (!is_view(t->expr)) break;
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
  note_width(&p->s, x->out_types[0].dtype);
  for (int i = 0; i < x->nin; i++) note_width(&p->s, x->in[i]->type.dtype);
  if (first || !p->s.f32 || !p->s.f64) return true;
  p->s.f32 = f32, p->s.f64 = f64;
  return false;
}

/* `t` gets a register, after all that it is computed from. */
static bool take_in(program *p, mrt_tensor *t) {
  mrt_call *c = &p->s.call;
  if (find(p->value, p->count, t) >= 0 || find(p->input, c->nin, t) >= 0)
    return true;
  bool number = uniform(t);
  bool computed = is_pending(t) && pointwise(t->expr) && !number;
  if (!number && !(computed && may_join(p, t))) {
    if (!add_input(&p->s, t)) return false;
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
  const mrt_expr *number = uniform(t), *x = number ? number : t->expr;
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
    if (heavy && p->value[i]->handles && !uniform(p->value[i])) return false;
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
  if (!p->joined) return run(&p->s, ops[MRT_OP_fused], &o, t);
  mrt_fused_reduce_options r = { .program = o,
                                 .kind = t->expr->op->reduce_kind,
                                 .out = t->type };
  memcpy(&r.over, t->expr->options, sizeof r.over);
  return run(&p->s, ops[MRT_OP_fused_reduce], &r, t);
}

/* `t`, or `t` as the reduction of what a program computes. */
static bool try_program(few *d, mrt_tensor *t, bool *heavy) {
  program p;
  p.s.d = d, p.s.x = t->expr, p.s.call = (mrt_call){ 0 };
  p.s.f32 = p.s.f64 = false, p.count = p.depth = 0;
  p.joined = !pointwise(t->expr);
  int before = d->left;
  bool taken = take_in(&p, p.joined ? t->expr->in[0] : t);
  *heavy = taken && d->left < before;
  bool done = taken && pass_through(&p, *heavy) && run_program(&p, t);
  let_go(&p.s);
  return done;
}

/* What is heavy below has its data after the first try, and keeps it while anybody
 * waits for it: what is held above it is light then. */
static bool compute_pointwise(few *d, mrt_tensor *t) {
  bool heavy;
  return try_program(d, t, &heavy) || (heavy && try_program(d, t, &heavy));
}

/* ---- others -------------------------------------------------------------- */

static bool may_be_strided(const mrt_op *op, int input) {
  return op->strided >> (input < 31 ? input : 31) & 1;
}

/* As the next input; what the row does not read by strides is copied first. */
static bool add_operand(step *s, mrt_tensor *t) {
  int i = s->call.nin;
  if (!add_input(s, t)) return false;
  if (contiguous(&s->in[i]) || may_be_strided(s->x->op, i)) return true;
  if (mrt_type_bytes(&t->type) > SMALL) return false;
  mrt_storage_unref(s->held[i]);
  s->call.nin--;
  return compute_first(s->d, t) && add_input(s, t) && contiguous(&s->in[i]);
}

static bool compute_row(few *d, mrt_tensor *t) {
  mrt_expr *x = t->expr;
  step s = { .d = d, .x = x };
  bool done = x->nin <= INPUTS && x->nout <= OUTPUTS;
  for (int i = 0; i < x->nin && done; i++)
    done = add_operand(&s, x->in[i]);
  done = done && run(&s, x->op, x->options, t);
  let_go(&s);
  return done;
}

/* What the view `t` is of, where it is all of it and nobody writes there. */
static bool is_whole(const step *s, const mrt_tensor *t) {
  const mrt_tensor *of = t;
  while (!of->storage) of = of->expr->in[0];
  return !of->variable && s->in[0].data == of->storage->data &&
         contiguous(&s->in[0]) &&
         mrt_type_bytes(&of->type) == mrt_type_bytes(&t->type);
}

/* What the view is all of may be large, as it takes its storage then. */
static void compute_below(few *d, const mrt_tensor *t) {
  mrt_tensor *below = t->expr->in[0];
  while (is_pending(below) && is_view(below->expr)) below = below->expr->in[0];
  if (is_pending(below) &&
      mrt_type_count(&below->type) == mrt_type_count(&t->type))
    compute_first(d, below);
}

/* A view that somebody wants to have gets storage of its own, or shares it. */
static bool compute_view(few *d, mrt_tensor *t) {
  mrt_type types[] = { t->type };
  mrt_tensor *out[] = { t };
  mrt_expr copy = {
    .nout = 1, .out = out, .out_types = types, .origin = t->origin
  };
  step s = { .d = d, .x = &copy };
  compute_below(d, t);
  bool done = add_input(&s, t), shared = done && is_whole(&s, t);
  if (shared)
    mrt_tensor_resolve(t, s.held[0]);
  else
    done = done && run(&s, d->ctx->ops[MRT_OP_copy], NULL, t);
  let_go(&s);
  return done;
}

/* A reduction of what nobody has, but what a program may compute. */
static bool joins(const mrt_expr *x) {
  if (!x->op->reduce_kind) return false;
  const mrt_tensor *t = x->in[0];
  bool real = t->type.dtype == MRT_f32 || t->type.dtype == MRT_f64;
  return real && is_pending(t) && pointwise(t->expr) && !uniform(t) &&
         !(t->handles && t->expr->passed);
}

static bool compute(few *d, mrt_tensor *t) {
  if (!is_pending(t) || d->left == 0) return false;
  return is_view(t->expr)                            ? compute_view(d, t)
         : pointwise(t->expr)                        ? compute_pointwise(d, t)
         : joins(t->expr) && compute_pointwise(d, t) ? true
                                                     : compute_row(d, t);
}

/* On the way to another: it stays where run/keep.c would keep it, and as long as
 * it is read. */
static bool compute_first(few *d, mrt_tensor *t) {
  int before = d->left;
  if (d->depth == STEPS) return false;
  d->depth++;
  bool done = compute(d, t);
  d->depth--;
  if (!done) return false;
  bool light = pointwise(t->expr) || is_view(t->expr);
  light &= before - d->left == 1;
  if (light && t->handles && !t->expr->passed)
    d->brief[d->brief_count++] = t;
  else
    mrt_settle(t);
  t->expr->passed = true;
  return true;
}

static void forget_brief(few *d) {
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
  if (!is_usual(ctx) || !is_pending(t)) return false;
  few d = { .ctx = ctx,
            .left = STEPS,
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
