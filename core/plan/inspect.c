/* inspect.c -- what a finished plan says of itself
 *
 * Steps, buffers and copies as plain structs that borrow from the plan: for
 * reports, the command line and whoever writes a front end.  Nothing here
 * changes a plan.
 *
 * SPDX-License-Identifier: MIT */
#include "base/rounding.h"
#include "op/collective.h"
#include "plan/cost.h"

#include <string.h>

MRT_API mrt_plan_info mrt_plan_get_info(const mrt_plan *plan) {
  return plan->info;
}

MRT_API const mrt_device_profile *mrt_plan_get_device(const mrt_plan *plan) {
  return &plan->device;
}

static int comm_of(const mrt_node *n) {
  if (!(n->op->traits & MRT_COLLECTIVE)) return -1;
  return (int)((const mrt_meeting *)n->options)->comm;
}

MRT_API mrt_step_info mrt_plan_get_step(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->step_count)
    return (mrt_step_info){ .op = "", .file = "?", .cost = "", .comm = -1 };
  const mrt_step *s = &plan->steps[i];
  return (mrt_step_info){
    .op = s->node->label,
    .file = s->node->origin.file,
    .module = s->node->origin.module,
    .line = s->node->origin.line,
    .layer = s->node->origin.layer,
    .backward = s->node->origin.backward,
    .recomputed = s->node->recomputed,
    .hosted = s->hosted,
    .in_tier = s->node->in_tier,
    .cost = mrt_cost_name(mrt_node_cost(s->node)),
    .accumulate = mrt_node_sums(s->node),
    .flops = s->flops,
    .bytes = s->traffic,
    .seconds = s->seconds,
    .live = s->live,
    .comm = comm_of(s->node),
  };
}

MRT_API uint64_t mrt_plan_step_key(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->step_count) return 0;
  return mrt_node_key(plan->steps[i].node);
}

MRT_API double mrt_plan_step_speed(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->step_count || plan->steps[i].hosted) return 0;
  return mrt_node_speed(&plan->device, plan->steps[i].node);
}

static bool is_here(const mrt_value *v) {
  const mrt_storage *s = v && v->tensor ? v->tensor->storage : NULL;
  return s && s->data;
}

MRT_API int mrt_plan_buffer_count(const mrt_plan *plan) {
  return plan->buffer_count;
}

MRT_API mrt_buffer_info mrt_plan_get_buffer(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->buffer_count)
    return (mrt_buffer_info){ .op = "", .file = "?", .tier = -1 };
  const mrt_buffer *s = &plan->buffers[i];
  mrt_origin at = s->value ? s->value->origin : s->node->origin;
  return (mrt_buffer_info){
    .kind = s->kind,
    .op = s->node ? s->node->label : "",
    .name = s->value ? s->value->name : NULL,
    .cost = s->node ? mrt_cost_name(mrt_node_cost(s->node)) : NULL,
    .file = at.file,
    .module = at.module,
    .line = at.line,
    .type = s->value ? s->value->type
                     : (mrt_type){ .dtype = MRT_u8,
                                   .rank = 1,
                                   .dims = { (int64_t)s->bytes } },
    .bytes = s->bytes,
    .offset = s->offset,
    .tier = s->kind == MRT_BUFFER_SWAPPED ? s->tier : -1,
    .first = s->first,
    .last = s->last,
    .id = s->value && s->value->tensor ? s->value->tensor->id : 0,
    .here = is_here(s->value),
  };
}

MRT_API mrt_operand_info mrt_plan_get_operand(const mrt_plan *plan, int step,
                                              int i) {
  mrt_operand_info none = { .value = -1 };
  if (step < 0 || step >= plan->step_count || i < 0) return none;
  const mrt_node *n = plan->steps[step].node;
  if (i < n->nin)
    return (mrt_operand_info){
      .value = n->in[i]->base->buffer,
      .overwritable = i < 32 && n->op->inplace >> i & 1,
    };
  i -= n->nin;
  if (i < n->nout)
    return (mrt_operand_info){ n->out[i]->base->buffer, .written = true };
  if (i > n->nout || n->scratch_buffer < 0) return none;
  return (mrt_operand_info){ n->scratch_buffer, .written = true };
}

MRT_API int mrt_plan_tier_count(const mrt_plan *plan) {
  return mrt_device_tier_count(&plan->device);
}

MRT_API mrt_tier_info mrt_plan_get_tier(const mrt_plan *plan, int i) {
  if (i < 0 || i >= mrt_plan_tier_count(plan)) return (mrt_tier_info){ 0 };
  return plan->tiers[i];
}

MRT_API int mrt_plan_output_block(const mrt_plan *plan, int i) {
  bool known = i >= 0 && i < plan->info.outputs_count;
  return known ? plan->output_result[i] : -1;
}

MRT_API int mrt_plan_transfer_count(const mrt_plan *plan) {
  return plan->graph.transfer_count;
}

MRT_API mrt_transfer_info mrt_plan_get_transfer(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->graph.transfer_count)
    return (mrt_transfer_info){ .resident = -1, .swapped = -1 };
  return plan->transfers[i];
}

MRT_API mrt_status mrt_plan_print(const mrt_plan *plan, char **text) {
  mrt_string s = { .allocator = plan->ctx->allocator };
  mrt_host_modes host;
  mrt_rounding_begin(&host);
  mrt_graph_print(&plan->graph, &s);
  mrt_rounding_end(&host);
  if (s.failed) return mrt_string_free(&s), mrt_nomem(&plan->ctx->error);
  char *exact = mrt_calloc(s.allocator, s.used + 1, 1);
  if (!exact) return mrt_string_free(&s), mrt_nomem(&plan->ctx->error);
  if (s.used) memcpy(exact, s.text, s.used);
  mrt_string_free(&s);
  *text = exact;
  return MRT_OK;
}

MRT_API void mrt_text_free(mrt_context *ctx, char *text) {
  if (text) mrt_release(ctx->allocator, text, strlen(text) + 1);
}
