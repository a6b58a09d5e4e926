/* table.c -- the kernels of one variant, in the order of ops.def
 *
 * A row per operator that is no view, written from ops.def: an operator whose
 * kernel is missing does not link, so this table needs no spec.
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
