/* fused.h -- a chain of pointwise operators as one node
 *
 * A small program over registers.  Registers 0..nin-1 are the node's inputs,
 * the rest are temporaries; each instruction applies one pointwise operator to
 * whole registers.  The kernel runs the program block by block, so that
 * temporaries stay in the first-level cache.  Every operator rounds to its own
 * dtype, so the bits are those of the nodes one by one.
 *
 * Invariants: an instruction reads registers written before it; every register
 * past the inputs is written exactly once; out_register[k] is never an input.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_FUSED_H
#define MRT_OP_FUSED_H

#include "op/reduce.h"

enum { MRT_FUSED_CODE = 32, MRT_FUSED_REGISTERS = 40 }; /* inputs included */

typedef struct mrt_fused_code {
  int op;  /* operator number */
  int out; /* register */
  int nin, in[3];
  mrt_dtype in_dtype; /* of the last input; out_dtype when there is none */
  mrt_dtype out_dtype;
  const void *options; /* the operator's own */
} mrt_fused_code;

typedef struct mrt_fused_options {
  int code_count, registers;
  const mrt_fused_code *code;
  const int *out_register;   /* [nout] */
  const mrt_type *out_types; /* [nout]: one shape */
} mrt_fused_options;

/* A reduction of a program's one result, which is never written. */
typedef struct mrt_fused_reduce_options {
  mrt_fused_options program;
  mrt_reduce_options over;
  mrt_reduce_kind kind; /* of the reduction's row */
  mrt_type out;
} mrt_fused_reduce_options;

#endif
