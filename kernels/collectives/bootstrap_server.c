/* bootstrap_server.c -- rank 0's side of the bootstrap: who comes, who fits
 *
 * SPDX-License-Identifier: MIT */
#include "bootstrap_inside.h"
#include "guests.h"

#include <stdio.h>
#include <unistd.h>

static bool is_stranger(const mrt_bootstrap_hello *h,
                        const mrt_bootstrap_hello *own) {
  return memcmp(h->magic, MRT_BOOTSTRAP_MAGIC, sizeof MRT_BOOTSTRAP_MAGIC) !=
             0 ||
         memcmp(h->token, own->token, sizeof h->token) != 0;
}

/* One of us who does not fit: what is wrong. */
static bool misfit(const mrt_bootstrap *b, const mrt_bootstrap_hello *h,
                   const mrt_bootstrap_hello *own,
                   char reason[MRT_BOOTSTRAP_REASON]) {
  bool known = h->rank >= 0 && h->rank < b->options.size;
  reason[0] = 0;
  if (h->version != own->version)
    snprintf(reason, MRT_BOOTSTRAP_REASON,
             "speaks version %d, rank 0 version %d", h->version, own->version);
  else if (h->size != own->size)
    snprintf(reason, MRT_BOOTSTRAP_REASON,
             "expects %d ranks, rank 0 expects %d", h->size, own->size);
  else if (!known || h->rank == 0)
    snprintf(reason, MRT_BOOTSTRAP_REASON, "is no rank from 1 to %d",
             own->size - 1);
  else if (b->sockets[h->rank] >= 0)
    snprintf(reason, MRT_BOOTSTRAP_REASON,
             "is there already, as process %lld on %s: two have one rank",
             (long long)b->peers[h->rank].pid, b->peers[h->rank].host);
  else if (strncmp(h->build, own->build, sizeof h->build) != 0)
    snprintf(reason, MRT_BOOTSTRAP_REASON,
             "is of build '%.60s', rank 0 of '%.60s'", h->build, own->build);
  return reason[0] != 0;
}

static mrt_bootstrap_answer answer_of(mrt_status status, const char *reason) {
  mrt_bootstrap_answer a;
  memset(&a, 0, sizeof a);
  memcpy(a.magic, MRT_BOOTSTRAP_MAGIC, sizeof a.magic);
  a.status = status;
  snprintf(a.reason, sizeof a.reason, "%.255s", reason);
  return a;
}

static void refuse(const mrt_bootstrap *b, int fd, const mrt_error *e) {
  mrt_bootstrap_answer a = answer_of(e->status, e->message);
  mrt_deadline soon = mrt_bootstrap_until(b, mrt_socket_clock() + 1);
  mrt_socket_send(fd, &a, sizeof a, &soon);
}

_Static_assert(sizeof(mrt_bootstrap_hello) <= MRT_GUEST_SAYS, "room for it");

/* Rank 0's door. */
typedef struct reception {
  mrt_bootstrap *bootstrap;
  const mrt_bootstrap_hello *own;
} reception;

/* What a whole hello leads to; a stranger gets no answer. */
static mrt_status receive(void *user, void *said, int fd, mrt_error *e) {
  mrt_bootstrap *b = ((reception *)user)->bootstrap;
  const mrt_bootstrap_hello *own = ((reception *)user)->own;
  mrt_bootstrap_hello *h = said;
  char reason[MRT_BOOTSTRAP_REASON];
  h->build[MRT_BOOTSTRAP_TEXT - 1] = h->host[MRT_BOOTSTRAP_TEXT - 1] = 0;
  if (is_stranger(h, own)) return close(fd), MRT_OK;
  if (b->verdict) return refuse(b, fd, b->verdict), close(fd), MRT_OK;
  if (!misfit(b, h, own, reason)) return mrt_bootstrap_admit(b, h, fd), MRT_OK;
  mrt_status s = mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s) %s",
                          h->rank, (long long)h->pid, h->host, reason);
  refuse(b, fd, e);
  close(fd);
  return s;
}

static int missing(const mrt_bootstrap *b, char *list, size_t room) {
  int count = 0;
  size_t at = 0;
  for (int r = 1; r < b->options.size; r++) {
    if (b->sockets[r] >= 0) continue;
    if (count++ < 8 && at < room)
      at += (size_t)snprintf(list + at, room - at, "%s%d", at ? ", " : "", r);
  }
  return count;
}

static mrt_status not_all(const mrt_bootstrap *b, const char *why,
                          mrt_error *e) {
  char list[96] = "";
  int count = missing(b, list, sizeof list);
  return mrt_fail(e, MRT_ERANK, "%d of %d ranks did not come to %s:%d %s: %s%s",
                  count, b->options.size, b->options.address, b->options.port,
                  why, list, count > 8 ? ", .." : "");
}

static mrt_status gather_ranks(mrt_bootstrap *b, int listener, mrt_guests *g,
                               const mrt_bootstrap_hello *own, mrt_error *e) {
  double deadline = mrt_socket_clock() + b->options.timeout;
  char list[8];
  while (missing(b, list, sizeof list) > 0) {
    char why[48];
    snprintf(why, sizeof why, "within %g s", b->options.timeout);
    if (mrt_socket_clock() > deadline) return not_all(b, why, e);
    if (b->options.interrupted && *b->options.interrupted)
      return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
    MRT_TRY(mrt_guests_serve(g, listener, 0.05, receive, &(reception){ b, own },
                             e));
  }
  return MRT_OK;
}

/* All are here: each gets a good answer. */
static mrt_status welcome(mrt_bootstrap *b, mrt_error *e) {
  mrt_bootstrap_answer good = answer_of(MRT_OK, "");
  mrt_deadline until = mrt_bootstrap_deadline(b);
  for (int r = 1; r < b->options.size; r++)
    if (mrt_socket_send(b->sockets[r], &good, sizeof good, &until))
      return mrt_fail(e, MRT_ERANK, "rank %d (process %lld on %s) is gone", r,
                      (long long)b->peers[r].pid, b->peers[r].host);
  return MRT_OK;
}

/* The meeting has failed: all who are here, and who comes soon, hear why. */
static void tell_all(mrt_bootstrap *b, int listener, mrt_guests *g,
                     const mrt_bootstrap_hello *own, const mrt_error *why) {
  mrt_error ignored;
  double until = mrt_socket_clock() + 1;
  for (int r = 1; r < b->options.size; r++)
    if (b->sockets[r] >= 0) refuse(b, b->sockets[r], why);
  b->verdict = why;
  while (why->status != MRT_EINTERRUPT && mrt_socket_clock() < until) {
    mrt_guests_serve(g, listener, 0.05, receive, &(reception){ b, own },
                     &ignored);
  }
  b->verdict = NULL;
}

static mrt_status gather_all(mrt_bootstrap *b, int listener,
                             const mrt_bootstrap_hello *own, mrt_error *e) {
  mrt_guests *g = mrt_calloc(b->allocator, 1, sizeof *g);
  if (!g) return mrt_nomem(e);
  g->nbytes = sizeof(mrt_bootstrap_hello);
  mrt_status s = gather_ranks(b, listener, g, own, e);
  if (s) tell_all(b, listener, g, own, e);
  mrt_guests_close(g);
  mrt_release(b->allocator, g, sizeof *g);
  return s;
}

mrt_status mrt_bootstrap_serve(mrt_bootstrap *b, const mrt_bootstrap_hello *own,
                               mrt_error *e) {
  const mrt_bootstrap_options *o = &b->options;
  int listener = mrt_socket_inherited(o->port);
  int code =
      listener < 0 ? mrt_socket_listen(o->address, o->port, &listener) : 0;
  if (code)
    return mrt_fail(e, MRT_EVALUE,
                    "rank 0 cannot listen at %s:%d (MASTER_ADDR, "
                    "MASTER_PORT): %s",
                    o->address, o->port, mrt_socket_why(code));
  mrt_status s = gather_all(b, listener, own, e);
  close(listener);
  return s ? s : welcome(b, e);
}
