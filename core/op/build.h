/* build.h -- writing gradients as formulas
 *
 * A gradient rule builds tensors with the functions below.  They never fail
 * visibly: a NULL argument (after an error, or where no gradient flows) gives
 * NULL, and the first error is kept in the build.  Tensors belong to the build
 * and die with it unless they are results, so rules hold no references.
 *
 *     static void grad(mrt_build *b) {           // y = tanh(x)
 *       mrt_tensor *y = b->out[0], *dy = b->dout[0];
 *       b->din[0] = mrt_mul(b, dy, mrt_rsub(b, 1, mrt_mul(b, y, y)));
 *     }
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_OP_BUILD_H
#define MRT_OP_BUILD_H

#include "op/op.h"

typedef struct mrt_build mrt_build;
/* The gradients of ys (dys are those of what follows) with respect to xs,
 * looking no further than these; dx[i] NULL where none flows. */
typedef mrt_status mrt_differentiate(mrt_build *b, mrt_tensor *const *ys,
                                     mrt_tensor *const *dys, int ny,
                                     mrt_tensor *const *xs, int nx,
                                     mrt_tensor **dx);

struct mrt_build {
  mrt_context *ctx;
  const mrt_op *op;
  const void *options;
  int nin, nout;
  mrt_tensor *const *in, *const *out;
  mrt_tensor *const *dout; /* NULL where no gradient flows */
  mrt_tensor **din;        /* fill; leave NULL for none */
  const bool *wants;       /* which din are needed: skip the others */
  mrt_status status;       /* the first error */
  mrt_tensor **made;       /* what the build owns */
  int made_count, made_room;
  /* Of a rule's build, for mrt_grad_decomposed: the walk over expressions lies
   * above operators. */
  mrt_differentiate *differentiate;
};

/* The build takes one handle of `t`: it dies with the build. */
mrt_tensor *mrt_own(mrt_build *b, mrt_tensor *t);
/* Drop all that the build owns. */
void mrt_build_free(mrt_build *b);

/* The general one: the first output of op(in...). */
mrt_tensor *mrt_make(mrt_build *b, int op, const void *options, int nin,
                     mrt_tensor *const *in);
/* All outputs into out[0..room). */
void mrt_make_all(mrt_build *b, int op, const void *options, int nin,
                  mrt_tensor *const *in, mrt_tensor **out, int room);
#define MRT_MAKE(b, op, options, ...)                                          \
  mrt_make(                                                                    \
      b, MRT_OP_##op, options,                                                 \
      (int)(sizeof((mrt_tensor *[]){ __VA_ARGS__ }) / sizeof(mrt_tensor *)),   \
      (mrt_tensor *[]){ __VA_ARGS__ })

/* Pointwise, with broadcasting as in Lua. */
mrt_tensor *mrt_add(mrt_build *b, mrt_tensor *x, mrt_tensor *y);
mrt_tensor *mrt_sub(mrt_build *b, mrt_tensor *x, mrt_tensor *y);
mrt_tensor *mrt_mul(mrt_build *b, mrt_tensor *x, mrt_tensor *y);
mrt_tensor *mrt_div(mrt_build *b, mrt_tensor *x, mrt_tensor *y);
mrt_tensor *mrt_neg(mrt_build *b, mrt_tensor *x);
mrt_tensor *mrt_exp(mrt_build *b, mrt_tensor *x);
mrt_tensor *mrt_where(mrt_build *b, mrt_tensor *c, mrt_tensor *x,
                      mrt_tensor *y);
/* With a constant: x + k, x * k, k - x. */
mrt_tensor *mrt_add_k(mrt_build *b, mrt_tensor *x, double k);
mrt_tensor *mrt_mul_k(mrt_build *b, mrt_tensor *x, double k);
mrt_tensor *mrt_rsub(mrt_build *b, double k, mrt_tensor *x);
/* A scalar constant of x's dtype. */
mrt_tensor *mrt_const_like(mrt_build *b, mrt_tensor *x, double k);

/* Shapes. */
const mrt_type *mrt_of(mrt_tensor *t); /* the type; a 0-d f32 for NULL */
mrt_tensor *mrt_cast_to(mrt_build *b, mrt_tensor *x, mrt_dtype dtype);
mrt_tensor *mrt_reshape_to(mrt_build *b, mrt_tensor *x, int rank,
                           const int64_t *dims);
mrt_tensor *mrt_reshape_like(mrt_build *b, mrt_tensor *x, mrt_tensor *like);
mrt_tensor *mrt_expand_to(mrt_build *b, mrt_tensor *x, const mrt_type *like);
mrt_tensor *mrt_transpose_last(mrt_build *b, mrt_tensor *x); /* last two */
/* Sum over `dims` (0-based); keep as size 1 or drop. */
mrt_tensor *mrt_sum_dims(mrt_build *b, mrt_tensor *x, const mrt_ints *dims,
                         bool keepdim);
mrt_tensor *mrt_sum_dim(mrt_build *b, mrt_tensor *x, int64_t dim, bool keepdim);
mrt_tensor *mrt_matmul(mrt_build *b, mrt_tensor *x, mrt_tensor *y);

/* For rows of fused operators whose gradient is an operator of its own: the
 * gradient of `op` at b's inputs, by differentiating what `decompose` builds
 * from plainer operators.  It reads b->in, and fills value[0..nout) with
 * tensors equal to the operator's outputs. */
typedef void (*mrt_decompose)(mrt_build *b, mrt_tensor **value);
void mrt_grad_decomposed(mrt_build *b, mrt_decompose decompose);

#endif
