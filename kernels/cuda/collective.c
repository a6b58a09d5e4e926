/* collective.c -- operators that all ranks of a communicator compute together
 *
 * Their place in the plan is that of any kernel: what they need of the host is
 * had at a plan's first run, which is never recorded.
 *
 * Whether a collective begins ahead is up to each rank's plan; what NCCL sees
 * is not, or ranks would wait for each other for ever.  So all lazy ones that
 * NCCL does are queued beside the run, each by itself, and the run waits for
 * them where they arrive or at once.  Through the host all are done where they
 * stand.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "comm/nccl_comm.h"

#include <stdlib.h>

/* Of one node; it stays where it is, for recordings have its address. */
typedef struct mrt_cuda_meeting {
  mrt_cuda *cuda;
  mrt_cuda_comm *cc;     /* NULL: it has not run yet */
  mrt_cuda_comm *beside; /* of a lazy one that NCCL does; else NULL */
  mrt_cuda_staging *stage;
  mrt_collective asked; /* operands in the stage */
  cudaEvent_t done;     /* beside the run */
  const void *out;      /* what that fills, while it is under way, */
  int node;
  struct mrt_cuda_meeting *next; /* and another that is so */
} meeting;

void *mrt_cuda_meet_prepare(const mrt_call *call) {
  (void)call;
  return calloc(1, sizeof(meeting));
}

/* Of those under way, if it is one. */
static void take_out(meeting *m) {
  meeting **at = &m->cuda->under_way;
  while (*at && *at != m) at = &(*at)->next;
  if (*at) *at = m->next;
}

void mrt_cuda_meet_release(void *state) {
  meeting *m = state;
  if (m->cuda) take_out(m);
  mrt_cuda_staging_release(m->stage);
  if (m->done) cudaEventDestroy(m->done);
  free(m);
}

static bool is_lazy(const mrt_call *call) {
  return ((const mrt_collective_options *)call->options)->lazy;
}

static mrt_cuda_comm *comm_of(const mrt_call *call) {
  const meeting *m = call->state;
  return m->beside ? m->beside : m->cc;
}

/* ---- beside the run ------------------------------------------------------ */

/* At the node's first run: another communicator, if that is to do it. */
static mrt_status find_beside(const mrt_call *call,
                              const mrt_collective *asked) {
  meeting *m = call->state;
  mrt_cuda *c = m->cuda;
  mrt_error *e = call->run->error;
  bool wanted = is_lazy(call) && mrt_nccl_takes(m->cc, asked);
  if (!wanted || m->beside) return MRT_OK;
  if (!m->done)
    MRT_CUDA_TRY(c, cudaEventCreateWithFlags(&m->done, cudaEventDisableTiming),
                 e);
  return mrt_cuda_comm_beside(c, m->cc, &m->beside, e);
}

/* What comes next begins when all that is in the queue now is done. */
static void branch(mrt_cuda *c, cudaStream_t queue) {
  mrt_error ignored;
  cudaError_t code = cudaEventRecord(c->fork, queue);
  if (!code) code = cudaStreamWaitEvent(c->beside, c->fork, 0);
  mrt_cuda_check(c, code, &ignored);
}

static void note_under_way(const mrt_call *call) {
  meeting *m = call->state;
  mrt_cuda *c = m->cuda;
  mrt_error ignored;
  mrt_cuda_check(c, cudaEventRecord(m->done, c->beside), &ignored);
  m->out = call->out[0].data, m->node = call->node;
  m->next = c->under_way, c->under_way = m;
}

/* The queue waits for what fills `out`; NULL: for all that is under way.  If
 * that has failed, kernels queued from here on see it in the run's words. */
static void await_beside(mrt_run *run, const void *out) {
  mrt_cuda *c = run->device;
  mrt_error ignored;
  for (meeting *m = c->under_way, *next; m; m = next) {
    next = m->next;
    if (out && m->out != out) continue;
    take_out(m);
    mrt_cuda_check(c, cudaStreamWaitEvent(run->queue, m->done, 0), &ignored);
    mrt_cuda_guard_end(m->beside->guard, false, run->words, m->node,
                       run->queue);
  }
}

static void begin_beside(const mrt_call *call) {
  const mrt_collective_options *o = call->options;
  note_under_way(call);
  if (!o->ahead || !call->run->ahead)
    await_beside(call->run, call->out[0].data);
}

void mrt_cuda_stop(const mrt_device *device, mrt_run *run) {
  mrt_cuda_use(device);
  await_beside(run, NULL);
}

void mrt_cuda_arrive(const mrt_call *call);
void mrt_cuda_arrive(const mrt_call *call) {
  await_beside(call->run, call->in[0].data);
}

/* ---- what is asked ------------------------------------------------------- */

/* The run stops here. */
static void refuse(const mrt_call *call, mrt_status s) {
  call->run->error->status = s;
  call->run->refused = call->node + 1;
}

/* At the node's first run: its communicator.  The device keeps in mind that the
 * run needs it. */
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
  if (!m->cc) MRT_TRY(mrt_cuda_comm_find(c, comm, &m->cc, e));
  MRT_TRY(find_beside(call, asked));
  uint64_t bits = m->cc->bit | (m->beside ? m->beside->bit : 0);
  c->needs[call->run->words - c->words] |= bits;
  MRT_TRY(mrt_cuda_comm_check(c, bits, e));
  if (m->stage || comm->size == 1 || mrt_nccl_takes(m->cc, asked))
    return MRT_OK;
  size_t in = mrt_collective_in_bytes(asked, comm->size),
         out = mrt_collective_out_bytes(asked, comm->size);
  size_t bytes = mrt_collective_apart(asked->kind) ? in + out
                 : in > out                        ? in
                                                   : out;
  return mrt_cuda_comm_staging(c, m->cc, bytes, &m->stage, e);
}

/* ---- through the host ---------------------------------------------------- */

/* In a thread of the driver.  A run that was queued goes to its end: it heeds
 * no interrupt. */
static void meet(void *argument) {
  meeting *m = argument;
  mrt_error e = { 0 };
  mrt_communicator *comm = m->cc->comm;
  if (!comm || m->cc->guard->refused) return;
  const volatile int *heeded = comm->interrupted;
  comm->interrupted = NULL;
  mrt_status s = mrt_collect(comm, &m->asked, &e);
  comm->interrupted = heeded;
  if (!s) return;
  e.status = s;
  mrt_cuda_comm_fail(m->cuda, m->cc, &e);
}

static void *beyond(const void *at, size_t bytes) {
  return (char *)(uintptr_t)at + bytes;
}

/* A piece lies in the stage where it belongs in the whole, so that one buffer
 * is enough; of what cannot be in place the result lies behind. */
static void place(meeting *m, const mrt_collective *asked, size_t in,
                  size_t out) {
  size_t own = (size_t)m->cc->comm->rank * (in < out ? in : out);
  m->asked = *asked;
  m->asked.in = beyond(m->stage->data, in < out && in ? own : 0);
  m->asked.out = beyond(m->stage->data, out < in && out ? own : 0);
  if (mrt_collective_apart(asked->kind))
    m->asked.out = beyond(m->stage->data, in);
}

static cudaError_t queue_staged(const mrt_call *call,
                                const mrt_collective *asked) {
  meeting *m = call->state;
  const mrt_communicator *comm = m->cc->comm;
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

/* ---- alone --------------------------------------------------------------- */

static cudaError_t queue_alone(const mrt_call *call,
                               const mrt_collective *asked) {
  size_t bytes = mrt_collective_out_bytes(asked, 1);
  if (!bytes || asked->in == asked->out) return cudaSuccess;
  return cudaMemcpyAsync(asked->out, asked->in, bytes, cudaMemcpyDeviceToDevice,
                         call->run->queue);
}

/* ---- kernels ------------------------------------------------------------- */

static void queue_host(const mrt_call *call, const mrt_collective *asked) {
  meeting *m = call->state;
  mrt_error ignored;
  bool alone = m->cc->comm->size == 1;
  cudaError_t code =
      alone ? queue_alone(call, asked) : queue_staged(call, asked);
  mrt_cuda_check(m->cuda, code, &ignored);
  if (alone) return;
  mrt_cuda_guard_end(m->cc->guard, false, call->run->words, call->node,
                     call->run->queue);
}

/* Collectives that follow each other, of one communicator, as one group of
 * NCCL's. */
static int queue_group(const mrt_call *const *calls, int count,
                       mrt_collective_kind kind) {
  mrt_collective asked[MRT_CUDA_GUARDED];
  mrt_cuda_comm *cc = comm_of(calls[0]);
  mrt_cuda *c = calls[0]->run->device;
  int n = 0;
  while (n < count && n < MRT_CUDA_GUARDED) {
    asked[n] = mrt_collective_of(calls[n], kind);
    if (comm_of(calls[n]) != cc || !mrt_nccl_takes(cc, &asked[n])) break;
    n++;
  }
  if (n && cc->queue) branch(c, calls[0]->run->queue);
  if (n) mrt_nccl_queue(c, cc, asked, n, calls[0]);
  for (int i = 0; i < n && cc->queue; i++) begin_beside(calls[i]);
  return n;
}

/* False: the run stops. */
static bool meet_some(const mrt_call *const *calls, int count,
                      mrt_collective_kind kind) {
  for (int i = 0; i < count; i++) {
    const mrt_collective asked = mrt_collective_of(calls[i], kind);
    mrt_status s = join(calls[i], &asked);
    if (s) return refuse(calls[i], s), false;
  }
  for (int i = 0; i < count;) {
    int n = queue_group(calls + i, count - i, kind);
    if (n == 0) {
      const mrt_collective asked = mrt_collective_of(calls[i], kind);
      queue_host(calls[i], &asked);
    }
    i += n ? n : 1;
  }
  return true;
}

/* NCCL's groups have to be the same on all ranks.  Which lazy collectives
 * follow each other is the plan's choice, so these go one by one. */
static void meet_all(const mrt_call *const *calls, int count,
                     mrt_collective_kind kind) {
  for (int i = 0, n; i < count; i += n) {
    n = 1;
    while (!is_lazy(calls[i]) && i + n < count && !is_lazy(calls[i + n])) n++;
    if (!meet_some(calls + i, n, kind)) return;
  }
}

#define COLLECTIVE(name)                                                       \
  void mrt_cuda_##name(const mrt_call *const *calls, int count) {              \
    meet_all(calls, count, MRT_COLLECT_##name);                                \
  }
COLLECTIVE(allreduce)
COLLECTIVE(reduce_scatter)
COLLECTIVE(allgather)
COLLECTIVE(all_to_all)
COLLECTIVE(broadcast)
COLLECTIVE(shift)
COLLECTIVE(send)
COLLECTIVE(recv)
