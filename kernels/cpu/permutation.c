/* permutation.c -- an order by swaps, one after the other
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

/* Numbers outside [0, 1), which nobody has drawn, choose an end. */
static void permutation(const mrt_call *c) {
  const double *x = c->in[0].data;
  int64_t *y = c->out[0].data, n = c->out[0].type.dims[0];
  for (int64_t i = 0; i < n; i++) y[i] = i;
  for (int64_t i = 0; i + 1 < n; i++) {
    double at = x[i] * (double)(n - i);
    int64_t j = at >= (double)(n - i) ? n - 1 : at > 0 ? i + (int64_t)at : i;
    int64_t was = y[i];
    y[i] = y[j], y[j] = was;
  }
}

MRT_KERNEL(permutation, .run = permutation);
