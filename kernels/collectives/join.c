/* join.c -- a process becomes one rank of several
 *
 * Which transport joins them is agreed on by the bootstrap: all ranks say where
 * they are and what MRT_TRANSPORT wants, and each comes to the same answer from
 * what all said.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const mrt_transport *const transports[] = {
#define TRANSPORT(name) &mrt_transport_##name,
#include "transports.def"
#undef TRANSPORT
};
enum { TRANSPORTS = sizeof transports / sizeof *transports };

static const mrt_transport *find(const char *name) {
  for (int i = 0; i < TRANSPORTS; i++)
    if (strcmp(transports[i]->name, name) == 0) return transports[i];
  return NULL;
}

/* "shared, sockets or mpi" */
static void list_names(char *text, size_t room) {
  size_t at = 0;
  for (int i = 0; i < TRANSPORTS && at < room; i++) {
    const char *before = !i ? "" : i < TRANSPORTS - 1 ? ", " : " or ";
    at += (size_t)snprintf(text + at, room - at, "%s%s", before,
                           transports[i]->name);
  }
}

/* ---- which transport ----------------------------------------------------- */

/* What ranks must have in common to share memory: one running kernel, one
 * space of process numbers. */
typedef struct join_place {
  char boot[64], pids[64], host[64];
} join_place;

static join_place place_here(void) {
  join_place p;
  const char *host = getenv("MRT_HOST");
  memset(&p, 0, sizeof p);
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (f) {
    if (!fgets(p.boot, sizeof p.boot, f)) p.boot[0] = 0;
    fclose(f);
  }
  if (readlink("/proc/self/ns/pid", p.pids, sizeof p.pids - 1) < 0)
    p.pids[0] = 0;
  if (host) snprintf(p.host, sizeof p.host, "%s", host);
  return p;
}

/* Where a rank is and by what it is to be reached. */
typedef struct wish {
  join_place place;
  char transport[16]; /* "": by where the ranks are */
} wish;

/* The first that needs no name and reaches all ranks. */
static const mrt_transport *best(bool one_host) {
  int i = 0;
  while (!transports[i]->bootstraps || (transports[i]->one_host && !one_host))
    i++;
  return transports[i];
}

static mrt_status compare_wishes(const mrt_bootstrap *b, const wish *all,
                                 int size, const mrt_transport **out,
                                 mrt_error *e) {
  const char *wanted = all[0].transport;
  const mrt_transport *named = find(wanted);
  bool one_host = true;
  for (int r = 1; r < size; r++) {
    if (strcmp(all[r].transport, wanted) != 0)
      return mrt_fail(e, MRT_ERANK,
                      "rank 0 has MRT_TRANSPORT '%s', rank %d '%.15s'", wanted,
                      r, all[r].transport);
    if (memcmp(&all[r].place, &all[0].place, sizeof(join_place)) == 0) continue;
    if (named && named->one_host)
      return mrt_fail(
          e, MRT_ERANK,
          "rank 0 is on %s, rank %d on %s: they cannot share memory "
          "(MRT_TRANSPORT)",
          mrt_bootstrap_host(b, 0, NULL), r, mrt_bootstrap_host(b, r, NULL));
    one_host = false;
  }
  *out = named ? named : best(one_host);
  return MRT_OK;
}

/* A collective: the same transport on all. */
static mrt_status choose(const mrt_joining *j, mrt_bootstrap *b,
                         const mrt_transport **out, mrt_error *e) {
  size_t size = (size_t)j->meeting->size;
  wish mine = { .place = place_here() },
       *all = mrt_calloc(j->allocator, size, sizeof *all);
  if (!all) return mrt_nomem(e);
  if (j->meeting->transport)
    snprintf(mine.transport, sizeof mine.transport, "%s",
             j->meeting->transport);
  mrt_status s = mrt_bootstrap_allgather(b, &mine, sizeof mine, all, e);
  if (!s) s = compare_wishes(b, all, (int)size, out, e);
  mrt_release(j->allocator, all, size * sizeof *all);
  return s;
}

/* ---- joining ------------------------------------------------------------- */

/* The communicator over an engine. */
static mrt_status speak(const mrt_joining *j, mrt_engine *engine,
                        mrt_communicator **out, mrt_error *e) {
  const mrt_rendezvous *m = j->meeting;
  char host[MRT_BOOTSTRAP_TEXT];
  mrt_bootstrap_own_host(host);
  mrt_message_options o = { .build = mrt_version(),
                            .algorithm =
                                m->algorithm ? m->algorithm : "pairwise",
                            .host = host,
                            .timeout = m->timeout,
                            .interrupted = j->interrupted };
  return mrt_message_comm_new(j->allocator, engine, &o, out, e);
}

static mrt_status use(const mrt_transport *t, const mrt_joining *j,
                      mrt_bootstrap *b, mrt_communicator **out,
                      mrt_engine **engine, mrt_error *e) {
  return t->open ? t->open(j, b, out, e) : t->connect(j, b, engine, e);
}

/* The bootstrap is closed before the first message. */
static mrt_status join_by_bootstrap(const mrt_joining *j,
                                    mrt_communicator **out, mrt_error *e) {
  const mrt_rendezvous *m = j->meeting;
  mrt_bootstrap_options o = { .rank = m->rank,
                              .size = m->size,
                              .address = m->address,
                              .port = m->port,
                              .token = m->token,
                              .build = mrt_version(),
                              .timeout = m->timeout,
                              .interrupted = j->interrupted };
  mrt_bootstrap *b = NULL;
  mrt_engine *engine = NULL;
  const mrt_transport *t = NULL;
  MRT_TRY(mrt_bootstrap_open(&o, j->allocator, &b, e));
  mrt_status s = choose(j, b, &t, e);
  if (!s) s = use(t, j, b, out, &engine, e);
  mrt_bootstrap_close(b);
  return engine ? speak(j, engine, out, e) : s;
}

static mrt_status check(const mrt_rendezvous *m, mrt_error *e) {
  bool named = m->transport && *m->transport;
  bool ring = m->algorithm && strcmp(m->algorithm, "ring") == 0;
  bool pairwise = !m->algorithm || strcmp(m->algorithm, "pairwise") == 0;
  char names[128];
  list_names(names, sizeof names);
  if (named && !find(m->transport))
    return mrt_fail(e, MRT_EVALUE, "MRT_TRANSPORT is '%s': %s wanted",
                    m->transport, names);
  if (!ring && !pairwise)
    return mrt_fail(e, MRT_EVALUE, "algorithm '%s': pairwise or ring wanted",
                    m->algorithm);
  return MRT_OK;
}

mrt_status mrt_join(const mrt_rendezvous *m, const volatile int *interrupted,
                    const mrt_allocator *a, mrt_communicator **out,
                    mrt_error *e) {
  const mrt_joining j = { m, interrupted, a };
  mrt_engine *engine = NULL;
  *out = NULL;
  MRT_TRY(check(m, e));
  if (m->size == 1) return mrt_self_communicator(a, 0, 1, out, e);
  const mrt_transport *t = m->transport ? find(m->transport) : NULL;
  if (!t || t->bootstraps) return join_by_bootstrap(&j, out, e);
  MRT_TRY(use(t, &j, NULL, out, &engine, e));
  return engine ? speak(&j, engine, out, e) : MRT_OK;
}
