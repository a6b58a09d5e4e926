/* run.c -- running a plan for its user
 *
 * Inputs are checked and computed, what is pending on variables that the plan
 * writes comes first, outputs become tensors; the run itself is exec.c's.
 *
 * SPDX-License-Identifier: MIT */
#include "run/run.h"

#include <stdio.h>

MRT_API mrt_context *mrt_plan_context(const mrt_plan *plan) {
  return plan->ctx;
}

/* An input is read where it lies: it must not be written meanwhile, nor
 * leave. */
static bool changes_variable(const mrt_plan *plan, const mrt_tensor *t) {
  for (int i = 0; i < plan->written_count; i++)
    for (const mrt_tensor *own = t; own; own = own->variable->bucket)
      if (plan->written[i] == own) return true;
  for (int i = 0; i < plan->leaf_count; i++)
    if (plan->leaves[i]->swapped && plan->leaves[i]->tensor == t) return true;
  return false;
}

/* The plan's type, but for the rows of the whole batch in its place. */
static bool is_whole(const mrt_plan *plan, const mrt_part *part,
                     const mrt_type *given, const mrt_type *own) {
  if (!part || !part->rows || !given->rank) return false;
  mrt_type rows = *given;
  rows.dims[0] = plan->part_rows;
  return given->dims[0] == part->rows && mrt_type_equal(&rows, own);
}

mrt_status mrt_plan_check_part(const mrt_plan *plan, const mrt_part *part) {
  if (plan->part_rows
          ? part && part->row >= 0 && part->row <= part->rows - plan->part_rows
          : !part || (!part->row && !part->rows))
    return MRT_OK;
  return mrt_fail(&plan->ctx->error, MRT_EVALUE,
                  "a plan over %lld rows cannot run for row %lld of %lld",
                  (long long)plan->part_rows, part ? (long long)part->row : 0,
                  part ? (long long)part->rows : 0);
}

mrt_status mrt_plan_check_inputs(const mrt_plan *plan, const mrt_part *part,
                                 mrt_tensor *const *in, int nin, int nout) {
  mrt_error *e = &plan->ctx->error;
  const mrt_plan_info *info = &plan->info;
  const char *name = plan->options.name ? plan->options.name : "plan";
  if (plan->ctx->trace)
    return mrt_fail(e, MRT_ESTATE, "%s: cannot run inside a trace", name);
  if (nin != info->inputs_count || nout != info->outputs_count)
    return mrt_fail(e, MRT_EVALUE,
                    "%s: %d inputs and %d outputs, %d and %d "
                    "wanted",
                    name, nin, nout, info->inputs_count, info->outputs_count);
  for (int i = 0; i < nin; i++) {
    if (in[i]->variable && changes_variable(plan, in[i]))
      return mrt_fail(e, MRT_EVALUE,
                      "%s: input %d is the variable '%s', which this plan "
                      "updates or swaps; read it inside the function instead",
                      name, i + 1, in[i]->name ? in[i]->name : "?");
    if (!mrt_type_equal(&in[i]->type, &plan->input_types[i]) &&
        !is_whole(plan, part, &in[i]->type, &plan->input_types[i]))
      return mrt_fail(e, MRT_ESHAPE, "%s: input %d is %s, %s wanted", name,
                      i + 1, mrt_show(&in[i]->type).s,
                      mrt_show(&plan->input_types[i]).s);
  }
  return mrt_eval(plan->ctx, in, nin);
}

/* Tensors first: past the updates nothing may fail. */
static mrt_status new_outputs(const mrt_plan *plan, mrt_tensor **out,
                              int nout) {
  for (int i = 0; i < nout; i++) {
    out[i] = mrt_tensor_new(plan->ctx, &plan->graph.outputs[i]->type);
    if (out[i]) {
      out[i]->handles = 1;
      continue;
    }
    while (i > 0) mrt_tensor_unref(out[--i]);
    return mrt_nomem(&plan->ctx->error);
  }
  return MRT_OK;
}

static mrt_status run_all(const mrt_plan *plan, const mrt_part *part,
                          mrt_tensor *const *in, int nin, mrt_tensor **out,
                          int nout) {
  MRT_TRY(mrt_plan_check_part(plan, part));
  MRT_TRY(mrt_plan_check_inputs(plan, part, in, nin, nout));
  MRT_TRY(mrt_readers_compute(plan->ctx, plan->written, plan->written_count));
  MRT_TRY(new_outputs(plan, out, nout));
  mrt_status s = mrt_plan_walk(plan, part, in);
  for (int i = 0; i < nout; i++) {
    if (s)
      mrt_tensor_unref(out[i]);
    else
      mrt_tensor_resolve(out[i],
                         plan->runner->result_storage[plan->output_result[i]]);
  }
  return s;
}

MRT_API void mrt_context_take_notice(mrt_context *ctx, char *to, size_t room) {
  snprintf(to, room, "%s", ctx->notice);
  ctx->notice[0] = '\0';
}

MRT_API double mrt_plan_stalled(const mrt_plan *plan) {
  return plan->runner->run.stalled;
}

MRT_API mrt_status mrt_plan_run(mrt_plan *plan, mrt_tensor *const *in, int nin,
                                mrt_tensor **out, int nout) {
  return run_all(plan, NULL, in, nin, out, nout);
}

/* ---- parts of a batch ---------------------------------------------------- */

/* Output i for all rows, its data still to come. */
static mrt_status whole_output(const mrt_plan *plan, const mrt_part *part,
                               int i, mrt_tensor **out) {
  mrt_type type = plan->graph.outputs[i]->type;
  mrt_storage *storage;
  type.dims[0] = type.dims[0] / plan->part_rows * part->rows;
  MRT_TRY(mrt_type_check(&type, "accumulate", &plan->ctx->error));
  MRT_TRY(mrt_storage_new(plan->ctx, mrt_type_bytes(&type), &storage));
  *out = mrt_tensor_new(plan->ctx, &type);
  if (*out) mrt_tensor_resolve(*out, storage), (*out)->handles = 1;
  mrt_storage_unref(storage);
  return *out ? MRT_OK : mrt_nomem(&plan->ctx->error);
}

static mrt_status whole_outputs(const mrt_plan *plan, const mrt_part *part,
                                mrt_tensor **out, int nout) {
  for (int i = 0; i < nout; i++) {
    mrt_status s = whole_output(plan, part, i, &out[i]);
    if (!s) continue;
    while (i > 0) mrt_tensor_unref(out[--i]);
    return s;
  }
  return MRT_OK;
}

static mrt_status copy_rows(const mrt_plan *plan, const mrt_part *part,
                            mrt_tensor **out, int nout) {
  for (int i = 0; i < nout; i++) {
    size_t bytes = mrt_type_bytes(&plan->graph.outputs[i]->type);
    char *to = out[i]->storage->data;
    MRT_TRY(mrt_device_copy(
        &plan->ctx->device,
        to + bytes / (size_t)plan->part_rows * (size_t)part->row,
        plan->runner->result_storage[plan->output_result[i]]->data, bytes,
        &plan->ctx->error));
  }
  return MRT_OK;
}

MRT_API mrt_status mrt_plan_run_part(mrt_plan *plan, const mrt_part *part,
                                     mrt_tensor *const *in, int nin,
                                     mrt_tensor **out, int nout) {
  if (!plan->part_rows || part->apart)
    return run_all(plan, part, in, nin, out, nout);
  MRT_TRY(mrt_plan_check_part(plan, part));
  MRT_TRY(mrt_plan_check_inputs(plan, part, in, nin, nout));
  bool first = part->row == 0;
  if (first) MRT_TRY(whole_outputs(plan, part, out, nout));
  mrt_status s = mrt_plan_walk(plan, part, in);
  if (!s) s = copy_rows(plan, part, out, nout);
  for (int i = 0; s && first && i < nout; i++) mrt_tensor_unref(out[i]);
  return s;
}
