/* descriptor.c -- what a rank asks for: packed, printed, compared
 *
 * SPDX-License-Identifier: MIT */
#include "common.h"

#include <stdio.h>
#include <string.h>

static bool reduces(mrt_collective_kind kind) {
  return kind == MRT_COLLECT_allreduce || kind == MRT_COLLECT_reduce_scatter;
}

static bool has_peer(mrt_collective_kind kind) {
  return kind == MRT_COLLECT_broadcast || kind == MRT_COLLECT_send ||
         kind == MRT_COLLECT_recv || kind == MRT_COLLECT_shift;
}

mrt_descriptor mrt_descriptor_of(const mrt_collective *c) {
  mrt_descriptor d = { .what = (uint32_t)c->kind };
  if (c->kind == MRT_COLLECT_barrier) return d;
  d.what |= (uint32_t)c->dtype << 8;
  d.count = c->count;
  if (reduces(c->kind)) d.what |= (uint32_t)c->reduction << 16;
  if (has_peer(c->kind)) d.peer = c->peer;
  return d;
}

/* The end of a long name says more than its beginning. */
mrt_caller mrt_caller_of(const mrt_collective *c) {
  mrt_caller caller = { .line = c->line };
  const char *file = c->file ? c->file : "";
  size_t n = strlen(file), room = sizeof caller.file - 1;
  if (n > room) file += n - room, n = room;
  memcpy(caller.file, file, n);
  return caller;
}

mrt_descriptor_text mrt_descriptor_print(const mrt_descriptor *d,
                                         const mrt_caller *caller) {
  static const char *const ways[] = { [MRT_COLLECT_broadcast] = " from rank",
                                      [MRT_COLLECT_send] = " to rank",
                                      [MRT_COLLECT_recv] = " from rank",
                                      [MRT_COLLECT_shift] = " by" };
  mrt_descriptor_text t;
  mrt_collective_kind kind = d->what & 0xff;
  int used = snprintf(t.s, sizeof t.s, "%s", mrt_collective_name(kind));
  if (reduces(kind))
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, " %s",
                     mrt_reduction_name(d->what >> 16 & 0xff));
  if (kind == MRT_COLLECT_compare)
    used = snprintf(t.s, sizeof t.s, "the first run of a plan");
  else if (kind != MRT_COLLECT_barrier)
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, " %s[%lld]",
                     mrt_dtype_name(d->what >> 8 & 0xff), (long long)d->count);
  if (has_peer(kind))
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, "%s %d", ways[kind],
                     d->peer);
  if (caller->file[0])
    snprintf(t.s + used, sizeof t.s - (size_t)used, " (%s:%d)", caller->file,
             caller->line);
  return t;
}

mrt_descriptor_text mrt_collective_print(const mrt_collective *c) {
  mrt_descriptor d = mrt_descriptor_of(c);
  mrt_caller caller = mrt_caller_of(c);
  return mrt_descriptor_print(&d, &caller);
}

bool mrt_descriptor_same(const mrt_descriptor *a, const mrt_descriptor *b) {
  return a->what == b->what && a->peer == b->peer && a->count == b->count;
}
