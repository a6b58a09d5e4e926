/* collective.c -- operators that all ranks of a communicator compute together
 *
 * Their place in the plan is that of any kernel: what they need of the host is
 * had at a plan's first run, which is never recorded.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "team_nccl.h"

#include <stdlib.h>

/* Of one node; it stays where it is, for recordings have its address. */
typedef struct meeting {
  mrt_cuda *cuda;
  mrt_team *team; /* NULL: it has not run yet */
  mrt_stage *stage;
  mrt_collective asked; /* operands in the stage */
} meeting;

void *mrt_cuda_meet_prepare(const mrt_call *call) {
  (void)call;
  return calloc(1, sizeof(meeting));
}

void mrt_cuda_meet_release(void *state) {
  mrt_stage_drop(((meeting *)state)->stage);
  free(state);
}

/* ---- what is asked --------------------------------------------------------- */

/* The run stops here. */
static void refuse(const mrt_call *call, mrt_status s) {
  call->run->error->status = s;
  call->run->refused = call->node + 1;
}

/* At the node's first run: its team.  The device keeps in mind that the run
 * needs it. */
static mrt_status join(const mrt_call *call, const mrt_collective *asked) {
  const mrt_collective_options *o = call->options;
  mrt_error *e = call->run->error;
  mrt_cuda *c = call->run->device;
  meeting *m = call->state;
  mrt_communicator *comm = call->run->communicators[o->comm];
  if (!m) return mrt_nomem(e);
  if (!comm)
    return mrt_fail(e, MRT_ESTATE, "communicator %lld is closed",
                    (long long)o->comm);
  m->cuda = c;
  if (!m->team) MRT_TRY(mrt_team_find(c, comm, &m->team, e));
  c->needs[call->run->words - c->words] |= m->team->bit;
  MRT_TRY(mrt_team_check(c, m->team->bit, e));
  if (m->stage || comm->size == 1 || mrt_nccl_takes(m->team, asked))
    return MRT_OK;
  size_t in = mrt_collective_in_bytes(asked, comm->size),
         out = mrt_collective_out_bytes(asked, comm->size);
  return mrt_team_stage(c, m->team, in > out ? in : out, &m->stage, e);
}

/* ---- through the host ------------------------------------------------------ */

/* In a thread of the driver.  A run that was queued goes to its end: it heeds
 * no interrupt. */
static void meet(void *argument) {
  meeting *m = argument;
  mrt_error e = { 0 };
  mrt_communicator *comm = m->team->comm;
  if (!comm || m->team->note->refused) return;
  const volatile int *heeded = comm->interrupted;
  comm->interrupted = NULL;
  mrt_status s = mrt_collect(comm, &m->asked, &e);
  comm->interrupted = heeded;
  if (!s) return;
  e.status = s;
  mrt_team_fail(m->cuda, m->team, &e);
}

static void *beyond(const void *at, size_t bytes) {
  return (char *)(uintptr_t)at + bytes;
}

/* A piece lies in the stage where it belongs in the whole, so that one buffer
 * is enough. */
static void place(meeting *m, const mrt_collective *asked, size_t in,
                  size_t out) {
  size_t own = (size_t)m->team->comm->rank * (in < out ? in : out);
  m->asked = *asked;
  m->asked.in = beyond(m->stage->data, in < out && in ? own : 0);
  m->asked.out = beyond(m->stage->data, out < in && out ? own : 0);
}

static cudaError_t queue_staged(const mrt_call *call,
                                const mrt_collective *asked) {
  meeting *m = call->state;
  const mrt_communicator *comm = m->team->comm;
  cudaStream_t queue = call->run->queue;
  size_t in = mrt_collective_in_bytes(asked, comm->size),
         out = mrt_collective_out_bytes(asked, comm->size);
  bool gives =
      asked->kind != MRT_COLLECT_broadcast || asked->peer == comm->rank;
  cudaError_t code = cudaSuccess;
  place(m, asked, in, out);
  if (in && gives)
    code = cudaMemcpyAsync(beyond(m->asked.in, 0), asked->in, in,
                           cudaMemcpyDeviceToHost, queue);
  if (!code) code = cudaLaunchHostFunc(queue, meet, m);
  if (!code && out)
    code = cudaMemcpyAsync(asked->out, m->asked.out, out,
                           cudaMemcpyHostToDevice, queue);
  return code;
}

/* ---- alone ----------------------------------------------------------------- */

static cudaError_t queue_alone(const mrt_call *call,
                               const mrt_collective *asked) {
  size_t bytes = mrt_collective_out_bytes(asked, 1);
  if (!bytes || asked->in == asked->out) return cudaSuccess;
  return cudaMemcpyAsync(asked->out, asked->in, bytes, cudaMemcpyDeviceToDevice,
                         call->run->queue);
}

/* ---- kernels --------------------------------------------------------------- */

static void queue_host(const mrt_call *call, const mrt_collective *asked) {
  meeting *m = call->state;
  mrt_error ignored;
  bool alone = m->team->comm->size == 1;
  cudaError_t code =
      alone ? queue_alone(call, asked) : queue_staged(call, asked);
  mrt_cuda_check(m->cuda, code, &ignored);
  if (alone) return;
  mrt_note_end(m->team->note, false, call->run->words, call->node,
               call->run->queue);
}

/* Collectives that follow each other, of one team, as one of NCCL's groups. */
static int queue_group(const mrt_call *const *calls, int count,
                       mrt_collective_kind kind) {
  mrt_collective asked[MRT_NOTED];
  const meeting *first = calls[0]->state;
  int n = 0;
  while (n < count && n < MRT_NOTED) {
    const meeting *m = calls[n]->state;
    asked[n] = mrt_collective_of(calls[n], kind);
    if (m->team != first->team || !mrt_nccl_takes(m->team, &asked[n])) break;
    n++;
  }
  if (n) mrt_nccl_queue(first->cuda, first->team, asked, n, calls[0]);
  return n;
}

static void meet_all(const mrt_call *const *calls, int count,
                     mrt_collective_kind kind) {
  for (int i = 0; i < count; i++) {
    const mrt_collective asked = mrt_collective_of(calls[i], kind);
    mrt_status s = join(calls[i], &asked);
    if (!s) continue;
    refuse(calls[i], s);
    return;
  }
  for (int i = 0; i < count;) {
    int n = queue_group(calls + i, count - i, kind);
    if (n == 0) {
      const mrt_collective asked = mrt_collective_of(calls[i], kind);
      queue_host(calls[i], &asked);
    }
    i += n ? n : 1;
  }
}

#define COLLECTIVE(name)                                                       \
  void mrt_cuda_##name(const mrt_call *const *calls, int count) {              \
    meet_all(calls, count, MRT_COLLECT_##name);                                \
  }
COLLECTIVE(allreduce)
COLLECTIVE(reduce_scatter)
COLLECTIVE(allgather)
COLLECTIVE(broadcast)
COLLECTIVE(send)
COLLECTIVE(recv)

/* The queue has waited. */
void mrt_cuda_arrive(const mrt_call *call);
void mrt_cuda_arrive(const mrt_call *call) { (void)call; }
