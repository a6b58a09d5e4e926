/* runner.h -- what runs a finished plan
 *
 * The plan says what happens and does not change; everything that a run writes
 * is here: addresses, counters, the memory in use, what a queueing device has
 * been given.  A plan has one runner, from when it is made (mrt_plan_new) until
 * it is freed.
 *
 * Invariants
 *   - functions of run/ take a const plan: what changes is plan->runner;
 *   - calls[i] is the plan's call of step i, with addresses: those of the arena
 *     and of variables hold while placed_generation and placed_moves do, those
 *     of inputs and outputs for one run, or as long if runs are recorded;
 *   - where runs are recorded, result_storage[i] keeps its address: a user who
 *     holds a result of the run before holds a storage of his own by then;
 *   - after the first run nothing here is allocated.
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_RUNNER_H
#define MRT_RUN_RUNNER_H

#include "plan/plan.h"

/* Where an operand's bytes are. */
typedef enum mrt_address_kind {
  MRT_IN_ARENA,        /* index: of plan->buffers */
  MRT_IN_VARIABLE,     /* index: of plan->leaves */
  MRT_IN_INPUT,        /* index: of the plan's inputs */
  MRT_IN_OUTPUT,       /* index: of plan->results */
  MRT_IN_SWAP_TIER,    /* index: of plan->buffers, in the space's part of it */
  MRT_IN_SWAP_LOCATION /* index: of plan->leaves, which lies in the swap tier */
} mrt_address_kind;

typedef struct mrt_address {
  void **pointer; /* to fill */
  mrt_address_kind where;
  int index;
  int64_t bytes; /* offset from there */
} mrt_address;

struct mrt_runner {
  mrt_arena arena; /* all arrays here */
  mrt_space *space;
  int slots[MRT_SWAP_TIERS]; /* of the context, by the plan's tier */

  mrt_call *calls;             /* by step */
  mrt_call *staged;            /* ditto, of steps that the CPU computes for the
                                  device: with operands in staging memory */
  const mrt_call **call_list;  /* ditto, for kernels that take several */
  int *together;               /* by step: steps from here on that one launch
                                   may do: 1 or more */
  mrt_address *fixed, *moving; /* arena and variables; inputs and outputs */
  int fixed_count, moving_count;
  uint64_t placed_generation;   /* of the space when `fixed` was resolved, */
  uint64_t placed_moves;        /* and of the context */
  mrt_storage **result_storage; /* the last run's, reused if nobody has it */
  mrt_storage **held;           /* by result: what the user holds of it, while
                                   its bits move; else NULL */
  int *input_slot;              /* by input: its buffer, which says where it is
                                   copied to if runs are recorded; -1: nothing
                                   reads it */
  bool agreed;                  /* the ranks have compared its collectives: */
  int64_t list_comm;  /* its first communicator, by number, and what */
  uint64_t list_hash; /* it asks of that one; 0: there is none */

  uint64_t runs, seed_epoch; /* how often it ran since that seed */
  mrt_run run;
  int at;            /* the step that runs, or is being queued; -1: none yet */
  double *times;     /* to fill with the seconds of each step; NULL: not now */
  mrt_range *ranges; /* to fill with what each step writes; NULL: not now */
  double (*clock)(void);

  /* on a device that queues (run/remote.c) */
  bool records; /* the device records runs: nothing they use moves */
  bool loaded;  /* it has been queued once, whatever random numbers did since */
  const mrt_plan *next_in_flight;
  bool queued;              /* its last run, whole */
  bool milestones;          /* and they are in it */
  uint64_t places;          /* rises when fixed places move, */
  uint64_t recorded_places; /* and what it was at this recording */
  void *recording;          /* a run as one launch; NULL: not yet */
  uint64_t recorded_turn;   /* with other ranks: which run of theirs it was */
  bool unrecorded;          /* that did not work out: it is not tried again */
};

/* The call of a step of the plan, with addresses. */
static inline mrt_call *mrt_runner_call(const mrt_plan *plan,
                                        const mrt_step *s) {
  return &plan->runner->calls[s - plan->steps];
}
/* The same in staging memory, of one that has a host step. */
static inline mrt_call *mrt_runner_staged(const mrt_plan *plan,
                                          const mrt_step *s) {
  return &plan->runner->staged[s - plan->steps];
}

/* Give `plan` its runner, bound and grouped.  On failure it has none. */
mrt_status mrt_runner_new(mrt_plan *plan, mrt_space *space);
void mrt_runner_free(mrt_plan *plan); /* none is fine */

/* Resolve which pointers go where. */
mrt_status mrt_runner_bind(const mrt_plan *plan);
/* Which steps are done together. */
mrt_status mrt_runner_group(const mrt_plan *plan);

#endif
