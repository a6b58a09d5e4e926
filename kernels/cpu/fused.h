/* fused.h -- a fused program on its way through the blocks
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_CPU_FUSED_H
#define MRT_CPU_FUSED_H

#include "cpu.h"
#include "op/fused.h"
#include "walk.h"

/* Where a register is: element 0 in memory, or else a slot. */
typedef struct fused_place {
  char *memory;
  int slot;
  size_t size; /* of an element */
} fused_place;

typedef struct fused_program {
  const mrt_call *call;
  const mrt_fused_options *options;
  int results;          /* that are written to the call's outputs */
  int64_t count, block; /* elements in all, elements at a time */
  int slots;
  size_t slot_bytes;
  fused_place at[MRT_FUSED_REGISTERS];
  walk path[MRT_FUSED_REGISTERS]; /* of inputs in slots */
  int64_t period[MRT_FUSED_REGISTERS];
  int last[MRT_FUSED_REGISTERS]; /* the last instruction that reads it */
} fused_program;

/* Where everything lies.  `results` of the program's are written to the call's
 * outputs; the call and the options outlive `p`. */
void MRT_CPU(fused_prepare)(fused_program *p, const mrt_call *c,
                            const mrt_fused_options *o, int results);
/* Nanoseconds for an element, roughly. */
double MRT_CPU(fused_ns)(const fused_program *p);
/* Elements [first, first + n) of the first result into `to`; of a program that
 * was prepared with no results.  Any thread may ask. */
void MRT_CPU(fused_fill)(const fused_program *p, int64_t first, int64_t n,
                         void *to);

#endif
