/* collective.c -- collectives: the communicator does the work
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "cpu.h"

/* What cannot be done is noted: the run stops after this step. */
static void note(mrt_run *run, int node, mrt_status s) {
  if (!s) return;
  run->error->status = s;
  run->refused = node + 1;
}

/* Those that do not begin ahead come after those that did. */
static void meet(const mrt_call *call, mrt_collective_kind kind) {
  const mrt_collective_options *o = call->options;
  mrt_run *run = call->run;
  mrt_communicator *comm = run->communicators[o->comm];
  mrt_collective c = mrt_collective_of(call, kind);
  int node = call->node;
  mrt_status s = MRT_OK;
  if (!comm)
    s = mrt_fail(run->error, MRT_ESTATE, "communicator %lld is closed",
                 (long long)o->comm);
  else if (run->comm_thread && o->ahead)
    mrt_comm_thread_begin(run->comm_thread, comm, &c, node);
  else if (!run->comm_thread ||
           !(s = mrt_comm_thread_end(run->comm_thread, NULL, &node,
                                     run->error)))
    s = mrt_collect(comm, &c, run->error);
  note(run, node, s);
}

static void arrive(const mrt_call *c) {
  mrt_run *run = c->run;
  int node = c->node;
  if (!run->comm_thread) return;
  mrt_status s =
      mrt_comm_thread_end(run->comm_thread, c->in[0].data, &node, run->error);
  note(run, node, s);
}

MRT_KERNEL(arrive, .run = arrive);

#define COLLECTIVE(name)                                                       \
  static void run_##name(const mrt_call *c) { meet(c, MRT_COLLECT_##name); }   \
  MRT_KERNEL(name, .run = run_##name)

COLLECTIVE(allreduce);
COLLECTIVE(reduce_scatter);
COLLECTIVE(allgather);
COLLECTIVE(all_to_all);
COLLECTIVE(broadcast);
COLLECTIVE(shift);
COLLECTIVE(send);
COLLECTIVE(recv);
