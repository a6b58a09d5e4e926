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
         kind == MRT_COLLECT_recv;
}

mrt_asked mrt_asked_of(const mrt_collective *c) {
  mrt_asked asked = { .what = (uint32_t)c->kind };
  if (c->kind == MRT_COLLECT_barrier) return asked;
  asked.what |= (uint32_t)c->dtype << 8;
  asked.count = c->count;
  if (reduces(c->kind)) asked.what |= (uint32_t)c->reduction << 16;
  if (has_peer(c->kind)) asked.peer = c->peer;
  return asked;
}

/* The end of a long name says more than its beginning. */
mrt_asker mrt_asker_of(const mrt_collective *c) {
  mrt_asker asker = { .line = c->line };
  const char *file = c->file ? c->file : "";
  size_t n = strlen(file), room = sizeof asker.file - 1;
  if (n > room) file += n - room, n = room;
  memcpy(asker.file, file, n);
  return asker;
}

mrt_asked_text mrt_asked_print(const mrt_asked *asked, const mrt_asker *asker) {
  static const char *const ways[] = { [MRT_COLLECT_broadcast] = " from rank",
                                      [MRT_COLLECT_send] = " to rank",
                                      [MRT_COLLECT_recv] = " from rank" };
  mrt_asked_text t;
  mrt_collective_kind kind = asked->what & 0xff;
  int used = snprintf(t.s, sizeof t.s, "%s", mrt_collective_name(kind));
  if (reduces(kind))
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, " %s",
                     mrt_reduction_name(asked->what >> 16 & 0xff));
  if (kind == MRT_COLLECT_compare)
    used = snprintf(t.s, sizeof t.s, "the first run of a plan");
  else if (kind != MRT_COLLECT_barrier)
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, " %s[%lld]",
                     mrt_dtype_name(asked->what >> 8 & 0xff),
                     (long long)asked->count);
  if (has_peer(kind))
    used += snprintf(t.s + used, sizeof t.s - (size_t)used, "%s %d", ways[kind],
                     asked->peer);
  if (asker->file[0])
    snprintf(t.s + used, sizeof t.s - (size_t)used, " (%s:%d)", asker->file,
             asker->line);
  return t;
}

mrt_asked_text mrt_collective_print(const mrt_collective *c) {
  mrt_asked asked = mrt_asked_of(c);
  mrt_asker asker = mrt_asker_of(c);
  return mrt_asked_print(&asked, &asker);
}

bool mrt_asked_same(const mrt_asked *a, const mrt_asked *b) {
  return a->what == b->what && a->peer == b->peer && a->count == b->count;
}
