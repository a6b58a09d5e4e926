/* decompose.c -- the gradient of an operator by those of plainer ones
 *
 * The row of a fused operator says how it is made of plainer operators.  What it
 * says is built between stand-ins for the inputs (identity views, which pass
 * higher derivatives on) and differentiated there by whoever runs the rule
 * (graph/grad.c): that walk touches new tensors only and cannot disturb the one
 * it is part of.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/views.h"
#include "tensor/tensor.h"

#include <string.h>

static mrt_tensor *stand_in_for(mrt_build *b, mrt_tensor *in) {
  const mrt_type *t = &in->type;
  mrt_shape_options o = { .shape = { .count = t->rank } };
  memcpy(o.shape.at, t->dims, sizeof o.shape.at);
  return MRT_MAKE(b, reshape, &o, in);
}

static void between_stand_ins(mrt_build *b, mrt_decompose decompose,
                              mrt_tensor **stand_in) {
  mrt_tensor *value[MRT_MAX_OUT] = { 0 };
  mrt_tensor *ys[MRT_MAX_OUT], *dys[MRT_MAX_OUT];
  for (int i = 0; i < b->nin; i++) stand_in[i] = stand_in_for(b, b->in[i]);
  mrt_tensor *const *in = b->in;
  b->in = stand_in;
  if (!b->status) decompose(b, value);
  b->in = in;
  int n = 0;
  for (int i = 0; i < b->nout; i++)
    if (value[i] && b->dout[i]) ys[n] = value[i], dys[n++] = b->dout[i];
  if (n && !b->status)
    b->status = b->differentiate(b, ys, dys, n, stand_in, b->nin, b->din);
}

void mrt_grad_decomposed(mrt_build *b, mrt_decompose decompose) {
  size_t bytes = (size_t)b->nin * sizeof(mrt_tensor *);
  mrt_tensor **stand_in = mrt_calloc(b->ctx->allocator, 1, bytes);
  if (!stand_in)
    b->status = mrt_nomem(&b->ctx->error);
  else
    between_stand_ins(b, decompose, stand_in);
  mrt_release(b->ctx->allocator, stand_in, bytes);
}
