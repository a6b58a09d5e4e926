/* bootstrap.c -- how ranks find each other: connections to rank 0 by TCP
 *
 * A star: rank 0 has a connection to each.  Everything has a deadline, and a
 * stranger that connects and says nothing delays nobody.
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* gethostname */
#endif
#include "bootstrap_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void mrt_wire_own_host(char host[MRT_WIRE_TEXT]) {
  const char *given = getenv("MRT_HOST");
  memset(host, 0, MRT_WIRE_TEXT);
  if (given && *given)
    snprintf(host, MRT_WIRE_TEXT, "%s", given);
  else
    gethostname(host, MRT_WIRE_TEXT - 1);
}

static mrt_wire_hello hello_of(const mrt_wire_options *o) {
  mrt_wire_hello h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, MRT_WIRE_MAGIC, sizeof h.magic);
  h.version = MRT_WIRE_VERSION, h.rank = o->rank, h.size = o->size;
  h.pid = (int64_t)getpid();
  snprintf(h.token, sizeof h.token, "%s", o->token);
  snprintf(h.build, sizeof h.build, "%s", o->build);
  mrt_wire_own_host(h.host);
  return h;
}

void mrt_wire_admit(mrt_wire *w, const mrt_wire_hello *h, int fd) {
  mrt_wire_person *p = &w->people[h->rank];
  w->sockets[h->rank] = fd;
  p->pid = h->pid;
  snprintf(p->host, sizeof p->host, "%.*s", MRT_WIRE_TEXT - 1, h->host);
}

/* ---- the others ---------------------------------------------------------- */

static mrt_status hear_answer(mrt_wire *w, mrt_error *e) {
  const mrt_wire_options *o = &w->options;
  mrt_wire_answer a;
  /* Rank 0 decides when the time is over: its word comes a little later. */
  mrt_waiting until = mrt_wire_patience(w);
  until.deadline += 2;
  int code = mrt_socket_receive(w->sockets[0], &a, sizeof a, &until);
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  if (code || memcmp(a.magic, MRT_WIRE_MAGIC, sizeof MRT_WIRE_MAGIC) != 0)
    return mrt_fail(e, MRT_ERANK,
                    "rank 0 at %s:%d does not take rank %d: %s (another "
                    "program or run there, or another token?)",
                    o->address, o->port, o->rank,
                    code ? mrt_socket_why(code) : "not one of ours");
  a.reason[MRT_WIRE_REASON - 1] = 0;
  if (!a.status) return MRT_OK;
  return mrt_fail(e, MRT_ERANK, "rank 0 at %s:%d refuses: %s", o->address,
                  o->port, a.reason);
}

static mrt_status visit(mrt_wire *w, const mrt_wire_hello *own, mrt_error *e) {
  const mrt_wire_options *o = &w->options;
  mrt_waiting until = mrt_wire_patience(w);
  int code = mrt_socket_connect(o->address, o->port, &until, &w->sockets[0]);
  if (!code) code = mrt_socket_send(w->sockets[0], own, sizeof *own, &until);
  if (code)
    return mrt_fail(e, code == EINTR ? MRT_EINTERRUPT : MRT_ERANK,
                    "rank %d found no rank 0 at %s:%d (MASTER_ADDR, "
                    "MASTER_PORT) within %g s: %s",
                    o->rank, o->address, o->port, o->timeout,
                    mrt_socket_why(code));
  return hear_answer(w, e);
}

/* ---- both ---------------------------------------------------------------- */

static mrt_status lost(const mrt_wire *w, int rank, int code, mrt_error *e) {
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  if (!w->people[rank].pid) /* not yet introduced */
    return mrt_fail(e, MRT_ERANK, "rank %d at %s:%d: %s", rank,
                    w->options.address, w->options.port, mrt_socket_why(code));
  return mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s): %s", rank,
                  (long long)w->people[rank].pid, w->people[rank].host,
                  mrt_socket_why(code));
}

/* Rank 0 takes from each, then gives the whole to each. */
static mrt_status exchange_at_host(mrt_wire *w, size_t nbytes, char *all,
                                   mrt_error *e) {
  size_t size = (size_t)w->options.size;
  mrt_waiting until = mrt_wire_patience(w);
  for (int r = 1; r < (int)size; r++) {
    uint64_t theirs = 0;
    int code =
        mrt_socket_receive(w->sockets[r], &theirs, sizeof theirs, &until);
    if (!code && theirs != nbytes)
      return mrt_fail(e, MRT_ERANK, "rank %d exchanges %llu bytes, rank 0 %zu",
                      r, (unsigned long long)theirs, nbytes);
    if (!code)
      code = mrt_socket_receive(w->sockets[r], all + (size_t)r * nbytes, nbytes,
                                &until);
    if (code) return lost(w, r, code, e);
  }
  for (int r = 1; r < (int)size; r++) {
    int code = mrt_socket_send(w->sockets[r], all, size * nbytes, &until);
    if (code) return lost(w, r, code, e);
  }
  return MRT_OK;
}

mrt_status mrt_wire_exchange(mrt_wire *w, const void *mine, size_t nbytes,
                             void *all, mrt_error *e) {
  size_t size = (size_t)w->options.size;
  memmove((char *)all + (size_t)w->options.rank * nbytes, mine, nbytes);
  if (size == 1) return MRT_OK;
  if (w->options.rank == 0) return exchange_at_host(w, nbytes, all, e);
  uint64_t count = nbytes;
  mrt_waiting until = mrt_wire_patience(w);
  int fd = w->sockets[0],
      code = mrt_socket_send(fd, &count, sizeof count, &until);
  if (!code) code = mrt_socket_send(fd, mine, nbytes, &until);
  if (!code) code = mrt_socket_receive(fd, all, size * nbytes, &until);
  return code ? lost(w, 0, code, e) : MRT_OK;
}

const char *mrt_wire_host(const mrt_wire *w, int rank, int64_t *pid) {
  if (pid) *pid = w->people[rank].pid;
  return w->people[rank].host;
}

void mrt_wire_close(mrt_wire *w) {
  if (!w) return;
  size_t size = (size_t)w->options.size;
  for (size_t r = 0; w->sockets && r < size; r++)
    if (w->sockets[r] >= 0) close(w->sockets[r]);
  mrt_release(w->allocator, w->sockets, size * sizeof *w->sockets);
  mrt_release(w->allocator, w->people, size * sizeof *w->people);
  mrt_release(w->allocator, w, sizeof *w);
}

static mrt_status check(const mrt_wire_options *o, mrt_error *e) {
  if (o->size < 1 || o->rank < 0 || o->rank >= o->size)
    return mrt_fail(e, MRT_EVALUE, "rank %d of %d", o->rank, o->size);
  if (o->port < 1 || o->port > 65535)
    return mrt_fail(e, MRT_EVALUE, "MASTER_PORT is %d, 1 to 65535 wanted",
                    o->port);
  if (!(o->timeout > 0))
    return mrt_fail(e, MRT_EVALUE, "timeout: %g seconds, more than 0 wanted",
                    o->timeout);
  if (strlen(o->token) >= MRT_WIRE_TEXT)
    return mrt_fail(e, MRT_EVALUE, "the run's token is longer than %d bytes",
                    MRT_WIRE_TEXT - 1);
  return MRT_OK;
}

mrt_status mrt_wire_open(const mrt_wire_options *o, const mrt_allocator *a,
                         mrt_wire **wire, mrt_error *e) {
  MRT_TRY(check(o, e));
  size_t size = (size_t)o->size;
  mrt_wire *w = mrt_calloc(a, 1, sizeof *w);
  if (!w) return mrt_nomem(e);
  w->allocator = a, w->options = *o;
  w->sockets = mrt_calloc(a, size, sizeof *w->sockets);
  w->people = mrt_calloc(a, size, sizeof *w->people);
  for (size_t r = 0; w->sockets && r < size; r++) w->sockets[r] = -1;
  mrt_status s = w->sockets && w->people ? MRT_OK : mrt_nomem(e);
  mrt_wire_hello own = hello_of(o);
  if (!s) mrt_wire_admit(w, &own, -1);
  if (!s && size > 1)
    s = o->rank ? visit(w, &own, e) : mrt_wire_gather(w, &own, e);
  mrt_wire_person me = { own.pid, "" };
  memcpy(me.host, own.host, sizeof me.host);
  if (!s && size > 1) s = mrt_wire_exchange(w, &me, sizeof me, w->people, e);
  if (s)
    mrt_wire_close(w);
  else
    *wire = w;
  return s;
}
