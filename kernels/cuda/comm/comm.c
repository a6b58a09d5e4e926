/* comm.c -- communicators of a CUDA device: found, failed, closed
 *
 * SPDX-License-Identifier: MIT */
#include "comm/comm.h"
#include "comm/nccl_comm.h"

#include <stdlib.h>
#include <string.h>

enum {
  ROOM = 1 << 16, /* bytes that a stage has a multiple of */
  PAGE = 4096
};

/* ---- failing ------------------------------------------------------------- */

void mrt_cuda_comm_fail(mrt_cuda *c, mrt_cuda_comm *cc, const mrt_error *e) {
  int well = MRT_CUDA_COMM_WELL;
  if (!atomic_compare_exchange_strong(&cc->state, &well, MRT_CUDA_COMM_FAILING))
    return;
  cc->error = *e;
  atomic_store(&cc->state, MRT_CUDA_COMM_FAILED);
  __atomic_fetch_or(&c->lost, cc->bit, __ATOMIC_SEQ_CST);
  cc->guard->refused = 1;
}

mrt_status mrt_cuda_comm_check(const mrt_cuda *c, uint64_t bits, mrt_error *e) {
  if (!(__atomic_load_n(&c->lost, __ATOMIC_SEQ_CST) & bits)) return MRT_OK;
  for (const mrt_cuda_comm *t = c->comms; t; t = t->next)
    if ((t->bit & bits) && atomic_load(&t->state) == MRT_CUDA_COMM_FAILED)
      return mrt_fail(e, t->error.status, "%s", t->error.message);
  return MRT_OK;
}

void mrt_cuda_comm_abort(mrt_cuda_comm *t, const char *why) {
  mrt_cuda_comm *other = t->main ? t->main : atomic_load(&t->beside);
  t->comm->abort(t->comm, why);
  if (other) other->comm->abort(other->comm, why);
}

/* ---- stages -------------------------------------------------------------- */

void mrt_cuda_staging_release(mrt_cuda_staging *s) {
  if (!s || --s->uses > 0) return;
  if (s->owner)
    cudaHostUnregister(s->data);
  else
    cudaFreeHost(s->data);
  if (s->owner) s->owner->free(s->owner, s->block, s->block_bytes);
  free(s);
}

/* Memory that the other ranks read in place, if the communicator has some;
 * pages that are pinned are nobody else's. */
static bool take_shared(mrt_cuda_staging *s, mrt_communicator *comm) {
  if (!comm->alloc) return false;
  s->block_bytes = s->nbytes + 2 * PAGE;
  s->block = comm->alloc(comm, s->block_bytes);
  if (!s->block) return false;
  s->data = (char *)(((uintptr_t)s->block + PAGE - 1) / PAGE * PAGE);
  if (cudaHostRegister(s->data, s->nbytes, cudaHostRegisterDefault) ==
      cudaSuccess)
    return s->owner = comm, true;
  cudaGetLastError();
  comm->free(comm, s->block, s->block_bytes);
  return false;
}

static mrt_cuda_staging *new_stage(mrt_communicator *comm, size_t nbytes) {
  mrt_cuda_staging *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->nbytes = nbytes, s->uses = 1;
  if (take_shared(s, comm)) return s;
  if (cudaHostAlloc((void **)&s->data, nbytes, cudaHostAllocDefault) ==
      cudaSuccess)
    return s;
  cudaGetLastError();
  free(s);
  return NULL;
}

mrt_status mrt_cuda_comm_staging(mrt_cuda *c, mrt_cuda_comm *t, size_t nbytes,
                                 mrt_cuda_staging **stage, mrt_error *e) {
  size_t had = t->stage ? t->stage->nbytes : 0, room = 2 * had;
  if (had < nbytes || !had) {
    if (room < ROOM) room = ROOM;
    if (room < nbytes) room = (nbytes + ROOM - 1) / ROOM * ROOM;
    mrt_cuda_staging *fresh = new_stage(t->comm, room);
    if (!fresh)
      return mrt_fail(e, MRT_ENOMEM,
                      "cuda:%d: no %zu bytes of pinned memory for a collective",
                      c->index, room);
    mrt_cuda_staging_release(t->stage);
    t->stage = fresh;
  }
  t->stage->uses++;
  *stage = t->stage;
  return MRT_OK;
}

/* ---- communicators ------------------------------------------------------- */

static void free_team(mrt_cuda_comm *t) {
  mrt_cuda_staging_release(t->stage);
  cudaFreeHost(t->guard);
  free(t);
}

/* Those that are closed and that no run needs are gone; a bit that nobody has,
 * or 0. */
static uint64_t free_bit(mrt_cuda *c) {
  uint64_t used = 0;
  for (int i = 0; i < MRT_CUDA_RUNS; i++)
    if (c->taken[i]) used |= c->needs[i];
  for (mrt_cuda_comm **at = &c->comms, *t; (t = *at);) {
    if (t->comm || (t->bit & used)) {
      used |= t->bit, at = &t->next;
      continue;
    }
    __atomic_fetch_and(&c->lost, ~t->bit, __ATOMIC_SEQ_CST);
    *at = t->next;
    free_team(t);
  }
  return ~used & -~used;
}

static mrt_status new_team(mrt_cuda *c, mrt_communicator *comm,
                           mrt_cuda_comm *main, mrt_cuda_comm **cc,
                           mrt_error *e) {
  uint64_t bit = free_bit(c);
  if (!bit)
    return mrt_fail(e, MRT_ESTATE,
                    "cuda:%d: 64 communicators at a time are the most (those "
                    "that shard count twice with NCCL)",
                    c->index);
  mrt_cuda_comm *t = calloc(1, sizeof *t);
  if (!t) return mrt_nomem(e);
  t->comm = comm, t->bit = bit;
  if (main) t->main = main, t->queue = c->beside;
  /* Who still waits for this rank in the queue has what it waits for. */
  cudaError_t code = mrt_cuda_wait(c, c->queue);
  if (!code)
    code = cudaHostAlloc((void **)&t->guard, sizeof *t->guard,
                         cudaHostAllocMapped);
  if (code != cudaSuccess) return free(t), mrt_cuda_check(c, code, e);
  memset((void *)t->guard, 0, sizeof *t->guard);
  mrt_status s = mrt_nccl_open(c, t, e);
  if (s) return free_team(t), s;
  t->next = c->comms, c->comms = t;
  *cc = t;
  return MRT_OK;
}

mrt_status mrt_cuda_comm_find(mrt_cuda *c, mrt_communicator *comm,
                              mrt_cuda_comm **cc, mrt_error *e) {
  for (*cc = c->comms; *cc && (*cc)->comm != comm;) *cc = (*cc)->next;
  if (*cc) return MRT_OK;
  if (comm->size > 1 && strcmp(comm->transport, "threads") == 0)
    return mrt_fail(e, MRT_ESTATE,
                    "ranks that are threads of one process compute on the CPU, "
                    "not on cuda:%d; start processes (mrt launch)",
                    c->index);
  return new_team(c, comm, NULL, cc, e);
}

static cudaError_t open_stream(mrt_cuda *c) {
  int least, first; /* what waits for other ranks comes before what computes */
  if (c->beside) return cudaSuccess;
  cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &first);
  if (!code && !c->fork)
    code = cudaEventCreateWithFlags(&c->fork, cudaEventDisableTiming);
  return code ? code
              : cudaStreamCreateWithPriority(&c->beside, cudaStreamNonBlocking,
                                             first);
}

/* A split is a collective: all ranks have it, or none. */
mrt_status mrt_cuda_comm_beside(mrt_cuda *c, mrt_cuda_comm *cc,
                                mrt_cuda_comm **beside, mrt_error *e) {
  mrt_communicator *own, *comm = cc->comm;
  *beside = atomic_load(&cc->beside);
  if (*beside) return MRT_OK;
  MRT_CUDA_TRY(c, open_stream(c), e);
  MRT_CUDA_TRY(c, mrt_cuda_wait(c, c->queue), e);
  MRT_TRY(comm->split(comm, 0, comm->rank, &own, e));
  mrt_status s = new_team(c, own, cc, beside, e);
  if (s) return own->close(own), s;
  atomic_store(&cc->beside, *beside);
  return MRT_OK;
}

/* With the one beside it, whose communicator the thread looks at that ends
 * first. */
static void close_team(mrt_cuda *c, mrt_cuda_comm *t) {
  mrt_error e = { .status = MRT_ESTATE };
  mrt_fail(&e, MRT_ESTATE, "its communicator is closed");
  mrt_nccl_close(c, t);
  mrt_cuda_comm *beside = atomic_exchange(&t->beside, NULL);
  if (beside) close_team(c, beside);
  mrt_cuda_comm_fail(c, t, &e);
  mrt_cuda_staging_release(t->stage);
  if (t->main) t->comm->close(t->comm);
  t->stage = NULL, t->comm = NULL;
}

/* What NCCL is asked for while a stream captures, its ranks do together. */
bool mrt_cuda_records_together(const mrt_device *device,
                               const mrt_communicator *comm) {
  const mrt_cuda_comm *t = mrt_cuda_of(device)->comms;
  while (t && t->comm != comm) t = t->next;
  return t && t->nccl;
}

void mrt_cuda_part(const mrt_device *device, mrt_communicator *comm) {
  mrt_cuda *c = mrt_cuda_of(device);
  mrt_cuda_comm *t = c->comms;
  mrt_error ignored;
  while (t && t->comm != comm) t = t->next;
  if (!t) return;
  device->queue->wait(device, &ignored);
  close_team(c, t);
}

void mrt_cuda_comms_close(mrt_cuda *c) {
  for (mrt_cuda_comm *t = c->comms; t; t = t->next)
    if (t->comm && !t->main) close_team(c, t);
  mrt_nccl_end_all(c);
  while (c->comms) {
    mrt_cuda_comm *t = c->comms;
    c->comms = t->next;
    free_team(t);
  }
}
