/* rounding.c -- the host's floating-point modes: bits do not depend on them, and
 * they are afterwards what they were
 *
 * The same step is traced, differentiated, planned into a budget and run in
 * different modes.  Its data are subnormal in part, and large enough that
 * workers compute with the host's thread.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt.h"
#include "mrt/inspect.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { ROWS = 512, WIDE = 64, LAYERS = 3, STEPS = 3 };

static int wrong;

static void want(bool right, const char *mode, const char *what) {
  if (!right) printf("wrong: %s: %s\n", mode, what), wrong++;
}

/* ---- modes --------------------------------------------------------------- */

enum { FLUSH = 1 << 30 }; /* subnormal numbers are zero: FTZ and DAZ */

static const struct {
  const char *name;
  int rounding;
} modes[] = {
  { "as it is", FE_TONEAREST },         { "upward", FE_UPWARD },
  { "downward", FE_DOWNWARD },          { "toward zero", FE_TOWARDZERO },
#if defined(__SSE2__)
  { "flushing", FE_TONEAREST | FLUSH },
#endif
};

static unsigned flushes(void) {
#if defined(__SSE2__)
  return _mm_getcsr() & 0x8040;
#else
  return 0;
#endif
}

static void set_mode(int mode) {
  fesetenv(FE_DFL_ENV);
  fesetround(mode & ~FLUSH);
#if defined(__SSE2__)
  if (mode & FLUSH) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static void want_mode(int i, const char *when) {
  int mode = modes[i].rounding;
  want(fegetround() == (mode & ~FLUSH) && (flushes() != 0) == (mode >= FLUSH),
       modes[i].name, when);
}

/* ---- a step -------------------------------------------------------------- */

typedef struct result {
  float loss[STEPS], weights[LAYERS][WIDE * WIDE], tiny[WIDE];
  char *plan;
} result;

static float rows_data[ROWS * WIDE], weight_data[WIDE * WIDE], tiny_data[WIDE];

static void make_data(void) {
  for (int i = 0; i < ROWS * WIDE; i++)
    rows_data[i] = (float)(i * 7919 % 1000) / 500 - 1;
  for (int i = 0; i < WIDE * WIDE; i++)
    weight_data[i] = (float)(i * 104729 % 1000) / 4000 - 0.125F;
  for (int i = 0; i < WIDE; i++) tiny_data[i] = (float)i * 1e-40F;
}

static mrt_plan *step(mrt_context *ctx, mrt_scope *s, mrt_tensor **w,
                      mrt_tensor **tiny) {
  mrt_type rows = { MRT_f32, 2, { ROWS, WIDE } },
           row = { MRT_f32, 1, { WIDE } };
  mrt_type weight = { MRT_f32, 2, { WIDE, WIDE } };
  mrt_tensor *dw[LAYERS], *begin[LAYERS + 1];
  for (int i = 0; i < LAYERS; i++) begin[i] = mrt_data(s, &weight, weight_data);
  begin[LAYERS] = mrt_data(s, &row, tiny_data);
  mrt_trace_begin(ctx);
  mrt_tensor *h = mrt_input(s, &rows);
  for (int i = 0; i < LAYERS; i++) {
    w[i] = mrt_parameter(s, begin[i], "w");
    h = mrt_op1(s, "gelu", mrt_op2(s, "linear", h, w[i], NULL), NULL);
    h = mrt_op1(s, "softmax", mrt_op1(s, "exp", h, NULL), "dim=1");
  }
  *tiny = mrt_parameter(s, begin[LAYERS], "tiny");
  mrt_tensor *loss = mrt_op1(s, "sum", mrt_op1(s, "log", h, NULL), NULL);
  mrt_gradients(s, loss, w, LAYERS, dw);
  mrt_tensor *rate = mrt_op0(s, "full", "shape=[], value=0.7");
  for (int i = 0; i < LAYERS; i++)
    mrt_set(
        s, w[i],
        mrt_op2(s, "sub", w[i], mrt_op2(s, "mul", dw[i], rate, NULL), NULL));
  mrt_set(s, *tiny, mrt_op2(s, "mul", *tiny, rate, NULL));
  mrt_plan_options options = { .memory = 900 << 10 };
  return mrt_scope_plan(s, &loss, 1, &options);
}

static void keep(mrt_context *ctx, mrt_tensor *t, float *to, size_t n) {
  if (mrt_tensors_read(ctx, &t, 1) || !mrt_tensor_data(t)) return;
  memcpy(to, mrt_tensor_data(t), n * sizeof *to);
}

static void run(mrt_context *ctx, result *r) {
  mrt_scope *s;
  mrt_tensor *w[LAYERS], *tiny, *out, *again;
  char *text = NULL;
  if (mrt_scope_new(ctx, &s)) exit(1);
  mrt_type rows = { MRT_f32, 2, { ROWS, WIDE } };
  mrt_tensor *data = mrt_data(s, &rows, rows_data);
  mrt_plan *plan = step(ctx, s, w, &tiny);
  if (!plan || mrt_plan_print(plan, &text))
    printf("%s\n", mrt_scope_message(s)), exit(1);
  r->plan = strcpy(malloc(strlen(text) + 1), text);
  mrt_text_free(ctx, text);
  for (int i = 0; i < STEPS; i++) {
    if (mrt_plan_run(plan, &data, 1, &out, 1)) exit(1);
    keep(ctx, out, &r->loss[i], 1), mrt_tensor_unref(out);
  }
  for (int i = 0; i < LAYERS; i++) keep(ctx, w[i], r->weights[i], WIDE * WIDE);
  again =
      mrt_op2(s, "mul", tiny, mrt_op0(s, "full", "shape=[], value=0.9"), NULL);
  if (mrt_eval(ctx, &again, 1)) exit(1); /* outside plans of its own too */
  keep(ctx, again, r->tiny, WIDE);
  mrt_plan_free(plan), mrt_scope_free(s);
}

/* An id that no row has: the run ends where it is found. */
static void fail(mrt_context *ctx, int mode) {
  mrt_scope *s;
  int64_t id = 5;
  if (mrt_scope_new(ctx, &s)) exit(1);
  mrt_type ids = { MRT_i64, 1, { 1 } }, table = { MRT_f32, 2, { 2, 3 } };
  mrt_tensor *bad = mrt_op2(s, "embedding", mrt_full(s, &table, 1),
                            mrt_data(s, &ids, &id), NULL);
  want(mrt_eval(ctx, &bad, 1) != MRT_OK, modes[mode].name, "a bad index");
  want_mode(mode, "changed by a run that fails");
  mrt_scope_free(s);
}

static void compare(const result *r, const result *first, const char *mode) {
  want(!memcmp(r->loss, first->loss, sizeof r->loss), mode, "losses");
  want(!memcmp(r->weights, first->weights, sizeof r->weights), mode, "weights");
  want(!memcmp(r->tiny, first->tiny, sizeof r->tiny), mode, "subnormals");
  want(!strcmp(r->plan, first->plan), mode, "the plan");
}

int main(void) {
  static result results[sizeof modes / sizeof *modes];
  mrt_context_options two = { .threads = 2 };
  make_data();
  for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++) {
    mrt_context *ctx;
    set_mode(modes[i].rounding);
    if (mrt_context_new(&two, &ctx)) return 1;
    run(ctx, &results[i]);
    want_mode(i, "changed by a run");
    fail(ctx, i);
    mrt_context_free(ctx);
    set_mode(FE_TONEAREST);
    compare(&results[i], &results[0], modes[i].name);
  }
  want(results[0].tiny[1] != 0, "as it is", "subnormals are not zero");
  for (int i = 0; i < (int)(sizeof modes / sizeof *modes); i++)
    free(results[i].plan);
  return wrong != 0;
}
