/* exec.c -- one run of a plan, step by step
 *
 *   prepare   memory, variables, addresses (prepare.c); all that can fail for
 *             want of memory fails here
 *   compare   have all ranks these collectives? (check_collectives.c)
 *   walk      the kernels in order; on a device that queues, the queue of them
 *             or its recording (remote.c, queue.c)
 *
 * Invariants
 *   - after its first run a plan allocates nothing but the storages of results
 *     that the user still holds (spec/run/memory_spec.lua);
 *   - a step happens whole or not at all: interrupts and bad indices are acted
 *     on before the first update, bad indices before a collective too; past it
 *     the run goes to its end (spec/run/step_spec.lua);
 *   - however a run ends, nothing of it is under way when it returns, but for
 *     what a device has in its queue; and the host's floating-point modes are as
 *     they were (spec/run/rounding.c).
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "run/poison.h"
#include "run/remote.h"
#include "run/watch.h"

/* Until the step is done, on a device that queues; what failed shows later. */
static void wait_device(const mrt_plan *plan) {
  mrt_error ignored;
  mrt_device_wait(&plan->ctx->device, &ignored);
}

static mrt_status run_step(const mrt_plan *plan, int i) {
  mrt_runner *r = plan->runner;
  double began = r->times ? r->clock() : 0;
  MRT_TRY(mrt_step_run(plan, i));
  if (r->times) {
    wait_device(plan);
    r->times[i] = r->clock() - began;
  }
  if (r->ranges) mrt_watch_range(plan, &plan->steps[i], &r->ranges[i]);
  return MRT_OK;
}

/* What is trapped past the first update is told when the step has ended. */
static mrt_status run_trapped(const mrt_plan *plan, int i,
                              mrt_status *trapped) {
  const mrt_step *s = &plan->steps[i];
  mrt_unusual before = mrt_watch_inputs(plan, s);
  if (before.nan && (*trapped = mrt_watch_leaves(plan, s))) return MRT_OK;
  MRT_TRY(run_step(plan, i));
  *trapped = mrt_watch_outputs(plan, s, before);
  return MRT_OK;
}

static mrt_status run_poisoned(const mrt_plan *plan, int i) {
  uint64_t before = mrt_poison_hash(plan, i);
  MRT_TRY(run_step(plan, i));
  if (mrt_poison_hash(plan, i) != before) return mrt_poison_fail(plan, i);
  return mrt_poison_dead(plan, i);
}

static mrt_status interrupted(const mrt_plan *plan) {
  if (plan->runner->run.comm_thread)
    mrt_comm_thread_drain(plan->runner->run.comm_thread);
  mrt_interrupt_clear(plan->ctx);
  return mrt_fail(&plan->ctx->error, MRT_EINTERRUPT, "interrupted");
}

/* Is step `i` a collective?  The others' updates mostly wait for it: where this
 * rank does not come, they are not made. */
static bool meets(const mrt_plan *plan, int i) {
  return i >= 0 && (plan->steps[i].node->op->traits & MRT_COLLECTIVE);
}

/* Before step `i`, up to the first update: the last chance to change nothing.
 * Who goes on masks interrupts, for a collective in the other thread too: what
 * that would leave for an interrupt is seen here, or not at all. */
static mrt_status may_stop(const mrt_plan *plan, int i) {
  mrt_context *ctx = plan->ctx;
  if (mrt_interrupts_raised(ctx)) return interrupted(plan);
  bool last = i >= plan->first_update && !plan->part_rows;
  if (plan->runner->run.fault && (last || meets(plan, i)))
    return mrt_plan_bad_index(plan);
  if (!last) return MRT_OK;
  if (!ctx->device.queue && !mrt_interrupts_mask(ctx)) return interrupted(plan);
  if (plan->runner->times) return MRT_OK; /* what it writes will be as before */
  for (int k = 0; k < plan->written_count; k++)
    mrt_readers_invalidate(plan->written[k]->variable);
  return MRT_OK;
}

MRT_API size_t mrt_plan_bytes(const mrt_plan *plan) {
  size_t bytes = sizeof *plan + mrt_arena_bytes(&plan->graph.arena);
  return plan->runner ? bytes + mrt_arena_bytes(&plan->runner->arena) : bytes;
}

MRT_API uint64_t mrt_plan_runs(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  return r->seed_epoch == plan->ctx->random.begun ? r->runs : 0;
}

/* Steps from the first on whose data are looked at. */
static int trapped_steps(const mrt_plan *plan) {
  int n = 0, all = plan->options.trap ? plan->step_count : 0;
  while (n < all &&
         !(plan->options.overflows && plan->steps[n].node->origin.backward))
    n++;
  return n;
}

static mrt_status walk(const mrt_plan *plan) {
  bool poison = plan->ctx->poison;
  int looked_at = trapped_steps(plan);
  mrt_status trapped = MRT_OK;
  if (poison) MRT_TRY(mrt_poison_dead(plan, -1));
  for (int i = 0; i < plan->step_count; i++) {
    if (i <= plan->first_update || plan->part_rows) MRT_TRY(may_stop(plan, i));
    bool look = i < looked_at && !trapped;
    mrt_status s = poison ? run_poisoned(plan, i)
                   : look ? run_trapped(plan, i, &trapped)
                          : run_step(plan, i);
    if (!s) s = mrt_device_works(&plan->ctx->device, &plan->ctx->error);
    if (s) return s == MRT_EDEVICE ? mrt_plan_failed(plan) : s;
    if (plan->runner->run.lost) return mrt_plan_lost(plan);
    if (plan->runner->run.refused) return mrt_plan_refused(plan);
    if (trapped && (i < plan->first_update || plan->part_rows)) return trapped;
  }
  plan->runner->runs++, plan->ctx->steps += (uint64_t)plan->step_count;
  if (trapped) return trapped;
  return plan->runner->run.fault ? mrt_plan_fault(plan) : MRT_OK;
}

/* What looks at single steps takes them one by one. */
static mrt_status walk_queued(const mrt_plan *plan, mrt_tensor *const *in) {
  bool looks = plan->ctx->poison || plan->options.trap || plan->runner->times;
  bool updates = plan->first_update < plan->step_count;
  MRT_TRY(mrt_remote_begin(plan));
  plan->runner->milestones = !looks;
  mrt_status s = mrt_record_with_ranks(plan, looks);
  if (!s) s = mrt_plan_fill_slots(plan, in);
  if (!s && looks) {
    s = walk(plan);
  } else if (!s) {
    s = may_stop(plan, updates ? plan->first_update : -1);
    if (s) mrt_plan_abandon(plan, 0);
    if (!s) s = mrt_replay(plan);
    if (!s)
      plan->runner->runs++, plan->ctx->steps += (uint64_t)plan->step_count;
    plan->runner->loaded |= !s;
  }
  return mrt_remote_end(plan, s);
}

/* Which run this is, of which rows, for kernels that draw. */
static void begin(const mrt_plan *plan, const mrt_part *part) {
  const mrt_plan_options *o = &plan->options;
  mrt_runner *r = plan->runner;
  r->runs = mrt_plan_runs(plan), r->seed_epoch = plan->ctx->random.begun;
  r->run.step = part ? part->run : r->runs;
  r->run.row = part ? part->row : 0;
  r->run.first_row = part ? part->first : 0;
  r->run.rows = plan->part_rows, r->run.all_rows = part ? part->rows : 0;
  if (!plan->part_rows && o->rows) r->run.rows = r->run.all_rows = o->rows;
  r->run.rank = o->rank, r->run.ranks = o->ranks ? o->ranks : 1;
}

static mrt_status run(const mrt_plan *plan, const mrt_part *part,
                      mrt_tensor *const *in) {
  mrt_context *ctx = plan->ctx;
  begin(plan, part);
  if (ctx->memory.budget && plan->info.peak > ctx->memory.budget)
    return mrt_fail(&ctx->error, MRT_EBUDGET,
                    "this evaluation takes %zu bytes, the budget is %zu",
                    plan->info.peak, ctx->memory.budget);
  mrt_status ready = mrt_plan_prepare(plan, in);
  if (ready) return mrt_remote_stopped(plan, ready);
  MRT_TRY(mrt_plan_check_collectives(plan));
  if (ctx->device.queue) {
    mrt_status s = walk_queued(plan, in);
    return s ? mrt_plan_undo_count(plan), s : s;
  }
  plan->runner->at = -1;
  mrt_status s = walk(plan);
  if (s && s != MRT_ERANK) mrt_plan_abandon(plan, plan->runner->at + 1);
  /* However it ended: nothing may run into what comes next. */
  if (plan->runner->run.comm_thread)
    mrt_comm_thread_drain(plan->runner->run.comm_thread);
  if (plan->graph.transfer_count) ctx->swap.row.tier.drain(&ctx->swap.row.tier);
  mrt_interrupts_unmask(ctx);
  return s;
}

mrt_status mrt_plan_walk(const mrt_plan *plan, const mrt_part *part,
                         mrt_tensor *const *in) {
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_status s = run(plan, part, in);
  mrt_rounding_end(&host);
  return s;
}
