/* build.c -- building gradients: errors stick, tensors die with the build
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/apply.h"
#include "op/cast.h"
#include "op/make.h"
#include "op/reduce.h"
#include "op/views.h"

static mrt_tensor *keep(mrt_build *b, mrt_tensor *t) {
  if (!t) return NULL;
  if (b->made_count == b->made_room) {
    const mrt_allocator *a = b->ctx->allocator;
    int room = b->made_room ? b->made_room * 2 : 32;
    mrt_tensor **grown =
        mrt_resize(a, b->made, (size_t)b->made_room * sizeof *grown,
                   (size_t)room * sizeof *grown);
    if (!grown) {
      b->status = mrt_nomem(&b->ctx->error);
      return mrt_drop(t), NULL;
    }
    b->made = grown, b->made_room = room;
  }
  return b->made[b->made_count++] = t;
}

mrt_tensor *mrt_own(mrt_build *b, mrt_tensor *t) {
  if (t) t->handles--;
  return keep(b, t);
}

void mrt_build_free(mrt_build *b) {
  for (int i = b->made_count; i-- > 0;) mrt_drop(b->made[i]);
  mrt_release(b->ctx->allocator, b->made,
              (size_t)b->made_room * sizeof *b->made);
  b->made = NULL, b->made_count = b->made_room = 0;
}

void mrt_make_all(mrt_build *b, int op, const void *options, int nin,
                  mrt_tensor *const *in, mrt_tensor **out, int room) {
  for (int i = 0; i < room; i++) out[i] = NULL;
  bool ok = b->status == MRT_OK;
  for (int i = 0; i < nin; i++) ok = ok && in[i];
  if (!ok) return;
  mrt_expr *x;
  mrt_dtype narrow;
  b->status = mrt_apply_expr(b->ctx, b->ctx->ops[op], in, nin, options,
                             MRT_RECORDED, &x, &narrow);
  for (int i = 0; !b->status && i < room && i < x->nout; i++) {
    mrt_tensor *t;
    b->status = mrt_apply_output(b->ctx, x, i, narrow, &t);
    if (!b->status) out[i] = keep(b, t);
  }
}

mrt_tensor *mrt_make(mrt_build *b, int op, const void *options, int nin,
                     mrt_tensor *const *in) {
  mrt_tensor *out[1];
  mrt_make_all(b, op, options, nin, in, out, 1);
  return out[0];
}

const mrt_type *mrt_of(mrt_tensor *t) {
  static const mrt_type none = { .dtype = MRT_f32 };
  return t ? &t->type : &none;
}

/* ---- shapes -------------------------------------------------------------- */

mrt_tensor *mrt_cast_to(mrt_build *b, mrt_tensor *x, mrt_dtype dtype) {
  if (!x || x->type.dtype == dtype) return x;
  mrt_cast_options o = { .dtype = dtype };
  return MRT_MAKE(b, cast, &o, x);
}

mrt_tensor *mrt_reshape_to(mrt_build *b, mrt_tensor *x, int rank,
                           const int64_t *dims) {
  mrt_shape_options o = { .shape = { .count = rank } };
  for (int i = 0; i < rank; i++) o.shape.at[i] = dims[i];
  mrt_type same = { .rank = rank };
  for (int i = 0; i < rank; i++) same.dims[i] = dims[i];
  if (x && mrt_type_same_shape(&x->type, &same)) return x;
  return MRT_MAKE(b, reshape, &o, x);
}

mrt_tensor *mrt_reshape_like(mrt_build *b, mrt_tensor *x, mrt_tensor *like) {
  return mrt_reshape_to(b, x, mrt_of(like)->rank, mrt_of(like)->dims);
}

mrt_tensor *mrt_expand_to(mrt_build *b, mrt_tensor *x, const mrt_type *like) {
  if (!x || mrt_type_same_shape(&x->type, like)) return x;
  mrt_shape_options o = { .shape = { .count = like->rank } };
  for (int i = 0; i < like->rank; i++) o.shape.at[i] = like->dims[i];
  return MRT_MAKE(b, expand, &o, x);
}

mrt_tensor *mrt_transpose_last(mrt_build *b, mrt_tensor *x) {
  mrt_transpose_options o = { .dim0 = -2, .dim1 = -1 };
  return MRT_MAKE(b, transpose, &o, x);
}

mrt_tensor *mrt_sum_dims(mrt_build *b, mrt_tensor *x, const mrt_ints *dims,
                         bool keepdim) {
  if (dims->count == 0) return x;
  mrt_reduce_options o = { .dim = *dims, .keepdim = keepdim };
  return MRT_MAKE(b, sum, &o, x);
}

mrt_tensor *mrt_sum_dim(mrt_build *b, mrt_tensor *x, int64_t dim,
                        bool keepdim) {
  return mrt_sum_dims(b, x, &(mrt_ints){ .count = 1, .at = { dim } }, keepdim);
}

/* ---- pointwise ----------------------------------------------------------- */

/* Both to the broadcast shape; inference then reports what does not fit. */
static mrt_tensor *pair(mrt_build *b, int op, mrt_tensor *x, mrt_tensor *y) {
  if (!x || !y) return NULL;
  const mrt_type *s = &x->type, *t = &y->type;
  mrt_type both = s->rank >= t->rank ? *s : *t;
  for (int i = 1; i <= s->rank && i <= t->rank; i++) {
    int64_t p = s->dims[s->rank - i], q = t->dims[t->rank - i];
    both.dims[both.rank - i] = p == 1 ? q : p;
  }
  x = mrt_expand_to(b, x, &both), y = mrt_expand_to(b, y, &both);
  return mrt_make(b, op, NULL, 2, (mrt_tensor *[]){ x, y });
}

mrt_tensor *mrt_add(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return pair(b, MRT_OP_add, x, y);
}
mrt_tensor *mrt_sub(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return pair(b, MRT_OP_sub, x, y);
}
mrt_tensor *mrt_mul(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return pair(b, MRT_OP_mul, x, y);
}
mrt_tensor *mrt_div(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return pair(b, MRT_OP_div, x, y);
}
mrt_tensor *mrt_neg(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, neg, NULL, x);
}
mrt_tensor *mrt_exp(mrt_build *b, mrt_tensor *x) {
  return MRT_MAKE(b, exp, NULL, x);
}
mrt_tensor *mrt_where(mrt_build *b, mrt_tensor *c, mrt_tensor *x,
                      mrt_tensor *y) {
  if (!c || !x || !y) return NULL;
  x = mrt_expand_to(b, x, &c->type), y = mrt_expand_to(b, y, &c->type);
  return MRT_MAKE(b, where, NULL, c, x, y);
}

mrt_tensor *mrt_const_like(mrt_build *b, mrt_tensor *x, double k) {
  mrt_full_options o = { .value = k, .dtype = mrt_of(x)->dtype };
  return x ? mrt_make(b, MRT_OP_full, &o, 0, NULL) : NULL;
}
mrt_tensor *mrt_add_k(mrt_build *b, mrt_tensor *x, double k) {
  return mrt_add(b, x, mrt_const_like(b, x, k));
}
mrt_tensor *mrt_mul_k(mrt_build *b, mrt_tensor *x, double k) {
  return mrt_mul(b, x, mrt_const_like(b, x, k));
}
mrt_tensor *mrt_rsub(mrt_build *b, double k, mrt_tensor *x) {
  return mrt_sub(b, mrt_const_like(b, x, k), x);
}

mrt_tensor *mrt_matmul(mrt_build *b, mrt_tensor *x, mrt_tensor *y) {
  return MRT_MAKE(b, matmul, NULL, x, y);
}
