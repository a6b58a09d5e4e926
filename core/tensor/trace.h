/* trace.h -- what the tracing of a function records
 *
 * A trace is a list of sections, each with the function's inputs and the
 * updates it makes; the plan of a section computes its updates and what it
 * returns.
 *
 * Invariants
 *   - at most one trace is under way in a context (context->trace);
 *   - tensors with ids below first_id are constants of its plans;
 *   - a variable's newest version in the trace is held by the trace, and read
 *     instead of the variable until the section ends;
 *   - sections draw the same random keys as long as they run alike: each begins
 *     at first_key.
 *
 * Written by run/trace.c; updates are recorded by run/eval.c, collectives by
 * tensor/trace.c.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_TENSOR_TRACE_H
#define MRT_TENSOR_TRACE_H

#include "tensor/tensor.h"

/* What one tracing of a function records. */
typedef struct mrt_section {
  mrt_tensor **inputs; /* held */
  int input_count, input_room;
  mrt_expr **updates;   /* kept alive by `results` */
  mrt_tensor **results; /* held: output 0 of each update */
  int update_count, update_room, result_room;
} mrt_section;

typedef struct mrt_trace {
  mrt_arena arena;
  uint64_t first_id;            /* tensors with smaller ids come from outside */
  uint64_t first_key, last_key; /* of random nodes: where each section begins,
                                   where all have ended */
  const struct mrt_plan *old;   /* whose place its plan takes; or NULL */
  mrt_section now, **sections;  /* those before */
  int section_count, section_room;
  mrt_tensor **variables; /* held: those with a traced version */
  int variable_count, variable_room;
  mrt_tensor **replaced; /* held: those that read as a variable */
  int replaced_count, replaced_room;
} mrt_trace;

/* `t` is what a collective gives: the plan of the trace computes it whoever
 * reads it, and mrt_communicate does outside. */
mrt_status mrt_call_note(mrt_context *ctx, mrt_tensor *t);
/* Forget what was noted outside traces since there were `count`. */
void mrt_calls_drop(mrt_context *ctx, int count);

#endif
