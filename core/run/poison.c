/* poison.c -- a debugging mode that makes memory mistakes visible
 *
 * Each value is overwritten with NaN (integers: their extreme) the moment its
 * lifetime ends, so a kernel that reads too late gets nonsense; and whatever a
 * node may not write is hashed before and after it, so a kernel that writes
 * outside its outputs is named.
 *
 * SPDX-License-Identifier: MIT */
#include "run/poison.h"

#include <string.h>

static void *address(const mrt_plan *plan, const mrt_buffer *s) {
  return (char *)plan->runner->space->data + s->offset;
}

/* 0xff everywhere is NaN in every float and -1 in every integer. */
mrt_status mrt_poison_dead(const mrt_plan *plan, int step) {
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *s = &plan->buffers[i];
    if (s->bytes && mrt_buffer_in_arena(s) && (step < 0 || s->last == step))
      MRT_TRY(mrt_device_fill(&plan->ctx->device, address(plan, s), 0xff,
                              s->bytes, &plan->ctx->error));
  }
  return MRT_OK;
}

static uint64_t hash_bytes(uint64_t h, const unsigned char *p, size_t bytes) {
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word;
    memcpy(&word, p + i, 8);
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
  }
  for (size_t i = bytes / 8 * 8; i < bytes; i++) h = (h ^ p[i]) * 31;
  return h;
}

/* A device that cannot be read has failed, which others tell. */
static uint64_t hash(const mrt_plan *plan, uint64_t h, const char *data,
                     size_t bytes) {
  const mrt_device *d = &plan->ctx->device;
  unsigned char piece[4096];
  mrt_error ignored;
  if (!d->remote) return hash_bytes(h, (const unsigned char *)data, bytes);
  for (size_t at = 0; at < bytes; at += sizeof piece) {
    size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
    if (mrt_device_read(d, piece, data + at, n, 0, &ignored)) return h;
    h = hash_bytes(h, piece, n);
  }
  return h;
}

static bool written(const mrt_plan *plan, const mrt_node *n, int buffer) {
  (void)plan;
  if (n->scratch_buffer == buffer) return true;
  for (int k = 0; k < n->nout; k++)
    if (n->out[k]->base->buffer == buffer) return true;
  return false;
}

/* Of all that is alive and not written by this step: the arena's buffers, and
 * the leaves it reads. */
uint64_t mrt_poison_hash(const mrt_plan *plan, int step) {
  const mrt_step *s = &plan->steps[step];
  const mrt_node *n = s->node;
  uint64_t h = 1;
  for (int i = 0; i < plan->buffer_count; i++) {
    const mrt_buffer *buffer = &plan->buffers[i];
    /* A copy may write it at any time. */
    bool filling = buffer->whole && step <= buffer->whole;
    if (mrt_buffer_in_arena(buffer) && buffer->first <= step &&
        step <= buffer->last && !filling && !written(plan, n, i))
      h = hash(plan, h, address(plan, buffer), buffer->bytes);
  }
  for (int k = 0; k < n->nin; k++) {
    const mrt_value *base = n->in[k]->base;
    const mrt_buffer *buffer = &plan->buffers[base->buffer];
    if (mrt_buffer_in_arena(buffer) || buffer->kind == MRT_BUFFER_SWAPPED ||
        written(plan, n, base->buffer))
      continue;
    const char *data = mrt_runner_call(plan, s)->in[k].data;
    size_t element = mrt_dtypes[base->type.dtype].bytes;
    h = hash(plan, h, data - n->in[k]->offset * (int64_t)element,
             mrt_type_bytes(&base->type));
  }
  return h;
}

mrt_status mrt_poison_fail(const mrt_plan *plan, int step) {
  const mrt_node *n = plan->steps[step].node;
  return mrt_fail(&plan->ctx->error, MRT_EPLAN,
                  "%s (%s:%d) wrote outside its outputs", n->label,
                  n->origin.file, n->origin.line);
}
