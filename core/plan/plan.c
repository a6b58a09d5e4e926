/* plan.c -- running the passes, and what a plan says of itself
 *
 * SPDX-License-Identifier: MIT */
#include "plan/cost.h"
#include "tensor/slow.h"

#include <string.h>

typedef struct row {
  const char *name;
  mrt_pass run;
  bool rewrite;
} row;

static const row rows[] = {
#define PASS(name, doc)    { #name, mrt_pass_##name, false },
#define REWRITE(name, doc) { #name, mrt_pass_##name, true },
#include "passes.def"
#undef PASS
#undef REWRITE
};

MRT_API const char *mrt_plan_pass_name(int i) {
  for (int k = 0; k < MRT_COUNT(rows); k++)
    if (rows[k].rewrite && i-- == 0) return rows[k].name;
  return NULL;
}

MRT_API const char *mrt_stage_name(int i) {
  if (i == 0) return "differentiated";
  if (i == MRT_COUNT(rows) + 1) return "planned";
  return i > 0 && i <= MRT_COUNT(rows) ? rows[i - 1].name : NULL;
}

bool mrt_stage_is_planned(int i) {
  bool planned = i > MRT_COUNT(rows);
  for (int k = 0; k < i && k < MRT_COUNT(rows); k++)
    planned |= rows[k].run == mrt_pass_homes || /* policies are asked once */
               rows[k].run == mrt_pass_recompute;
  return planned;
}

/* In the order of the REWRITE rows. */
static void switches(const mrt_plan_options *o, bool *off) {
  const bool given
      [] = { o->no_identities, o->no_fold, o->no_lookups,
             o->no_permutes,   o->no_cse,  o->no_dead,
             o->no_epilogues,  false /* fuse wraps single operators then */ };
  memcpy(off, given, sizeof given);
}

size_t mrt_plan_rest(mrt_plan *plan) {
  const mrt_graph *g = &plan->graph;
  size_t bytes = 0;
  for (int i = 0; i < g->value_count; i++) g->values[i]->uses = 0;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++) g->nodes[i]->in[k]->base->uses++;
  for (int i = 0; i < g->output_count; i++) g->outputs[i]->uses = -1;
  for (int i = 0; i < g->value_count; i++) {
    const mrt_value *v = g->values[i];
    bool kept = (v->leaf == MRT_LEAF_VARIABLE && !v->slow) ||
                v->leaf == MRT_LEAF_CONSTANT;
    if ((kept && v->uses > 0) || v->uses < 0)
      bytes += mrt_round_up(plan->ctx, mrt_type_bytes(&v->type));
  }
  return bytes;
}

/* Waiting is what a wait takes. */
static mrt_status predict(mrt_plan *plan) {
  int n = plan->graph.transfer_count;
  double *stalls = MRT_NEW(&plan->graph.arena, double, n);
  if (!stalls) return mrt_nomem(&plan->ctx->error);
  mrt_slow_rates rates = mrt_declared_rates(plan);
  MRT_TRY(mrt_plan_transfer_time(plan, NULL, NULL, stalls, &plan->info.stall));
  for (int i = 0; i < n; i++) {
    mrt_transfer_info *t = &plan->transfers[i];
    for (int k = t->start + 1; k < t->wait; k++)
      if (plan->steps[k].transfer < 0) t->beside += plan->steps[k].seconds;
    t->seconds = mrt_copy_seconds(&rates, t->out, t->bytes);
    t->stall = plan->steps[t->wait].seconds = stalls[i];
  }
  return MRT_OK;
}

mrt_status mrt_plan_over(mrt_plan *plan, size_t needed) {
  mrt_error *e = &plan->ctx->error;
  mrt_fail(e, MRT_EBUDGET, "memory = %zu bytes is too little",
           plan->options.memory + plan->device.overhead);
  e->needed = needed ? needed + plan->device.overhead : 0;
  return MRT_EBUDGET;
}

static void add_up(mrt_plan *plan) {
  mrt_plan_info *info = &plan->info;
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (s->kind == MRT_BUFFER_INPUT) info->inputs += s->bytes;
    if (s->kind == MRT_BUFFER_OUTPUT) info->outputs += s->bytes;
    if (s->kind == MRT_BUFFER_VARIABLE || s->kind == MRT_BUFFER_CONSTANT)
      info->persistent += s->bytes;
    if (s->kind == MRT_BUFFER_SWAPPED && !s->node)
      info->slow += mrt_slow_round(s->bytes);
  }
  info->slow += plan->slow_bytes;
  info->transient = plan->arena_bytes;
  info->peak = info->persistent + info->transient + info->outputs;
  for (int i = 0; i < plan->graph.node_count; i++)
    if (plan->graph.nodes[i]->recomputed) /* the bound was without */
      info->order_free_bound = info->working_set;
  info->lower_bound += info->persistent + info->outputs;
  info->working_set += info->persistent + info->outputs;
  info->order_free_bound += info->persistent + info->outputs;
  info->nodes = plan->graph.node_count;
  info->outputs_count = plan->graph.output_count;
  double beside = mrt_measured_find(&plan->options, MRT_MEASURED_CALL);
  info->seconds = beside >= 0 ? beside : plan->device.call;
  plan->first_update = plan->step_count;
  for (int i = plan->step_count; i-- > 0;) {
    if (plan->steps[i].node->op->traits & MRT_COLLECTIVE) {
      info->collectives++;
      info->wire += mrt_node_bytes(plan->steps[i].node);
    }
    info->flops += plan->steps[i].flops;
    info->seconds += plan->steps[i].seconds;
    if (mrt_node_is_update(plan->steps[i].node)) plan->first_update = i;
  }
}

static mrt_status note_written(mrt_plan *plan) {
  plan->written = MRT_NEW(&plan->graph.arena, mrt_tensor *, plan->leaf_count);
  if (!plan->written) return mrt_nomem(&plan->ctx->error);
  for (int i = plan->first_update; i < plan->step_count; i++) {
    const mrt_node *n = plan->steps[i].node;
    for (int k = 0; k < n->nout; k++) {
      mrt_value *leaf = n->out[k]->base;
      if (leaf->leaf != MRT_LEAF_VARIABLE || leaf->other) continue;
      plan->written[plan->written_count++] = leaf->tensor;
      leaf->other = leaf;
    }
  }
  return MRT_OK;
}

/* Every step's live bytes: first the changes, then their sums.  Changes wrap
 * around below zero, sums never do. */
static void note_live(mrt_plan *plan) {
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (!mrt_buffer_in_arena(s)) continue;
    plan->steps[s->first].live += s->bytes;
    if (s->last + 1 < plan->step_count)
      plan->steps[s->last + 1].live -= s->bytes;
  }
  for (int i = 1; i < plan->step_count; i++)
    plan->steps[i].live += plan->steps[i - 1].live;
}

mrt_status mrt_plan_passes(mrt_plan *plan, int count) {
  bool off[MRT_COUNT(plan->info.nodes_after)] = { false };
  switches(&plan->options, off);
  plan->info.nodes_traced = plan->graph.node_count;
  int rewrites = 0;
  for (int i = 0; i < count; i++) {
    bool skip = rows[i].rewrite && off[rewrites];
    if (!skip) MRT_TRY(rows[i].run(plan));
    if (rows[i].rewrite)
      plan->info.nodes_after[rewrites++] = plan->graph.node_count;
  }
  return MRT_OK;
}

mrt_status mrt_plan_finish(mrt_plan *plan) {
  MRT_TRY(mrt_plan_passes(plan, MRT_COUNT(rows)));
  MRT_TRY(predict(plan));
  MRT_TRY(mrt_plan_collective_time(plan));
  add_up(plan);
  if (plan->options.memory && plan->info.peak > plan->options.memory)
    return mrt_plan_over(plan, plan->info.peak);
  note_live(plan);
  return note_written(plan);
}

static mrt_status make_plain(mrt_plan *plan) {
  bool may = plan->traced != NULL;
  if (may && plan->options.memory) return mrt_plan_within_budget(plan);
  if (may && mrt_plan_has_policy(plan)) return mrt_plan_best_order(plan);
  return mrt_plan_finish(plan);
}

mrt_status mrt_plan_make(mrt_plan *plan) {
  const mrt_plan before = *plan;
  MRT_TRY(make_plain(plan));
  return plan->traced ? mrt_plan_overlapped(plan, &before) : MRT_OK;
}

void mrt_plan_release_steps(mrt_plan *plan) {
  for (int i = 0; i < plan->step_count; i++) {
    const mrt_step *s = &plan->steps[i];
    if (s->call.state && s->kernel->release) s->kernel->release(s->call.state);
  }
  plan->step_count = 0;
}

void mrt_plan_unmake(mrt_plan *plan) {
  mrt_plan_release_steps(plan);
  mrt_graph_free(&plan->graph);
}

/* ---- what it says -------------------------------------------------------- */

MRT_API mrt_plan_info mrt_plan_get_info(const mrt_plan *plan) {
  return plan->info;
}

MRT_API const mrt_device_profile *mrt_plan_get_device(const mrt_plan *plan) {
  return &plan->device;
}

MRT_API mrt_step_info mrt_plan_get_step(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->step_count)
    return (mrt_step_info){ .op = "", .file = "?", .cost = "" };
  const mrt_step *s = &plan->steps[i];
  return (mrt_step_info){
    .op = s->node->label,
    .file = s->node->origin.file,
    .line = s->node->origin.line,
    .layer = s->node->origin.layer,
    .backward = s->node->origin.backward,
    .recomputed = s->node->recomputed,
    .cost = mrt_cost_name(mrt_node_cost(s->node)),
    .flops = s->flops,
    .bytes = s->traffic,
    .seconds = s->seconds,
    .live = s->live,
  };
}

MRT_API uint64_t mrt_plan_step_key(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->step_count) return 0;
  return mrt_node_key(plan->steps[i].node);
}

MRT_API int mrt_plan_buffer_count(const mrt_plan *plan) {
  return plan->buffer_count;
}

MRT_API mrt_buffer_info mrt_plan_get_buffer(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->buffer_count)
    return (mrt_buffer_info){ .op = "", .file = "?" };
  const mrt_buffer *s = &plan->buffers[i];
  mrt_origin at = s->value ? s->value->origin : s->node->origin;
  return (mrt_buffer_info){
    .kind = s->kind,
    .op = s->node ? s->node->label : "",
    .name = s->value ? s->value->name : NULL,
    .cost = s->node ? mrt_cost_name(mrt_node_cost(s->node)) : NULL,
    .file = at.file,
    .line = at.line,
    .type = s->value ? s->value->type
                     : (mrt_type){ .dtype = MRT_u8,
                                   .rank = 1,
                                   .dims = { (int64_t)s->bytes } },
    .bytes = s->bytes,
    .offset = s->offset,
    .first = s->first,
    .last = s->last,
    .id = s->value && s->value->tensor ? s->value->tensor->id : 0,
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

MRT_API int mrt_plan_transfer_count(const mrt_plan *plan) {
  return plan->graph.transfer_count;
}

MRT_API mrt_transfer_info mrt_plan_get_transfer(const mrt_plan *plan, int i) {
  if (i < 0 || i >= plan->graph.transfer_count)
    return (mrt_transfer_info){ .fast = -1, .slow = -1 };
  return plan->transfers[i];
}

MRT_API mrt_status mrt_plan_print(const mrt_plan *plan, char **text) {
  mrt_string s = { .allocator = plan->ctx->allocator };
  mrt_graph_print(&plan->graph, &s);
  if (s.failed) return mrt_string_free(&s), mrt_nomem(&plan->ctx->error);
  char *exact = mrt_calloc(s.allocator, s.used + 1, 1);
  if (!exact) return mrt_string_free(&s), mrt_nomem(&plan->ctx->error);
  memcpy(exact, s.text, s.used);
  mrt_string_free(&s);
  *text = exact;
  return MRT_OK;
}

MRT_API void mrt_text_free(mrt_context *ctx, char *text) {
  if (text) mrt_release(ctx->allocator, text, strlen(text) + 1);
}
