/* failed.c -- how a run failed: what it says, and what it leaves torn
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "run/remote.h"

#include <stdio.h>
#include <string.h>

mrt_status mrt_plan_bad_index(const mrt_plan *plan) {
  const mrt_node *n = plan->steps[plan->runner->run.fault - 1].node;
  if (n->op->fault) {
    char text[160];
    snprintf(text, sizeof text, n->op->fault,
             (long long)plan->runner->run.bad_id,
             (long long)plan->runner->run.bad_limit);
    return mrt_fail(&plan->ctx->error, MRT_EDATA, "%s (%s:%d): %s", n->label,
                    n->origin.file, n->origin.line, text);
  }
  return mrt_fail(&plan->ctx->error, MRT_EDATA,
                  "%s (%s:%d): index %lld, 0 to %lld wanted (ids count from 0)",
                  n->label, n->origin.file, n->origin.line,
                  (long long)plan->runner->run.bad_id,
                  (long long)plan->runner->run.bad_limit - 1);
}

void mrt_plan_tear(const mrt_plan *plan) {
  for (int i = 0; i < plan->written_count; i++)
    plan->written[i]->variable->torn = true;
}

void mrt_plan_undo_count(const mrt_plan *plan) {
  for (int i = 0; i < plan->written_count; i++)
    plan->written[i]->variable->writes += 2;
}

mrt_status mrt_plan_failed(const mrt_plan *plan) {
  mrt_error *e = &plan->ctx->error, told = *e;
  if (plan->ctx->device.queue || plan->runner->at < 0) return told.status;
  const mrt_node *n = plan->steps[plan->runner->at].node;
  if (plan->runner->at >= plan->first_update && !plan->part_rows)
    mrt_plan_tear(plan);
  return mrt_fail(e, told.status, "at %s (%s:%d): %s", n->label, n->origin.file,
                  n->origin.line, told.message);
}

mrt_status mrt_plan_lost(const mrt_plan *plan) {
  int step = plan->runner->run.lost - 1;
  const mrt_node *n = plan->steps[step].node;
  const mrt_value *swapped = n->in[1];
  bool torn = step >= plan->first_update && !plan->part_rows;
  if (torn) mrt_plan_tear(plan);
  return mrt_fail(&plan->ctx->error, MRT_EDEVICE,
                  "swap file: %s (%zu bytes, %s:%d) was not copied: %s; %s",
                  swapped->name ? swapped->name : "a value",
                  mrt_type_bytes(&swapped->type), n->origin.file,
                  n->origin.line, strerror(plan->runner->run.lost_code),
                  torn ? "what this step updates is torn: load a snapshot"
                       : "nothing has changed");
}

/* The step that waits for what step `i` begins ahead; `i` if it does not. */
static int arrival_of(const mrt_plan *plan, int i) {
  const mrt_node *n = plan->steps[i].node;
  for (int k = i + 1; mrt_is_ahead(n->op, n->options) && k < plan->step_count;
       k++) {
    const mrt_node *other = plan->steps[k].node;
    if (other->op->number == MRT_OP_arrive && other->in[0] == n->out[0])
      return k;
  }
  return i;
}

/* At its own step or, begun ahead, where it is waited for. */
mrt_status mrt_plan_refused(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  const mrt_node *n = plan->steps[plan->runner->run.refused - 1].node;
  const mrt_error said = ctx->error;
  /* Of what was queued nothing runs past the step that failed. */
  int reached = ctx->device.queue
                    ? arrival_of(plan, plan->runner->run.refused - 1)
                    : plan->runner->at;
  bool torn = reached >= plan->first_update && !plan->part_rows;
  if (torn) mrt_plan_tear(plan);
  if (said.status == MRT_EINTERRUPT) mrt_interrupt_clear(ctx);
  return mrt_fail(&ctx->error, said.status, "%s (%s:%d), run %llu: %s%s",
                  n->label, n->origin.file, n->origin.line,
                  (unsigned long long)plan->runner->run.step + 1, said.message,
                  torn ? "; what this step updates is torn: load a snapshot"
                       : "");
}

void mrt_plan_abandon(const mrt_plan *plan, int from) {
  const mrt_context *owner = mrt_communicators_owner(plan->ctx);
  const char *why = plan->ctx->error.message;
  for (int i = from; i < plan->step_count; i++) {
    const mrt_node *n = plan->steps[i].node;
    const mrt_collective_options *o = n->options;
    if (!(n->op->traits & MRT_COLLECTIVE)) continue;
    mrt_communicator *comm = owner->ranks.communicators[o->comm];
    if (comm && comm->size > 1) comm->abort(comm, why);
  }
}

mrt_status mrt_plan_fault(const mrt_plan *plan) {
  if (plan->runner->run.refused) return mrt_plan_refused(plan);
  /* A bad index showed up after an update that it depends on. */
  if (plan->runner->run.fault - 1 > plan->first_update && !plan->part_rows)
    mrt_plan_tear(plan);
  return mrt_plan_bad_index(plan);
}
