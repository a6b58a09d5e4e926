/* initial.c -- what a variable without a storage begins as
 *
 * Its initial value; of one whose data lie in a bucket (shard.c) what is
 * gathered from the ranks, once for all that begin together.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/collective.h"
#include "op/move.h"
#include "op/views.h"
#include "run/run.h"

mrt_tensor *mrt_elements(mrt_build *b, mrt_tensor *x, int64_t from,
                         int64_t to) {
  if (from == to) from = to = 1;
  mrt_slice_options o = { .dim = 0, .first = from, .last = to - 1, .step = 1 };
  return MRT_MAKE(b, slice, &o, x);
}

/* All pieces of the bucket, in order: once for several variables. */
static mrt_status gather_bucket(mrt_tensor *bucket, int comm) {
  mrt_context *ctx = bucket->ctx;
  mrt_variable *v = bucket->variable;
  mrt_build b = { .ctx = ctx };
  mrt_collective_options o = { .comm = comm, .lazy = true };
  if (v->gathered) return MRT_OK;
  v->gathered = MRT_MAKE(&b, allgather, &o, bucket);
  if (v->gathered) mrt_hold(v->gathered);
  mrt_build_free(&b);
  return b.status;
}

/* [ranks, outer, inner] as [outer, ranks, inner]. */
static mrt_tensor *turned(mrt_build *b, mrt_tensor *x, const mrt_variable *v) {
  mrt_permute_options swap = { .dims = { .count = 3, .at = { 1, 0, 2 } } };
  int64_t runs = mrt_type_count(mrt_of(v->bucket)) / v->outer;
  int64_t dims[] = { mrt_type_count(mrt_of(x)) / (v->outer * runs), v->outer,
                     runs };
  return MRT_MAKE(b, permute, &swap, mrt_reshape_to(b, x, 3, dims));
}

mrt_status mrt_variable_initial(mrt_tensor *t, mrt_tensor **out) {
  mrt_variable *v = t->variable;
  if (!v->bucket) return mrt_hold(*out = v->init), MRT_OK;
  MRT_TRY(gather_bucket(v->bucket, v->comm));
  mrt_build b = { .ctx = t->ctx };
  mrt_tensor *whole = v->bucket->variable->gathered;
  int64_t count = mrt_type_count(&t->type);
  mrt_tensor *own = mrt_elements(&b, whole, v->offset, v->offset + count);
  if (v->outer > 1) own = turned(&b, own, v);
  *out = mrt_reshape_like(&b, own, t);
  if (*out) mrt_hold(*out);
  mrt_build_free(&b);
  if (b.status) mrt_variable_begun(t);
  return b.status;
}

void mrt_variable_begun(mrt_tensor *t) {
  if (!t->variable->bucket) return;
  mrt_variable *bucket = t->variable->bucket->variable;
  mrt_drop(bucket->gathered);
  bucket->gathered = NULL;
}

MRT_API mrt_status mrt_variable_initial_value(mrt_tensor *variable,
                                              mrt_tensor **out) {
  mrt_variable *v = variable->variable;
  *out = v && v->init && !variable->storage ? v->init : variable;
  mrt_tensor_ref(*out);
  return MRT_OK;
}
