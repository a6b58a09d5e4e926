/* pipeline.c -- from a captured graph to a finished plan
 *
 *   question  which passes run, in which order, and what does the plan take?
 *   method    The rows of passes.def in turn; then waiting is predicted and
 *             bytes, seconds and traffic are added up.  A budget or a policy
 *             makes several candidates, each planned to the end (budget.c).
 *   never     changes what a node computes; leaves a plan half made: it is
 *             finished, or freed by who made it
 *
 * The table below is all that knows of passes: switches, names, counts and
 * stages follow from it.
 *
 * SPDX-License-Identifier: MIT */
#include "op/collective.h"
#include "plan/cost.h"
#include "plan/host_step.h"
#include "plan/planner.h"
#include "plan/swap/swap.h"
#include "tensor/swap_tier.h"

#include <string.h>

/* One of the two functions; `number` counts the switches. */
typedef struct pass_row {
  const char *name;
  mrt_rewriter rewrite;
  mrt_pass pass;
  int number; /* of its switch; -1: it has none */
  bool needed;
} pass_row;

static const pass_row rows[] = {
#define REWRITE(name, doc)                                                     \
  { #name, mrt_pass_##name, NULL, MRT_REWRITE_##name, false },
#define NEEDED(name, doc)                                                      \
  { #name, mrt_pass_##name, NULL, MRT_REWRITE_##name, true },
#define LOWER(name, doc) { #name, mrt_pass_##name, NULL, -1, false },
#define PASS(name, doc)  { #name, NULL, mrt_pass_##name, -1, false },
#include "mrt/passes.def"
};

_Static_assert(MRT_REWRITE_COUNT <= 64, "a bit each in mrt_plan_options.off");

MRT_API const char *mrt_plan_pass_name(int i) {
  for (int k = 0; k < MRT_COUNT(rows); k++)
    if (i >= 0 && rows[k].number == i) return rows[k].name;
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
    planned |= rows[k].pass == mrt_pass_swap_variables || /* policies are asked
                                                             once */
               rows[k].pass == mrt_pass_recompute;
  return planned;
}

/* For the sake of time alone. */
static bool takes_memory(const pass_row *w) {
  return w->number == MRT_REWRITE_keep_matrices ||
         w->number == MRT_REWRITE_keep_images;
}

static bool is_off(const mrt_plan *plan, const pass_row *w) {
  if (plan->candidate.frugal && takes_memory(w)) return true;
  return w->number >= 0 && plan->options.off >> w->number & 1;
}

mrt_status mrt_planner_run(mrt_planner *p, int count) {
  mrt_plan *plan = p->plan;
  mrt_rewrite r = { .graph = &plan->graph,
                    .options = &plan->options,
                    .device = &plan->device,
                    .memo = &p->memo.precision,
                    .compress = &p->memo.compress,
                    .memo_arena = p->memo_arena,
                    .traced = p->source != NULL };
  plan->info.nodes_traced = plan->graph.node_count;
  mrt_arena_init(&plan->graph.temporary, plan->ctx->allocator);
  for (int i = 0; i < count; i++) {
    const pass_row *w = &rows[i];
    r.off = is_off(plan, w);
    if (w->pass) MRT_TRY(w->pass(p));
    if (w->rewrite && (!r.off || w->needed)) MRT_TRY(w->rewrite(&r));
    if (w->number >= 0)
      plan->info.nodes_after[w->number] = plan->graph.node_count;
    mrt_arena_clear(&plan->graph.temporary);
  }
  mrt_arena_free(&plan->graph.temporary);
  return MRT_OK;
}

/* ---- what it takes ------------------------------------------------------- */

/* Waiting is what a wait takes. */
static mrt_status predict(mrt_plan *plan) {
  int n = plan->graph.transfer_count;
  double *stalls = MRT_NEW(&plan->graph.arena, double, n);
  if (!stalls) return mrt_nomem(&plan->ctx->error);
  for (int i = 0; i < n; i++)
    plan->transfers[i].tier = plan->buffers[plan->transfers[i].swapped].tier;
  MRT_TRY(mrt_plan_transfer_time(plan, NULL, NULL, stalls, &plan->info.stall));
  plan->info.copied_out = plan->info.copied_in = 0;
  for (int i = 0; i < n; i++) {
    mrt_transfer_info *t = &plan->transfers[i];
    for (int k = t->start + 1; k < t->wait; k++)
      if (plan->steps[k].transfer < 0) t->beside += plan->steps[k].seconds;
    mrt_swap_rates rates = mrt_tier_rates(plan, t->tier);
    mrt_tier_info *tier = &plan->tiers[t->tier];
    t->seconds = mrt_copy_seconds(&rates, t->out, t->bytes);
    t->stall = plan->steps[t->wait].seconds = stalls[i];
    *(t->out ? &plan->info.copied_out : &plan->info.copied_in) += t->bytes;
    *(t->out ? &tier->copied_out : &tier->copied_in) += t->bytes;
  }
  return MRT_OK;
}

/* What copies between tiers only speaks with them. */
static void add_hosted(mrt_plan_info *info, const mrt_step *s) {
  const struct mrt_host_step *h = s->host;
  info->hosted += s->hosted && !(s->node->op->traits & (MRT_SWAPS | MRT_WAITS));
  if (!h) return;
  if (h->bytes > info->staging) info->staging = h->bytes;
  info->hosted_in += h->bytes_in, info->hosted_out += h->bytes_out;
}

/* Inputs' places follow the arena, in the order of the buffers. */
static void place_slots(mrt_plan *plan) {
  size_t at = plan->arena_bytes;
  plan->info.slots = mrt_plan_slots(plan);
  for (int i = 0; i < plan->buffer_count && plan->info.slots; i++) {
    mrt_buffer *b = &plan->buffers[i];
    if (b->kind != MRT_BUFFER_INPUT) continue;
    b->offset = at;
    at += mrt_round_up(plan->ctx, b->bytes);
  }
}

static void add_up(mrt_plan *plan) {
  mrt_plan_info *info = &plan->info;
  place_slots(plan);
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (s->kind == MRT_BUFFER_INPUT) info->inputs += s->bytes;
    if (s->kind == MRT_BUFFER_OUTPUT) info->outputs += s->bytes;
    if (s->kind == MRT_BUFFER_VARIABLE || s->kind == MRT_BUFFER_CONSTANT)
      info->persistent += s->bytes;
    if (s->kind == MRT_BUFFER_SWAPPED && !s->node)
      plan->tiers[s->tier].bytes += mrt_swap_tier_round(s->bytes);
  }
  for (int i = 0; i < mrt_device_tier_count(&plan->device); i++) {
    mrt_tier_profile t = mrt_device_tier(&plan->device, i);
    mrt_tier_info *own = &plan->tiers[i];
    memcpy(own->name, t.name, sizeof own->name);
    own->capacity = mrt_swap_capacity(plan, i);
    own->bytes += plan->swap_bytes[i];
    info->swapped += own->bytes;
  }
  info->transient = plan->arena_bytes + info->slots;
  info->peak = info->persistent + info->transient + info->outputs;
  for (int i = 0; i < plan->graph.node_count; i++)
    if (plan->graph.nodes[i]->recomputed) /* the bound was without */
      info->order_free_bound = info->working_set;
  size_t rest = info->persistent + info->slots + info->outputs;
  info->lower_bound += rest;
  info->working_set += rest;
  info->order_free_bound += rest;
  info->nodes = plan->graph.node_count;
  info->outputs_count = plan->graph.output_count;
  double beside = mrt_measured_find(&plan->options, MRT_MEASURED_CALL);
  info->seconds = beside >= 0 ? beside : plan->device.call;
  plan->first_update = plan->step_count;
  for (int i = plan->step_count; i-- > 0;) {
    if (plan->steps[i].node->op->traits & MRT_COLLECTIVE) {
      info->collectives++;
      info->unlinked +=
          mrt_collective_seconds(&plan->device, plan->steps[i].node) < 0;
      info->wire += mrt_node_bytes(plan->steps[i].node);
    }
    info->flops += plan->steps[i].flops;
    add_hosted(info, &plan->steps[i]);
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

/* ---- to the end ---------------------------------------------------------- */

mrt_status mrt_planner_finish(mrt_planner *p) {
  mrt_plan *plan = p->plan;
  MRT_TRY(mrt_planner_run(p, MRT_COUNT(rows)));
  MRT_TRY(predict(plan));
  MRT_TRY(mrt_plan_collective_time(plan));
  add_up(plan);
  if (plan->options.memory && plan->info.peak > plan->options.memory)
    return mrt_plan_over(plan, plan->info.peak);
  note_live(plan);
  return note_written(plan);
}

mrt_status mrt_planner_begin(const mrt_planner *p, mrt_candidate candidate,
                             mrt_planner *own) {
  mrt_plan *plan = mrt_plan_copy(p->blank);
  if (!plan) return MRT_ENOMEM;
  *own = *p;
  own->plan = plan, own->staged = NULL;
  plan->candidate = candidate;
  mrt_status s = mrt_graph_copy(&plan->graph, p->source);
  if (s) mrt_plan_discard(plan), own->plan = NULL;
  return s;
}

void mrt_planner_take(mrt_planner *p, mrt_planner *other) {
  mrt_plan_discard(p->plan);
  p->plan = other->plan, p->memo = other->memo;
  other->plan = NULL;
}

static bool took_memory(const mrt_plan *plan) {
  const int *after = plan->info.nodes_after;
  return after[MRT_REWRITE_keep_images] > after[MRT_REWRITE_keep_matrices - 1];
}

/* What is refused is tried again without what takes memory for the sake of
 * time.  That is another graph: policies are asked again for it. */
static mrt_status within_budget(mrt_planner *p) {
  mrt_status s = mrt_plan_within_budget(p);
  if (s != MRT_EBUDGET || !took_memory(p->plan)) return s;
  mrt_plan_discard(p->plan);
  p->plan = NULL;
  p->memo = (mrt_memo){ .precision = p->memo.precision,
                        .compress = p->memo.compress };
  MRT_TRY(mrt_planner_begin(p, (mrt_candidate){ .frugal = true }, p));
  return mrt_plan_within_budget(p);
}

/* One evaluation is planned in place, once. */
static mrt_status make(mrt_planner *p) {
  if (!p->source) return mrt_planner_finish(p);
  MRT_TRY(mrt_planner_begin(p, (mrt_candidate){ 0 }, p));
  if (p->plan->options.memory)
    MRT_TRY(within_budget(p));
  else if (mrt_plan_has_policy(p->plan))
    MRT_TRY(mrt_plan_best_order(p));
  else
    MRT_TRY(mrt_planner_finish(p));
  MRT_TRY(mrt_plan_best_spent(p));
  if (p->plan->options.swap && p->plan->swaps && !p->plan->options.memory)
    MRT_TRY(mrt_plan_best_updates(p));
  return mrt_plan_overlapped(p);
}

mrt_status mrt_planner_make(mrt_planner *p) {
  mrt_status s = make(p);
  p->memo.like = NULL;
  bool offered = s == MRT_EBUDGET && p->plan && p->plan->offered;
  if (s && !offered) return s;
  mrt_plan_info *info = &p->plan->info;
  info->compressed = p->memo.compress.from;
  info->compressed_to = p->memo.compress.to;
  if (p->plan->options.checkpoint && p->memo.kept_peak)
    info->kept_peak = p->memo.kept_peak + mrt_plan_rest(p->plan);
  p->plan->memo = p->memo; /* policies are not asked again for its stages */
  return s;
}
