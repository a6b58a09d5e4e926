/* join.c -- a process becomes one rank of several
 *
 * SPDX-License-Identifier: MIT */
#include "transports.h"
#include "wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What ranks must have in common to share memory: one running kernel, one
 * space of process numbers. */
typedef struct place {
  char boot[64], pids[64];
} place;

static place place_here(void) {
  place p;
  memset(&p, 0, sizeof p);
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (f) {
    if (!fgets(p.boot, sizeof p.boot, f)) p.boot[0] = 0;
    fclose(f);
  }
  if (readlink("/proc/self/ns/pid", p.pids, sizeof p.pids - 1) < 0)
    p.pids[0] = 0;
  return p;
}

static mrt_status check_places(mrt_wire *w, const mrt_wire_options *o,
                               const mrt_allocator *a, mrt_error *e) {
  place mine = place_here(), *all = mrt_calloc(a, (size_t)o->size, sizeof *all);
  if (!all) return mrt_nomem(e);
  mrt_status s = mrt_wire_exchange(w, &mine, sizeof mine, all, e);
  for (int r = 1; r < o->size && !s; r++)
    if (memcmp(&all[r], &all[0], sizeof *all) != 0)
      s = mrt_fail(e, MRT_ERANK,
                   "rank 0 is on %s, rank %d on %s: ranks of one host can "
                   "share memory, others cannot be joined yet",
                   mrt_wire_host(w, 0, NULL), r, mrt_wire_host(w, r, NULL));
  mrt_release(a, all, (size_t)o->size * sizeof *all);
  return s;
}

/* What one rank says of how it fared. */
typedef struct report {
  int32_t status;
  char name[MRT_SHARED_NAME], message[256];
} report;

/* Everybody's report; the first bad one is the answer of all. */
static mrt_status compare(mrt_wire *w, const mrt_wire_options *o,
                          const mrt_allocator *a, mrt_status own,
                          char name[MRT_SHARED_NAME], mrt_error *e) {
  report mine, *all = mrt_calloc(a, (size_t)o->size, sizeof *all);
  memset(&mine, 0, sizeof mine);
  if (!all && !own) own = mrt_nomem(e);
  if (!all) return own; /* the others see the connection close */
  mine.status = own;
  memcpy(mine.name, name, sizeof mine.name);
  if (own) snprintf(mine.message, sizeof mine.message, "%.255s", e->message);
  mrt_status s = mrt_wire_exchange(w, &mine, sizeof mine, all, e);
  for (int r = 0; r < o->size && !s; r++)
    if (all[r].status)
      s = mrt_fail(e, MRT_ERANK, "rank %d: %.255s", r, all[r].message);
  if (!s) memcpy(name, all[0].name, sizeof all[0].name);
  mrt_release(a, all, (size_t)o->size * sizeof *all);
  return s;
}

/* Rank 0 makes the memory, all attach, then nobody needs its name. */
static mrt_status share(mrt_wire *w, const mrt_wire_options *o,
                        const mrt_allocator *a, mrt_communicator **out,
                        mrt_error *e) {
  char name[MRT_SHARED_NAME] = "";
  int fd = -1;
  mrt_status s = MRT_OK;
  if (o->rank == 0) s = mrt_shared_create(o->size, o->token, 0, name, &fd, e);
  s = compare(w, o, a, s, name, e);
  if (!s) {
    s = mrt_shared_open(a, name, o->rank, o->size, o->token, o->timeout, out,
                        e);
    bool attached = !s;
    s = compare(w, o, a, s, name, e);
    if (s && attached) (*out)->close(*out);
  }
  if (fd >= 0) close(fd);
  if (s) *out = NULL;
  return s;
}

mrt_status mrt_join(const mrt_rendezvous *m, const volatile int *interrupted,
                    const mrt_allocator *a, mrt_communicator **out,
                    mrt_error *e) {
  mrt_wire_options o = { .rank = m->rank,
                         .size = m->size,
                         .address = m->address,
                         .port = m->port,
                         .token = m->token,
                         .build = mrt_version(),
                         .timeout = m->timeout,
                         .interrupted = interrupted };
  mrt_wire *w = NULL;
  *out = NULL;
  if (o.size == 1) return mrt_self_communicator(a, 0, 1, out, e);
  MRT_TRY(mrt_wire_open(&o, a, &w, e));
  mrt_status s = check_places(w, &o, a, e);
  if (!s) s = share(w, &o, a, out, e);
  mrt_wire_close(w);
  return s;
}
