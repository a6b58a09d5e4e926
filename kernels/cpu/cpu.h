/* cpu.h -- what every CPU kernel file includes
 *
 * Each file in this folder is compiled once per instruction set and per
 * `real` (float, double); MRT_VARIANT is the suffix, MRT_VECTOR_BYTES the
 * width.  A kernel file sees one `real` and writes plain C (or the `vec` type
 * below) for it; table.c gathers a variant's kernels, device.c picks the
 * variant when the context opens.
 *
 * Results depend on shape, dtype, instruction set and thread count only.  No
 * contraction: a multiply-add rounds once only where `fma` is written.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_H
#define MRT_CPU_H

#include "base/dtype.h"
#include "device/kernel.h"
#include "runtime/workers.h"

#include <math.h>
#include <string.h>

#ifdef MRT_F64
typedef double real;
typedef int64_t ireal; /* an integer of real's size */
#define MRT_REAL       MRT_f64
#define REAL(constant) (constant)
#define MRT_INF        ((real)INFINITY)
#else
typedef float real;
typedef int32_t ireal;
#define MRT_REAL       MRT_f32
#define REAL(constant) (constant##f)
#define MRT_INF        INFINITY
#endif

#define MRT_PASTE_(a, b) a##b
#define MRT_PASTE(a, b)  MRT_PASTE_(a, b)
#define MRT_CPU(name)    MRT_PASTE(mrt_cpu_##name##_, MRT_VARIANT)
/* A function that does not depend on `real`: the f32 variant's serves both. */
#define MRT_BOTH(name) MRT_PASTE(mrt_cpu_##name##_, MRT_ISA)
/* What no operator of an f64 operand computes with, so that the f32 variant
 * alone has it (mrt_node_real): integers, but for ids and counts, and narrow
 * floats, which are cast before. */
#ifdef MRT_F64
#define MRT_NOT_F64(...)
#else
#define MRT_NOT_F64(...) __VA_ARGS__
#endif
/* Define the kernel of operator `name`:  MRT_KERNEL(softmax, .run = run); */
#define MRT_KERNEL(name, ...) const mrt_kernel MRT_CPU(name) = { __VA_ARGS__ }

/* One register's worth of reals. */
enum { LANES = MRT_VECTOR_BYTES / (int)sizeof(real) };
typedef real vec __attribute__((vector_size(MRT_VECTOR_BYTES)));
typedef ireal ivec __attribute__((vector_size(MRT_VECTOR_BYTES)));
typedef vec uvec __attribute__((aligned(sizeof(real)), may_alias));

static inline vec vec_load(const real *p) { return *(const uvec *)p; }
static inline void vec_store(real *p, vec v) { *(uvec *)p = v; }
static inline vec vec_all(real x) { return x - (vec){ 0 }; }
/* Lanes are added in pairs: the same tree for every vector. */
static inline real vec_sum(vec v) {
  real lane[LANES];
  vec_store(lane, v);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++) lane[i] += lane[i + half];
  return lane[0];
}
static inline real vec_max(vec v) {
  real lane[LANES];
  vec_store(lane, v);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; i++)
      lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}

/* a * b + c rounded once where the processor can; else rounded twice. */
#if defined(__FP_FAST_FMAF) || defined(__FMA__)
#ifdef MRT_F64
static inline real fma_(real a, real b, real c) {
  return __builtin_fma(a, b, c);
}
#else
static inline real fma_(real a, real b, real c) {
  return __builtin_fmaf(a, b, c);
}
#endif
#else
static inline real fma_(real a, real b, real c) { return a * b + c; }
#endif

/* Into how many parts work worth about `ns` nanoseconds is divided: telling the
 * workers costs a few microseconds. */
static inline int mrt_team(const mrt_call *c, double ns) {
  return ns < 2e4 ? 1 : c->threads;
}
/* Calls run(c, shared, part, parts) for each part, beside each other; returns
 * when all are done.  Memory of its own a part finds by its number. */
static inline void mrt_parallel(const mrt_call *c, int parts, mrt_part *run,
                                const void *shared) {
  if (parts == 1)
    run(c, shared, 0, 1);
  else
    mrt_cpu_workers_run(c->workers, parts, run, c, shared);
}
/* The share [*from, *to) of n items that part `part` of `parts` does. */
static inline void mrt_share(int64_t n, int part, int parts, int64_t *from,
                             int64_t *to) {
  *from = n * part / parts, *to = n * (part + 1) / parts;
}

/* An id stored in an integer tensor, for any integer dtype. */
static inline int64_t mrt_id(const void *data, mrt_dtype dtype, int64_t i) {
  if (dtype == MRT_i64) return ((const int64_t *)data)[i];
  if (dtype == MRT_i32) return ((const int32_t *)data)[i];
  return ((const uint8_t *)data)[i];
}
/* Report an integer that cannot be: an id outside [0, n); the run stops before
 * its first update. */
static inline void mrt_bad_id(const mrt_call *c, int64_t id, int64_t n) {
  __atomic_store_n(&c->run->bad_id, id, __ATOMIC_RELAXED);
  __atomic_store_n(&c->run->bad_limit, n, __ATOMIC_RELAXED);
  __atomic_store_n(&c->run->fault, c->node + 1, __ATOMIC_RELEASE);
}
/* Clamp an id into [0, n) and report a bad one. */
static inline int64_t mrt_checked_id(const mrt_call *c, int64_t id, int64_t n) {
  if (id >= 0 && id < n) return id;
  mrt_bad_id(c, id, n);
  return id < 0 || n == 0 ? 0 : n - 1;
}

/* Rows and columns of a contiguous operand whose last dimension is the row. */
static inline int64_t mrt_cols(const mrt_operand *x) {
  return x->type.rank ? x->type.dims[x->type.rank - 1] : 1;
}
static inline int64_t mrt_rows(const mrt_operand *x) {
  int64_t n = 1;
  for (int i = 0; i + 1 < x->type.rank; i++) n *= x->type.dims[i];
  return n;
}

#endif
