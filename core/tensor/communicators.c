/* communicators.c -- the ranks that a context computes with
 *
 * A communicator has a number that is never given again, so that a plan cannot
 * meet a stranger; operators name it by that.
 *
 * SPDX-License-Identifier: MIT */
#include "mrt/frontend.h"
#include "tensor/tensor.h"

#include <string.h>

static bool make_room(mrt_context *ctx, void **items, int count, int *room,
                      size_t size) {
  if (count < *room) return true;
  int more = *room ? *room * 2 : 8;
  void *grown = mrt_resize(ctx->allocator, *items, (size_t)*room * size,
                           (size_t)more * size);
  if (!grown) return false;
  *items = grown, *room = more;
  return true;
}

/* ---- memory that other ranks see ----------------------------------------- */

/* Less travels with the call, wherever it lies. */
enum { LEAST_IN_HEAP = 4096 };

static void take_heap(mrt_context *ctx, mrt_communicator *comm) {
  if (ctx->heap.comm || !comm->alloc || ctx->device.remote) return;
  ctx->heap.comm = comm, ctx->heap.closed = false;
  ctx->heap.at = comm->heap, ctx->heap.nbytes = comm->heap_bytes;
}

void *mrt_heap_get(mrt_context *ctx, size_t nbytes) {
  mrt_communicator *comm = ctx->heap.comm;
  if (!comm || ctx->heap.closed || nbytes < LEAST_IN_HEAP) return NULL;
  void *data = comm->alloc(comm, nbytes);
  if (data) ctx->heap.blocks++;
  return data;
}

bool mrt_heap_give(mrt_context *ctx, void *data, size_t nbytes) {
  mrt_communicator *comm = ctx->heap.comm;
  size_t at = (size_t)((uintptr_t)data - (uintptr_t)ctx->heap.at);
  if (!comm || at >= ctx->heap.nbytes) return false;
  comm->free(comm, data, nbytes);
  if (--ctx->heap.blocks == 0 && ctx->heap.closed) ctx->heap.comm = NULL;
  return true;
}

/* ---- contexts that use those of another ---------------------------------- */

mrt_context *mrt_communicators_home(mrt_context *ctx) {
  return ctx->ranks ? ctx->ranks : ctx;
}

void mrt_communicators_visit(mrt_context *ctx, mrt_context *ranks) {
  ctx->ranks = mrt_communicators_home(ranks);
  ctx->next_guest = ctx->ranks->guests, ctx->ranks->guests = ctx;
  mrt_context_ref(ctx->ranks);
}

void mrt_communicators_leave(mrt_context *ctx) {
  mrt_context *ranks = ctx->ranks, **at;
  if (!ranks) return;
  for (at = &ranks->guests; *at != ctx;) at = &(*at)->next_guest;
  *at = ctx->next_guest, ctx->ranks = NULL;
  mrt_context_unref(ranks);
}

/* What has failed there is told there. */
void mrt_communicators_settle(mrt_context *ctx, const mrt_context *except) {
  mrt_error ignored;
  mrt_context *home = mrt_communicators_home(ctx);
  for (mrt_context *g = home->guests; g; g = g->next_guest)
    if (g != except && g->flight) mrt_device_wait(&g->device, &ignored);
}

/* What is in use stays until it is freed. */
static void close_one(mrt_context *ctx, mrt_communicator *comm) {
  for (mrt_context *g = ctx->guests; g; g = g->next_guest) {
    const mrt_queue *q = g->device.queue;
    if (q && q->part) q->part(&g->device, comm);
  }
  if (comm == ctx->heap.comm) ctx->heap.closed = true;
  if (comm == ctx->heap.comm && !ctx->heap.blocks) ctx->heap.comm = NULL;
  comm->close(comm);
}

/* ---- the table ----------------------------------------------------------- */

mrt_communicator *mrt_communicator_find(mrt_context *ctx, int64_t number) {
  const mrt_context *home = mrt_communicators_home(ctx);
  bool known = number >= 0 && number < home->communicator_count;
  mrt_communicator *comm = known ? home->communicators[number] : NULL;
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
  mrt_context *home = mrt_communicators_home(ctx);
  if (!make_room(home, (void **)&home->communicators, home->communicator_count,
                 &home->communicator_room, sizeof comm))
    return comm->close(comm), mrt_nomem(&ctx->error);
  comm->interrupted = &home->interrupted;
  take_heap(home, comm);
  *number = home->communicator_count;
  home->communicators[home->communicator_count++] = comm;
  return MRT_OK;
}

MRT_API mrt_status mrt_communicator_alone(mrt_context *ctx, int rank, int size,
                                          int *number) {
  mrt_communicator *comm;
  if (size < 1 || rank < 0 || rank >= size)
    return mrt_fail(&ctx->error, MRT_EVALUE, "rank %d of %d", rank, size);
  MRT_TRY(mrt_self_communicator(mrt_communicators_home(ctx)->allocator, rank,
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
  mrt_communicators_settle(ctx, NULL);
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
                       .file = ctx->origin.file,
                       .line = ctx->origin.line };
  static const mrt_collective_kind plain[] = { MRT_COLLECT_broadcast,
                                               MRT_COLLECT_send,
                                               MRT_COLLECT_recv,
                                               MRT_COLLECT_barrier };
  for (int i = 0; i < MRT_COUNT(plain); i++)
    if (strcmp(kind, mrt_collective_name(plain[i])) == 0) c.kind = plain[i];
  if (c.kind == MRT_COLLECTIVES)
    return mrt_fail(&ctx->error, MRT_EVALUE,
                    "'%s', broadcast, send, recv or barrier wanted", kind);
  mrt_communicators_settle(ctx, NULL);
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
  mrt_context *home = mrt_communicators_home(ctx);
  if (!comm) return ctx->error.status;
  home->communicators[number] = NULL;
  close_one(home, comm);
  return MRT_OK;
}

void mrt_communicators_close(mrt_context *ctx) {
  for (int i = ctx->communicator_count; i-- > 0;)
    if (ctx->communicators[i]) close_one(ctx, ctx->communicators[i]);
  mrt_release(ctx->allocator, ctx->communicators,
              (size_t)ctx->communicator_room * sizeof *ctx->communicators);
  mrt_release(ctx->allocator, ctx->agreed,
              (size_t)ctx->agreed_room * sizeof *ctx->agreed);
}

uint64_t mrt_hash(uint64_t hash, const void *data, size_t n) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}

MRT_API void mrt_context_set_script(mrt_context *ctx, const char *text,
                                    size_t size) {
  mrt_communicators_home(ctx)->script = mrt_hash(MRT_HASH, text, size);
}

/* ---- what its ranks have agreed on --------------------------------------- */

bool mrt_agreed_has(mrt_context *ctx, int64_t comm, uint64_t hash) {
  const mrt_context *home = mrt_communicators_home(ctx);
  for (int i = 0; i < home->agreed_count; i++)
    if (home->agreed[i].comm == comm && home->agreed[i].hash == hash)
      return true;
  return false;
}

mrt_status mrt_agreed_room(mrt_context *ctx) {
  mrt_context *home = mrt_communicators_home(ctx);
  return make_room(home, (void **)&home->agreed, home->agreed_count,
                   &home->agreed_room, sizeof *home->agreed)
             ? MRT_OK
             : mrt_nomem(&ctx->error);
}

void mrt_agreed_add(mrt_context *ctx, int64_t comm, uint64_t hash) {
  mrt_context *home = mrt_communicators_home(ctx);
  home->agreed[home->agreed_count++] = (struct mrt_agreed){ comm, hash };
}

/* ---- what is called ------------------------------------------------------ */

static mrt_status note_in_trace(mrt_context *ctx, mrt_tensor *t) {
  mrt_arena *arena = &ctx->trace->arena;
  mrt_section *now = &ctx->trace->now;
  if (!MRT_PUSH_ROOM(arena, now->updates, now->update_count,
                     now->update_room) ||
      !MRT_PUSH_ROOM(arena, now->results, now->update_count, now->result_room))
    return mrt_nomem(&ctx->error);
  mrt_hold(t);
  now->updates[now->update_count] = t->expr;
  now->results[now->update_count++] = t;
  return MRT_OK;
}

mrt_status mrt_call_note(mrt_context *ctx, mrt_tensor *t) {
  if (ctx->trace) return note_in_trace(ctx, t);
  if (!make_room(ctx, (void **)&ctx->called, ctx->called_count,
                 &ctx->called_room, sizeof t))
    return mrt_nomem(&ctx->error);
  mrt_hold(t);
  ctx->called[ctx->called_count++] = t;
  return MRT_OK;
}

void mrt_calls_drop(mrt_context *ctx, int count) {
  while (ctx->called_count > count) mrt_drop(ctx->called[--ctx->called_count]);
  if (ctx->called_count) return;
  mrt_release(ctx->allocator, ctx->called,
              (size_t)ctx->called_room * sizeof *ctx->called);
  ctx->called = NULL, ctx->called_room = 0;
}
