/* join.c -- a process becomes one rank of several
 *
 * SPDX-License-Identifier: MIT */
#include "bootstrap.h"
#include "message.h"
#include "mpi_open.h"
#include "shm_process.h"
#include "tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What ranks must have in common to share memory: one running kernel, one
 * space of process numbers. */
typedef struct place {
  char boot[64], pids[64], host[64];
} place;

static place place_here(void) {
  place p;
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
  place place;
  char transport[16];
} wish;

static mrt_status compare_wishes(const mrt_wire *w, const wish *all, int size,
                                 bool *shared, mrt_error *e) {
  const char *wanted = all[0].transport;
  *shared = strcmp(wanted, "sockets") != 0;
  for (int r = 1; r < size; r++) {
    if (strcmp(all[r].transport, wanted) != 0)
      return mrt_fail(e, MRT_ERANK,
                      "rank 0 has MRT_TRANSPORT '%s', rank %d '%.15s'", wanted,
                      r, all[r].transport);
    if (memcmp(&all[r].place, &all[0].place, sizeof(place)) == 0) continue;
    if (strcmp(wanted, "shared") == 0)
      return mrt_fail(
          e, MRT_ERANK,
          "rank 0 is on %s, rank %d on %s: they cannot share memory "
          "(MRT_TRANSPORT)",
          mrt_wire_host(w, 0, NULL), r, mrt_wire_host(w, r, NULL));
    *shared = false;
  }
  return MRT_OK;
}

/* Whether the ranks share memory. */
static mrt_status choose(mrt_wire *w, const mrt_rendezvous *m,
                         const mrt_allocator *a, bool *shared, mrt_error *e) {
  wish mine = { .place = place_here() },
       *all = mrt_calloc(a, (size_t)m->size, sizeof *all);
  if (!all) return mrt_nomem(e);
  if (m->transport)
    snprintf(mine.transport, sizeof mine.transport, "%s", m->transport);
  mrt_status s = mrt_wire_exchange(w, &mine, sizeof mine, all, e);
  if (!s) s = compare_wishes(w, all, m->size, shared, e);
  mrt_release(a, all, (size_t)m->size * sizeof *all);
  return s;
}

/* ---- shared memory ------------------------------------------------------- */

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

/* ---- messages ------------------------------------------------------------ */

static mrt_status speak(mrt_engine *engine, const mrt_rendezvous *m,
                        const volatile int *interrupted, const mrt_allocator *a,
                        mrt_communicator **out, mrt_error *e) {
  char host[MRT_WIRE_TEXT];
  mrt_wire_own_host(host);
  mrt_messages_options o = { .build = mrt_version(),
                             .algorithm =
                                 m->algorithm ? m->algorithm : "pairwise",
                             .host = host,
                             .timeout = m->timeout,
                             .interrupted = interrupted };
  return mrt_messages_new(a, engine, &o, out, e);
}

static mrt_status join_by_wire(const mrt_rendezvous *m,
                               const volatile int *interrupted,
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
  mrt_engine *engine = NULL;
  bool shared = false;
  MRT_TRY(mrt_wire_open(&o, a, &w, e));
  mrt_status s = choose(w, m, a, &shared, e);
  if (!s && shared)
    s = share(w, &o, a, out, e);
  else if (!s)
    s = mrt_tcp_connect(w, a, &engine, e);
  mrt_wire_close(w);
  return engine ? speak(engine, m, interrupted, a, out, e) : s;
}

static bool is_one_of(const char *name, const char *const *names) {
  if (!name) return true;
  while (*names && strcmp(name, *names) != 0) names++;
  return *names != NULL;
}

mrt_status mrt_join(const mrt_rendezvous *m, const volatile int *interrupted,
                    const mrt_allocator *a, mrt_communicator **out,
                    mrt_error *e) {
  static const char *const transports[] = { "", "shared", "sockets", "mpi",
                                            NULL };
  static const char *const algorithms[] = { "pairwise", "ring", NULL };
  *out = NULL;
  if (!is_one_of(m->transport, transports))
    return mrt_fail(e, MRT_EVALUE,
                    "MRT_TRANSPORT is '%s': shared, sockets or mpi wanted",
                    m->transport);
  if (!is_one_of(m->algorithm, algorithms))
    return mrt_fail(e, MRT_EVALUE, "algorithm '%s': pairwise or ring wanted",
                    m->algorithm);
  if (m->size == 1) return mrt_self_communicator(a, 0, 1, out, e);
  if (!m->transport || strcmp(m->transport, "mpi") != 0)
    return join_by_wire(m, interrupted, a, out, e);
  mrt_engine *engine;
  MRT_TRY(mrt_mpi_open(a, m->rank, m->size, &engine, e));
  return speak(engine, m, interrupted, a, out, e);
}
