/* train.c -- a network trained through mrt.h alone
 *
 *     cc train.c -o train $(pkg-config --cflags --libs mrt) && ./train
 *
 * Its step is planned before it first runs: the peak, kept within a budget, is
 * known to the byte, and is what the runs take.
 *
 * SPDX-License-Identifier: MIT */
#include <mrt.h>
#include <stdio.h>

enum { ROWS = 512, IN = 4, WIDE = 64, LAYERS = 4, STEPS = 100 };

int main(void) {
  mrt_context *ctx;
  mrt_scope *s;
  if (mrt_context_new(NULL, &ctx) || mrt_scope_new(ctx, &s)) return 1;

  /* data: the sine of the sum of a row is to be learnt */
  mrt_type type = { MRT_f32, 2, { ROWS, IN } };
  mrt_tensor *data[2] = { mrt_randn(s, &type) };
  data[1] = mrt_op1(s, "sum", data[0], "dim=1, keepdim=true");
  data[1] = mrt_op1(s, "sin", data[1], NULL);
  mrt_number(s, data[0]), mrt_number(s, data[1]); /* they are computed now */

  /* a training step, written down: forward, gradients, update */
  mrt_trace_begin(ctx);
  mrt_tensor *w[LAYERS], *dw[LAYERS], *h = mrt_input(s, &type);
  mrt_tensor *rate = mrt_scalar(s, 0.05);
  for (int i = 0; i < LAYERS; i++) {
    int64_t in = i ? WIDE : IN, out = i < LAYERS - 1 ? WIDE : 1;
    mrt_tensor *noise = mrt_randn(s, &(mrt_type){ MRT_f32, 2, { out, in } });
    mrt_tensor *scale = mrt_scalar(s, i ? 0.15 : 0.5);
    w[i] = mrt_parameter(s, mrt_op2(s, "mul", noise, scale, NULL), "w");
    if (i) h = mrt_op1(s, "gelu", h, "approximate=tanh");
    h = mrt_op2(s, "linear", h, w[i], NULL);
  }
  type.dims[1] = 1;
  mrt_tensor *error = mrt_op2(s, "sub", h, mrt_input(s, &type), NULL);
  mrt_tensor *squares = mrt_op2(s, "mul", error, error, NULL), *out;
  mrt_tensor *loss = mrt_op2(s, "div", mrt_op1(s, "sum", squares, NULL),
                             mrt_scalar(s, ROWS), NULL);
  mrt_gradients(s, loss, w, LAYERS, dw);
  for (int i = 0; i < LAYERS; i++) {
    mrt_tensor *step = mrt_op2(s, "mul", dw[i], rate, NULL);
    mrt_set(s, w[i], mrt_op2(s, "sub", w[i], step, NULL));
  }
  mrt_plan_options options = { .memory = 750 << 10 }; /* bytes */
  mrt_plan *plan = mrt_scope_plan(s, &loss, 1, &options);
  if (!plan) return fprintf(stderr, "train: %s\n", mrt_scope_message(s)), 1;
  mrt_plan_info info = mrt_plan_get_info(plan);
  printf("planned peak: %zu bytes\n", info.peak);
  for (int i = 0; i <= STEPS; i++) {
    if (mrt_plan_run(plan, data, 2, &out, 1))
      return fprintf(stderr, "train: %s\n", mrt_message(ctx)), 1;
    if (i % 20 == 0) printf("step %3d: loss %.4f\n", i, mrt_number(s, out));
    mrt_tensor_unref(out);
  }
  size_t most = mrt_context_get_info(ctx).bytes_peak;
  printf("measured peak: %zu bytes\n", most - info.inputs);
  mrt_plan_free(plan), mrt_scope_free(s), mrt_context_free(ctx);
  return 0;
}
