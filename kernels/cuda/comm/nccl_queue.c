/* nccl_queue.c -- collectives queued by NCCL, between two notes
 *
 * What is only moved goes as bytes.  max and min of floats go through the host:
 * NCCL's leave a NaN out.
 *
 * Large blocks of the device's memory are made known to NCCL when they are first
 * used; they begin at the same offsets on all ranks, as plans are alike.
 *
 * SPDX-License-Identifier: MIT */
#include "comm/nccl_comm.h"

#ifdef MRT_NCCL_LIBRARY
#include "comm/nccl_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ncclRedOp_t reductions[] = { ncclSum, ncclAvg, ncclMax, ncclMin,
                                          ncclProd };

/* -1: it reduces none of them. */
static int type_of(mrt_dtype dtype) {
  switch (dtype) {
  case MRT_f32:
    return ncclFloat32;
  case MRT_f64:
    return ncclFloat64;
  case MRT_i64:
    return ncclInt64;
  case MRT_i32:
    return ncclInt32;
  case MRT_u8:
  case MRT_bool:
    return ncclUint8;
  case MRT_f16:
    return ncclFloat16;
  case MRT_bf16:
    return ncclBfloat16;
  default:
    return -1;
  }
}

static bool reduces(const mrt_collective *a) {
  return a->kind == MRT_COLLECT_allreduce ||
         a->kind == MRT_COLLECT_reduce_scatter;
}

static bool is_float(mrt_dtype d) {
  return d == MRT_f32 || d == MRT_f64 || d == MRT_f16 || d == MRT_bf16;
}

bool mrt_nccl_takes(const mrt_cuda_comm *t, const mrt_collective *a) {
  if (!t->nccl) return false;
  if (!reduces(a)) return true;
  bool ordered =
      a->reduction == MRT_REDUCE_MAX || a->reduction == MRT_REDUCE_MIN;
  return type_of(a->dtype) >= 0 && !(ordered && is_float(a->dtype));
}

/* ---- memory -------------------------------------------------------------- */

static const mrt_cuda_block *block_of(const mrt_cuda *c, const void *data) {
  for (int i = 0; i < c->block_count; i++) {
    const mrt_cuda_block *b = &c->blocks[i];
    if ((uintptr_t)data - (uintptr_t)b->data < b->nbytes) return b;
  }
  return NULL;
}

/* Not to be known is no failure. */
static void enroll(const mrt_cuda *c, mrt_nccl *n, const void *data) {
  const mrt_cuda_block *b = data ? block_of(c, data) : NULL;
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  for (int i = 0; b && i < n->block_count; i++)
    if (n->blocks[i].data == b->data) return;
  if (!b || cudaStreamIsCapturing(c->queue, &status) || status) return;
  if (n->block_count == n->block_room) {
    int room = n->block_room ? 2 * n->block_room : 8;
    void *more = realloc(n->blocks, (size_t)room * sizeof *n->blocks);
    if (!more) return;
    n->blocks = more, n->block_room = room;
  }
  mrt_nccl_block *to = &n->blocks[n->block_count];
  *to = (mrt_nccl_block){ .data = b->data };
  if (n->lib.enroll(n->comm, b->data, b->nbytes, &to->handle) == ncclSuccess)
    n->block_count++;
}

void mrt_nccl_forget(mrt_cuda *c, void *data) {
  for (const mrt_cuda_comm *t = c->comms; t; t = t->next) {
    mrt_nccl *n = t->nccl;
    for (int i = 0; n && i < n->block_count; i++) {
      if (n->blocks[i].data != data) continue;
      pthread_mutex_lock(&n->lock);
      if (!n->closed) n->lib.deregister(n->comm, n->blocks[i].handle);
      pthread_mutex_unlock(&n->lock);
      n->blocks[i--] = n->blocks[--n->block_count];
    }
  }
}

/* ---- calls --------------------------------------------------------------- */

/* Give and get a piece from each, this rank too: in a group of their own. */
static ncclResult_t queue_exchange(const mrt_nccl *n, const mrt_collective *a,
                                   cudaStream_t queue) {
  int size = n->cc->comm->size;
  size_t piece = mrt_collective_in_bytes(a, size) / (size_t)size;
  ncclResult_t code = n->lib.begin_group();
  for (int r = 0; r < size && !code; r++) {
    size_t at = (size_t)r * piece;
    code = n->lib.send((const char *)a->in + at, piece, ncclUint8, r, n->comm,
                       queue);
    if (!code)
      code =
          n->lib.recv((char *)a->out + at, piece, ncclUint8, r, n->comm, queue);
  }
  ncclResult_t end = n->lib.end_group();
  return code ? code : end;
}

/* A group within a group is part of it. */
static ncclResult_t shift(const mrt_nccl *n, const mrt_collective *a,
                          size_t nbytes, cudaStream_t queue) {
  const mrt_nccl_library *l = &n->lib;
  const mrt_communicator *comm = n->cc->comm;
  int to = (comm->rank + a->peer) % comm->size,
      from = (comm->rank - a->peer + comm->size) % comm->size;
  ncclResult_t code = l->begin_group();
  if (code) return code;
  code = l->send(a->in, nbytes, ncclUint8, to, n->comm, queue);
  ncclResult_t got = l->recv(a->out, nbytes, ncclUint8, from, n->comm, queue),
               end = l->end_group();
  return code ? code : got ? got : end;
}

static ncclResult_t queue_one(const mrt_nccl *n, const mrt_collective *a,
                              cudaStream_t queue) {
  const mrt_nccl_library *l = &n->lib;
  int size = n->cc->comm->size;
  size_t count = (size_t)a->count, piece = count / (size_t)size,
         in = mrt_collective_in_bytes(a, size),
         out = mrt_collective_out_bytes(a, size);
  ncclDataType_t type = (ncclDataType_t)type_of(a->dtype);
  ncclRedOp_t op = reductions[a->reduction];
  switch (a->kind) {
  case MRT_COLLECT_allreduce:
    return l->allreduce(a->in, a->out, count, type, op, n->comm, queue);
  case MRT_COLLECT_reduce_scatter:
    return l->reduce_scatter(a->in, a->out, piece, type, op, n->comm, queue);
  case MRT_COLLECT_allgather:
    return l->allgather(a->in, a->out, in, ncclUint8, n->comm, queue);
  case MRT_COLLECT_all_to_all:
    return queue_exchange(n, a, queue);
  case MRT_COLLECT_broadcast:
    return l->broadcast(a->in, a->out, in, ncclUint8, a->peer, n->comm, queue);
  case MRT_COLLECT_shift:
    return shift(n, a, in, queue);
  case MRT_COLLECT_send:
    return l->send(a->in, in, ncclUint8, a->peer, n->comm, queue);
  case MRT_COLLECT_recv:
    return l->recv(a->out, out, ncclUint8, a->peer, n->comm, queue);
  default:
    return ncclInvalidArgument;
  }
}

static ncclResult_t queue_all(mrt_nccl *n, const mrt_collective *asked,
                              int count, cudaStream_t queue) {
  ncclResult_t code = ncclSuccess;
  if (count == 1) return queue_one(n, asked, queue);
  if ((code = n->lib.begin_group())) return code;
  for (int i = 0; i < count; i++) {
    ncclResult_t own = queue_one(n, &asked[i], queue);
    if (!code) code = own;
  }
  ncclResult_t end = n->lib.end_group();
  return code ? code : end;
}

/* What must be alike on all ranks, as one number. */
static uint64_t number_of(const mrt_collective *a) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a's, by words */
  bool alike = a->kind == MRT_COLLECT_broadcast || a->kind == MRT_COLLECT_shift;
  int peer = alike ? a->peer : 0;
  uint64_t words[] = { (uint64_t)a->kind, (uint64_t)a->dtype,
                       reduces(a) ? (uint64_t)a->reduction : 0,
                       (uint64_t)a->count, (uint64_t)peer };
  for (int k = 0; k < MRT_COUNT(words); k++)
    hash = (hash ^ words[k]) * UINT64_C(0x100000001b3);
  return hash;
}

/* Sends and receives are for two ranks only. */
static void note_all(const mrt_cuda_comm *t, const mrt_collective *asked,
                     int count, cudaStream_t queue) {
  mrt_cuda_guarded all = { 0 };
  for (int i = 0; i < count; i++)
    if (asked[i].kind != MRT_COLLECT_send && asked[i].kind != MRT_COLLECT_recv)
      all.what[all.count++] = number_of(&asked[i]);
  mrt_cuda_guard_begin(t->guard, &all, queue);
}

/* Failures of the queue itself; those that come later are the watch's. */
static void fail(mrt_cuda *c, mrt_nccl *n, ncclResult_t code) {
  mrt_error e = { 0 };
  char why[160];
  mrt_nccl_explain(n, n->cc, code, why);
  e.status = mrt_fail(&e, MRT_ERANK, "%s", why);
  mrt_cuda_comm_fail(c, n->cc, &e);
  mrt_cuda_comm_abort(n->cc, why);
}

/* A call may wait in NCCL for ranks that never come, so the watch, which would
 * see that, is not kept out meanwhile.  False: it has ended NCCL. */
static bool enter(mrt_nccl *n, const mrt_collective *asked) {
  pthread_mutex_lock(&n->lock);
  n->last = *asked;
  n->within = !n->closed;
  n->since = mrt_nccl_clock();
  pthread_mutex_unlock(&n->lock);
  return n->within;
}

/* Has it done so since? */
static bool leave(mrt_nccl *n) {
  pthread_mutex_lock(&n->lock);
  bool closed = n->closed;
  n->within = false;
  pthread_mutex_unlock(&n->lock);
  return closed;
}

/* NCCL mixes no calls with recordings that are under way (set_environment). */
static void end_replays(mrt_cuda *c) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  mrt_error ignored;
  if (!c->replays) return;
  if (cudaStreamIsCapturing(c->queue, &status) || status) return;
  c->replays = false;
  mrt_cuda_check(c, mrt_cuda_wait(c, c->queue), &ignored);
}

void mrt_nccl_queue(mrt_cuda *c, mrt_cuda_comm *t, const mrt_collective *asked,
                    int count, const mrt_call *call) {
  mrt_nccl *n = t->nccl;
  cudaStream_t queue = t->queue ? t->queue : call->run->queue;
  ncclResult_t code = ncclSuccess;
  end_replays(c);
  note_all(t, asked, count, queue);
  if (enter(n, asked)) {
    for (int i = 0; i < count; i++) {
      enroll(c, n, asked[i].in);
      enroll(c, n, asked[i].out);
    }
    code = queue_all(n, asked, count, queue);
    if (leave(n))
      code = ncclSuccess; /* the watch has failed it, and says why */
  }
  if (code) fail(c, n, code);
  mrt_cuda_guard_end(t->guard, true, t->queue ? NULL : call->run->words,
                     call->node, queue);
}
#endif
