/* gradients.c -- gradients as the frontends ask for them
 *
 * What is given is looked at here, and gradients that nothing leads to are made;
 * the sweep itself is in grad.c.
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "graph/grad.h"
#include "op/apply.h"
#include "tensor/trace.h"

static mrt_status check(mrt_context *ctx, mrt_tensor *const *ys,
                        mrt_tensor *const *dys, int ny, mrt_tensor *const *xs,
                        int nx) {
  mrt_error *e = &ctx->error;
  for (int i = 0; i < ny; i++) {
    if (!mrt_is_float(ys[i]->type.dtype))
      return mrt_fail(e, MRT_EDTYPE, "grad: output %d is %s, a float wanted",
                      i + 1, mrt_show(&ys[i]->type).s);
    if (!dys && mrt_type_count(&ys[i]->type) != 1)
      return mrt_fail(e, MRT_EGRAD,
                      "grad: output %d is %s, a scalar wanted (or its gradient "
                      "given with grad_outputs)",
                      i + 1, mrt_show(&ys[i]->type).s);
    if (dys && !mrt_type_equal(&ys[i]->type, &dys[i]->type))
      return mrt_fail(e, MRT_ESHAPE,
                      "grad: output %d is %s and its gradient %s, equal wanted",
                      i + 1, mrt_show(&ys[i]->type).s,
                      mrt_show(&dys[i]->type).s);
  }
  for (int i = 0; i < nx; i++)
    if (!mrt_is_float(xs[i]->type.dtype))
      return mrt_fail(e, MRT_EDTYPE, "grad: input %d is %s, a float wanted",
                      i + 1, mrt_show(&xs[i]->type).s);
  return MRT_OK;
}

static mrt_status public_grad(mrt_build *b, mrt_tensor *const *ys,
                              mrt_tensor *const *given, int ny,
                              mrt_tensor *const *xs, int nx, bool allow_unused,
                              const mrt_grad_how *how, mrt_tensor **dys,
                              mrt_tensor **dx) {
  for (int i = 0; i < ny; i++)
    dys[i] = given
                 ? given[i]
                 : mrt_expand_to(b, mrt_const_like(b, ys[i], 1), &ys[i]->type);
  MRT_TRY(b->status);
  MRT_TRY(mrt_grad_build(b, ys, dys, ny, xs, nx, how, dx));
  for (int i = 0; i < nx; i++) {
    if (how->behind && how->behind[i]) continue;
    if (!dx[i] && !allow_unused)
      return mrt_fail(
          &b->ctx->error, MRT_EGRAD,
          "grad: input %d%s%s%s, %s, does not lead to any output "
          "(allow_unused = true gives zeros%s)",
          i + 1, xs[i]->name ? " '" : "", xs[i]->name ? xs[i]->name : "",
          xs[i]->name ? "'" : "", mrt_show(&xs[i]->type).s,
          b->ctx->trace ? "; what was computed before this function is "
                          "constant in it"
                        : "");
    if (!dx[i])
      dx[i] = mrt_expand_to(b, mrt_const_like(b, xs[i], 0), &xs[i]->type);
    MRT_TRY(b->status);
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_grad(mrt_context *ctx, mrt_tensor *const *ys,
                            mrt_tensor *const *dys, int ny,
                            mrt_tensor *const *xs, int nx, bool allow_unused,
                            mrt_tensor **dx) {
  return mrt_grad_watched(ctx, ys, dys, ny, xs, nx, allow_unused, NULL, NULL,
                          dx);
}

MRT_API mrt_status mrt_grad_watched(mrt_context *ctx, mrt_tensor *const *ys,
                                    mrt_tensor *const *dys, int ny,
                                    mrt_tensor *const *xs, int nx,
                                    bool allow_unused, const uint64_t *behind,
                                    const mrt_grad_watch *watch,
                                    mrt_tensor **dx) {
  MRT_TRY(check(ctx, ys, dys, ny, xs, nx));
  mrt_grad_how how = { .watch = watch, .behind = behind };
  const mrt_allocator *a = ctx->allocator;
  mrt_build b = { .ctx = ctx };
  mrt_tensor **all = mrt_calloc(a, (size_t)(2 * ny + 2 * nx), sizeof *all);
  if (!all) return mrt_nomem(&ctx->error);
  /* In a trace a variable means its newest version. */
  mrt_tensor **y = all, **dy = all + ny, **x = dy + ny, **out = x + nx;
  for (int i = 0; i < ny; i++) y[i] = mrt_tensor_current(ys[i]);
  for (int i = 0; i < nx; i++) x[i] = mrt_tensor_current(xs[i]);
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_status s =
      public_grad(&b, y, dys, ny, x, nx, allow_unused, &how, dy, out);
  mrt_rounding_end(&host);
  for (int i = 0; i < nx && !s; i++) {
    if (out[i]) mrt_tensor_ref(out[i]);
    dx[i] = out[i];
  }
  mrt_build_free(&b);
  mrt_release(a, all, (size_t)(2 * ny + 2 * nx) * sizeof *all);
  return s;
}

static mrt_status derive(mrt_build *b, mrt_tensor *y, mrt_tensor *const *x,
                         int nx, const mrt_grad_how *how, mrt_tensor **dx) {
  mrt_tensor *dy = mrt_expand_to(b, mrt_const_like(b, y, 1), &y->type);
  MRT_TRY(b->status);
  return mrt_grad_build(b, &y, &dy, 1, x, nx, how, dx);
}

MRT_API mrt_status mrt_grad_partial(mrt_context *ctx, mrt_tensor *y,
                                    mrt_tensor *const *xs, int nx, bool apart,
                                    const uint64_t *behind, mrt_tensor **dx) {
  mrt_grad_how how = { .stop_at_xs = apart, .behind = behind };
  MRT_TRY(check(ctx, &y, NULL, 1, xs, nx));
  mrt_build b = { .ctx = ctx };
  size_t bytes = (size_t)(2 * nx) * sizeof *xs;
  mrt_tensor **x = mrt_calloc(ctx->allocator, 1, bytes);
  if (!x) return mrt_nomem(&ctx->error);
  mrt_tensor **out = x + nx;
  for (int i = 0; i < nx; i++) x[i] = mrt_tensor_current(xs[i]);
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_status s = derive(&b, mrt_tensor_current(y), x, nx, &how, out);
  mrt_rounding_end(&host);
  for (int i = 0; i < nx && !s; i++) {
    if (out[i]) mrt_tensor_ref(out[i]);
    dx[i] = out[i];
  }
  mrt_build_free(&b);
  mrt_release(ctx->allocator, x, bytes);
  return s;
}
