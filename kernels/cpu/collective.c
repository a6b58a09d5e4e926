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
static void meet(const mrt_call *call, mrt_collective_kind kind,
                 const mrt_type *whole) {
  const mrt_collective_options *o = call->options;
  mrt_run *run = call->run;
  mrt_communicator *comm = run->communicators[o->comm];
  int node = call->node;
  mrt_collective c = { .kind = kind,
                       .reduction = (mrt_reduction)o->op,
                       .dtype = whole->dtype,
                       .count = mrt_type_count(whole),
                       .peer = (int)o->peer,
                       .in = call->nin ? call->in[0].data : NULL,
                       .out = call->out[0].data,
                       .file = call->file,
                       .line = call->line };
  mrt_status s = MRT_OK;
  if (!comm)
    s = mrt_fail(run->error, MRT_ESTATE, "communicator %lld is closed",
                 (long long)o->comm);
  else if (run->beside && o->ahead)
    mrt_beside_begin(run->beside, comm, &c, node);
  else if (!run->beside ||
           !(s = mrt_beside_end(run->beside, NULL, &node, run->error)))
    s = mrt_collect(comm, &c, run->error);
  note(run, node, s);
}

static void arrive(const mrt_call *c) {
  mrt_run *run = c->run;
  int node = c->node;
  if (!run->beside) return;
  mrt_status s = mrt_beside_end(run->beside, c->in[0].data, &node, run->error);
  note(run, node, s);
}

MRT_KERNEL(arrive, .run = arrive);

#define COLLECTIVE(name, whole)                                                \
  static void run_##name(const mrt_call *c) {                                  \
    meet(c, MRT_COLLECT_##name, &c->whole[0].type);                            \
  }                                                                            \
  MRT_KERNEL(name, .run = run_##name)

COLLECTIVE(allreduce, in);
COLLECTIVE(reduce_scatter, in);
COLLECTIVE(allgather, out);
COLLECTIVE(broadcast, in);
COLLECTIVE(send, in);
COLLECTIVE(recv, out);
