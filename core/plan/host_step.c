/* host_step.c -- which nodes the CPU computes for a device, and from what copies
 *
 *   needs   every value's layout
 *   method  A node whose kernel the device lacks, or whose kernel does not take
 *           it, gets the CPU's.  Of each operand the bytes between its lowest
 *           and its highest are staged, once where several inputs show the
 *           same.  What an update writes is staged as the input that it
 *           overwrites; other results share nothing with an input, though they
 *           may on the device.  What is updated in the swap tier is not staged.
 *   never   stages for what copies between tiers: that touches no bytes
 *
 * SPDX-License-Identifier: MIT */
#include "plan/host_step.h"
#include "plan/cost.h"

#include <string.h>

enum { STAGING_ALIGN = 64 }; /* bytes: what the CPU's kernels expect */

bool mrt_input_in_tier(const mrt_node *n, int k) {
  return n->in_tier && k < n->op->updates && n->in[k]->base->swapped;
}

const mrt_kernel *mrt_node_kernel(const mrt_context *ctx, const mrt_node *n,
                                  bool *hosted) {
  const mrt_device *d = &ctx->device, *cpu = &ctx->cpu;
  mrt_dtype real = mrt_node_real(n);
  mrt_node_types t;
  const mrt_kernel *own = d->kernel(d, n->op->number, real);
  if (own && own->takes) {
    mrt_node_types_init(&t, n);
    if (!own->takes(&t.s)) own = NULL;
  }
  if (n->in_tier) own = NULL;
  *hosted = !own;
  return own ? own : cpu->kernel(cpu, n->op->number, real);
}

/* ---- spans --------------------------------------------------------------- */

static mrt_span span_of(const mrt_type *type, const int64_t *strides) {
  int64_t low = 0, high = 0, size = (int64_t)mrt_dtypes[type->dtype].bytes;
  mrt_span none = { .shared = -1 };
  for (int d = 0; d < type->rank; d++) {
    int64_t reach = (type->dims[d] - 1) * strides[d];
    if (type->dims[d] == 0) return none;
    *(reach < 0 ? &low : &high) += reach;
  }
  return (mrt_span){ .low = low * size,
                     .bytes = (size_t)((high - low + 1) * size),
                     .shared = -1 };
}

/* Do two values begin at one element of one storage? */
static bool same_place(const mrt_value *a, const mrt_value *b) {
  return a->base == b->base && a->offset == b->offset &&
         a->type.dtype == b->type.dtype;
}

static size_t put(size_t *end, size_t bytes) {
  size_t at = *end;
  *end += (bytes + STAGING_ALIGN - 1) / STAGING_ALIGN * STAGING_ALIGN;
  return at;
}

static void stage_inputs(struct mrt_host_step *h, const mrt_node *n) {
  for (int k = 0; k < n->nin; k++) {
    mrt_span *s = &h->in[k];
    *s = span_of(&n->in[k]->type, n->in[k]->strides);
    s->in_tier = mrt_input_in_tier(n, k);
    if (s->in_tier) continue;
    for (int i = 0; i < k && s->shared < 0; i++)
      if (same_place(n->in[i], n->in[k]) && h->in[i].low == s->low &&
          h->in[i].bytes == s->bytes && h->in[i].shared < 0)
        s->shared = i;
    if (s->shared >= 0) continue;
    s->offset = put(&h->bytes, s->bytes);
    h->bytes_in += s->bytes;
  }
}

static void stage_outputs(struct mrt_host_step *h, const mrt_node *n) {
  int updates = mrt_node_is_update(n) ? n->op->updates : 0;
  for (int k = 0; k < n->nout; k++) {
    mrt_span *s = &h->out[k];
    *s = span_of(&n->out[k]->type, n->out[k]->strides);
    if (k < updates)
      s->shared = h->in[k].shared < 0 ? k : h->in[k].shared;
    else
      s->offset = put(&h->bytes, s->bytes);
    s->in_tier = k < updates && mrt_input_in_tier(n, k);
    if (!s->in_tier) h->bytes_out += s->bytes;
  }
}

mrt_status mrt_host_step_make(mrt_plan *plan, mrt_step *s, size_t scratch) {
  mrt_arena *arena = &plan->graph.arena;
  const mrt_node *n = s->node;
  struct mrt_host_step *h = MRT_NEW(arena, struct mrt_host_step, 1);
  if (!h) return mrt_nomem(&plan->ctx->error);
  h->in = MRT_NEW(arena, mrt_span, n->nin);
  h->out = MRT_NEW(arena, mrt_span, n->nout);
  if (!h->in || !h->out) return mrt_nomem(&plan->ctx->error);
  stage_inputs(h, n);
  stage_outputs(h, n);
  h->scratch = put(&h->bytes, scratch);
  s->host = h;
  return MRT_OK;
}

/* ---- time ---------------------------------------------------------------- */

double mrt_hosted_seconds(const mrt_plan *plan, const mrt_node *n) {
  const mrt_device_profile *d = &plan->device;
  double seconds = mrt_device_seconds(&plan->ctx->cpu_profile, n);
  if (!plan->ctx->device.remote || n->op->traits & (MRT_SWAPS | MRT_WAITS))
    return seconds;
  for (int k = 0; k < n->nin; k++) {
    mrt_span s = span_of(&n->in[k]->type, n->in[k]->strides);
    if (mrt_input_in_tier(n, k)) continue;
    seconds += d->swap_latency + (double)s.bytes / d->swap_write;
  }
  for (int k = 0; k < n->nout; k++)
    if (!mrt_input_in_tier(n, k))
      seconds += d->swap_latency +
                 (double)mrt_type_bytes(&n->out[k]->type) / d->swap_read;
  return seconds;
}
