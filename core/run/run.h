/* run.h -- walking a finished plan
 *
 * SPDX-License-Identifier: MIT */
#ifndef MRT_RUN_RUN_H
#define MRT_RUN_RUN_H

#include "mrt/frontend.h"
#include "run/runner.h"

/* A plan for `roots` and `updates`, ready to run. */
mrt_status mrt_plan_new(mrt_context *ctx, mrt_tensor *const *roots,
                        int root_count, mrt_expr *const *updates,
                        int update_count, mrt_tensor *const *inputs,
                        int input_count, const mrt_plan_options *options,
                        mrt_space *space, mrt_plan **out);

/* Make the storages of these variables, computing their initial values;
 * `variables` is scratch afterwards. */
mrt_status mrt_variables_start(mrt_context *ctx, mrt_tensor **variables, int n);
/* The same of all that the plan reads and that has none yet. */
mrt_status mrt_plan_begin_variables(const mrt_plan *plan);

/* All room in the swap tier that the run needs: a full disk is found while
 * nothing has happened. */
mrt_status mrt_plan_reserve_swap(const mrt_plan *plan);
/* Variables that live there go there, one after the other. */
mrt_status mrt_plan_evict(const mrt_plan *plan);
/* The others come to memory. */
mrt_status mrt_plan_fetch(const mrt_plan *plan);

/* Compute tensors now, tracing or not. */
mrt_status mrt_compute(mrt_context *ctx, mrt_tensor *const *t, int n);
/* The same of one that a few operators compute from data, without a plan; false:
 * it is not so, or does not work out, and a plan is to be made. */
bool mrt_compute_direct(mrt_context *ctx, mrt_tensor *t);
/* `t` has its data: what it was waiting for is let go, and what that was
 * waiting for, and so on. */
void mrt_settle(mrt_tensor *t);
/* Compute roots and perform updates, all in one plan. */
mrt_status mrt_compute_once(mrt_context *ctx, mrt_tensor *const *roots, int n,
                            mrt_expr *const *updates, int update_count);

/* Pending tensors that read a variable's present value. */
typedef struct mrt_readers {
  mrt_tensor **at;
  int count, room;
} mrt_readers;
/* Those of `variables`, but not what `except` computes. */
mrt_status mrt_readers_collect(mrt_arena *arena, mrt_tensor *const *variables,
                               int n, const mrt_expr *except,
                               mrt_readers *list);
/* Compute them. */
mrt_status mrt_readers_compute(mrt_context *ctx, mrt_tensor *const *variables,
                               int n);
/* Variables of a bucket give back the copies of their data. */
void mrt_shards_drop_copies(mrt_variable *bucket);
/* What a variable that has no storage begins as, with one reference: its
 * initial value, or of a sharded one what is gathered. */
mrt_status mrt_variable_initial(mrt_tensor *t, mrt_tensor **out);
/* Forget what initial values have gathered. */
void mrt_variable_begun(mrt_tensor *t);
/* Elements from, from + 1 .. to - 1 of one dimension; none at 0 would read as
 * up to the end. */
mrt_tensor *mrt_elements(struct mrt_build *b, mrt_tensor *x, int64_t from,
                         int64_t to);
/* shard = value, in the bucket. */
mrt_status mrt_shard_assign(mrt_tensor *shard, mrt_tensor *value,
                            mrt_tensor *when);
/* What is pending below the roots and updates, is not one of the roots, and is
 * worth keeping for the handles on it. */
mrt_status mrt_keep_find(mrt_context *ctx, mrt_arena *arena,
                         mrt_tensor *const *roots, int n,
                         mrt_expr *const *updates, int update_count,
                         mrt_readers *kept);

/* The variable changes: what has read it is stale from now on. */
void mrt_readers_invalidate(mrt_variable *v);

/* Are these rows the plan's? */
mrt_status mrt_plan_check_part(const mrt_plan *plan, const mrt_part *part);
/* The right number of inputs, of the right types, now computed? */
mrt_status mrt_plan_check_inputs(const mrt_plan *plan, const mrt_part *part,
                                 mrt_tensor *const *in, int nin, int nout);
/* Get what a run needs from the device, and resolve where all of it lies; on
 * failure nothing has changed but variables that have begun. */
mrt_status mrt_plan_prepare(const mrt_plan *plan, mrt_tensor *const *in);
/* Queue that inputs are copied to their slots, if they have such. */
mrt_status mrt_plan_fill_slots(const mrt_plan *plan, mrt_tensor *const *in);
/* Do all ranks have this plan's collectives?  ERANK, saying where they begin to
 * differ; then nothing has changed. */
mrt_status mrt_plan_check_collectives(const mrt_plan *plan);
/* Do ranks record its collectives together?  Then, if they ask each other in
 * this run of it, which that is; 0: not in this one.  Once in each run. */
bool mrt_plan_asks_ranks(const mrt_plan *plan);
uint64_t mrt_plan_ranks_turn(const mrt_plan *plan);
/* What all ranks say if they say the same; 0 if one says 0; else 1. */
mrt_status mrt_plan_ask_ranks(const mrt_plan *plan, uint64_t *word);
/* Seconds of the steps, as rank 0 has measured them, where all ranks have the
 * same steps; nothing for a plan without collectives. */
mrt_status mrt_plan_share_times(const mrt_plan *plan, double *seconds,
                                double *total);
/* Until all that was queued is done; what the runs before have met.  Nothing
 * on a device that does not queue. */
mrt_status mrt_runs_drain(mrt_context *ctx);
/* Only until this fence. */
mrt_status mrt_runs_wait_fence(mrt_context *ctx, uint64_t fence);
/* Run with results left in plan->runner->result_storage. */
mrt_status mrt_plan_walk(const mrt_plan *plan, const mrt_part *part,
                         mrt_tensor *const *in);

/* Compute step i, or queue it. */
mrt_status mrt_step_run(const mrt_plan *plan, int i);

#endif
