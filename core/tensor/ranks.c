/* ranks.c -- communicators, contexts that share them, interrupts
 *
 * SPDX-License-Identifier: MIT */
#include "tensor/ranks.h"
#include "base/list.h"
#include "mrt/frontend.h"
#include "tensor/context.h"

#include <string.h>

/* ---- memory that other ranks see ----------------------------------------- */

/* Less travels with the call, wherever it lies. */
enum { LEAST_IN_HEAP = 4096 };

static void take_heap(mrt_context *ctx, mrt_communicator *comm) {
  if (ctx->ranks.heap.comm || !comm->alloc || ctx->device.remote) return;
  ctx->ranks.heap.comm = comm, ctx->ranks.heap.closed = false;
  ctx->ranks.heap.at = comm->heap, ctx->ranks.heap.nbytes = comm->heap_bytes;
}

void *mrt_heap_get(mrt_context *ctx, size_t nbytes) {
  mrt_communicator *comm = ctx->ranks.heap.comm;
  if (!comm || ctx->ranks.heap.closed || nbytes < LEAST_IN_HEAP) return NULL;
  void *data = comm->alloc(comm, nbytes);
  if (data) ctx->ranks.heap.blocks++;
  return data;
}

bool mrt_heap_give(mrt_context *ctx, void *data, size_t nbytes) {
  mrt_communicator *comm = ctx->ranks.heap.comm;
  size_t at = (size_t)((uintptr_t)data - (uintptr_t)ctx->ranks.heap.at);
  if (!comm || at >= ctx->ranks.heap.nbytes) return false;
  comm->free(comm, data, nbytes);
  if (--ctx->ranks.heap.blocks == 0 && ctx->ranks.heap.closed)
    ctx->ranks.heap.comm = NULL;
  return true;
}

/* ---- contexts that use those of another ---------------------------------- */

mrt_context *mrt_communicators_owner(mrt_context *ctx) {
  return ctx->ranks.owner ? ctx->ranks.owner : ctx;
}

void mrt_communicators_share(mrt_context *ctx, mrt_context *ranks) {
  ctx->ranks.owner = mrt_communicators_owner(ranks);
  ctx->ranks.next_guest = ctx->ranks.owner->ranks.guests,
  ctx->ranks.owner->ranks.guests = ctx;
  mrt_context_ref(ctx->ranks.owner);
}

void mrt_communicators_leave(mrt_context *ctx) {
  mrt_context *ranks = ctx->ranks.owner, **at;
  if (!ranks) return;
  for (at = &ranks->ranks.guests; *at != ctx;) at = &(*at)->ranks.next_guest;
  *at = ctx->ranks.next_guest, ctx->ranks.owner = NULL;
  mrt_context_unref(ranks);
}

/* What has failed there is told there. */
void mrt_communicators_drain(mrt_context *ctx, const mrt_context *except) {
  mrt_error ignored;
  mrt_context *owner = mrt_communicators_owner(ctx);
  for (mrt_context *g = owner->ranks.guests; g; g = g->ranks.next_guest)
    if (g != except && g->in_flight) mrt_device_wait(&g->device, &ignored);
}

/* What is in use stays until it is freed. */
static void close_one(mrt_context *ctx, mrt_communicator *comm) {
  for (mrt_context *g = ctx->ranks.guests; g; g = g->ranks.next_guest) {
    const mrt_queue *q = g->device.queue;
    if (q && q->part) q->part(&g->device, comm);
  }
  if (comm == ctx->ranks.heap.comm) ctx->ranks.heap.closed = true;
  if (comm == ctx->ranks.heap.comm && !ctx->ranks.heap.blocks)
    ctx->ranks.heap.comm = NULL;
  comm->close(comm);
}

/* ---- interrupts ---------------------------------------------------------- */

/* One word, so that a step that goes on and a thread that waits beside it
 * cannot come to different conclusions: who is first decides. */
static volatile int *interrupts_of(mrt_context *ctx) {
  return &mrt_communicators_owner(ctx)->ranks.interrupted;
}

MRT_API void mrt_interrupt(mrt_context *ctx) {
  __atomic_fetch_or(interrupts_of(ctx), MRT_RAISED, __ATOMIC_SEQ_CST);
}

MRT_API bool mrt_interrupt_clear(mrt_context *ctx) {
  return __atomic_fetch_and(interrupts_of(ctx), ~MRT_RAISED, __ATOMIC_SEQ_CST) &
         MRT_RAISED;
}

bool mrt_interrupts_raised(mrt_context *ctx) {
  return *interrupts_of(ctx) & MRT_RAISED;
}

bool mrt_interrupts_mask(mrt_context *ctx) {
  int none = 0;
  return __atomic_compare_exchange_n(interrupts_of(ctx), &none, MRT_MASKED,
                                     false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST) ||
         (none & MRT_MASKED);
}

void mrt_interrupts_unmask(mrt_context *ctx) {
  __atomic_fetch_and(interrupts_of(ctx), ~MRT_MASKED, __ATOMIC_SEQ_CST);
}

/* ---- the table ----------------------------------------------------------- */

mrt_communicator *mrt_communicator_find(mrt_context *ctx, int64_t number) {
  const mrt_context *owner = mrt_communicators_owner(ctx);
  bool known = number >= 0 && number < owner->ranks.communicator_count;
  mrt_communicator *comm = known ? owner->ranks.communicators[number] : NULL;
  if (!known)
    mrt_fail(&ctx->error, MRT_EVALUE, "no communicator %lld on %s",
             (long long)number, ctx->device.name);
  else if (!comm)
    mrt_fail(&ctx->error, MRT_ESTATE, "communicator %lld is closed",
             (long long)number);
  return comm;
}

MRT_API mrt_status mrt_communicator_add(mrt_context *ctx,
                                        mrt_communicator *comm, int *number) {
  mrt_context *owner = mrt_communicators_owner(ctx);
  if (!MRT_LIST_ROOM(owner->allocator, owner->ranks.communicators,
                     owner->ranks.communicator_count,
                     owner->ranks.communicator_room))
    return comm->close(comm), mrt_nomem(&ctx->error);
  comm->interrupted = &owner->ranks.interrupted;
  take_heap(owner, comm);
  if (comm->size > owner->ranks.most) owner->ranks.most = comm->size;
  *number = owner->ranks.communicator_count;
  owner->ranks.communicators[owner->ranks.communicator_count++] = comm;
  return MRT_OK;
}

MRT_API mrt_status mrt_communicator_alone(mrt_context *ctx, int rank, int size,
                                          int *number) {
  mrt_communicator *comm;
  if (size < 1 || rank < 0 || rank >= size)
    return mrt_fail(&ctx->error, MRT_EVALUE, "rank %d of %d", rank, size);
  MRT_TRY(mrt_self_communicator(mrt_communicators_owner(ctx)->allocator, rank,
                                size, &comm, &ctx->error));
  return mrt_communicator_add(ctx, comm, number);
}

MRT_API mrt_status mrt_communicator_get(mrt_context *ctx, int number,
                                        mrt_communicator_info *info) {
  const mrt_communicator *comm = mrt_communicator_find(ctx, number);
  if (!comm) return ctx->error.status;
  *info = (mrt_communicator_info){ comm->rank, comm->size, comm->transport,
                                   comm->timeout, comm->sent };
  return MRT_OK;
}

MRT_API mrt_status mrt_communicator_split(mrt_context *ctx, int number,
                                          int color, int key, int *part) {
  mrt_communicator *comm = mrt_communicator_find(ctx, number), *own;
  if (!comm) return ctx->error.status;
  *part = -1;
  mrt_communicators_drain(ctx, NULL);
  mrt_status s = comm->split(comm, color, key, &own, &ctx->error);
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  if (s) return s;
  return own ? mrt_communicator_add(ctx, own, part) : MRT_OK;
}

MRT_API mrt_status mrt_communicator_bytes(mrt_context *ctx, int number,
                                          const char *kind, int peer,
                                          void *data, size_t nbytes) {
  mrt_communicator *comm = mrt_communicator_find(ctx, number);
  if (!comm) return ctx->error.status;
  mrt_collective c = { .kind = MRT_COLLECTIVES,
                       .dtype = MRT_u8,
                       .count = (int64_t)nbytes,
                       .peer = peer,
                       .in = data,
                       .out = data,
                       .file = ctx->origins.now.file,
                       .line = ctx->origins.now.line };
  static const mrt_collective_kind plain[] = { MRT_COLLECT_broadcast,
                                               MRT_COLLECT_send,
                                               MRT_COLLECT_recv,
                                               MRT_COLLECT_barrier };
  for (int i = 0; i < MRT_COUNT(plain); i++)
    if (strcmp(kind, mrt_collective_name(plain[i])) == 0) c.kind = plain[i];
  if (c.kind == MRT_COLLECTIVES)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "'%s', broadcast, send, recv or barrier wanted", kind);
  mrt_communicators_drain(ctx, NULL);
  mrt_status s = mrt_collect(comm, &c, &ctx->error);
  if (s == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  return s;
}

MRT_API mrt_status mrt_communicator_abort(mrt_context *ctx, int number,
                                          const char *why) {
  mrt_communicator *comm = mrt_communicator_find(ctx, number);
  if (!comm) return ctx->error.status;
  comm->abort(comm, why);
  return MRT_OK;
}

MRT_API mrt_status mrt_communicator_close(mrt_context *ctx, int number) {
  mrt_communicator *comm = mrt_communicator_find(ctx, number);
  mrt_context *owner = mrt_communicators_owner(ctx);
  if (!comm) return ctx->error.status;
  owner->ranks.communicators[number] = NULL;
  close_one(owner, comm);
  return MRT_OK;
}

void mrt_communicators_close(mrt_context *ctx) {
  for (int i = ctx->ranks.communicator_count; i-- > 0;)
    if (ctx->ranks.communicators[i])
      close_one(ctx, ctx->ranks.communicators[i]);
  mrt_release(ctx->allocator, ctx->ranks.communicators,
              (size_t)ctx->ranks.communicator_room *
                  sizeof *ctx->ranks.communicators);
  mrt_release(ctx->allocator, ctx->ranks.checked,
              (size_t)ctx->ranks.checked_room * sizeof *ctx->ranks.checked);
}

uint64_t mrt_hash(uint64_t hash, const void *data, size_t n) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}

MRT_API void mrt_context_set_script(mrt_context *ctx, const char *text,
                                    size_t size) {
  mrt_communicators_owner(ctx)->ranks.script = mrt_hash(MRT_HASH, text, size);
}

/* ---- what its ranks have agreed on --------------------------------------- */

struct mrt_checked *mrt_checked_find(mrt_context *ctx, int64_t comm,
                                     uint64_t hash) {
  const mrt_context *owner = mrt_communicators_owner(ctx);
  for (int i = 0; i < owner->ranks.checked_count; i++)
    if (owner->ranks.checked[i].comm == comm &&
        owner->ranks.checked[i].hash == hash)
      return &owner->ranks.checked[i];
  return NULL;
}

mrt_status mrt_checked_room(mrt_context *ctx) {
  mrt_context *owner = mrt_communicators_owner(ctx);
  return MRT_LIST_ROOM(owner->allocator, owner->ranks.checked,
                       owner->ranks.checked_count, owner->ranks.checked_room)
             ? MRT_OK
             : mrt_nomem(&ctx->error);
}

void mrt_checked_add(mrt_context *ctx, int64_t comm, uint64_t hash) {
  mrt_context *owner = mrt_communicators_owner(ctx);
  owner->ranks.checked[owner->ranks.checked_count++] =
      (struct mrt_checked){ .comm = comm, .hash = hash };
}
