/* global_norm.c -- the length of many tensors together, or of each row
 *
 * Squares are summed in double, so a float gradient neither overflows nor
 * loses its small elements.  Each thread has a share of every input and one
 * partial sum; the sums are added in the order of the threads.
 *
 * SPDX-License-Identifier: MIT */
#include "floats.h"

enum { WIDE = MRT_VECTOR_BYTES / (int)sizeof(double), CHAINS = 4 };

/* A register of doubles, and the reals that become one. */
typedef double wide __attribute__((vector_size(WIDE * sizeof(double))));
typedef real part __attribute__((vector_size(WIDE * sizeof(real)),
                                 aligned(sizeof(real)), may_alias));

/* A multiple of CHAINS vectors, widened at a time. */
enum { BLOCK = 1024 };

/* Adds whole chains of x to s; returns how many elements. */
static int64_t add_chains(const real *x, int64_t n, wide *s) {
  int64_t i = 0;
  for (; i + CHAINS * WIDE <= n; i += CHAINS * WIDE)
    for (int k = 0; k < CHAINS; k++) {
      wide v = __builtin_convertvector(*(const part *)(x + i + k * WIDE), wide);
      s[k] += v * v;
    }
  return i;
}

/* In an order that follows from how many they are. */
static double squares(const mrt_operand *x, int64_t at, int64_t to) {
  wide s[CHAINS] = { { 0 } };
  real room[BLOCK];
  const real *block = room;
  int64_t n = 0, i = 0;
  for (; at < to; at += n) {
    n = x->type.dtype == MRT_REAL || to - at < BLOCK ? to - at : BLOCK;
    block = mrt_reals_in(x, at, n, room);
    i = add_chains(block, n, s);
  }
  s[0] = (s[0] + s[1]) + (s[2] + s[3]);
  double sum = 0;
  for (int k = 0; k < WIDE; k++) sum += s[0][k];
  for (; i < n; i++) sum += (double)block[i] * (double)block[i];
  return sum;
}

/* Partial sums a cache line apart. */
enum { STRIDE = 64 / (int)sizeof(double) };

static size_t scratch(const mrt_call *c) {
  return (size_t)c->threads * STRIDE * sizeof(double);
}

static void squares_part(const mrt_call *c, const void *unused, int part,
                         int parts) {
  double *sum = (double *)c->scratch + part * STRIDE;
  *sum = 0;
  for (int i = 0; i < c->nin; i++) {
    int64_t from, to;
    mrt_share(mrt_type_count(&c->in[i].type), part, parts, &from, &to);
    *sum += squares(&c->in[i], from, to);
  }
}

static void global_norm(const mrt_call *c) {
  double *partial = c->scratch, sum = 0, n = 0;
  for (int i = 0; i < c->nin; i++) n += (double)mrt_type_count(&c->in[i].type);
  int team = mrt_team(c, n * 0.15);
  mrt_parallel(c, team, squares_part, NULL);
  for (int t = 0; t < team; t++) sum += partial[t * STRIDE];
  *(real *)c->out[0].data = (real)sqrt(sum);
}

MRT_KERNEL(global_norm, .run = global_norm, .scratch = scratch);

static void norm_rows(const mrt_call *c, const void *unused, int part,
                      int parts) {
  const mrt_operand *x = &c->in[0];
  int64_t rows = mrt_type_count(&c->out[0].type), i, end;
  int64_t count = mrt_type_count(&x->type), n = rows ? count / rows : 0;
  real *y = c->out[0].data;
  mrt_share(rows, part, parts, &i, &end);
  for (; i < end; i++) y[i] = (real)sqrt(squares(x, i * n, (i + 1) * n));
}

static void row_norm(const mrt_call *c) {
  double count = (double)mrt_type_count(&c->in[0].type);
  mrt_parallel(c, mrt_team(c, count * 0.15), norm_rows, NULL);
}

MRT_KERNEL(row_norm, .run = row_norm);
