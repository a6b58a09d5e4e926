/* rewrite.h -- what a pass from graph to graph gets
 *
 * A rewrite changes which nodes compute a value, never the value: results,
 * their order and every variable written stay what they were, to the bit,
 * unless the pass says otherwise (precision narrows because the script asks;
 * fuse_epilogue and add_products sum and round as the device's library does, in
 * traced plans only).
 * It sees no plan: neither order nor memory is decided yet.
 *
 * Invariants, after each of them
 *   - nodes stand in a legal order, inputs before what reads them;
 *   - types are what the rows infer; updates read the old version last
 *     (mrt_graph_check, which the check pass calls for every plan);
 *   - a node that stays keeps its id, which random numbers are keyed by.
 *
 * To add one: a file here that defines mrt_pass_<name>, and its row in
 * core/mrt/passes.def.  Its switch, its count of nodes and its stage follow.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_REWRITE_REWRITE_H
#define MRT_REWRITE_REWRITE_H

#include "graph/graph.h"
#include "mrt/policy.h"

/* What the precision pass has found for a trace, kept for the other plans of
 * the same trace: a policy is asked once. */
typedef struct mrt_precision_memo {
  mrt_computation *computations; /* what the policy answered; NULL: not yet */
  mrt_dtype keep;                /* and for what is kept */
  bool narrows;                  /* some inputs are rounded, without a scale */
  bool delayed;                  /* scales are `scale`, whose program finds */
  mrt_tensor *scale, *amax;      /* `amax`; NULL: not made yet */
} mrt_precision_memo;

/* What a compress policy has answered for a trace. */
typedef struct mrt_compress_memo {
  mrt_compress_format *formats; /* by the order asked; NULL: not yet */
  int values;                   /* that are packed */
  size_t from, to; /* bytes of these, and of what they are packed to */
} mrt_compress_memo;

typedef struct mrt_rewrite {
  mrt_graph *graph;                 /* to change */
  const mrt_plan_options *options;  /* what the script asks */
  const mrt_device_profile *device; /* what the plan is made for */
  mrt_precision_memo *memo;
  mrt_compress_memo *compress;
  mrt_arena *memo_arena; /* where its arrays live */
  bool traced;           /* false: one evaluation outside of a trace */
  bool off; /* the script has switched this pass off; it is called all the
                  same where its row says NEEDED */
} mrt_rewrite;

/* Is the plan for a CPU?  On one it may be made for a device that records its
 * runs, whose kernels are others. */
static inline bool mrt_rewrite_for_cpu(const mrt_rewrite *r) {
  return !r->device->records;
}

/* ENOMEM, or what the pass says, with the message in the graph's context; the
 * graph is then only good for being freed. */
#define REWRITE(name, doc) mrt_status mrt_pass_##name(mrt_rewrite *r);
#define LOWER(name, doc)   mrt_status mrt_pass_##name(mrt_rewrite *r);
#define PASS(name, doc)
#include "mrt/passes.def"

#endif
