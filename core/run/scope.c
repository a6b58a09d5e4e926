/* scope.c -- formulas in C: errors stick, tensors die with the scope
 *
 * What op/build.h is for gradient rules this is for users: operators by name,
 * matched as in Lua, every result owned by the scope.  All of it is made of
 * public functions.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/frontend.h"
#include "op/apply.h"
#include "op/cast.h"
#include "op/make.h"
#include "op/random.h"
#include "op/views.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct mrt_scope {
  mrt_context *ctx;
  mrt_error error;    /* the first failure */
  mrt_tensor **owned; /* a handle each */
  int count, room;
};

MRT_API mrt_status mrt_scope_new(mrt_context *ctx, mrt_scope **out) {
  *out = mrt_calloc(ctx->allocator, 1, sizeof **out);
  if (!*out) return mrt_nomem(&ctx->error);
  (*out)->ctx = ctx;
  return MRT_OK;
}

MRT_API void mrt_scope_free(mrt_scope *s) {
  if (!s) return;
  const mrt_allocator *a = s->ctx->allocator;
  while (s->count) mrt_tensor_unref(s->owned[--s->count]);
  mrt_release(a, s->owned, (size_t)s->room * sizeof(mrt_tensor *));
  mrt_release(a, s, sizeof *s);
}

MRT_API mrt_status mrt_scope_status(const mrt_scope *s) {
  return s->error.status;
}

MRT_API const char *mrt_scope_message(const mrt_scope *s) {
  return s->error.message;
}

/* Keep what the context says of a failure, if it is the first. */
static mrt_status note(mrt_scope *s, mrt_status status) {
  if (status && !s->error.status)
    s->error = s->ctx->error, s->error.status = status;
  return status;
}

/* Room for `n` handles more: owning one cannot fail then. */
static bool make_room(mrt_scope *s, int n) {
  if (s->error.status) return false;
  if (s->count + n <= s->room) return true;
  int room = s->room * 2 > s->count + n ? s->room * 2 : s->count + n + 16;
  mrt_tensor **grown =
      mrt_resize(s->ctx->allocator, s->owned, (size_t)s->room * sizeof *grown,
                 (size_t)room * sizeof *grown);
  if (!grown) return note(s, mrt_nomem(&s->ctx->error)), false;
  s->owned = grown, s->room = room;
  return true;
}

/* The scope takes a new handle, unless the call that made it has failed. */
static mrt_tensor *own(mrt_scope *s, mrt_status status, mrt_tensor *t) {
  if (note(s, status)) return NULL;
  return s->owned[s->count++] = t;
}

static bool all_there(mrt_scope *s, mrt_tensor *const *in, int n) {
  for (int i = 0; i < n; i++)
    if (!in[i]) return false;
  return !s->error.status;
}

/* ---- operators ----------------------------------------------------------- */

static mrt_tensor *apply_one(mrt_scope *s, int op, mrt_tensor *in,
                             const void *options) {
  mrt_tensor *out = NULL;
  int nout;
  if (!make_room(s, 1)) return NULL;
  mrt_status status = mrt_apply(s->ctx, s->ctx->ops[op], &in, in ? 1 : 0,
                                options, &out, 1, &nout);
  return own(s, status, out);
}

/* "f32[2,3] against f32[4]" */
static mrt_status refuse_shapes(mrt_scope *s, const mrt_op *op,
                                mrt_tensor *const *in, int n) {
  char all[300] = "", one[128];
  for (int i = 0; i < n; i++) {
    mrt_type_print(&in[i]->type, one, sizeof one);
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, i ? " against %s" : "%s", one);
  }
  return mrt_fail(&s->ctx->error, MRT_ESHAPE, "%s: %s, shapes do not broadcast",
                  op->name, all);
}

/* One dtype and one shape for a pointwise operator.  Of three inputs the first
 * is a condition that chooses between the others. */
static mrt_status match(mrt_scope *s, const mrt_op *op, mrt_tensor **in,
                        int n) {
  int first = n == 3;
  mrt_type all = { .rank = 0, .dtype = MRT_bool };
  for (int i = 0; i < n; i++) {
    if (i >= first) all.dtype = mrt_dtype_promote(all.dtype, in[i]->type.dtype);
    if (!mrt_type_broadcast(&all, &in[i]->type))
      return refuse_shapes(s, op, in, n);
  }
  if ((op->traits & MRT_OF_REALS) && !mrt_is_float(all.dtype))
    all.dtype = MRT_f32;
  mrt_cast_options cast = { .dtype = all.dtype };
  mrt_shape_options expand = { .shape = { .count = all.rank } };
  memcpy(expand.shape.at, all.dims, (size_t)all.rank * sizeof *all.dims);
  for (int i = 0; i < n; i++) {
    if (i >= first && in[i]->type.dtype != all.dtype)
      in[i] = apply_one(s, MRT_OP_cast, in[i], &cast);
    if (in[i] && !mrt_type_same_shape(&in[i]->type, &all))
      in[i] = apply_one(s, MRT_OP_expand, in[i], &expand);
    if (!in[i]) return s->error.status;
  }
  return MRT_OK;
}

static mrt_status find(mrt_scope *s, const char *name, const mrt_op **op) {
  *op = mrt_op_find(name);
  if (*op && !((*op)->traits & MRT_INTERNAL)) return MRT_OK;
  return mrt_fail(&s->ctx->error, MRT_EVALUE, "no operator '%s'", name);
}

MRT_API mrt_status mrt_opn(mrt_scope *s, const char *name,
                           mrt_tensor *const *in, int nin, const char *options,
                           mrt_tensor **out, int nout) {
  _Alignas(max_align_t) char own_options[MRT_MAX_OPTIONS];
  const mrt_op *op;
  mrt_tensor *few[4];
  int made = 0;
  for (int i = 0; i < nout; i++) out[i] = NULL;
  if (!all_there(s, in, nin) || !make_room(s, nout)) return s->error.status;
  mrt_status status = find(s, name, &op);
  if (!status) status = mrt_options_parse(s->ctx, op, options, own_options);
  if (!status && (op->traits & MRT_POINTWISE) && nin > 0 && nin <= 4) {
    memcpy(few, in, (size_t)nin * sizeof *few), in = few;
    status = match(s, op, few, nin);
    if (!status && !make_room(s, nout)) status = s->error.status;
  }
  if (!status)
    status = mrt_apply(s->ctx, op, in, nin, own_options, out, nout, &made);
  for (int i = 0; i < nout; i++)
    out[i] = i < made ? own(s, status, out[i]) : NULL;
  return note(s, status);
}

MRT_API mrt_tensor *mrt_op0(mrt_scope *s, const char *name,
                            const char *options) {
  mrt_tensor *out;
  return mrt_opn(s, name, NULL, 0, options, &out, 1), out;
}

MRT_API mrt_tensor *mrt_op1(mrt_scope *s, const char *name, mrt_tensor *x,
                            const char *options) {
  mrt_tensor *out;
  return mrt_opn(s, name, &x, 1, options, &out, 1), out;
}

MRT_API mrt_tensor *mrt_op2(mrt_scope *s, const char *name, mrt_tensor *x,
                            mrt_tensor *y, const char *options) {
  mrt_tensor *in[] = { x, y }, *out;
  return mrt_opn(s, name, in, 2, options, &out, 1), out;
}

MRT_API mrt_tensor *mrt_op3(mrt_scope *s, const char *name, mrt_tensor *x,
                            mrt_tensor *y, mrt_tensor *z, const char *options) {
  mrt_tensor *in[] = { x, y, z }, *out;
  return mrt_opn(s, name, in, 3, options, &out, 1), out;
}

/* ---- leaves -------------------------------------------------------------- */

MRT_API mrt_tensor *mrt_full(mrt_scope *s, const mrt_type *type, double value) {
  mrt_full_options o = { .value = value, .dtype = type->dtype };
  o.shape.count = type->rank;
  memcpy(o.shape.at, type->dims, (size_t)type->rank * sizeof *type->dims);
  return apply_one(s, MRT_OP_full, NULL, &o);
}

MRT_API mrt_tensor *mrt_scalar(mrt_scope *s, double value) {
  return mrt_full(s, &(mrt_type){ .dtype = MRT_f32 }, value);
}

MRT_API mrt_tensor *mrt_randn(mrt_scope *s, const mrt_type *type) {
  mrt_rand_options o = { .dtype = type->dtype };
  o.shape.count = type->rank;
  memcpy(o.shape.at, type->dims, (size_t)type->rank * sizeof *type->dims);
  return apply_one(s, MRT_OP_randn, NULL, &o);
}

MRT_API mrt_tensor *mrt_data(mrt_scope *s, const mrt_type *type,
                             const void *data) {
  mrt_tensor *out = NULL;
  if (!make_room(s, 1)) return NULL;
  mrt_status status = mrt_tensor_from(s->ctx, type, data, &out);
  return own(s, status, out);
}

MRT_API mrt_tensor *mrt_parameter(mrt_scope *s, mrt_tensor *init,
                                  const char *name) {
  mrt_tensor *out = NULL;
  if (!init || !make_room(s, 1)) return NULL;
  mrt_status status = mrt_variable_new(s->ctx, init, name, &out);
  return own(s, status, out);
}

MRT_API mrt_tensor *mrt_input(mrt_scope *s, const mrt_type *type) {
  mrt_tensor *out = NULL;
  if (!make_room(s, 1)) return NULL;
  mrt_status status = mrt_trace_input(s->ctx, type, &out);
  return own(s, status, out);
}

/* ---- steps --------------------------------------------------------------- */

MRT_API mrt_status mrt_gradients(mrt_scope *s, mrt_tensor *y,
                                 mrt_tensor *const *xs, int nx,
                                 mrt_tensor **dx) {
  for (int i = 0; i < nx; i++) dx[i] = NULL;
  if (!y || !all_there(s, xs, nx) || !make_room(s, nx)) return s->error.status;
  mrt_status status = mrt_grad(s->ctx, &y, NULL, 1, xs, nx, false, dx);
  for (int i = 0; i < nx; i++) dx[i] = own(s, status, dx[i]);
  return status;
}

MRT_API mrt_status mrt_set(mrt_scope *s, mrt_tensor *variable,
                           mrt_tensor *value) {
  if (!variable || !value || s->error.status) return s->error.status;
  return note(s, mrt_assign(s->ctx, variable, value, NULL));
}

MRT_API mrt_status mrt_update_by(mrt_scope *s, const char *name,
                                 mrt_tensor *const *in, int nin,
                                 const char *options) {
  _Alignas(max_align_t) char own_options[MRT_MAX_OPTIONS];
  const mrt_op *op;
  if (!all_there(s, in, nin)) return s->error.status;
  mrt_status status = find(s, name, &op);
  if (!status) status = mrt_options_parse(s->ctx, op, options, own_options);
  if (!status) status = mrt_update(s->ctx, op, in, nin, own_options);
  return note(s, status);
}

MRT_API mrt_plan *mrt_scope_plan(mrt_scope *s, mrt_tensor *const *outputs,
                                 int n, const mrt_plan_options *options) {
  mrt_plan *plan = NULL;
  if (!all_there(s, outputs, n)) return mrt_trace_abort(s->ctx), NULL;
  mrt_status status = mrt_trace_end(s->ctx, outputs, n, options, NULL, &plan);
  return note(s, status) ? NULL : plan;
}

MRT_API double mrt_number(mrt_scope *s, mrt_tensor *t) {
  if (!t || s->error.status) return NAN;
  if (note(s, mrt_tensors_read(s->ctx, &t, 1))) return NAN;
  double value = mrt_tensor_number(t, 0);
  mrt_tensor_leave(t);
  return value;
}
