/* scope.c -- formulas in C: what they compute, and what they refuse
 *
 * Made of the public headers alone.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt.h"
#include "mrt/inspect.h"

#include <stdio.h>
#include <string.h>

static int wrong;

static void want(bool right, const char *what) {
  if (!right) printf("wrong: %s\n", what), wrong++;
}

/* The message of the scope in which this call fails. */
static void refuses(mrt_context *ctx, const char *op, int n,
                    const char *options, const char *message) {
  mrt_scope *s;
  if (mrt_scope_new(ctx, &s)) {
    want(false, "a scope");
    return;
  }
  mrt_type type = { MRT_f32, 2, { 2, 3 } }, other = { MRT_f32, 1, { 4 } };
  mrt_tensor *in[] = { mrt_full(s, &type, 1), mrt_full(s, &other, 1) }, *out;
  want(mrt_opn(s, op, in, n, options, &out, 1) && !out, message);
  want(mrt_scope_status(s) != MRT_OK, message);
  if (strcmp(mrt_scope_message(s), message) != 0)
    printf("wrong: %s\n  wanted %s\n", mrt_scope_message(s), message), wrong++;
  want(!mrt_op1(s, "relu", in[0], NULL), "nothing is done after a failure");
  want(strcmp(mrt_scope_message(s), message) == 0, "the first failure stays");
  mrt_scope_free(s);
}

static void refuse_all(mrt_context *ctx) {
  refuses(ctx, "rule", 1, NULL, "no operator 'rule'");
  refuses(ctx, "swap_in", 1, NULL, "no operator 'swap_in'");
  refuses(ctx, "relu", 1, "dim=1", "relu: no option 'dim' (there are none)");
  refuses(ctx, "sum", 1, "dims=1",
          "sum: no option 'dims' (options: dim, keepdim)");
  refuses(ctx, "sum", 1, "dim", "sum: 'dim', option=value wanted");
  refuses(ctx, "sum", 1, "dim=x",
          "sum: option 'dim': integers wanted, got 'x'");
  refuses(ctx, "sum", 1, "dim=[0,1",
          "sum: option 'dim': a list as [2,3] "
          "wanted, got '[0,1'");
  refuses(ctx, "sum", 1, "keepdim=1",
          "sum: option 'keepdim': true or false wanted, got '1'");
  refuses(ctx, "sum", 1, "dim=0, dim=1", "sum: option 'dim' is given twice");
  refuses(ctx, "softmax", 1, "dim=0.5",
          "softmax: option 'dim': a dimension wanted, got '0.5'");
  refuses(ctx, "gelu", 1, "approximate=erf",
          "gelu: option 'approximate': one of none tanh wanted, got 'erf'");
  refuses(ctx, "cast", 1, "dtype=f33",
          "cast: option 'dtype': a dtype wanted, got 'f33'");
  refuses(ctx, "cast", 1, "", "cast: option 'dtype' is missing");
  refuses(ctx, "full", 0, "shape=[2], value=one",
          "full: option 'value': a number wanted, got 'one'");
  refuses(ctx, "add", 2, NULL,
          "add: f32[2,3] against f32[4], shapes do not broadcast");
}

static void compute(mrt_context *ctx) {
  mrt_scope *s;
  if (mrt_scope_new(ctx, &s)) {
    want(false, "a scope");
    return;
  }
  const float rows[] = { 1, 2, 3, 4, 5, 6 };
  mrt_type type = { MRT_f32, 2, { 2, 3 } };
  mrt_tensor *x = mrt_data(s, &type, rows);
  mrt_tensor *sums = mrt_op1(s, "sum", x, "dim = [ -1 ], keepdim = true");
  mrt_tensor *share = mrt_op2(s, "div", x, sums, NULL); /* broadcasts */
  want(mrt_number(s, share) == (double)(1.0F / 6), "1 / (1 + 2 + 3)");
  mrt_tensor *one = mrt_op0(s, "full", "shape=[3], value=1, dtype=f64");
  mrt_tensor *sum = mrt_op2(s, "add", x, one, NULL);
  want(sum && mrt_tensor_type(sum)->dtype == MRT_f64, "f32 + f64 is f64");
  want(mrt_number(s, sum) == 2, "1 + 1");
  want(mrt_number(s, mrt_op0(s, "full", "shape=[], value=1e-3, dtype=f64")) ==
           1e-3,
       "a number");
  mrt_tensor *top[2];
  want(!mrt_opn(s, "split", &x, 1, "sizes=[1,2], dim=1", top, 2) ||
           mrt_scope_status(s),
       "several results");
  mrt_tensor *kept = sums;
  mrt_tensor_ref(kept);
  mrt_scope_free(s);
  want(mrt_tensor_type(kept)->rank == 2, "what is kept outlives its scope");
  mrt_tensor_unref(kept);
}

/* w = w - 0.5 dw for the loss w^2, once, by a plan that can be printed. */
static void plan_step(mrt_context *ctx) {
  mrt_scope *s;
  mrt_plan *plan;
  char *text = NULL;
  if (mrt_scope_new(ctx, &s)) {
    want(false, "a scope");
    return;
  }
  mrt_tensor *w = mrt_parameter(s, mrt_scalar(s, 3), "w"), *dw, *out;
  want(!mrt_trace_begin(ctx), "a trace");
  mrt_tensor *loss = mrt_op2(s, "mul", w, w, NULL);
  mrt_gradients(s, loss, &w, 1, &dw);
  mrt_set(s, w,
          mrt_op2(s, "sub", w, mrt_op2(s, "mul", dw, mrt_scalar(s, 0.25), NULL),
                  NULL));
  plan = mrt_scope_plan(s, &loss, 1, NULL);
  want(plan && !mrt_plan_run(plan, NULL, 0, &out, 1), "a run");
  if (plan && !mrt_scope_status(s)) {
    want(mrt_number(s, out) == 9, "the loss before the update");
    want(mrt_number(s, w) == 1.5, "the parameter after it");
    want(!mrt_plan_print(plan, &text) && strstr(text, "mul"), "the plan");
    mrt_text_free(ctx, text), mrt_tensor_unref(out);
  }
  mrt_trace_begin(ctx);
  want(!mrt_op1(s, "no such", w, NULL), "a failure in a trace");
  want(!mrt_scope_plan(s, &loss, 1, NULL) && !mrt_tracing(ctx),
       "a failure ends the trace");
  mrt_plan_free(plan), mrt_scope_free(s);
}

int main(void) {
  mrt_context *ctx;
  if (mrt_context_new(NULL, &ctx)) return 1;
  refuse_all(ctx);
  compute(ctx);
  plan_step(ctx);
  want(mrt_context_get_info(ctx).bytes_now == 0, "nothing is left");
  mrt_context_free(ctx);
  return wrong != 0;
}
