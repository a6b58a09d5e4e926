/* nccl_comm.c -- NCCL: found, started together, asked
 *
 * MRT_NCCL in the environment names the library, and to have to do without is
 * an error then; "off": not used.  MRT_NCCL_LIBRARY is its usual name; without,
 * there were no headers to build against.
 *
 * The ranks show each other a card: who has which version, and which GPU.  All
 * see the same cards, so all decide alike.  Then rank 0 sends NCCL's name for
 * the meeting.  NCCL waits for the others inside its calls, and does not look
 * whether they live: it is started in a thread of its own, which is left there if
 * they do not come, and the watch (nccl_watch.c) ends what is called later.
 *
 * MRT_NCCL_SELF=1: a communicator of one rank goes through the library too, for
 * one GPU to try it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "comm/nccl_comm.h"

#ifdef MRT_NCCL_LIBRARY
#include "comm/nccl_inside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct card {
  uint64_t host;
  int32_t version; /* 0: this rank has no NCCL */
  int32_t wanted;  /* by name */
  char bus[32];
} card;

/* How a rank's start went; "": well. */
typedef struct nccl_report {
  char why[160];
} nccl_report;

/* ---- the library --------------------------------------------------------- */

enum { OLDEST = 21900, TOO_NEW = 30000 };

static bool find(mrt_nccl_library *l, void *slot, const char *name) {
  void *symbol = dlsym(l->library, name);
  memcpy(slot, &symbol, sizeof symbol);
  return symbol != NULL;
}

static bool find_all(mrt_nccl_library *l) {
#define FIND(field, name)                                                      \
  if (!find(l, &l->field, name)) return false;
  MRT_NCCL_FUNCTIONS(FIND)
#undef FIND
  return true;
}

/* What it reads once, unless the user has said something else.  Its kernels of
 * two communicators come in the order in which they are queued, which is the same
 * on all ranks (core/run/check_collectives.c); and recordings of several may be
 * launched by one thread.  Then no call may come while a recording is under way:
 * nccl_queue.c waits for it. */
static void set_environment(void) {
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 0);
}

/* Once open it stays: it has threads of its own. */
static bool open_library(mrt_nccl_library *l, bool *wanted) {
  const char *name = getenv("MRT_NCCL");
  *wanted = name && *name && strcmp(name, "off") != 0;
  if (!name || !*name) name = MRT_NCCL_LIBRARY;
  if (!*name || strcmp(name, "off") == 0) return false;
  set_environment();
  l->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!l->library || !find_all(l) || l->get_version(&l->version)) return false;
  return l->version >= OLDEST && l->version < TOO_NEW;
}

/* ---- cards --------------------------------------------------------------- */

static uint64_t hash_of_host(void) {
  char text[128] = "";
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  const char *named =
      getenv("NCCL_HOSTID"); /* NCCL takes it for the host, too */
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (named && *named)
    snprintf(text, sizeof text, "%s", named);
  else if (!f || !fgets(text, sizeof text, f))
    gethostname(text, sizeof text - 1);
  if (f) fclose(f);
  for (const char *at = text; *at; at++)
    hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
  return hash;
}

/* Bytes of all ranks; `all` has this rank's in its place. */
static mrt_status gather(mrt_communicator *comm, void *all, size_t each,
                         mrt_error *e) {
  size_t bytes = each * (size_t)comm->size;
  mrt_collective c = { .kind = MRT_COLLECT_allgather,
                       .dtype = MRT_u8,
                       .count = (int64_t)bytes,
                       .in = (char *)all + each * (size_t)comm->rank,
                       .out = all,
                       .file = "NCCL" };
  return mrt_collect(comm, &c, e);
}

/* Why NCCL cannot connect these, or MRT_OK. */
static mrt_status check_cards(const card *all, int size, mrt_error *e) {
  for (int r = 0; r < size; r++) {
    if (!all[r].version)
      return mrt_fail(e, MRT_ERANK, "rank %d has no NCCL", r);
    if (all[r].version != all[0].version)
      return mrt_fail(e, MRT_ERANK, "NCCL is %d on rank 0, %d on rank %d",
                      all[0].version, all[r].version, r);
    for (int k = 0; k < r; k++)
      if (all[k].host == all[r].host && strcmp(all[k].bus, all[r].bus) == 0)
        return mrt_fail(e, MRT_ERANK,
                        "ranks %d and %d share GPU %s, NCCL wants one for each "
                        "rank; without MRT_NCCL values go through the host",
                        k, r, all[r].bus);
  }
  return MRT_OK;
}

/* *nccl: whether all have it. */
static mrt_status compare_cards(mrt_cuda *c, mrt_cuda_comm *t,
                                const mrt_nccl_library *l, bool wanted,
                                bool *nccl, mrt_error *e) {
  mrt_communicator *comm = t->comm;
  bool asked = false;
  *nccl = false;
  card *all = calloc((size_t)comm->size, sizeof *all), *own;
  if (!all) return mrt_nomem(e);
  own = &all[comm->rank];
  own->host = hash_of_host(), own->wanted = wanted, own->version = l->version;
  if (cudaDeviceGetPCIBusId(own->bus, (int)sizeof own->bus, c->index) !=
      cudaSuccess)
    cudaGetLastError(), own->version = 0;
  mrt_status s = gather(comm, all, sizeof *all, e);
  for (int r = 0; r < comm->size && !s; r++) asked |= all[r].wanted != 0;
  if (!s) {
    s = check_cards(all, comm->size, e);
    *nccl = s == MRT_OK;
    if (!asked) s = MRT_OK;
  }
  free(all);
  return s;
}

/* ---- starting ------------------------------------------------------------ */

double mrt_nccl_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void mrt_nccl_sleep(double seconds) {
  nanosleep(&(struct timespec){ .tv_nsec = (long)(seconds * 1e9) }, NULL);
}

void mrt_nccl_explain(const mrt_nccl *n, const mrt_cuda_comm *t,
                      ncclResult_t code, char why[160]) {
  if (code == MRT_NCCL_LATE) {
    snprintf(why, 160, "NCCL did not begin within %g s", t->comm->timeout);
    return;
  }
  bool there = !n->kept && n->comm;
  const char *last = there ? n->lib.last_error(n->comm) : NULL;
  snprintf(why, 160, "NCCL: %.60s%s%.80s", n->lib.error_string(code),
           last && *last ? ": " : "", last ? last : "");
}

/* Rank 0's name of the meeting to all. */
static mrt_status send_id(mrt_nccl *n, mrt_cuda_comm *t, mrt_error *e) {
  mrt_communicator *comm = t->comm;
  ncclUniqueId *id = &n->id;
  mrt_collective c = { .kind = MRT_COLLECT_broadcast,
                       .dtype = MRT_u8,
                       .count = sizeof *id,
                       .in = id,
                       .out = id,
                       .file = "NCCL" };
  memset(id, 0, sizeof *id);
  if (comm->rank == 0 && n->lib.unique_id(id)) memset(id, 0, sizeof *id);
  return mrt_collect(comm, &c, e);
}

static void *start_comm(void *argument) {
  mrt_nccl *n = argument;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  cudaSetDevice(n->cuda->index);
  ncclComm_t made = NULL;
  ncclResult_t code = n->lib.init(&made, n->size, n->id, n->rank, &config);
  n->comm = made, n->started = code;
  atomic_store(&n->over, 1);
  return NULL;
}

/* NCCL does not begin without the others.  Who does not come is looked for
 * meanwhile. */
static ncclResult_t begin(mrt_nccl *n, mrt_cuda_comm *t) {
  mrt_communicator *comm = t->comm;
  static const ncclUniqueId none;
  pthread_t thread;
  if (memcmp(&n->id, &none, sizeof none) == 0) return ncclSystemError;
  n->size = comm->size, n->rank = comm->rank;
  if (pthread_create(&thread, NULL, start_comm, n) != 0) return ncclSystemError;
  pthread_detach(thread);
  double until = mrt_nccl_clock() + comm->timeout;
  mrt_progress progress = { 0 };
  mrt_error ignored;
  while (!atomic_load(&n->over)) {
    int behind, apart;
    if (mrt_nccl_clock() > until) return n->kept = true, MRT_NCCL_LATE;
    if (comm->health &&
        comm->health(comm, &progress, &behind, &apart, &ignored))
      return n->kept = true, ncclRemoteError;
    mrt_nccl_sleep(1e-3);
  }
  return n->started;
}

/* All hear how it went on all. */
static mrt_status agree(mrt_nccl *n, mrt_cuda_comm *t, ncclResult_t code,
                        mrt_error *e) {
  int size = t->comm->size, bad = 0;
  nccl_report *all = calloc((size_t)size, sizeof *all);
  if (!all) return mrt_nomem(e);
  if (code) mrt_nccl_explain(n, t, code, all[t->comm->rank].why);
  mrt_status s = gather(t->comm, all, sizeof *all, e);
  while (bad < size && !all[bad].why[0]) bad++;
  if (!s && bad < size)
    s = mrt_fail(e, MRT_ERANK,
                 "rank %d could not start: %s (MRT_NCCL=off goes through the "
                 "host)",
                 bad, all[bad].why);
  free(all);
  return s;
}

static mrt_status start(mrt_cuda *c, mrt_nccl *n, mrt_cuda_comm *t,
                        mrt_error *e) {
  n->cuda = c, n->cc = t;
  MRT_TRY(send_id(n, t, e));
  mrt_status s = agree(n, t, begin(n, t), e);
  if (!s) s = mrt_nccl_watch(n, e);
  if (s && !n->kept && n->comm) n->kept = !mrt_nccl_end(n, n->lib.abort, 1);
  return s;
}

mrt_status mrt_nccl_open(mrt_cuda *c, mrt_cuda_comm *t, mrt_error *e) {
  bool wanted, nccl;
  const char *self = getenv("MRT_NCCL_SELF");
  if (t->comm->size == 1 && !(self && strcmp(self, "1") == 0)) return MRT_OK;
  mrt_nccl *n = calloc(1, sizeof *n);
  if (!n) return mrt_nomem(e);
  if (!open_library(&n->lib, &wanted)) n->lib.version = 0;
  mrt_status s = compare_cards(c, t, &n->lib, wanted, &nccl, e);
  if (!s && nccl) s = start(c, n, t, e);
  if (s || !nccl) {
    if (!n->kept) free(n);
    return s;
  }
  t->nccl = n;
  c->watched++;
  return MRT_OK;
}

#define LAST 10.0 /* seconds */

void mrt_nccl_close(mrt_cuda *c, mrt_cuda_comm *t) {
  mrt_nccl *n = t->nccl;
  if (!n) return;
  mrt_nccl_unwatch(n);
  for (int i = 0; i < n->block_count && !n->closed; i++)
    n->lib.deregister(n->comm, n->blocks[i].handle);
  free(n->blocks);
  n->kept =
      n->closed ? !atomic_load(&n->ended) : !mrt_nccl_end(n, n->lib.destroy, 1);
  t->nccl = NULL;
  c->watched--;
  if (n->kept)
    n->next = c->ending, c->ending = n;
  else
    free(n);
}

/* NCCL ends a communicator when no recording has it any more.  At the end none
 * does, and CUDA must not go before it. */
void mrt_nccl_end_all(mrt_cuda *c) {
  double until = mrt_nccl_clock() + LAST;
  for (mrt_nccl *n = c->ending, *next; n; n = next) {
    next = n->next;
    while (!atomic_load(&n->ended) && mrt_nccl_clock() < until)
      mrt_nccl_sleep(1e-3);
    if (atomic_load(&n->ended)) free(n);
  }
  c->ending = NULL;
}

#else
mrt_status mrt_nccl_open(mrt_cuda *c, mrt_cuda_comm *t, mrt_error *e) {
  (void)c, (void)t, (void)e;
  return MRT_OK;
}
void mrt_nccl_close(mrt_cuda *c, mrt_cuda_comm *t) { (void)c, (void)t; }
bool mrt_nccl_takes(const mrt_cuda_comm *t, const mrt_collective *a) {
  (void)t, (void)a;
  return false;
}
void mrt_nccl_queue(mrt_cuda *c, mrt_cuda_comm *t, const mrt_collective *asked,
                    int count, const mrt_call *call) {
  (void)c, (void)t, (void)asked, (void)count, (void)call;
}
void mrt_nccl_forget(mrt_cuda *c, void *data) { (void)c, (void)data; }
void mrt_nccl_end_all(mrt_cuda *c) { (void)c; }
#endif
