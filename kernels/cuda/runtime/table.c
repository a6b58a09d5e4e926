/* table.c -- which kernel each operator has on a CUDA device
 *
 *   ROW(name)      a launcher, mrt_cuda_<name>
 *   SCRATCH(name)  and the bytes it asks for, mrt_cuda_<name>_scratch
 *   PRODUCT(name)  as PREPARED: with sums in f32 (f64) only
 *   SPREADS(name)  as PREPARED: with results of any strides
 *   CODED(name)    as PREPARED: with rows as they are only
 *   UPDATE(name)   a launcher, of which one call is a special case; of all
 *                  elements
 *   BY_ROWS(name)  as SCRATCH: an update by rows of one list
 *   MEETS(name)    as UPDATE, of a collective
 *
 * listed in kernels.def; operators that are computed element by element are
 * generated (jit/jit.h).  One that is nowhere is refused when a plan names it.
 *
 * SPDX-License-Identifier: MIT */
#include "jit/jit.h"
#include "op/op.h"
#include "runtime/cuda.h"

#include <string.h>

void *mrt_cuda_meet_prepare(const mrt_call *call);
void mrt_cuda_meet_release(void *state);
bool mrt_cuda_sums_wide(const mrt_signature *s);
bool mrt_cuda_rows_exact(const mrt_signature *s);
bool mrt_cuda_update_rows_takes(const mrt_signature *s);

#define ROW(name) void mrt_cuda_##name(const mrt_call *call);
#define SCRATCH(name)                                                          \
  ROW(name) size_t mrt_cuda_##name##_scratch(const mrt_call *call);
#define PREPARED(name)                                                         \
  SCRATCH(name) void *mrt_cuda_##name##_prepare(const mrt_call *call);         \
  void mrt_cuda_##name##_release(void *state);
#define PRODUCT(name) PREPARED(name)
#define SPREADS(name) PREPARED(name)
#define CODED(name)   PREPARED(name)
#define UPDATE(name)                                                           \
  void mrt_cuda_##name(const mrt_call *const *calls, int count);               \
  static void name##_alone(const mrt_call *call) { mrt_cuda_##name(&call, 1); }
#define BY_ROWS(name) SCRATCH(name)
#define MEETS(name)   UPDATE(name)
#include "kernels.def"
#undef ROW
#undef SCRATCH
#undef PREPARED
#undef PRODUCT
#undef SPREADS
#undef CODED
#undef UPDATE
#undef BY_ROWS
#undef MEETS

/* Not those that look at rows of a gradient: option `lazy`. */
static bool updates_all(const mrt_signature *s) {
  for (int i = 0; i < s->op->option_count; i++) {
    const mrt_option *o = &s->op->options[i];
    if (strcmp(o->name, "lazy") != 0) continue;
    return !*(const bool *)((const char *)s->options + o->offset);
  }
  return true;
}

#define ROW(name)                                                              \
  static const mrt_kernel name##_kernel = { .run = mrt_cuda_##name };
#define SCRATCH(name)                                                          \
  static const mrt_kernel name##_kernel = { .run = mrt_cuda_##name,            \
                                            .scratch =                         \
                                                mrt_cuda_##name##_scratch };
#define PREPARED(name)                                                         \
  static const mrt_kernel name##_kernel = {                                    \
    .run = mrt_cuda_##name,                                                    \
    .scratch = mrt_cuda_##name##_scratch,                                      \
    .prepare = mrt_cuda_##name##_prepare,                                      \
    .release = mrt_cuda_##name##_release                                       \
  };
#define PRODUCT(name)                                                          \
  static const mrt_kernel name##_kernel = {                                    \
    .run = mrt_cuda_##name,                                                    \
    .scratch = mrt_cuda_##name##_scratch,                                      \
    .prepare = mrt_cuda_##name##_prepare,                                      \
    .release = mrt_cuda_##name##_release,                                      \
    .takes = mrt_cuda_sums_wide                                                \
  };
#define SPREADS(name)                                                          \
  static const mrt_kernel name##_kernel = {                                    \
    .run = mrt_cuda_##name,                                                    \
    .scratch = mrt_cuda_##name##_scratch,                                      \
    .prepare = mrt_cuda_##name##_prepare,                                      \
    .release = mrt_cuda_##name##_release,                                      \
    .spreads = true                                                            \
  };
#define CODED(name)                                                            \
  static const mrt_kernel name##_kernel = {                                    \
    .run = mrt_cuda_##name,                                                    \
    .scratch = mrt_cuda_##name##_scratch,                                      \
    .prepare = mrt_cuda_##name##_prepare,                                      \
    .release = mrt_cuda_##name##_release,                                      \
    .takes = mrt_cuda_rows_exact                                               \
  };
#define UPDATE(name)                                                           \
  static const mrt_kernel name##_kernel = { .run = name##_alone,               \
                                            .together = mrt_cuda_##name,       \
                                            .takes = updates_all };
#define BY_ROWS(name)                                                          \
  static const mrt_kernel name##_kernel = { .run = mrt_cuda_##name,            \
                                            .scratch =                         \
                                                mrt_cuda_##name##_scratch,     \
                                            .takes =                           \
                                                mrt_cuda_update_rows_takes };
#define MEETS(name)                                                            \
  static const mrt_kernel name##_kernel = { .run = name##_alone,               \
                                            .together = mrt_cuda_##name,       \
                                            .prepare = mrt_cuda_meet_prepare,  \
                                            .release =                         \
                                                mrt_cuda_meet_release };
#include "kernels.def"
#undef ROW
#undef SCRATCH
#undef PREPARED
#undef PRODUCT
#undef SPREADS
#undef CODED
#undef UPDATE
#undef BY_ROWS
#undef MEETS

static const mrt_kernel *const listed[MRT_OP_COUNT] = {
#define ROW(name)      [MRT_OP_##name] = &name##_kernel,
#define SCRATCH(name)  ROW(name)
#define PREPARED(name) ROW(name)
#define PRODUCT(name)  ROW(name)
#define SPREADS(name)  ROW(name)
#define CODED(name)    ROW(name)
#define UPDATE(name)   ROW(name)
#define BY_ROWS(name)  ROW(name)
#define MEETS(name)    ROW(name)
#include "kernels.def"
};
#undef ROW
#undef SCRATCH
#undef PREPARED
#undef PRODUCT
#undef SPREADS
#undef CODED
#undef UPDATE
#undef BY_ROWS
#undef MEETS

/* ---- generated ----------------------------------------------------------- */

static void run_chain(const mrt_call *call) { mrt_jit_run(call->state, call); }
static void release_chain(void *state) { mrt_jit_release(state); }

#define OP(name)                                                               \
  static void *name##_chain(const mrt_call *call) {                            \
    return mrt_jit_prepare(call, MRT_OP_##name);                               \
  }
#define VIEW(name)
#include "ops.def"
#undef OP
#undef VIEW

#define OP(name)                                                               \
  { .run = run_chain, .prepare = name##_chain, .release = release_chain },
#define VIEW(name) { .run = NULL },
static const mrt_kernel generated[] = {
#include "ops.def"
};
#undef OP
#undef VIEW

const mrt_kernel *mrt_cuda_kernel(const mrt_device *device, int op,
                                  mrt_dtype dtype) {
  (void)dtype;
  cudaSetDevice(mrt_cuda_of(device)->index); /* `prepare` comes next */
  if (listed[op]) return listed[op];
  return mrt_jit_has(op) ? &generated[op] : NULL;
}
