/* prepare.c -- memory for a run of a plan, and where everything lies in it
 *
 * Pointers of the arena and of variables are found anew only when the arena or
 * a variable has moved; those of inputs and results before every run.  On a
 * device that records runs all of them stay: inputs are copied to slots behind
 * the arena, and a result that the user still holds is copied away.
 *
 * SPDX-License-Identifier: MIT */
#include "op/op.h"
#include "run/run.h"
#include "run/space.h"
#include "tensor/swap_tier.h"

#include <stdio.h>

/* Where a fixed place begins: an address, or an offset in the swap tier. */
static uintptr_t begin_of(const mrt_plan *plan, const mrt_address *p) {
  bool leaf = p->where == MRT_IN_VARIABLE || p->where == MRT_IN_SWAP_LOCATION;
  mrt_storage *s = leaf ? plan->leaves[p->index]->tensor->storage : NULL;
  if (p->where == MRT_IN_OUTPUT)
    return (uintptr_t)plan->runner->result_storage[p->index]->data;
  if (p->where == MRT_IN_VARIABLE) return s->placed = true, (uintptr_t)s->data;
  if (p->where == MRT_IN_SWAP_LOCATION)
    return mrt_swap_location_place(s->location);
  const mrt_buffer *b = &plan->buffers[p->index];
  size_t offset = b->offset;
  if (p->where == MRT_IN_SWAP_TIER) {
    int slot = plan->runner->slots[b->tier];
    return mrt_swap_location_place(plan->runner->space->swap[slot]) + offset;
  }
  return (uintptr_t)plan->runner->space->data + offset;
}

/* Has one of them moved? */
static bool resolve_fixed(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  bool moved = false;
  for (int i = 0; i < r->fixed_count; i++) {
    const mrt_address *p = &r->fixed[i];
    void *at = (void *)(begin_of(plan, p) + (uintptr_t)p->bytes);
    moved |= *p->pointer != at;
    *p->pointer = at;
  }
  return moved;
}

/* Where the plan's rows of input `t` begin, in bytes: an input longer than the
 * plan's is that of the whole batch. */
static int64_t part_bytes(const mrt_plan *plan, const mrt_tensor *t, int i) {
  const mrt_type *own = &plan->input_types[i];
  if (!plan->runner->run.all_rows || mrt_type_equal(&t->type, own)) return 0;
  return (int64_t)mrt_type_bytes(own) / plan->part_rows * plan->runner->run.row;
}

static void resolve_moving(const mrt_plan *plan, mrt_tensor *const *in) {
  const mrt_runner *r = plan->runner;
  for (int i = 0; i < r->moving_count; i++) {
    const mrt_address *p = &r->moving[i];
    bool input = p->where == MRT_IN_INPUT;
    char *at = input ? (char *)in[p->index]->storage->data +
                           part_bytes(plan, in[p->index], p->index)
                     : r->result_storage[p->index]->data;
    *p->pointer = at + p->bytes;
  }
}

/* The bits of a result that the user holds move to other memory, and the runner
 * keeps the place where recordings write them. */
static mrt_status move_bits(const mrt_plan *plan, int i, mrt_storage *fresh) {
  mrt_context *ctx = plan->ctx;
  mrt_runner *r = plan->runner;
  mrt_storage *old = r->result_storage[i];
  MRT_TRY(mrt_device_copy(&ctx->device, fresh->data, old->data, old->nbytes,
                          &ctx->error));
  void *place = old->data;
  old->data = fresh->data, fresh->data = place;
  if (old->placed) ctx->memory.moves++;
  r->held[i] = old;
  return MRT_OK;
}

/* A result that the user still holds keeps its bits: this run gets another. */
static mrt_status ready_result(const mrt_plan *plan, int i) {
  mrt_runner *r = plan->runner;
  mrt_storage *own = r->result_storage[i], *fresh;
  if (own && own->refs == 1) return mrt_storage_drop_host(own), MRT_OK;
  MRT_TRY(mrt_storage_new(plan->ctx, mrt_type_bytes(&plan->results[i]->type),
                          &fresh));
  bool stays = r->records && own && own->data;
  mrt_status s = stays ? move_bits(plan, i, fresh) : MRT_OK;
  if (s) return mrt_storage_unref(fresh), s;
  if (!stays) mrt_storage_unref(own), r->placed_generation = 0;
  r->result_storage[i] = fresh;
  return MRT_OK;
}

/* What was moved can be read from here on, while the run is computed. */
static void let_held_go(const mrt_plan *plan) {
  const mrt_device *d = &plan->ctx->device;
  mrt_runner *r = plan->runner;
  uint64_t here = 0;
  for (int i = 0; i < plan->result_count; i++) {
    if (!r->held[i]) continue;
    if (!here) here = d->queue->fence(d);
    r->held[i]->fence = here;
    mrt_storage_unref(r->held[i]);
    r->held[i] = NULL;
  }
}

static mrt_status ready_results(const mrt_plan *plan) {
  mrt_status s = MRT_OK;
  for (int i = 0; i < plan->result_count && !s; i++) s = ready_result(plan, i);
  let_held_go(plan);
  return s;
}

static mrt_status check_leaves(const mrt_plan *plan) {
  for (int i = 0; i < plan->leaf_count; i++) {
    mrt_tensor *t = plan->leaves[i]->tensor;
    if (t->variable && t->variable->torn)
      return mrt_fail(&plan->ctx->error, MRT_ESTATE,
                      "variable '%s' is torn: a step broke off while it was "
                      "being updated; assign it or load a snapshot",
                      t->name ? t->name : "?");
    if (t->type.dtype != plan->leaves[i]->type.dtype)
      return mrt_fail(&plan->ctx->error, MRT_ESTATE,
                      "variable '%s' is %s, and was %s when this was planned",
                      t->name ? t->name : "?", mrt_show(&t->type).s,
                      mrt_show(&plan->leaves[i]->type).s);
  }
  return MRT_OK;
}

MRT_API bool mrt_plan_fits(const mrt_plan *plan) {
  for (int i = 0; i < plan->leaf_count; i++)
    if (plan->leaves[i]->tensor->type.dtype != plan->leaves[i]->type.dtype ||
        (plan->leaves[i]->tensor->variable &&
         plan->leaves[i]->tensor->variable->bucket))
      return false;
  return true;
}

/* Bytes that this run has to get from the device. */
static size_t bytes_to_get(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  size_t bytes = 0, space = plan->arena_bytes + plan->info.slots;
  if (space > r->space->bytes) bytes += space - r->space->bytes;
  for (int i = 0; i < plan->result_count; i++)
    if (!r->result_storage[i]) bytes += mrt_type_bytes(&plan->results[i]->type);
  for (int i = 0; i < plan->leaf_count; i++)
    if (!plan->leaves[i]->tensor->storage && !plan->leaves[i]->swapped)
      bytes += mrt_type_bytes(&plan->leaves[i]->type);
  return bytes;
}

enum { WORTH_ASKING = 16 << 20 }; /* bytes: asking reads several files */

/* The largest block of memory that a node makes, for the message. */
static const mrt_buffer *largest_made(const mrt_plan *plan) {
  const mrt_buffer *largest = NULL;
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *b = &plan->buffers[i];
    if (b->node && b->value && (!largest || b->bytes > largest->bytes))
      largest = b;
  }
  return largest;
}

static mrt_status refuse_available(const mrt_plan *plan, size_t bytes,
                                   size_t available) {
  mrt_error *e = &plan->ctx->error;
  const mrt_buffer *most = largest_made(plan);
  char part[256] = "", type[128];
  if (most) {
    const mrt_origin *at = &most->value->origin;
    mrt_type_print(&most->value->type, type, sizeof type);
    snprintf(part, sizeof part, "; the largest part is %.40s %s, %s (%.60s:%d)",
             most->node->label, type, mrt_size_show(most->bytes).s, at->file,
             at->line);
  }
  return mrt_fail(
      e, MRT_ENOMEM,
      "it takes %s (%zu bytes), %s of them are still to be had, and "
      "%s are available%s; compute less at a time, or compile it "
      "with the option memory, which plans for less; "
      "mrt.device.available(false) tries it all the same",
      mrt_size_show(plan->info.peak).s, plan->info.peak, mrt_size_show(bytes).s,
      mrt_size_show(available).s, part);
}

/* Refuse now what the system would kill us for later. */
static mrt_status check_available(const mrt_plan *plan) {
  const mrt_context *ctx = plan->ctx;
  size_t bytes = bytes_to_get(plan);
  if (ctx->memory.available ? bytes == 0 : bytes < WORTH_ASKING) return MRT_OK;
  size_t available = mrt_context_available(ctx);
  if (!available || bytes <= available) return MRT_OK;
  return refuse_available(plan, bytes, available);
}

/* Collectives that other devices still have to compute come first. */
static void wait_for_guests(const mrt_plan *plan) {
  const mrt_graph *g = &plan->graph;
  int i = 0;
  if (!mrt_communicators_owner(plan->ctx)->ranks.guests) return;
  while (i < g->node_count && !(g->nodes[i]->op->traits & MRT_COLLECTIVE)) i++;
  if (i < g->node_count) mrt_communicators_drain(plan->ctx, plan->ctx);
}

static bool pays(mrt_context *own) {
  const mrt_context *ctx = mrt_communicators_owner(own);
  bool all = true;
  for (int i = 0; i < ctx->ranks.communicator_count; i++)
    all &= !ctx->ranks.communicators[i] ||
           mrt_comm_thread_pays(ctx->ranks.communicators[i]);
  return all;
}

/* Where steps are looked at one by one, collectives run where they stand. */
static bool may_begin_ahead(const mrt_plan *plan) {
  const mrt_runner *r = plan->runner;
  bool looks = plan->ctx->poison || r->times || r->ranges || plan->options.trap;
  return plan->overlap_count && !looks;
}

/* The thread of collectives; NULL: there is none. */
static mrt_comm_thread *comm_thread_of(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  mrt_error ignored;
  if (ctx->device.remote || !may_begin_ahead(plan)) return NULL;
  if (plan->options.spare && !pays(ctx)) return NULL;
  if (!ctx->ranks.comm_thread &&
      mrt_comm_thread_new(ctx->allocator, &ctx->ranks.comm_thread, &ignored))
    return NULL;
  return mrt_comm_thread_is_here(ctx->ranks.comm_thread)
             ? ctx->ranks.comm_thread
             : NULL;
}

/* What kernels find in the run. */
static void begin(const mrt_plan *plan) {
  mrt_context *ctx = plan->ctx;
  mrt_run *run = &plan->runner->run;
  run->seed = ctx->random.seed;
  run->fault = run->lost = run->refused = 0;
  run->communicators = mrt_communicators_owner(ctx)->ranks.communicators;
  run->comm_thread = comm_thread_of(plan);
  run->ahead = may_begin_ahead(plan);
  run->error = &ctx->error;
  run->tier = &ctx->swap.row.tier;
  run->stalled = 0;
}

mrt_status mrt_plan_fill_slots(const mrt_plan *plan, mrt_tensor *const *in) {
  mrt_context *ctx = plan->ctx;
  const mrt_runner *r = plan->runner;
  for (int i = 0; r->records && i < plan->info.inputs_count; i++) {
    if (r->input_slot[i] < 0) continue;
    const mrt_buffer *slot = &plan->buffers[r->input_slot[i]];
    const char *from = in[i]->storage->data;
    from += part_bytes(plan, in[i], i);
    MRT_TRY(mrt_device_copy(&ctx->device, (char *)r->space->data + slot->offset,
                            from, mrt_type_bytes(&plan->input_types[i]),
                            &ctx->error));
  }
  return MRT_OK;
}

mrt_status mrt_plan_prepare(const mrt_plan *plan, mrt_tensor *const *in) {
  mrt_runner *r = plan->runner;
  wait_for_guests(plan);
  MRT_TRY(check_available(plan));
  MRT_TRY(check_leaves(plan));
  MRT_TRY(mrt_plan_evict(plan));
  MRT_TRY(mrt_plan_begin_variables(plan));
  MRT_TRY(mrt_plan_fetch(plan));
  MRT_TRY(mrt_space_reserve(r->space, plan->arena_bytes + plan->info.slots));
  MRT_TRY(mrt_space_reserve_host(r->space, plan->info.staging));
  MRT_TRY(ready_results(plan));
  if (r->placed_generation != r->space->generation ||
      r->placed_moves != plan->ctx->memory.moves) {
    r->places += resolve_fixed(plan);
    r->placed_generation = r->space->generation;
    r->placed_moves = plan->ctx->memory.moves;
  }
  resolve_moving(plan, in);
  begin(plan);
  return MRT_OK;
}
