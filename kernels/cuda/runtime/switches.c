/* switches.c -- what the environment turns off
 *
 * Each switch leaves out one part of the device, whose work a plainer one does,
 * so that a defect in it does not hide what else there is.  Read once, when the
 * device is opened.
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *value) {
  return text && strcmp(text, value) == 0;
}

void mrt_cuda_read_switches(mrt_cuda *c) {
  c->no_lt = is(getenv("MRT_CUDA_LT"), "off");
  c->no_trials = is(getenv("MRT_CUDA_LT"), "first");
  c->plain_attention = is(getenv("MRT_CUDA_ATTENTION"), "tile");
  c->no_groups = is(getenv("MRT_CUDA_ATTENTION"), "mma");
  c->waits = is(getenv("MRT_CUDA_SYNC"), "1");
}
