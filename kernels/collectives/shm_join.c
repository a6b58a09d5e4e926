/* shm_join.c -- the transport "shared": processes of one host share memory
 *
 * After each step that may fail on one rank all say how they fared, so all
 * have the communicator or none has, and the first reason is everybody's.
 *
 * SPDX-License-Identifier: MIT */
#include "shm_process.h"
#include "transport.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What one rank says of how it fared. */
typedef struct join_report {
  int32_t status;
  char name[MRT_SHM_NAME], message[256];
} join_report;

/* Everybody's report; the first bad one is the answer of all. */
static mrt_status compare(const mrt_joining *j, mrt_bootstrap *b,
                          mrt_status own, char name[MRT_SHM_NAME],
                          mrt_error *e) {
  int size = j->meeting->size;
  join_report mine, *all = mrt_calloc(j->allocator, (size_t)size, sizeof *all);
  memset(&mine, 0, sizeof mine);
  if (!all && !own) own = mrt_nomem(e);
  if (!all) return own; /* the others see the connection close */
  mine.status = own;
  memcpy(mine.name, name, sizeof mine.name);
  if (own) snprintf(mine.message, sizeof mine.message, "%.255s", e->message);
  mrt_status s = mrt_bootstrap_allgather(b, &mine, sizeof mine, all, e);
  for (int r = 0; r < size && !s; r++)
    if (all[r].status)
      s = mrt_fail(e, MRT_ERANK, "rank %d: %.255s", r, all[r].message);
  if (!s) memcpy(name, all[0].name, sizeof all[0].name);
  mrt_release(j->allocator, all, (size_t)size * sizeof *all);
  return s;
}

/* Rank 0 makes the memory, all attach, then nobody needs its name. */
static mrt_status share(const mrt_joining *j, mrt_bootstrap *b,
                        mrt_communicator **out, mrt_error *e) {
  const mrt_rendezvous *m = j->meeting;
  char name[MRT_SHM_NAME] = "";
  int fd = -1;
  mrt_status s = MRT_OK;
  if (m->rank == 0) s = mrt_shm_create(m->size, m->token, 0, name, &fd, e);
  s = compare(j, b, s, name, e);
  if (!s) {
    s = mrt_shm_open(j->allocator, name, m->rank, m->size, m->token, m->timeout,
                     out, e);
    bool attached = !s;
    s = compare(j, b, s, name, e);
    if (s && attached) (*out)->close(*out);
  }
  if (fd >= 0) close(fd);
  if (s) *out = NULL;
  return s;
}

const mrt_transport mrt_transport_shared = {
  .name = "shared", .bootstraps = true, .one_host = true, .open = share
};
