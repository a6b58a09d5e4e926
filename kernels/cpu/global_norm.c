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

static void global_norm(const mrt_call *c) {
  double *partial = c->scratch, sum = 0, n = 0;
  for (int i = 0; i < c->nin; i++) n += (double)mrt_type_count(&c->in[i].type);
  int team = mrt_team(c, n * 0.15);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int t = 0; t < team; t++) {
    partial[t * STRIDE] = 0;
    for (int i = 0; i < c->nin; i++) {
      int64_t from, to;
      mrt_share(mrt_type_count(&c->in[i].type), t, team, &from, &to);
      partial[t * STRIDE] += squares(&c->in[i], from, to);
    }
  }
  for (int t = 0; t < team; t++) sum += partial[t * STRIDE];
  *(real *)c->out[0].data = (real)sqrt(sum);
}

MRT_KERNEL(global_norm, .run = global_norm, .scratch = scratch);

static void row_norm(const mrt_call *c) {
  const mrt_operand *x = &c->in[0];
  int64_t rows = mrt_type_count(&c->out[0].type);
  int64_t count = mrt_type_count(&x->type), n = rows ? count / rows : 0;
  real *y = c->out[0].data;
  int team = mrt_team(c, (double)count * 0.15);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t i = 0; i < rows; i++)
    y[i] = (real)sqrt(squares(x, i * n, (i + 1) * n));
}

MRT_KERNEL(row_norm, .run = row_norm);
