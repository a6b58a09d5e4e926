/* wire.c -- how ranks find each other: connections to rank 0 by TCP
 *
 * A star: rank 0 has a connection to each.  Everything has a deadline, and a
 * stranger that connects and says nothing delays nobody.
 *
 * SPDX-License-Identifier: MIT */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* gethostname */
#endif
#include "wire.h"
#include "sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, WAITING = 64, REASON = 256 };
static const char MAGIC[8] = "mrtwire";

/* What a rank says first.  Hosts of one byte order, as all else. */
typedef struct hello {
  char magic[8];
  int32_t version, rank, size, reserved;
  int64_t pid;
  char token[MRT_WIRE_TEXT], build[MRT_WIRE_TEXT], host[MRT_WIRE_TEXT];
} hello;

/* What rank 0 answers: 0, or a status and the reason. */
typedef struct answer {
  char magic[8];
  int32_t status;
  char reason[REASON];
} answer;

typedef struct person {
  int64_t pid;
  char host[MRT_WIRE_TEXT];
} person;

struct mrt_wire {
  const mrt_allocator *allocator;
  mrt_wire_options options; /* its texts: not kept */
  int *sockets;             /* of rank 0: [size], its own -1; else one */
  person *people;           /* [size] */
};

static hello hello_of(const mrt_wire_options *o) {
  hello h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, MAGIC, sizeof h.magic);
  h.version = VERSION, h.rank = o->rank, h.size = o->size;
  h.pid = (int64_t)getpid();
  snprintf(h.token, sizeof h.token, "%s", o->token);
  snprintf(h.build, sizeof h.build, "%s", o->build);
  gethostname(h.host, sizeof h.host - 1);
  return h;
}

static double deadline_of(const mrt_wire *w) {
  return mrt_socket_clock() + w->options.timeout;
}

static mrt_waiting waiting_until(const mrt_wire *w, double deadline) {
  return (mrt_waiting){ deadline, w->options.interrupted };
}

/* ---- rank 0 ------------------------------------------------------------------ */

static bool is_stranger(const hello *h, const hello *own) {
  return memcmp(h->magic, MAGIC, sizeof MAGIC) != 0 ||
         memcmp(h->token, own->token, sizeof h->token) != 0;
}

/* One of us who does not fit: what is wrong. */
static bool misfit(const mrt_wire *w, const hello *h, const hello *own,
                   char reason[REASON]) {
  bool known = h->rank >= 0 && h->rank < w->options.size;
  reason[0] = 0;
  if (h->version != own->version)
    snprintf(reason, REASON, "speaks version %d, rank 0 version %d", h->version,
             own->version);
  else if (h->size != own->size)
    snprintf(reason, REASON, "expects %d ranks, rank 0 expects %d", h->size,
             own->size);
  else if (!known || h->rank == 0)
    snprintf(reason, REASON, "is no rank from 1 to %d", own->size - 1);
  else if (w->sockets[h->rank] >= 0)
    snprintf(reason, REASON,
             "is there already, as process %lld on %s: two have one rank",
             (long long)w->people[h->rank].pid, w->people[h->rank].host);
  else if (strncmp(h->build, own->build, sizeof h->build) != 0)
    snprintf(reason, REASON, "is of build '%.60s', rank 0 of '%.60s'", h->build,
             own->build);
  return reason[0] != 0;
}

/* A rank is in: its place is taken. */
static void admit(mrt_wire *w, const hello *h, int fd) {
  person *p = &w->people[h->rank];
  w->sockets[h->rank] = fd;
  p->pid = h->pid;
  snprintf(p->host, sizeof p->host, "%.*s", MRT_WIRE_TEXT - 1, h->host);
}

static answer answer_of(mrt_status status, const char *reason) {
  answer a;
  memset(&a, 0, sizeof a);
  memcpy(a.magic, MAGIC, sizeof a.magic);
  a.status = status;
  snprintf(a.reason, sizeof a.reason, "%.255s", reason);
  return a;
}

static void refuse(const mrt_wire *w, int fd, const mrt_error *e) {
  answer a = answer_of(e->status, e->message);
  mrt_waiting soon = waiting_until(w, mrt_socket_clock() + 1);
  mrt_socket_send(fd, &a, sizeof a, &soon);
}

/* What a whole hello leads to; a stranger gets no answer. */
static mrt_status receive(mrt_wire *w, hello *h, const hello *own, int fd,
                          mrt_error *e) {
  char reason[REASON];
  h->build[MRT_WIRE_TEXT - 1] = h->host[MRT_WIRE_TEXT - 1] = 0;
  if (is_stranger(h, own)) return close(fd), MRT_OK;
  if (!misfit(w, h, own, reason)) return admit(w, h, fd), MRT_OK;
  mrt_status s = mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s) %s",
                          h->rank, (long long)h->pid, h->host, reason);
  refuse(w, fd, e);
  close(fd);
  return s;
}

/* Those who have connected and not yet said all of their hello. */
typedef struct guests {
  int count, fd[WAITING];
  size_t got[WAITING];
  double until[WAITING];
  hello said[WAITING];
} guests;

static void drop_guest(guests *g, int i) {
  int last = --g->count;
  g->fd[i] = g->fd[last], g->got[i] = g->got[last];
  g->until[i] = g->until[last], g->said[i] = g->said[last];
}

static void greet(guests *g, int listener) {
  int fd = mrt_socket_accept(listener);
  if (fd < 0) return;
  if (g->count == WAITING) { /* the one that has been silent longest */
    int oldest = 0;
    for (int i = 1; i < WAITING; i++)
      if (g->until[i] < g->until[oldest]) oldest = i;
    close(g->fd[oldest]);
    drop_guest(g, oldest);
  }
  int i = g->count++;
  g->fd[i] = fd, g->got[i] = 0, g->until[i] = mrt_socket_clock() + 10;
}

/* Hear what guests say; those who have said all leave the list. */
static mrt_status listen_to(mrt_wire *w, guests *g, const hello *own,
                            mrt_error *e) {
  for (int i = g->count; i-- > 0;) {
    char *room = (char *)&g->said[i] + g->got[i];
    long n = mrt_socket_read(g->fd[i], room, sizeof(hello) - g->got[i]);
    if (n > 0) g->got[i] += (size_t)n;
    bool late = mrt_socket_clock() > g->until[i];
    int fd = g->fd[i];
    if (g->got[i] == sizeof(hello)) {
      hello h = g->said[i];
      drop_guest(g, i);
      MRT_TRY(receive(w, &h, own, fd, e));
    } else if (n < 0 || late) {
      close(fd);
      drop_guest(g, i);
    }
  }
  return MRT_OK;
}

static int missing(const mrt_wire *w, char *list, size_t room) {
  int count = 0;
  size_t at = 0;
  for (int r = 1; r < w->options.size; r++) {
    if (w->sockets[r] >= 0) continue;
    if (count++ < 8 && at < room)
      at += (size_t)snprintf(list + at, room - at, "%s%d", at ? ", " : "", r);
  }
  return count;
}

static mrt_status not_all(const mrt_wire *w, const char *why, mrt_error *e) {
  char list[96] = "";
  int count = missing(w, list, sizeof list);
  return mrt_fail(e, MRT_ERANK, "%d of %d ranks did not come to %s:%d %s: %s%s",
                  count, w->options.size, w->options.address, w->options.port,
                  why, list, count > 8 ? ", .." : "");
}

static mrt_status gather_ranks(mrt_wire *w, int listener, guests *g,
                               const hello *own, mrt_error *e) {
  double deadline = deadline_of(w);
  char list[8];
  while (missing(w, list, sizeof list) > 0) {
    char why[48];
    snprintf(why, sizeof why, "within %g s", w->options.timeout);
    if (mrt_socket_clock() > deadline) return not_all(w, why, e);
    if (w->options.interrupted && *w->options.interrupted)
      return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
    if (mrt_socket_poll(listener, g->fd, g->count, 0.05)) greet(g, listener);
    MRT_TRY(listen_to(w, g, own, e));
  }
  return MRT_OK;
}

/* All are here: each gets a good answer. */
static mrt_status welcome(mrt_wire *w, mrt_error *e) {
  answer good = answer_of(MRT_OK, "");
  mrt_waiting until = waiting_until(w, deadline_of(w));
  for (int r = 1; r < w->options.size; r++)
    if (mrt_socket_send(w->sockets[r], &good, sizeof good, &until))
      return mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s) is gone", r,
                      (long long)w->people[r].pid, w->people[r].host);
  return MRT_OK;
}

static mrt_status host(mrt_wire *w, const hello *own, mrt_error *e) {
  const mrt_wire_options *o = &w->options;
  int listener, code = mrt_socket_listen(o->address, o->port, &listener);
  if (code)
    return mrt_fail(e, MRT_EVALUE,
                    "rank 0 cannot listen at %s:%d (MASTER_ADDR, "
                    "MASTER_PORT): %s",
                    o->address, o->port, mrt_socket_why(code));
  guests *g = mrt_calloc(w->allocator, 1, sizeof *g);
  mrt_status s = g ? gather_ranks(w, listener, g, own, e) : mrt_nomem(e);
  for (int i = 0; g && i < g->count; i++) close(g->fd[i]);
  mrt_release(w->allocator, g, sizeof *g);
  close(listener);
  for (int r = 1; s && r < o->size; r++)
    if (w->sockets[r] >= 0) refuse(w, w->sockets[r], e);
  return s ? s : welcome(w, e);
}

/* ---- the others -------------------------------------------------------------- */

static mrt_status hear_answer(mrt_wire *w, mrt_error *e) {
  const mrt_wire_options *o = &w->options;
  answer a;
  mrt_waiting until = waiting_until(w, deadline_of(w));
  int code = mrt_socket_receive(w->sockets[0], &a, sizeof a, &until);
  if (code == EINTR) return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
  if (code || memcmp(a.magic, MAGIC, sizeof MAGIC) != 0)
    return mrt_fail(e, MRT_ERANK,
                    "rank 0 at %s:%d does not take rank %d: %s (another run "
                    "there, or another token?)",
                    o->address, o->port, o->rank,
                    code ? mrt_socket_why(code) : "not one of ours");
  a.reason[REASON - 1] = 0;
  if (!a.status) return MRT_OK;
  return mrt_fail(e, MRT_ERANK, "rank 0 at %s:%d refuses: %s", o->address,
                  o->port, a.reason);
}

static mrt_status visit(mrt_wire *w, const hello *own, mrt_error *e) {
  const mrt_wire_options *o = &w->options;
  mrt_waiting until = waiting_until(w, deadline_of(w));
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

/* ---- both -------------------------------------------------------------------- */

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
  mrt_waiting until = waiting_until(w, deadline_of(w));
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
  mrt_waiting until = waiting_until(w, deadline_of(w));
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
  hello own = hello_of(o);
  if (!s) admit(w, &own, -1);
  if (!s && size > 1) s = o->rank ? visit(w, &own, e) : host(w, &own, e);
  person me = { own.pid, "" };
  memcpy(me.host, own.host, sizeof me.host);
  if (!s && size > 1) s = mrt_wire_exchange(w, &me, sizeof me, w->people, e);
  if (s)
    mrt_wire_close(w);
  else
    *wire = w;
  return s;
}
