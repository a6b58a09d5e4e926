/* message_control.c -- control messages; waiting, failing
 *
 * A rank that waits polls all peers, not only those it waits for: a failure
 * anywhere ends it.  It counts the time that it waited itself, so that a
 * process that was stopped does not blame the others for it.
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- telling ------------------------------------------------------------- */

static bool has_room(const mrt_peer *p, unsigned spare) {
  return p->posted - p->sent + spare < MRT_CONTROL_IN_FLIGHT;
}

static void push(mrt_endpoint *endpoint, int peer, const mrt_control *msg) {
  mrt_peer *p = &endpoint->peers[peer];
  unsigned i = p->posted++ % MRT_CONTROL_IN_FLIGHT;
  p->out[i] = *msg;
  p->sends[i] = (mrt_request){ .peer = peer,
                               .channel = MRT_ENGINE_CONTROL,
                               .is_send = true,
                               .data = (char *)&p->out[i],
                               .nbytes = sizeof *msg };
  endpoint->engine->start(endpoint->engine, &p->sends[i]);
}

/* What cannot be sent is out too: the other channel tells that the peer is
 * gone, after its last words. */
static bool go_on(mrt_endpoint *endpoint, mrt_peer *p) {
  while (p->sent != p->posted) {
    mrt_request *r = &p->sends[p->sent % MRT_CONTROL_IN_FLIGHT];
    if (endpoint->engine->test(endpoint->engine, r) == 0) return false;
    p->sent++;
  }
  return true;
}

void mrt_endpoint_send_all(mrt_endpoint *endpoint, const mrt_control *msg) {
  for (int i = 0; i < endpoint->engine->size; i++) {
    mrt_peer *p = &endpoint->peers[i];
    go_on(endpoint, p);
    /* one place is kept for the last words */
    unsigned spare = msg->kind != MRT_CONTROL_FAILED;
    if (i != endpoint->engine->rank && !p->gone && has_room(p, spare))
      push(endpoint, i, msg);
  }
}

void mrt_endpoint_flush(mrt_endpoint *endpoint, double seconds) {
  double until = mrt_clock() + seconds;
  for (int turns = 1;; turns++) {
    bool out = true;
    for (int i = 0; i < endpoint->engine->size; i++)
      if (!endpoint->peers[i].gone) out &= go_on(endpoint, &endpoint->peers[i]);
    if (out || mrt_clock() > until) return;
    endpoint->engine->rest(endpoint->engine, turns);
  }
}

/* ---- failing ------------------------------------------------------------- */

/* The first reason is kept, told to all, and ends the engine's work. */
static void keep(mrt_endpoint *endpoint, const char *text) {
  mrt_control msg = { .kind = MRT_CONTROL_FAILED };
  if (endpoint->failed) return;
  endpoint->failed = true;
  snprintf(endpoint->message, sizeof endpoint->message, "%.*s",
           MRT_CONTROL_SMALL - 1, text);
  memcpy(msg.text, endpoint->message, sizeof msg.text);
  msg.text[sizeof msg.text - 1] = 0;
  mrt_endpoint_send_all(endpoint, &msg);
  mrt_endpoint_flush(endpoint, 1);
  endpoint->engine->stop(endpoint->engine);
}

mrt_status mrt_endpoint_fail(mrt_endpoint *endpoint, mrt_error *e,
                             const char *fmt, ...) {
  char text[sizeof endpoint->message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  keep(endpoint, text);
  return mrt_fail(e, MRT_ERANK, "%s", endpoint->message);
}

mrt_rank_name mrt_message_rank_name(const mrt_message_comm *m, int rank) {
  const mrt_peer *p = &m->endpoint->peers[m->members[rank]];
  mrt_rank_name who;
  if (p->greeted)
    snprintf(who.s, sizeof who.s, "rank %d (pid %lld on %.60s)", rank,
             (long long)p->hello.pid, p->hello.host);
  else
    snprintf(who.s, sizeof who.s, "rank %d", rank);
  return who;
}

/* ---- hearing ------------------------------------------------------------- */

void mrt_endpoint_post_recv(mrt_endpoint *endpoint, int peer) {
  mrt_peer *p = &endpoint->peers[peer];
  p->recv = (mrt_request){ .peer = peer,
                           .channel = MRT_ENGINE_CONTROL,
                           .data = (char *)&p->in,
                           .nbytes = sizeof p->in };
  endpoint->engine->start(endpoint->engine, &p->recv);
}

static int rank_of(const mrt_message_comm *m, int peer) {
  for (int r = 0; r < m->comm.size; r++)
    if (m->members[r] == peer) return r;
  return -1;
}

/* Of a communicator: kept where who waits for it looks. */
static void put(mrt_endpoint *endpoint, int peer, const mrt_control *msg) {
  mrt_message_comm *m = endpoint->comms;
  while (m && m->id != msg->id) m = m->next;
  int rank = m ? rank_of(m, peer) : -1;
  if (rank < 0) return;
  if (msg->kind == MRT_CONTROL_CLOSED) m->closed[rank] = true;
  if (msg->kind == MRT_CONTROL_COLLECTIVE)
    m->entered[msg->number & 1][rank] = *msg;
  if (msg->kind == MRT_CONTROL_P2P) m->p2p[msg->number & 1][rank] = *msg;
}

static void receive(mrt_endpoint *endpoint, int peer) {
  mrt_peer *p = &endpoint->peers[peer];
  mrt_control *msg = &p->in;
  if (msg->kind == MRT_CONTROL_HELLO) {
    p->hello = msg->hello, p->greeted = true;
    p->hello.host[63] = p->hello.build[63] = p->hello.algorithm[15] = 0;
  } else if (msg->kind == MRT_CONTROL_WAITING) {
    p->waits = msg->descriptor.peer, p->waits_at = mrt_clock();
  } else if (msg->kind == MRT_CONTROL_DONE) {
    p->done = true;
  } else if (msg->kind == MRT_CONTROL_FAILED) {
    msg->text[sizeof msg->text - 1] = 0;
    keep(endpoint, msg->text);
  } else {
    put(endpoint, peer, msg);
  }
}

void mrt_endpoint_poll(mrt_endpoint *endpoint) {
  for (int i = 0; i < endpoint->engine->size && !endpoint->failed; i++) {
    mrt_peer *p = &endpoint->peers[i];
    int heard = 1;
    if (i == endpoint->engine->rank) continue;
    go_on(endpoint, p);
    while (!p->gone && !endpoint->failed && heard > 0) {
      heard = endpoint->engine->test(endpoint->engine, &p->recv);
      if (heard < 0) {
        p->gone = true;
        memcpy(p->why, endpoint->engine->why, sizeof p->why);
      }
      if (heard <= 0) break;
      receive(endpoint, i);
      if (!endpoint->failed) mrt_endpoint_post_recv(endpoint, i);
    }
  }
}

/* ---- waiting ------------------------------------------------------------- */

static mrt_rank_name at_what(const mrt_message_comm *m,
                             const mrt_message_wait *w) {
  mrt_rank_name t = { "the start" };
  if (!w->c) return t;
  mrt_descriptor_text what = mrt_collective_print(w->c);
  if (w->c->kind == MRT_COLLECT_send || w->c->kind == MRT_COLLECT_recv)
    snprintf(t.s, sizeof t.s, "%.100s of rank %d", what.s, m->comm.rank);
  else
    snprintf(t.s, sizeof t.s, "collective #%llu, %.96s",
             (unsigned long long)m->calls, what.s);
  return t;
}

/* What is missing, and whether something moved since the last look. */
typedef struct survey {
  int first, lost; /* ranks; -1: none */
  bool closed;     /* the lost one has */
} survey;

static survey look(mrt_message_comm *m, mrt_message_wait *w) {
  survey s = { -1, -1, false };
  size_t moved = 0;
  for (int i = 0; i < w->count; i++) {
    bool broken = !w->requests;
    int rank = w->missing(m, w, i, &broken);
    if (w->requests) moved += w->requests[i].moved;
    if (rank < 0) {
      moved++;
      continue;
    }
    const mrt_peer *p = &m->endpoint->peers[m->members[rank]];
    if (s.first < 0) s.first = rank;
    /* data may still be on their way from one who has left */
    if (s.lost < 0 && broken && (m->closed[rank] || p->gone))
      s.lost = rank, s.closed = m->closed[rank];
  }
  if (moved != w->moved) {
    w->moved = moved, w->turns = 0;
    if (w->requests) w->waited = 0;
  }
  return s;
}

static mrt_status check_lost(mrt_message_comm *m, const mrt_message_wait *w,
                             const survey *s, mrt_error *e) {
  if (s->lost < 0) return MRT_OK;
  const mrt_peer *p = &m->endpoint->peers[m->members[s->lost]];
  if (!s->closed && p->why[0])
    return mrt_endpoint_fail(m->endpoint, e, "%s is cut off: %s; %s",
                             mrt_message_rank_name(m, s->lost).s, p->why,
                             at_what(m, w).s);
  return mrt_endpoint_fail(
      m->endpoint, e,
      s->closed ? "%s has ended or closed its communicator; %s"
                : "%s is gone; %s",
      mrt_message_rank_name(m, s->lost).s, at_what(m, w).s);
}

static mrt_status check_interrupt(mrt_message_comm *m,
                                  const mrt_message_wait *w, mrt_error *e) {
  mrt_error other;
  if (!mrt_is_interrupted(&m->comm)) return MRT_OK;
  mrt_endpoint_fail(m->endpoint, &other, "%s was interrupted in %s",
                    mrt_message_rank_name(m, m->comm.rank).s, at_what(m, w).s);
  return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
}

/* Seconds after which a rank that waits says again for whom. */
static double often(const mrt_message_comm *m) {
  return m->comm.timeout < 2 ? m->comm.timeout / 8 : 0.25;
}

/* Who holds up `rank`; as this rank waits for all of them, when it is reached
 * nobody alone is to blame. */
static int culprit(const mrt_message_comm *m, const mrt_message_wait *w,
                   int rank) {
  double fresh = 3 * often(m) + 0.05; /* a stopped rank says nothing */
  int r = rank;
  for (int i = 0; i < m->comm.size && r != m->comm.rank; i++) {
    const mrt_peer *p = &m->endpoint->peers[m->members[r]];
    if (w->last > p->waits_at + fresh) return r;
    r = rank_of(m, p->waits);
    if (r < 0) return rank;
  }
  return rank;
}

static mrt_status check_deadline(mrt_message_comm *m, const mrt_message_wait *w,
                                 int rank, mrt_error *e) {
  if (w->waited < m->comm.timeout) return MRT_OK;
  int by = culprit(m, w, rank);
  const char *what = w->requests ? "did not finish" : "did not come to";
  if (by == rank)
    return mrt_endpoint_fail(m->endpoint, e, "%s %s %s within %g s",
                             mrt_message_rank_name(m, rank).s, what,
                             at_what(m, w).s, m->comm.timeout);
  return mrt_endpoint_fail(
      m->endpoint, e, "%s holds up %s, which %s %s within %g s",
      mrt_message_rank_name(m, by).s, mrt_message_rank_name(m, rank).s, what,
      at_what(m, w).s, m->comm.timeout);
}

/* Time in which this process was stopped itself is not held against others. */
static void count_time(mrt_message_wait *w) {
  const double stopped = 0.1;
  double now = mrt_clock(), passed = w->last ? now - w->last : 0;
  w->waited += passed < stopped ? passed : stopped;
  if (!w->told) w->told = now;
  w->last = now;
}

static void tell_waits(mrt_message_comm *m, mrt_message_wait *w, int rank) {
  mrt_control msg = { .kind = MRT_CONTROL_WAITING,
                      .descriptor.peer = m->members[rank] };
  if (w->last < w->told + often(m)) return;
  w->told = w->last;
  mrt_endpoint_send_all(m->endpoint, &msg);
}

mrt_status mrt_message_await(mrt_message_comm *m, mrt_message_wait *w,
                             mrt_error *e) {
  mrt_endpoint *endpoint = m->endpoint;
  for (;;) {
    mrt_endpoint_poll(endpoint);
    /* who fails after all had come fails in the next call */
    bool done = endpoint->failed && w->requests;
    survey s = done ? (survey){ 0 } : look(m, w);
    if (s.first < 0) return MRT_OK;
    if (endpoint->failed)
      return mrt_fail(e, MRT_ERANK, "%s", endpoint->message);
    MRT_TRY(check_lost(m, w, &s, e));
    if (w->check) MRT_TRY(w->check(m, w, e));
    if (w->turns++ == 0) continue;
    MRT_TRY(check_interrupt(m, w, e));
    count_time(w);
    tell_waits(m, w, s.first);
    MRT_TRY(check_deadline(m, w, s.first, e));
    endpoint->engine->rest(endpoint->engine, w->turns);
  }
}

/* ---- data ---------------------------------------------------------------- */

static int is_pending(mrt_message_comm *m, mrt_message_wait *w, int i,
                      bool *broken) {
  mrt_request *r = &w->requests[i];
  mrt_engine *engine = m->endpoint->engine;
  int done = r->done ? 1 : engine->test(engine, r);
  if (done > 0) return -1;
  *broken = done < 0;
  if (done < 0 && engine->why[0]) {
    mrt_peer *p = &m->endpoint->peers[r->peer];
    p->gone = true;
    memcpy(p->why, engine->why, sizeof p->why);
  }
  return rank_of(m, r->peer);
}

mrt_status mrt_message_finish(mrt_message_comm *m, const mrt_collective *c,
                              mrt_request *requests, int count, mrt_error *e) {
  mrt_message_wait w = {
    .c = c, .missing = is_pending, .requests = requests, .count = count
  };
  return mrt_message_await(m, &w, e);
}

void mrt_message_start(mrt_message_comm *m, mrt_request *request, int rank,
                       bool is_send, void *data, size_t nbytes) {
  *request = (mrt_request){ .peer = m->members[rank],
                            .channel = MRT_ENGINE_DATA,
                            .is_send = is_send,
                            .done = nbytes == 0,
                            .data = data,
                            .nbytes = nbytes };
  if (is_send) m->comm.sent += nbytes;
  if (nbytes) m->endpoint->engine->start(m->endpoint->engine, request);
}

static int has_no_room(mrt_message_comm *m, mrt_message_wait *w, int i,
                       bool *broken) {
  mrt_peer *p = &m->endpoint->peers[m->members[w->peer]];
  (void)i, (void)broken;
  go_on(m->endpoint, p);
  return has_room(p, 1) ? -1 : w->peer;
}

mrt_status mrt_message_send_control(mrt_message_comm *m, int rank,
                                    const mrt_control *msg,
                                    const mrt_collective *c, mrt_error *e) {
  mrt_message_wait w = {
    .c = c, .missing = has_no_room, .count = 1, .peer = rank
  };
  MRT_TRY(mrt_message_await(m, &w, e));
  push(m->endpoint, m->members[rank], msg);
  return MRT_OK;
}
