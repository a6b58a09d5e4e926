/* convert.c -- a variable gets another element type, in place
 *
 * Everything that can fail comes before the change.
 *
 * SPDX-License-Identifier: MIT */
#include "op/apply.h"
#include "op/cast.h"
#include "run/run.h"
#include "tensor/swap_tier.h"

static mrt_status check(mrt_context *ctx, const mrt_tensor *t,
                        mrt_dtype dtype) {
  const char *name = t->name ? t->name : "?";
  mrt_error *e = &ctx->error;
  if (t->ctx != ctx)
    return mrt_fail(e, MRT_ESTATE, "convert: '%s' belongs to another context",
                    name);
  if (!t->variable)
    return mrt_fail(e, MRT_EVALUE, "convert: %s is no variable",
                    mrt_show(&t->type).s);
  if (ctx->trace)
    return mrt_fail(e, MRT_ESTATE,
                    "convert: '%s' cannot be converted inside a compiled "
                    "function",
                    name);
  if (t->variable->bucket || t->variable->shard_count)
    return mrt_fail(e, MRT_ESTATE,
                    "convert: '%s' is shared among ranks; convert it before",
                    name);
  if (t->variable->torn)
    return mrt_fail(e, MRT_ESTATE, "convert: variable '%s' is torn", name);
  if (!mrt_is_float(dtype) || !mrt_is_float(t->type.dtype))
    return mrt_fail(e, MRT_EDTYPE, "convert: %s to %s, floats wanted",
                    mrt_show(&t->type).s, mrt_dtype_name(dtype));
  return MRT_OK;
}

/* x in another dtype, with one reference. */
static mrt_status cast_of(mrt_context *ctx, mrt_tensor *x, mrt_dtype dtype,
                          mrt_tensor **out) {
  mrt_cast_options o = { .dtype = dtype };
  mrt_expr *made;
  MRT_TRY(mrt_apply_expr(ctx, mrt_ops[MRT_OP_cast], &x, 1, &o, MRT_NEWEST,
                         &made, NULL));
  *out = mrt_expr_output(ctx, made, 0);
  if (!*out) mrt_expr_free(ctx, made);
  return *out ? MRT_OK : mrt_nomem(&ctx->error);
}

/* It has not begun: what it begins as is converted once that is computed. */
static mrt_status convert_initial(mrt_tensor *t, mrt_dtype dtype) {
  mrt_variable *v = t->variable;
  mrt_tensor *init;
  MRT_TRY(cast_of(t->ctx, v->init, dtype, &init));
  mrt_tensor_await(init);
  mrt_variable_started(v); /* lets the old one go */
  v->init = init;
  return MRT_OK;
}

static mrt_status convert_numbers(mrt_tensor *t, mrt_dtype dtype) {
  mrt_tensor *made;
  MRT_TRY(mrt_storage_fetch(t->storage));
  MRT_TRY(cast_of(t->ctx, t, dtype, &made));
  made->handles++;
  mrt_status s = mrt_compute(t->ctx, &made, 1);
  if (!s) mrt_tensor_resolve(t, made->storage);
  mrt_tensor_unref(made);
  return s;
}

MRT_API mrt_status mrt_variable_convert(mrt_context *ctx, mrt_tensor *t,
                                        mrt_dtype dtype) {
  MRT_TRY(check(ctx, t, dtype));
  if (t->type.dtype == dtype) return MRT_OK;
  MRT_TRY(mrt_readers_compute(ctx, &t, 1));
  MRT_TRY(t->storage ? convert_numbers(t, dtype) : convert_initial(t, dtype));
  t->type.dtype = dtype;
  mrt_readers_invalidate(t->variable);
  ctx->memory.moves++;
  return MRT_OK;
}
