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

void mrt_bootstrap_own_host(char host[MRT_BOOTSTRAP_TEXT]) {
  const char *given = getenv("MRT_HOST");
  memset(host, 0, MRT_BOOTSTRAP_TEXT);
  if (given && *given)
    snprintf(host, MRT_BOOTSTRAP_TEXT, "%s", given);
  else
    gethostname(host, MRT_BOOTSTRAP_TEXT - 1);
}

static mrt_bootstrap_hello hello_of(const mrt_bootstrap_options *o) {
  mrt_bootstrap_hello h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, MRT_BOOTSTRAP_MAGIC, sizeof h.magic);
  h.version = MRT_BOOTSTRAP_VERSION, h.rank = o->rank, h.size = o->size;
  h.pid = (int64_t)getpid();
  snprintf(h.token, sizeof h.token, "%s", o->token);
  snprintf(h.build, sizeof h.build, "%s", o->build);
  mrt_bootstrap_own_host(h.host);
  return h;
}

void mrt_bootstrap_admit(mrt_bootstrap *b, const mrt_bootstrap_hello *h,
                         int fd) {
  mrt_bootstrap_peer *p = &b->peers[h->rank];
  b->sockets[h->rank] = fd;
  p->pid = h->pid;
  snprintf(p->host, sizeof p->host, "%.*s", MRT_BOOTSTRAP_TEXT - 1, h->host);
}

/* ---- the others ---------------------------------------------------------- */

static mrt_status hear_answer(mrt_bootstrap *b, mrt_error *e) {
  const mrt_bootstrap_options *o = &b->options;
  mrt_bootstrap_answer a;
  /* Rank 0 decides when the time is over: its word comes a little later. */
  mrt_deadline until = mrt_bootstrap_deadline(b);
  until.deadline += 2;
  int code = mrt_socket_receive(b->sockets[0], &a, sizeof a, &until);
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  if (code ||
      memcmp(a.magic, MRT_BOOTSTRAP_MAGIC, sizeof MRT_BOOTSTRAP_MAGIC) != 0)
    return mrt_fail(e, MRT_ERANK,
                    "rank 0 at %s:%d does not take rank %d: %s (another "
                    "program or run there, or another token?)",
                    o->address, o->port, o->rank,
                    code ? mrt_socket_why(code) : "not one of ours");
  a.reason[MRT_BOOTSTRAP_REASON - 1] = 0;
  if (!a.status) return MRT_OK;
  return mrt_fail(e, MRT_ERANK, "rank 0 at %s:%d refuses: %s", o->address,
                  o->port, a.reason);
}

static mrt_status visit(mrt_bootstrap *b, const mrt_bootstrap_hello *own,
                        mrt_error *e) {
  const mrt_bootstrap_options *o = &b->options;
  mrt_deadline until = mrt_bootstrap_deadline(b);
  int code = mrt_socket_connect(o->address, o->port, &until, &b->sockets[0]);
  if (!code) code = mrt_socket_send(b->sockets[0], own, sizeof *own, &until);
  if (code)
    return mrt_fail(e, code == EINTR ? MRT_EINTERRUPT : MRT_ERANK,
                    "rank %d found no rank 0 at %s:%d (MASTER_ADDR, "
                    "MASTER_PORT) within %g s: %s",
                    o->rank, o->address, o->port, o->timeout,
                    mrt_socket_why(code));
  return hear_answer(b, e);
}

/* ---- both ---------------------------------------------------------------- */

static mrt_status lost(const mrt_bootstrap *b, int rank, int code,
                       mrt_error *e) {
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  if (!b->peers[rank].pid) /* not yet introduced */
    return mrt_fail(e, MRT_ERANK, "rank %d at %s:%d: %s", rank,
                    b->options.address, b->options.port, mrt_socket_why(code));
  return mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s): %s", rank,
                  (long long)b->peers[rank].pid, b->peers[rank].host,
                  mrt_socket_why(code));
}

/* Rank 0 takes from each, then gives the whole to each. */
static mrt_status exchange_at_host(mrt_bootstrap *b, size_t nbytes, char *all,
                                   mrt_error *e) {
  size_t size = (size_t)b->options.size;
  mrt_deadline until = mrt_bootstrap_deadline(b);
  for (int r = 1; r < (int)size; r++) {
    uint64_t theirs = 0;
    int code =
        mrt_socket_receive(b->sockets[r], &theirs, sizeof theirs, &until);
    if (!code && theirs != nbytes)
      return mrt_fail(e, MRT_ERANK, "rank %d exchanges %llu bytes, rank 0 %zu",
                      r, (unsigned long long)theirs, nbytes);
    if (!code)
      code = mrt_socket_receive(b->sockets[r], all + (size_t)r * nbytes, nbytes,
                                &until);
    if (code) return lost(b, r, code, e);
  }
  for (int r = 1; r < (int)size; r++) {
    int code = mrt_socket_send(b->sockets[r], all, size * nbytes, &until);
    if (code) return lost(b, r, code, e);
  }
  return MRT_OK;
}

mrt_status mrt_bootstrap_allgather(mrt_bootstrap *b, const void *mine,
                                   size_t nbytes, void *all, mrt_error *e) {
  size_t size = (size_t)b->options.size;
  memmove((char *)all + (size_t)b->options.rank * nbytes, mine, nbytes);
  if (size == 1) return MRT_OK;
  if (b->options.rank == 0) return exchange_at_host(b, nbytes, all, e);
  uint64_t count = nbytes;
  mrt_deadline until = mrt_bootstrap_deadline(b);
  int fd = b->sockets[0],
      code = mrt_socket_send(fd, &count, sizeof count, &until);
  if (!code) code = mrt_socket_send(fd, mine, nbytes, &until);
  if (!code) code = mrt_socket_receive(fd, all, size * nbytes, &until);
  return code ? lost(b, 0, code, e) : MRT_OK;
}

const char *mrt_bootstrap_host(const mrt_bootstrap *b, int rank, int64_t *pid) {
  if (pid) *pid = b->peers[rank].pid;
  return b->peers[rank].host;
}

void mrt_bootstrap_close(mrt_bootstrap *b) {
  if (!b) return;
  size_t size = (size_t)b->options.size;
  for (size_t r = 0; b->sockets && r < size; r++)
    if (b->sockets[r] >= 0) close(b->sockets[r]);
  mrt_release(b->allocator, b->sockets, size * sizeof *b->sockets);
  mrt_release(b->allocator, b->peers, size * sizeof *b->peers);
  mrt_release(b->allocator, b, sizeof *b);
}

static mrt_status check(const mrt_bootstrap_options *o, mrt_error *e) {
  if (o->size < 1 || o->rank < 0 || o->rank >= o->size)
    return mrt_fail(e, MRT_EVALUE, "rank %d of %d", o->rank, o->size);
  if (o->port < 1 || o->port > 65535)
    return mrt_fail(e, MRT_EVALUE, "MASTER_PORT is %d, 1 to 65535 wanted",
                    o->port);
  if (!(o->timeout > 0))
    return mrt_fail(e, MRT_EVALUE, "timeout: %g seconds, more than 0 wanted",
                    o->timeout);
  if (!o->token || !o->token[0])
    return mrt_fail(e, MRT_EVALUE,
                    "the run has no token: a text that its ranks alone know");
  if (strlen(o->token) >= MRT_BOOTSTRAP_TEXT)
    return mrt_fail(e, MRT_EVALUE, "the run's token is longer than %d bytes",
                    MRT_BOOTSTRAP_TEXT - 1);
  return MRT_OK;
}

mrt_status mrt_bootstrap_open(const mrt_bootstrap_options *o,
                              const mrt_allocator *a, mrt_bootstrap **out,
                              mrt_error *e) {
  MRT_TRY(check(o, e));
  size_t size = (size_t)o->size;
  mrt_bootstrap *b = mrt_calloc(a, 1, sizeof *b);
  if (!b) return mrt_nomem(e);
  b->allocator = a, b->options = *o;
  b->sockets = mrt_calloc(a, size, sizeof *b->sockets);
  b->peers = mrt_calloc(a, size, sizeof *b->peers);
  for (size_t r = 0; b->sockets && r < size; r++) b->sockets[r] = -1;
  mrt_status s = b->sockets && b->peers ? MRT_OK : mrt_nomem(e);
  mrt_bootstrap_hello own = hello_of(o);
  if (!s) mrt_bootstrap_admit(b, &own, -1);
  if (!s && size > 1)
    s = o->rank ? visit(b, &own, e) : mrt_bootstrap_serve(b, &own, e);
  mrt_bootstrap_peer me = { own.pid, "" };
  memcpy(me.host, own.host, sizeof me.host);
  if (!s && size > 1)
    s = mrt_bootstrap_allgather(b, &me, sizeof me, b->peers, e);
  if (s)
    mrt_bootstrap_close(b);
  else
    *out = b;
  return s;
}
