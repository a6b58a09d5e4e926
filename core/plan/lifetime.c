/* lifetime.c -- from when to when does each value need its place?
 *
 *   needs   the order, layouts, scratch
 *   gives   buffers with first and last step; values that follow each other in
 *           place share one
 *   method  one walk for last reads, one for births.  An output takes an
 *           input's buffer when the row allows it, the input dies here, both
 *           are contiguous and equally large, and no other operand of the node
 *           looks into that buffer.
 *   holds   A buffer is first..last, both included, however many values follow
 *           each other in it.  Leaves and outputs live outside the arena;
 *           outputs from their birth to the end, as the user may hold them.
 *   why     place.c packs by this and by nothing else; check.c, which knows
 *           offsets alone, would find what is freed too early
 *
 * SPDX-License-Identifier: MIT */
#include "op/swap.h"
#include "plan/planner.h"

static mrt_buffer *buffer_of(const mrt_plan *plan, const mrt_value *v) {
  return v->base->buffer < 0 ? NULL : &plan->buffers[v->base->buffer];
}

/* v->uses becomes the last step that reads the base. */
static void find_last_reads(mrt_plan *plan) {
  mrt_graph *g = &plan->graph;
  for (int i = 0; i < g->value_count; i++) g->values[i]->uses = -1;
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nin; k++)
      g->nodes[i]->in[k]->base->uses = i;
}

static bool looks_into(const mrt_node *n, int but, int buffer) {
  for (int k = 0; k < n->nin; k++)
    if (k != but && n->in[k]->base->buffer == buffer) return true;
  return false;
}

static bool may_overwrite(const mrt_plan *plan, const mrt_node *n, int i,
                          int input, const mrt_value *out) {
  const mrt_value *in = n->in[input];
  const mrt_buffer *s = buffer_of(plan, in);
  size_t element = mrt_dtypes[in->type.dtype].bytes;
  if (input >= 32 || !(n->op->inplace >> input & 1) || !s) return false;
  if (!mrt_buffer_in_arena(s) || s->last != i) return false;
  if (element != mrt_dtypes[out->type.dtype].bytes ||
      !mrt_type_same_shape(&in->type, &out->type))
    return false;
  if (in->offset != 0 || !mrt_value_contiguous(in) ||
      mrt_round_up(plan->ctx, mrt_type_bytes(&in->type)) != s->bytes)
    return false;
  for (int k = 0; k < n->nout; k++) /* each input is taken once */
    if (n->out[k] != out && n->out[k]->base->buffer == in->base->buffer)
      return false;
  return !looks_into(n, input, in->base->buffer);
}

static bool take_input_place(mrt_plan *plan, const mrt_node *n, int i,
                             mrt_value *out) {
  bool any = out->index == 0 || (n->op->traits & MRT_POINTWISE);
  if (plan->options.no_inplace || !any) return false;
  for (int k = 0; k < n->nin; k++) {
    if (!may_overwrite(plan, n, i, k, out)) continue;
    out->buffer = n->in[k]->base->buffer;
    int last = out->uses < i ? i : out->uses;
    plan->buffers[out->buffer].last = last;
    return true;
  }
  return false;
}

static mrt_status give_birth(mrt_plan *plan, mrt_node *n, int i,
                             mrt_value *out) {
  if (out->base != out) return MRT_OK; /* an update's output */
  if (out->buffer >= 0) {              /* a plan output */
    plan->buffers[out->buffer].first = i;
    return MRT_OK;
  }
  if (take_input_place(plan, n, i, out)) return MRT_OK;
  mrt_buffer_kind kind = out->swapped           ? MRT_BUFFER_SWAPPED
                         : out->origin.backward ? MRT_BUFFER_GRADIENT
                                                : MRT_BUFFER_ACTIVATION;
  out->buffer = mrt_plan_add_buffer(
      plan, (mrt_buffer){ .value = out,
                          .node = n,
                          .kind = kind,
                          .tier = out->tier,
                          .bytes = mrt_type_bytes(&out->type),
                          .first = i,
                          .last = out->uses < i ? i : out->uses });
  return out->buffer < 0 ? mrt_nomem(&plan->ctx->error) : MRT_OK;
}

static mrt_status add_leaf(mrt_plan *plan, mrt_value *v) {
  static const mrt_buffer_kind kinds[] = {
    [MRT_LEAF_INPUT] = MRT_BUFFER_INPUT,
    [MRT_LEAF_VARIABLE] = MRT_BUFFER_VARIABLE,
    [MRT_LEAF_CONSTANT] = MRT_BUFFER_CONSTANT,
  };
  int index = v->index;
  if (v->leaf != MRT_LEAF_INPUT) {
    index = plan->leaf_count++;
    plan->leaves[index] = v;
  }
  v->buffer = mrt_plan_add_buffer(
      plan,
      (mrt_buffer){ .value = v,
                    .kind = v->swapped ? MRT_BUFFER_SWAPPED : kinds[v->leaf],
                    .index = index,
                    .tier = v->tier,
                    .bytes = mrt_type_bytes(&v->type),
                    .last = plan->graph.node_count - 1 });
  return v->buffer < 0 ? mrt_nomem(&plan->ctx->error) : MRT_OK;
}

/* Outputs live outside the arena, from their birth to the end. */
static mrt_status add_output(mrt_plan *plan, mrt_value *v, int end) {
  if (v->buffer >= 0) return MRT_OK;
  int index = plan->result_count++;
  plan->results[index] = v;
  v->buffer =
      mrt_plan_add_buffer(plan, (mrt_buffer){ .value = v,
                                              .node = v->node,
                                              .kind = MRT_BUFFER_OUTPUT,
                                              .index = index,
                                              .bytes = mrt_type_bytes(&v->type),
                                              .last = end });
  return v->buffer < 0 ? mrt_nomem(&plan->ctx->error) : MRT_OK;
}

/* ---- copies between tiers ------------------------------------------------ */

enum {
  DIRECT = 64 << 10
}; /* bytes from which a copy past the page cache pays */

/* A copy starts: of the value in the arena, with the one behind it. */
static void note_start(mrt_plan *plan, const mrt_node *n, int i) {
  const mrt_swap_options *o = n->options;
  const mrt_value *in = n->in[0], *out = n->out[0];
  mrt_transfer_info *t = &plan->transfers[o->transfer];
  *t = (mrt_transfer_info){
    .out = o->lane == MRT_TIER_OUT,
    .resident = (in->base->swapped ? out : in)->base->buffer,
    .swapped = (in->base->swapped ? in : out)->base->buffer,
    .bytes = mrt_type_bytes(&in->type),
    .start = i,
  };
  plan->steps[i].transfer = o->transfer;
  if (t->bytes >= DIRECT) plan->buffers[t->resident].align = MRT_TIER_ALIGN;
}

static void note_end(mrt_plan *plan, const mrt_node *n, int i) {
  const mrt_swap_options *o = n->options;
  mrt_transfer_info *t = &plan->transfers[o->transfer];
  t->wait = i;
  plan->steps[i].transfer = o->transfer;
  if (!t->out) plan->buffers[t->resident].whole = i;
}

static mrt_status note_transfers(mrt_plan *plan) {
  const mrt_graph *g = &plan->graph;
  plan->transfers =
      MRT_NEW(&plan->graph.arena, mrt_transfer_info, g->transfer_count);
  if (!plan->transfers) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < g->node_count; i++) {
    plan->steps[i].transfer = -1;
    int op = g->nodes[i]->op->number;
    if (g->nodes[i]->op->traits & MRT_SWAPS) note_start(plan, g->nodes[i], i);
    if (op == MRT_OP_swap_wait) note_end(plan, g->nodes[i], i);
  }
  return MRT_OK;
}

mrt_status mrt_pass_lifetime(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  mrt_graph *g = &plan->graph;
  int end = g->node_count - 1;
  find_last_reads(plan);
  plan->results = MRT_NEW(&g->arena, mrt_value *, g->output_count);
  plan->output_result = MRT_NEW(&g->arena, int, g->output_count);
  plan->leaves = MRT_NEW(&g->arena, mrt_value *, g->value_count);
  if (!plan->results || !plan->output_result || !plan->leaves)
    return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < g->value_count; i++) {
    mrt_value *v = g->values[i];
    bool read = v->uses >= 0; /* or written: an update reads it too */
    if (v->leaf == MRT_LEAF_INPUT || (v->leaf != MRT_LEAF_NONE && read))
      MRT_TRY(add_leaf(plan, v));
  }
  for (int i = 0; i < g->output_count; i++) {
    MRT_TRY(add_output(plan, g->outputs[i], end));
    plan->output_result[i] = buffer_of(plan, g->outputs[i])->index;
  }
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i]->nout; k++)
      MRT_TRY(give_birth(plan, g->nodes[i], i, g->nodes[i]->out[k]));
  return note_transfers(plan);
}
