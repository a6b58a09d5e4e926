/* train.c -- a network trained through mrt.h alone, in a budget of bytes
 *
 *     cc train.c -o train $(pkg-config --cflags --libs mrt) && ./train
 *
 * SPDX-License-Identifier: MIT */
#include <mrt.h>
#include <stdio.h>

enum { ROWS = 512, WIDE = 64, LAYERS = 4, STEPS = 100 };

int main(void) {
  mrt_context *ctx;
  mrt_scope *s;
  if (mrt_context_new(NULL, &ctx) || mrt_scope_new(ctx, &s)) return 1;
  mrt_type rows = { MRT_f32, 2, { ROWS, WIDE } };
  mrt_type weight = { MRT_f32, 2, { WIDE, WIDE } };

  /* data, computed now: the sine is to be learnt */
  mrt_tensor *data[2] = { mrt_randn(s, &rows) }, *out;
  data[1] = mrt_op1(s, "sin", data[0], NULL);
  mrt_eval(ctx, data, 2);

  /* a step, written down: forward, gradients, updates */
  mrt_trace_begin(ctx);
  mrt_tensor *w[LAYERS], *dw[LAYERS], *h = mrt_input(s, &rows);
  for (int i = 0; i < LAYERS; i++) {
    mrt_tensor *noise = mrt_randn(s, &weight), *by = mrt_scalar(s, 0.15);
    w[i] = mrt_parameter(s, mrt_op2(s, "mul", noise, by, NULL), "w");
    if (i) h = mrt_op1(s, "gelu", h, "approximate=tanh");
    h = mrt_op2(s, "linear", h, w[i], NULL);
  }
  mrt_tensor *error = mrt_op2(s, "sub", h, mrt_input(s, &rows), NULL);
  mrt_tensor *squares = mrt_op2(s, "mul", error, error, NULL);
  mrt_tensor *rate = mrt_scalar(s, 4e-4),
             *loss = mrt_op1(s, "sum", squares, "");
  mrt_gradients(s, loss, w, LAYERS, dw);
  for (int i = 0; i < LAYERS; i++) {
    mrt_tensor *change = mrt_op2(s, "mul", dw[i], rate, NULL);
    mrt_set(s, w[i], mrt_op2(s, "sub", w[i], change, NULL));
  }

  /* planned, and run: the peak is known before, to the byte */
  mrt_plan_options options = { .memory = 900 << 10 };
  mrt_plan *plan = mrt_scope_plan(s, &loss, 1, &options);
  if (!plan) return fprintf(stderr, "train: %s\n", mrt_scope_message(s)), 1;
  mrt_plan_info info = mrt_plan_get_info(plan);
  printf("planned peak: %zu bytes\n", info.peak);
  for (int i = 0; i <= STEPS; i++) {
    if (mrt_plan_run(plan, data, 2, &out, 1))
      return fprintf(stderr, "train: %s\n", mrt_message(ctx)), 1;
    if (i % 20 == 0) printf("step %3d: loss %.0f\n", i, mrt_number(s, out));
    mrt_tensor_unref(out);
  }
  size_t most = mrt_context_get_info(ctx).bytes_peak;
  printf("measured peak: %zu bytes\n", most - info.inputs);
  mrt_plan_free(plan), mrt_scope_free(s), mrt_context_free(ctx);
}
