/* grad.c -- reverse-mode autodiff by extending the graph
 *
 *   question  what is d ys / d xs, as tensors like any other?
 *   method    Walk the expressions between xs and ys once, in descending order
 *             of id (ids are topological), asking each row for the gradients of
 *             its inputs and adding up what arrives at a tensor.  The rules
 *             build nodes and call no kernel, so the result can be
 *             differentiated again, optimised and planned like the rest.
 *   cost      O(m) rules for m expressions on paths from xs to ys, plus one
 *             visit of what below ys is younger than the oldest of xs.
 *   from      Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3
 *
 * Walks keep their facts in marks of tensors and a list sorted by id.
 *
 * SPDX-License-Identifier: MIT */
#include "graph/grad.h"
#include "op/apply.h"
#include "op/build.h"
#include "op/views.h"
#include "tensor/marks.h"
#include "tensor/trace.h"

typedef struct gradient_walk {
  mrt_arena arena;
  mrt_error *e;
  mrt_expr **order; /* reachable expressions */
  int count, room;
  mrt_marks marks;
  uint64_t first_id; /* in a trace: what is older is a constant of it */
  uint64_t oldest;   /* of xs: what is older still does not read them */
  bool met_stale;
  const mrt_grad_how *how;
} gradient_walk;

/* Marks: SEEN while collecting; bit LEADS when some x is at or below it;
 * above that 1 + index into the table of gradients. */
enum { SEEN = 1, LEADS = 2, SHIFT = 2 };

static bool has(const gradient_walk *w, const mrt_tensor *t, int bit) {
  return (mrt_mark_of(&w->marks, t) & bit) != 0;
}

static mrt_status mark(gradient_walk *w, mrt_tensor *t, int bits) {
  bool ok = mrt_mark(&w->marks, t, mrt_mark_of(&w->marks, t) | bits);
  return ok ? MRT_OK : mrt_nomem(w->e);
}

/* Collect every expression below the ys that passes gradients on, each once
 * (through its first output seen; an expression is pushed when any of its
 * outputs is first met). */
static mrt_status collect(gradient_walk *w, mrt_tensor *const *ys, int ny) {
  mrt_tensor **stack = NULL;
  int depth = 0, room = 0;
  for (int i = 0; i < ny; i++) {
    if (!MRT_PUSH_ROOM(&w->arena, stack, depth, room)) return mrt_nomem(w->e);
    stack[depth++] = ys[i];
  }
  while (depth) {
    mrt_tensor *t = stack[--depth];
    if (has(w, t, SEEN)) continue;
    MRT_TRY(mark(w, t, SEEN));
    mrt_expr *x = t->expr;
    if (!x || !x->op->grad || (w->how->stop_at_xs && has(w, t, LEADS)))
      continue;
    if (x->id < w->oldest) continue;
    w->met_stale |= x->stale;
    if (x->stale || x->id < w->first_id) continue;
    bool first = true;
    for (int i = 0; i < x->nout && first; i++)
      if (x->out[i] && x->out[i] != t && has(w, x->out[i], SEEN)) first = false;
    if (!first) continue;
    if (!MRT_PUSH_ROOM(&w->arena, w->order, w->count, w->room))
      return mrt_nomem(w->e);
    w->order[w->count++] = x;
    for (int i = 0; i < x->nin; i++) {
      if (has(w, x->in[i], SEEN)) continue;
      if (!MRT_PUSH_ROOM(&w->arena, stack, depth, room)) return mrt_nomem(w->e);
      stack[depth++] = x->in[i];
    }
  }
  return MRT_OK;
}

/* Rising order: an output leads to an x when an input does. */
static mrt_status find_paths(gradient_walk *w) {
  for (int k = 0; k < w->count; k++) {
    mrt_expr *x = w->order[k];
    bool leads = false;
    for (int i = 0; i < x->nin; i++) leads |= has(w, x->in[i], LEADS);
    for (int i = 0; leads && i < x->nout; i++)
      if (x->out[i]) MRT_TRY(mark(w, x->out[i], LEADS));
  }
  return MRT_OK;
}

/* ---- gradients of tensors, found through marks --------------------------- */

typedef struct gradient_sums {
  mrt_tensor **of; /* by (mark >> SHIFT) - 1 */
  int count, room;
} gradient_sums;

static mrt_tensor *sum_of(const gradient_walk *w, const gradient_sums *s,
                          const mrt_tensor *t) {
  int buffer = mrt_mark_of(&w->marks, t) >> SHIFT;
  return buffer ? s->of[buffer - 1] : NULL;
}

static mrt_status add_to(gradient_walk *w, mrt_build *b, gradient_sums *s,
                         mrt_tensor *t, mrt_tensor *g) {
  int buffer = mrt_mark_of(&w->marks, t) >> SHIFT;
  if (buffer) {
    s->of[buffer - 1] =
        s->of[buffer - 1] ? mrt_add(b, s->of[buffer - 1], g) : g;
    return b->status;
  }
  if (!MRT_PUSH_ROOM(&w->arena, s->of, s->count, s->room))
    return mrt_nomem(w->e);
  s->of[s->count++] = g;
  return mark(w, t, s->count << SHIFT);
}

/* The outputs of `x`, owned by the build. */
static mrt_status own_outputs(gradient_walk *w, mrt_build *b, mrt_expr *x,
                              mrt_tensor **out) {
  for (int i = 0; i < x->nout; i++) {
    out[i] = mrt_expr_output(b->ctx, x, i);
    if (!out[i]) return mrt_nomem(w->e);
    out[i]->handles++;
    if (!mrt_own(b, out[i])) return b->status;
  }
  return MRT_OK;
}

/* Add what the row gave to the sums of the inputs that lead somewhere. */
static mrt_status add_gradients(gradient_walk *w, mrt_build *b,
                                gradient_sums *s, mrt_expr *x,
                                mrt_tensor *const *din, const bool *wants) {
  for (int i = 0; i < x->nin; i++) {
    if (!wants[i] || !din[i]) continue;
    mrt_hold(din[i]);
    din[i]->handles++;
    if (!mrt_own(b, din[i])) return b->status;
    MRT_TRY(add_to(w, b, s, x->in[i], din[i]));
  }
  return MRT_OK;
}

/* Tell whoever looks on of the step that has just been made. */
static mrt_status show(const gradient_walk *w, const mrt_expr *x,
                       mrt_tensor *const *dout, mrt_tensor *const *din,
                       const bool *wants) {
  mrt_sweep_step step = { .op = x->op->name,
                          .file = x->origin.file,
                          .line = x->origin.line,
                          .nin = x->nin,
                          .nout = x->nout,
                          .in = x->in,
                          .out = x->out,
                          .dout = dout,
                          .din = din,
                          .wants = wants };
  const mrt_grad_watch *watch = w->how->watch;
  return watch->step(watch->user, &step) ? MRT_OK : mrt_nomem(w->e);
}

static mrt_status grad_between(mrt_build *b, mrt_tensor *const *ys,
                               mrt_tensor *const *dys, int ny,
                               mrt_tensor *const *xs, int nx, mrt_tensor **dx);

/* Ask the row of `x` for the gradients of its inputs. */
static mrt_status differentiate(gradient_walk *w, mrt_build *b,
                                gradient_sums *s, mrt_expr *x) {
  mrt_tensor **out = MRT_NEW(&w->arena, mrt_tensor *, x->nout * 2);
  mrt_tensor **din = MRT_NEW(&w->arena, mrt_tensor *, x->nin);
  bool *wants = MRT_NEW(&w->arena, bool, x->nin);
  if (!out || !din || !wants) return mrt_nomem(w->e);
  mrt_tensor **dout = out + x->nout;
  bool any = false;
  for (int i = 0; i < x->nout; i++) {
    if (x->out[i]) dout[i] = sum_of(w, s, x->out[i]);
    any |= dout[i] != NULL;
  }
  if (!any) return MRT_OK;
  for (int i = 0; i < x->nin; i++)
    wants[i] = has(w, x->in[i], LEADS) && mrt_is_float(x->in[i]->type.dtype);
  MRT_TRY(own_outputs(w, b, x, out));
  mrt_build rule = { .ctx = b->ctx,
                     .op = x->op,
                     .options = x->options,
                     .nin = x->nin,
                     .nout = x->nout,
                     .in = x->in,
                     .out = out,
                     .dout = dout,
                     .din = din,
                     .wants = wants,
                     .differentiate = grad_between };
  mrt_origin before = b->ctx->origins.now;
  b->ctx->origins.now = x->origin;
  b->ctx->origins.now.backward = true;
  x->op->grad(&rule);
  mrt_status status = rule.status;
  if (!status && w->how->watch) status = show(w, x, dout, din, wants);
  if (!status) status = add_gradients(w, b, s, x, din, wants);
  b->ctx->origins.now = before;
  mrt_build_free(&rule);
  return status;
}

/* ---- gradients as they are behind an expression -------------------------- */

/* The last expression before `at` behind which a gradient is wanted, or 0. */
static uint64_t wanted_before(const gradient_walk *w, int nx, uint64_t at) {
  uint64_t last = 0;
  for (int i = 0; w->how->behind && i < nx; i++)
    if (w->how->behind[i] < at && w->how->behind[i] > last)
      last = w->how->behind[i];
  return last;
}

/* A view of `g`, so that who reads it is told from who has made it; one that
 * the first `count` of dx are already. */
static mrt_tensor *view_of(mrt_build *b, mrt_tensor *g, const uint64_t *behind,
                           uint64_t at, int count, mrt_tensor **dx) {
  for (int i = 0; i < count; i++)
    if (behind[i] == at && dx[i] && dx[i]->expr->in[0] == g) return dx[i];
  mrt_shape_options o = { .shape = { .count = g->type.rank } };
  for (int i = 0; i < g->type.rank; i++) o.shape.at[i] = g->type.dims[i];
  return MRT_MAKE(b, reshape, &o, g);
}

/* Those behind `at` have had their turn: take the gradients wanted as they are
 * now; what is before `at` reads views of these. */
static mrt_status take_behind(gradient_walk *w, mrt_build *b, gradient_sums *s,
                              uint64_t at, mrt_tensor *const *xs, int nx,
                              mrt_tensor **dx) {
  const uint64_t *behind = w->how->behind;
  mrt_origin before = b->ctx->origins.now;
  b->ctx->origins.now.backward = true;
  for (int i = 0; i < nx; i++) {
    mrt_tensor *g = behind[i] == at ? sum_of(w, s, xs[i]) : NULL;
    if (!g) continue;
    dx[i] = view_of(b, g, behind, at, i, dx);
    if (b->status) break;
    s->of[(mrt_mark_of(&w->marks, xs[i]) >> SHIFT) - 1] = dx[i];
  }
  b->ctx->origins.now = before;
  return b->status;
}

/* ---- the sweep ----------------------------------------------------------- */

static mrt_status run(gradient_walk *w, mrt_build *b, mrt_tensor *const *ys,
                      mrt_tensor *const *dys, int ny, mrt_tensor *const *xs,
                      int nx, mrt_tensor **dx) {
  gradient_sums s = { 0 };
  for (int i = 0; i < nx; i++) MRT_TRY(mark(w, xs[i], LEADS));
  MRT_TRY(collect(w, ys, ny));
  mrt_exprs_sort(w->order, w->count);
  MRT_TRY(find_paths(w));
  for (int i = 0; i < ny; i++)
    if (dys[i]) MRT_TRY(add_to(w, b, &s, ys[i], dys[i]));
  uint64_t at = wanted_before(w, nx, UINT64_MAX);
  for (int k = w->count; k-- > 0;) {
    mrt_expr *x = w->order[k];
    for (; x->id <= at; at = wanted_before(w, nx, at))
      MRT_TRY(take_behind(w, b, &s, at, xs, nx, dx));
    bool leads = false;
    for (int i = 0; i < x->nout; i++)
      leads |= x->out[i] && has(w, x->out[i], LEADS);
    if (!leads) continue;
    if (x->stale) /* not when collected: a custom gradient has assigned */
      return mrt_fail(w->e, MRT_EGRAD,
                      "grad: a variable on the way to the inputs was assigned "
                      "by a custom gradient");
    MRT_TRY(differentiate(w, b, &s, x));
  }
  for (; at; at = wanted_before(w, nx, at))
    MRT_TRY(take_behind(w, b, &s, at, xs, nx, dx));
  for (int i = 0; i < nx; i++) {
    if (w->how->behind && w->how->behind[i]) continue;
    dx[i] = sum_of(w, &s, xs[i]);
    if (!dx[i] && w->met_stale)
      return mrt_fail(
          w->e, MRT_EGRAD,
          "grad: the way to input %d reads a variable that has been "
          "assigned since; take the gradient before assigning",
          i + 1);
  }
  return MRT_OK;
}

mrt_status mrt_grad_build(mrt_build *b, mrt_tensor *const *ys,
                          mrt_tensor *const *dys, int ny, mrt_tensor *const *xs,
                          int nx, const mrt_grad_how *how, mrt_tensor **dx) {
  gradient_walk w = { .e = &b->ctx->error, .how = how };
  if (b->ctx->trace) w.first_id = b->ctx->trace->first_id;
  w.oldest = UINT64_MAX;
  for (int i = 0; i < nx; i++)
    if (xs[i]->id < w.oldest) w.oldest = xs[i]->id;
  mrt_arena_init(&w.arena, b->ctx->allocator);
  mrt_marks_begin(&w.marks, b->ctx, &w.arena);
  int called = b->ctx->ranks.pending_count;
  mrt_status s = run(&w, b, ys, dys, ny, xs, nx, dx);
  if (s) mrt_calls_drop(b->ctx, called);
  mrt_marks_end(&w.marks);
  mrt_arena_free(&w.arena);
  return s;
}

/* What a rule calls through its build: down to the xs and no further. */
static mrt_status grad_between(mrt_build *b, mrt_tensor *const *ys,
                               mrt_tensor *const *dys, int ny,
                               mrt_tensor *const *xs, int nx, mrt_tensor **dx) {
  return mrt_grad_build(b, ys, dys, ny, xs, nx,
                        &(mrt_grad_how){ .stop_at_xs = true }, dx);
}
