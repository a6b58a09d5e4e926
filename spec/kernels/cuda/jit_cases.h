/* jit_cases.h -- every pointwise operator in every dtype that its row takes
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_SPEC_JIT_CASES_H
#define MRT_SPEC_JIT_CASES_H

#include "base/dtype.h"
#include "device/kernel.h"
#include "op/fused.h"
#include "op/make.h"
#include "op/op.h"
#include "op/random.h"
#include "op/special.h"

typedef struct jit_case {
  int op, nin;
  mrt_dtype in[3], out;
  union {
    mrt_dtype cast;
    int approximate;
    mrt_full_options full;
    mrt_arange_options arange;
    mrt_rand_options rand;
    mrt_randint_options randint;
    mrt_dropout_options dropout;
    mrt_polygamma_options polygamma;
    double some[3]; /* of those that are doubles */
  } options;
} jit_case;

enum { CASES_MOST = 1024 };

/* Those of tensors of n elements; their number. */
int jit_cases(int64_t n, jit_case *cases);

/* A program of up to MRT_FUSED_CODE cases whose inputs have the same dtypes,
 * each an output. */
typedef struct chain_program {
  mrt_fused_options options;
  mrt_fused_code code[MRT_FUSED_CODE];
  int out_register[MRT_FUSED_CODE];
  mrt_type out_types[MRT_FUSED_CODE];
  mrt_operand in[3], out[MRT_FUSED_CODE];
  mrt_call call; /* of these operands; no data */
} chain_program;

/* Cases [*from, ...) as far as they fit together; moves *from past them. */
void chain_program_of(const jit_case *cases, int count, int *from, int64_t n,
                      chain_program *p);

/* One case alone. */
void chain_single(const jit_case *c, int64_t n, chain_program *p);

/* ---- numbers ------------------------------------------------------------- */

/* Element i of input `input`: pairs of special numbers first. */
void chain_put(mrt_dtype d, void *data, int64_t i, int input);
void *jit_values(mrt_dtype d, int64_t n, int input); /* in malloc's memory */
/* Is the result what IEEE 754 or the row says to the bit? */
bool chain_exact(int op);
/* Element i of both: the same bits, or near enough for the dtype; all NaN are
 * one. */
bool chain_same(mrt_dtype d, const void *a, const void *b, int64_t i,
                bool to_the_bit);

#endif
