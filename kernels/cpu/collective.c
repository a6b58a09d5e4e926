/* collective.c -- collectives: the communicator does the work
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "cpu.h"

/* What cannot be done is noted: the run stops after this step. */
static void meet(const mrt_call *call, mrt_collective_kind kind,
                 const mrt_type *whole) {
  const mrt_collective_options *o = call->options;
  mrt_run *run = call->run;
  mrt_communicator *comm = run->communicators[o->comm];
  mrt_collective c = { .kind = kind,
                       .reduction = (mrt_reduction)o->op,
                       .dtype = whole->dtype,
                       .count = mrt_type_count(whole),
                       .peer = (int)o->peer,
                       .in = call->nin ? call->in[0].data : NULL,
                       .out = call->out[0].data,
                       .file = call->file,
                       .line = call->line };
  mrt_status s =
      comm ? mrt_collect(comm, &c, run->error)
           : mrt_fail(run->error, MRT_ESTATE, "communicator %lld is closed",
                      (long long)o->comm);
  if (!s) return;
  run->error->status = s;
  run->refused = call->node + 1;
}

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
