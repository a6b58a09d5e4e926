/* apply.h -- from operator and inputs to lazy outputs
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_APPLY_H
#define MRT_OP_APPLY_H

#include "op/op.h"
#include "tensor/tensor.h"

enum { MRT_MAX_OPTIONS = 512 }; /* bytes of one operator's options */

/* Field by field into what is zero: equal options are equal bytes then, for no
 * padding is among them. */
void mrt_copy_options(const mrt_op *op, void *to, const void *from);
/* Check the inputs' count and run the row's inference: fills types[0..*nout),
 * normalises `options` in place. */
mrt_status mrt_infer_types(const mrt_op *op, int nin, const mrt_type *const *in,
                           void *options, mrt_type *types, int *nout,
                           mrt_error *e);

/* How an input that is a variable is read. */
typedef enum mrt_reading {
  MRT_NEWEST,  /* as the program does: after its last update */
  MRT_RECORDED /* as an earlier expression did: gradient rules */
} mrt_reading;

/* A new expression of `op`, updating operators included, whose outputs are
 * made on demand by mrt_expr_output.  The caller makes at least one.
 *
 * An operator that does not take narrow floats as they are gets them in f32.
 * *narrow is then what its results are to be rounded to (mrt_apply_output), the
 * widest float it was given; MRT_DTYPE_COUNT: they stay.  NULL: not asked. */
mrt_status mrt_apply_expr(mrt_context *ctx, const mrt_op *op,
                          mrt_tensor *const *in, int nin, const void *options,
                          mrt_reading reading, mrt_expr **out,
                          mrt_dtype *narrow);
/* Output `i` with one reference, rounded to `narrow`.  Frees the expression if
 * the first output cannot be made. */
mrt_status mrt_apply_output(mrt_context *ctx, mrt_expr *x, int i,
                            mrt_dtype narrow, mrt_tensor **out);

#endif
