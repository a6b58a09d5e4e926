/* total.h -- the sum of all elements, for kernels that end in one
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_TOTAL_H
#define MRT_CPU_TOTAL_H

#include "cpu.h"

/* Bytes of scratch for n elements. */
size_t MRT_CPU(total_scratch)(int64_t n);
/* x[0] + x[1] + ..., with the bits of the operator sum. */
real MRT_CPU(total)(const mrt_call *c, const real *x, int64_t n, void *scratch);

#endif
