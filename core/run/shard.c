/* shard.c -- variables whose data lie in shards on the ranks
 *
 *     bucket, of rank 0         of rank 1            of rank 2
 *     | w 1    |.| w 2          |.| w 3        |.|   w 4    |..............|
 *
 * A sharded variable has no memory of its own: plans that read it gather its
 * bucket (rewrite/place_collectives.c).  Who looks at its data gets a copy that
 * is let go when the bucket is written.
 *
 * SPDX-License-Identifier: MIT */
#include "base/list.h"
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"
#include "rewrite/partition.h"
#include "run/run.h"

/* ---- writing ------------------------------------------------------------- */

/* This rank's piece with the data of `value` where they belong, if any do. */
static mrt_tensor *spliced(mrt_build *b, mrt_tensor *shard, mrt_tensor *value,
                           int rank) {
  const mrt_variable *v = shard->variable;
  mrt_tensor *old = v->bucket, *in[3];
  if (v->outer) {
    int64_t own = mrt_type_count(&old->type);
    mrt_piece_options o = { v->outer, rank, mrt_type_count(&shard->type) / own,
                            v->comm };
    return mrt_reshape_to(b, MRT_MAKE(b, own_piece, &o, value), 1, &own);
  }
  int64_t piece = old->type.dims[0], count = mrt_type_count(&shard->type);
  int64_t from = v->offset - rank * piece, to = from + count;
  int64_t first = from < 0 ? 0 : from, last = to > piece ? piece : to;
  int n = 0;
  if (first >= last) return old;
  mrt_tensor *flat = mrt_reshape_to(b, value, 1, &count);
  if (first > 0) in[n++] = mrt_elements(b, old, 0, first);
  in[n++] = mrt_elements(b, flat, first - from, last - from);
  if (last < piece) in[n++] = mrt_elements(b, old, last, piece);
  mrt_dim_options along = { .dim = 0 };
  return n == 1 ? in[0] : mrt_make(b, MRT_OP_cat, &along, n, in);
}

static mrt_status want_alike(mrt_tensor *shard, const mrt_tensor *value) {
  if (mrt_type_equal(&shard->type, &value->type)) return MRT_OK;
  mrt_status s =
      shard->type.dtype == value->type.dtype ? MRT_ESHAPE : MRT_EDTYPE;
  return mrt_fail(&shard->ctx->error, s, "assign: %s given to '%s' %s",
                  mrt_show(&value->type).s, shard->name ? shard->name : "?",
                  mrt_show(&shard->type).s);
}

/* What computes the value may meet other ranks, so all ranks compute it first;
 * its data stay until it is released. */
static mrt_status compute_first(mrt_build *b, mrt_tensor **value) {
  if (!*value) return MRT_OK;
  if ((*value)->variable) *value = MRT_MAKE(b, detach, NULL, *value);
  if (b->status) return *value = NULL, b->status;
  mrt_tensor_await(*value);
  return mrt_compute(b->ctx, value, 1);
}

static mrt_status assign_now(mrt_build *b, mrt_tensor *shard, mrt_tensor *value,
                             mrt_tensor *when, int rank) {
  mrt_tensor *bucket = shard->variable->bucket;
  if (bucket->variable->torn)
    return mrt_fail(&b->ctx->error, MRT_ESTATE,
                    "'%s' is shared among ranks with others that a step has "
                    "left torn; load a snapshot",
                    shard->name ? shard->name : "?");
  mrt_tensor *awaited = NULL;
  mrt_status s = compute_first(b, &value);
  if (!s) s = compute_first(b, &when), awaited = when;
  mrt_tensor *piece = s ? NULL : spliced(b, shard, value, rank);
  if (!s) s = b->status ? b->status : mrt_assign(b->ctx, bucket, piece, when);
  if (value) mrt_tensor_release(value);
  if (awaited) mrt_tensor_release(awaited);
  return s;
}

/* A trace only reads the new value from now on: who made it assigns the bucket
 * at its end, in the same way on all ranks.  Outside, those too that have no
 * piece of it write their bucket, as it is, and let go of what they have
 * gathered. */
mrt_status mrt_shard_assign(mrt_tensor *shard, mrt_tensor *value,
                            mrt_tensor *when) {
  mrt_context *ctx = shard->ctx;
  const mrt_variable *v = shard->variable;
  const mrt_communicator *comm = mrt_communicator_find(ctx, v->comm);
  if (!comm) return ctx->error.status;
  MRT_TRY(want_alike(shard, value));
  mrt_build b = { .ctx = ctx };
  value = mrt_tensor_current(value);
  mrt_status s = MRT_OK;
  if (ctx->trace) {
    if (when)
      value = mrt_where(&b, mrt_expand_to(&b, when, &shard->type), value,
                        mrt_tensor_current(shard));
    s = b.status ? b.status : mrt_trace_read(ctx, shard, value);
  } else {
    s = assign_now(&b, shard, value, when, comm->rank);
    if (!s) shard->variable->writes++; /* beside those of the bucket */
  }
  mrt_build_free(&b);
  return s;
}

/* ---- making -------------------------------------------------------------- */

MRT_API uint64_t mrt_variable_writes(const mrt_tensor *variable) {
  return variable->variable ? variable->variable->writes : 0;
}

/* A piece of one variable may lie in a bucket itself. */
static bool is_bucket(const mrt_variable *v) {
  return v->shard_count && !v->shards[0]->variable->outer;
}

static mrt_status check(mrt_context *ctx, const mrt_tensor *shard,
                        const mrt_tensor *bucket, int comm, int64_t offset) {
  mrt_error *e = &ctx->error;
  const mrt_communicator *ranks = mrt_communicator_find(ctx, comm);
  if (!ranks) return e->status;
  const char *name = shard->name ? shard->name : "?";
  if (ctx->trace)
    return mrt_fail(e, MRT_ESTATE, "shard: '%s' inside a compiled function",
                    name);
  if (shard->ctx != ctx || bucket->ctx != ctx)
    return mrt_fail(e, MRT_ESTATE, "shard: '%s' belongs to another context",
                    name);
  if (!shard->variable || !bucket->variable || shard == bucket)
    return mrt_fail(e, MRT_EVALUE, "shard: two variables wanted, got %s and %s",
                    mrt_show(&shard->type).s, mrt_show(&bucket->type).s);
  if (shard->variable->bucket || is_bucket(shard->variable) ||
      bucket->variable->bucket || shard->variable->torn)
    return mrt_fail(e, MRT_ESTATE,
                    "shard: '%s' is shared among ranks already, or torn", name);
  const mrt_variable *b = bucket->variable;
  if (b->shard_count && b->shards[0]->variable->comm != comm)
    return mrt_fail(e, MRT_EVALUE,
                    "shard: '%s' on communicator %d in a bucket of %d", name,
                    comm, b->shards[0]->variable->comm);
  if (shard->type.dtype != bucket->type.dtype)
    return mrt_fail(e, MRT_EDTYPE, "shard: '%s' %s in a bucket %s", name,
                    mrt_show(&shard->type).s, mrt_show(&bucket->type).s);
  int64_t count = mrt_type_count(&shard->type), all = 0;
  if (bucket->type.rank == 1) all = bucket->type.dims[0] * ranks->size;
  if (offset < 0 || offset > all || count > all - offset)
    return mrt_fail(
        e, MRT_ESHAPE, "shard: '%s' %s at %lld of buckets of %lld elements",
        name, mrt_show(&shard->type).s, (long long)offset, (long long)all);
  return MRT_OK;
}

static bool has_room(mrt_context *ctx, mrt_variable *bucket) {
  return MRT_LIST_ROOM(ctx->allocator, bucket->shards, bucket->shard_count,
                       bucket->shard_room);
}

static void put(mrt_tensor *shard, mrt_tensor *bucket, int comm, int64_t offset,
                bool reshard_after_forward) {
  mrt_variable *v = shard->variable;
  mrt_hold(v->bucket = bucket);
  v->offset = offset, v->comm = comm, v->outer = 0, v->own_rows = false;
  v->reshard_after_forward = reshard_after_forward;
  bucket->variable->shards[bucket->variable->shard_count++] = shard;
}

MRT_API mrt_status mrt_variable_shard(mrt_context *ctx, mrt_tensor *shard,
                                      mrt_tensor *bucket, int comm,
                                      int64_t offset,
                                      bool reshard_after_forward) {
  MRT_TRY(check(ctx, shard, bucket, comm, offset));
  MRT_TRY(mrt_readers_compute(ctx, &shard, 1));
  if (!has_room(ctx, bucket->variable)) return mrt_nomem(&ctx->error);
  mrt_readers_invalidate(shard->variable);
  mrt_variable_started(shard->variable);
  mrt_storage_unref(shard->storage);
  shard->storage = NULL;
  if (!bucket->variable->number)
    bucket->variable->number = ++mrt_communicator_find(ctx, comm)->buckets;
  put(shard, bucket, comm, offset, reshard_after_forward);
  ctx->memory.moves++;
  return MRT_OK;
}

MRT_API mrt_status mrt_variable_suppose_shard(mrt_context *ctx,
                                              mrt_tensor *shard,
                                              mrt_tensor *bucket, int comm,
                                              int64_t offset,
                                              bool reshard_after_forward) {
  MRT_TRY(check(ctx, shard, bucket, comm, offset));
  if (!has_room(ctx, bucket->variable)) return mrt_nomem(&ctx->error);
  shard->variable->supposed = true;
  put(shard, bucket, comm, offset, reshard_after_forward);
  return MRT_OK;
}

/* Do `outer` runs of the ranks' equal pieces make up all of it? */
static mrt_status check_cut(mrt_context *ctx, const mrt_tensor *shard,
                            const mrt_tensor *piece, int comm, int64_t outer) {
  const mrt_communicator *ranks = mrt_communicator_find(ctx, comm);
  int64_t count = mrt_type_count(&shard->type);
  int64_t before;
  if (!ranks) return ctx->error.status;
  bool fits = outer > 0 && outer <= count &&
              mrt_piece_dim(&shard->type, outer, ranks->size, &before) >= 0 &&
              piece->type.rank == 1 &&
              piece->type.dims[0] == count / ranks->size;
  if (fits && piece->variable && !piece->variable->shard_count) return MRT_OK;
  return mrt_fail(&ctx->error, MRT_ESHAPE,
                  "cut: no dimension of '%s' %s is cut into %d pieces %s "
                  "after %lld elements",
                  shard->name ? shard->name : "?", mrt_show(&shard->type).s,
                  ranks->size, mrt_show(&piece->type).s, (long long)outer);
}

MRT_API mrt_status mrt_variable_cut(mrt_context *ctx, mrt_tensor *shard,
                                    mrt_tensor *piece, int comm, int64_t outer,
                                    bool own_rows) {
  MRT_TRY(check_cut(ctx, shard, piece, comm, outer));
  MRT_TRY(mrt_variable_shard(ctx, shard, piece, comm, 0, false));
  shard->variable->outer = outer;
  shard->variable->own_rows = own_rows;
  return MRT_OK;
}

MRT_API void mrt_variable_unsuppose(mrt_tensor *shard) {
  if (!shard->variable || !shard->variable->supposed) return;
  mrt_variable_leave_bucket(shard);
}
