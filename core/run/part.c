/* part.c -- variables whose numbers lie in pieces on the ranks
 *
 *     bucket, of rank 0         of rank 1            of rank 2
 *     | part 1 |.| part 2       |.| part 3     |.|   part 4 |..............|
 *
 * A part has no memory of its own: plans that read it gather the bucket
 * (plan/meetings.c).  Who looks at its numbers gets a copy that is let go when the
 * bucket is written.
 *
 * SPDX-License-Identifier: MIT */
#include "op/build.h"
#include "op/move.h"
#include "op/views.h"
#include "run/run.h"

/* ---- writing ------------------------------------------------------------- */

/* This rank's piece with the numbers of `value` where they belong, if any do. */
static mrt_tensor *spliced(mrt_build *b, mrt_tensor *part, mrt_tensor *value,
                           int rank) {
  const mrt_variable *v = part->variable;
  mrt_tensor *old = v->bucket, *in[3];
  int64_t piece = old->type.dims[0], count = mrt_type_count(&part->type);
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

static mrt_status want_alike(mrt_tensor *part, const mrt_tensor *value) {
  if (mrt_type_equal(&part->type, &value->type)) return MRT_OK;
  mrt_status s =
      part->type.dtype == value->type.dtype ? MRT_ESHAPE : MRT_EDTYPE;
  return mrt_fail(&part->ctx->error, s, "assign: %s given to '%s' %s",
                  mrt_show(&value->type).s, part->name ? part->name : "?",
                  mrt_show(&part->type).s);
}

/* What computes the value may meet other ranks, so all ranks compute it first;
 * its numbers stay until it is released. */
static mrt_status compute_first(mrt_build *b, mrt_tensor **value) {
  if (!*value) return MRT_OK;
  if ((*value)->variable) *value = MRT_MAKE(b, detach, NULL, *value);
  if (b->status) return *value = NULL, b->status;
  mrt_tensor_await(*value);
  return mrt_compute(b->ctx, value, 1);
}

static mrt_status assign_now(mrt_build *b, mrt_tensor *part, mrt_tensor *value,
                             mrt_tensor *when, int rank) {
  mrt_tensor *bucket = part->variable->bucket;
  if (bucket->variable->torn)
    return mrt_fail(&b->ctx->error, MRT_ESTATE,
                    "'%s' is shared among ranks with others that a step has "
                    "left torn; load a snapshot",
                    part->name ? part->name : "?");
  mrt_tensor *awaited = NULL;
  mrt_status s = compute_first(b, &value);
  if (!s) s = compute_first(b, &when), awaited = when;
  mrt_tensor *piece = s ? NULL : spliced(b, part, value, rank);
  if (!s) s = b->status ? b->status : mrt_assign(b->ctx, bucket, piece, when);
  if (value) mrt_tensor_release(value);
  if (awaited) mrt_tensor_release(awaited);
  return s;
}

/* A trace only reads the new value from now on: who made it assigns the bucket
 * at its end, in the same way on all ranks.  Outside, those too that have no
 * piece of it write their bucket, as it is, and let go of what they have
 * gathered. */
mrt_status mrt_part_assign(mrt_tensor *part, mrt_tensor *value,
                           mrt_tensor *when) {
  mrt_context *ctx = part->ctx;
  const mrt_variable *v = part->variable;
  const mrt_communicator *comm = mrt_communicator_find(ctx, v->comm);
  if (!comm) return ctx->error.status;
  MRT_TRY(want_alike(part, value));
  mrt_build b = { .ctx = ctx };
  value = mrt_tensor_current(value);
  mrt_status s = MRT_OK;
  if (ctx->trace) {
    if (when)
      value = mrt_where(&b, mrt_expand_to(&b, when, &part->type), value,
                        mrt_tensor_current(part));
    s = b.status ? b.status : mrt_trace_read(ctx, part, value);
  } else {
    s = assign_now(&b, part, value, when, comm->rank);
    if (!s) part->variable->writes++; /* beside those of the bucket */
  }
  mrt_build_free(&b);
  return s;
}

/* ---- making -------------------------------------------------------------- */

MRT_API uint64_t mrt_variable_writes(const mrt_tensor *variable) {
  return variable->variable ? variable->variable->writes : 0;
}

static mrt_status check(mrt_context *ctx, const mrt_tensor *part,
                        const mrt_tensor *bucket, int comm, int64_t offset) {
  mrt_error *e = &ctx->error;
  const mrt_communicator *ranks = mrt_communicator_find(ctx, comm);
  if (!ranks) return e->status;
  const char *name = part->name ? part->name : "?";
  if (ctx->trace)
    return mrt_fail(e, MRT_ESTATE, "shard: '%s' inside a compiled function",
                    name);
  if (part->ctx != ctx || bucket->ctx != ctx)
    return mrt_fail(e, MRT_ESTATE, "shard: '%s' belongs to another context",
                    name);
  if (!part->variable || !bucket->variable || part == bucket)
    return mrt_fail(e, MRT_EVALUE, "shard: two variables wanted, got %s and %s",
                    mrt_show(&part->type).s, mrt_show(&bucket->type).s);
  if (part->variable->bucket || part->variable->part_count ||
      bucket->variable->bucket || part->variable->torn)
    return mrt_fail(e, MRT_ESTATE,
                    "shard: '%s' is shared among ranks already, or torn", name);
  const mrt_variable *b = bucket->variable;
  if (b->part_count && b->parts[0]->variable->comm != comm)
    return mrt_fail(e, MRT_EVALUE,
                    "shard: '%s' on communicator %d in a bucket of %d", name,
                    comm, b->parts[0]->variable->comm);
  if (part->type.dtype != bucket->type.dtype)
    return mrt_fail(e, MRT_EDTYPE, "shard: '%s' %s in a bucket %s", name,
                    mrt_show(&part->type).s, mrt_show(&bucket->type).s);
  int64_t count = mrt_type_count(&part->type), all = 0;
  if (bucket->type.rank == 1) all = bucket->type.dims[0] * ranks->size;
  if (offset < 0 || offset > all || count > all - offset)
    return mrt_fail(e, MRT_ESHAPE,
                    "shard: '%s' %s at %lld of buckets of %lld elements", name,
                    mrt_show(&part->type).s, (long long)offset, (long long)all);
  return MRT_OK;
}

static bool make_room(mrt_context *ctx, mrt_variable *bucket) {
  if (bucket->part_count < bucket->part_room) return true;
  int room = bucket->part_room ? bucket->part_room * 2 : 8;
  mrt_tensor **grown = mrt_resize(ctx->allocator, bucket->parts,
                                  (size_t)bucket->part_room * sizeof *grown,
                                  (size_t)room * sizeof *grown);
  if (!grown) return false;
  bucket->parts = grown, bucket->part_room = room;
  return true;
}

MRT_API mrt_status mrt_variable_shard(mrt_context *ctx, mrt_tensor *part,
                                      mrt_tensor *bucket, int comm,
                                      int64_t offset, bool again) {
  MRT_TRY(check(ctx, part, bucket, comm, offset));
  MRT_TRY(mrt_readers_compute(ctx, &part, 1));
  if (!make_room(ctx, bucket->variable)) return mrt_nomem(&ctx->error);
  mrt_variable *v = part->variable;
  mrt_readers_retire(v);
  mrt_variable_started(v);
  mrt_storage_unref(part->storage);
  part->storage = NULL;
  mrt_hold(v->bucket = bucket);
  if (!bucket->variable->number)
    bucket->variable->number = ++mrt_communicator_find(ctx, comm)->buckets;
  v->offset = offset, v->comm = comm, v->again = again;
  bucket->variable->parts[bucket->variable->part_count++] = part;
  ctx->moves++;
  return MRT_OK;
}
