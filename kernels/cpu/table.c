/* table.c -- the kernels of one variant, in the order of ops.def
 *
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#define OP(name) extern const mrt_kernel MRT_CPU(name);
#define VIEW(name)
#include "ops.def"
#undef OP
#undef VIEW

#define OP(name)   &MRT_CPU(name),
#define VIEW(name) NULL,
extern const mrt_kernel *const MRT_CPU(table)[];
const mrt_kernel *const MRT_CPU(table)[] = {
#include "ops.def"
};
