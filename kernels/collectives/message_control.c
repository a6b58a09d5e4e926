/* message_control.c -- what ranks tell one another; waiting, failing
 *
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- telling ------------------------------------------------------------- */

static bool has_room(const mrt_peer *p, unsigned spare) {
  return p->begun - p->said + spare < MRT_NOTES_OUT;
}

static void push(mrt_hub *hub, int peer, const mrt_note *note) {
  mrt_peer *p = &hub->peers[peer];
  unsigned i = p->begun++ % MRT_NOTES_OUT;
  p->out[i] = *note;
  p->says[i] = (mrt_request){ .peer = peer,
                              .lane = MRT_LANE_NOTES,
                              .gives = true,
                              .data = (char *)&p->out[i],
                              .nbytes = sizeof *note };
  hub->engine->start(hub->engine, &p->says[i]);
}

/* What cannot be sent is out too: the other lane tells that the peer is gone,
 * after its last words. */
static bool go_on(mrt_hub *hub, mrt_peer *p) {
  while (p->said != p->begun) {
    mrt_request *r = &p->says[p->said % MRT_NOTES_OUT];
    if (hub->engine->test(hub->engine, r) == 0) return false;
    p->said++;
  }
  return true;
}

void mrt_hub_say(mrt_hub *hub, const mrt_note *note) {
  for (int i = 0; i < hub->engine->size; i++) {
    mrt_peer *p = &hub->peers[i];
    go_on(hub, p);
    /* one place is kept for the last words */
    unsigned spare = note->kind != MRT_NOTE_FAILED;
    if (i != hub->engine->rank && !p->gone && has_room(p, spare))
      push(hub, i, note);
  }
}

void mrt_hub_flush(mrt_hub *hub, double seconds) {
  double until = mrt_clock() + seconds;
  for (int turns = 1;; turns++) {
    bool out = true;
    for (int i = 0; i < hub->engine->size; i++)
      if (!hub->peers[i].gone) out &= go_on(hub, &hub->peers[i]);
    if (out || mrt_clock() > until) return;
    hub->engine->rest(hub->engine, turns);
  }
}

/* ---- failing ------------------------------------------------------------- */

/* The first reason is kept, told to all, and ends the engine's work. */
static void keep(mrt_hub *hub, const char *text) {
  mrt_note note = { .kind = MRT_NOTE_FAILED };
  if (hub->failed) return;
  hub->failed = true;
  snprintf(hub->message, sizeof hub->message, "%.*s", MRT_NOTE_SMALL - 1, text);
  memcpy(note.text, hub->message, sizeof note.text);
  note.text[sizeof note.text - 1] = 0;
  mrt_hub_say(hub, &note);
  mrt_hub_flush(hub, 1);
  hub->engine->stop(hub->engine);
}

mrt_status mrt_hub_fail(mrt_hub *hub, mrt_error *e, const char *fmt, ...) {
  char text[sizeof hub->message];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  keep(hub, text);
  return mrt_fail(e, MRT_ERANK, "%s", hub->message);
}

mrt_who mrt_messages_who(const mrt_messages *m, int rank) {
  const mrt_peer *p = &m->hub->peers[m->members[rank]];
  mrt_who who;
  if (p->greeted)
    snprintf(who.s, sizeof who.s, "rank %d (pid %lld on %.60s)", rank,
             (long long)p->hello.pid, p->hello.host);
  else
    snprintf(who.s, sizeof who.s, "rank %d", rank);
  return who;
}

/* ---- hearing ------------------------------------------------------------- */

void mrt_hub_listen(mrt_hub *hub, int peer) {
  mrt_peer *p = &hub->peers[peer];
  p->hears = (mrt_request){ .peer = peer,
                            .lane = MRT_LANE_NOTES,
                            .data = (char *)&p->in,
                            .nbytes = sizeof p->in };
  hub->engine->start(hub->engine, &p->hears);
}

static int rank_of(const mrt_messages *m, int peer) {
  for (int r = 0; r < m->comm.size; r++)
    if (m->members[r] == peer) return r;
  return -1;
}

/* Of a communicator: kept where who waits for it looks. */
static void put(mrt_hub *hub, int peer, const mrt_note *note) {
  mrt_messages *m = hub->channels;
  while (m && m->channel != note->channel) m = m->next;
  int rank = m ? rank_of(m, peer) : -1;
  if (rank < 0) return;
  if (note->kind == MRT_NOTE_CLOSED) m->closed[rank] = true;
  if (note->kind == MRT_NOTE_ASKS) m->asks[note->number & 1][rank] = *note;
  if (note->kind == MRT_NOTE_PAIRS) m->pairs[note->number & 1][rank] = *note;
}

static void receive(mrt_hub *hub, int peer) {
  mrt_peer *p = &hub->peers[peer];
  mrt_note *note = &p->in;
  if (note->kind == MRT_NOTE_HELLO) {
    p->hello = note->hello, p->greeted = true;
    p->hello.host[63] = p->hello.build[63] = p->hello.algorithm[15] = 0;
  } else if (note->kind == MRT_NOTE_WAITS) {
    p->waits = note->asked.peer, p->waits_at = mrt_clock();
  } else if (note->kind == MRT_NOTE_DONE) {
    p->over = true;
  } else if (note->kind == MRT_NOTE_FAILED) {
    note->text[sizeof note->text - 1] = 0;
    keep(hub, note->text);
  } else {
    put(hub, peer, note);
  }
}

void mrt_hub_hear(mrt_hub *hub) {
  for (int i = 0; i < hub->engine->size && !hub->failed; i++) {
    mrt_peer *p = &hub->peers[i];
    int heard = 1;
    if (i == hub->engine->rank) continue;
    go_on(hub, p);
    while (!p->gone && !hub->failed && heard > 0) {
      heard = hub->engine->test(hub->engine, &p->hears);
      if (heard < 0) {
        p->gone = true;
        memcpy(p->why, hub->engine->why, sizeof p->why);
      }
      if (heard <= 0) break;
      receive(hub, i);
      if (!hub->failed) mrt_hub_listen(hub, i);
    }
  }
}

/* ---- waiting ------------------------------------------------------------- */

static mrt_who at_what(const mrt_messages *m, const mrt_wait *w) {
  mrt_who t = { "the start" };
  if (!w->c) return t;
  mrt_asked_text what = mrt_collective_print(w->c);
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

static survey look(mrt_messages *m, mrt_wait *w) {
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
    const mrt_peer *p = &m->hub->peers[m->members[rank]];
    if (s.first < 0) s.first = rank;
    /* numbers may still be on their way from one who has left */
    if (s.lost < 0 && broken && (m->closed[rank] || p->gone))
      s.lost = rank, s.closed = m->closed[rank];
  }
  if (moved != w->moved) {
    w->moved = moved, w->turns = 0;
    if (w->requests) w->waited = 0;
  }
  return s;
}

static mrt_status check_lost(mrt_messages *m, const mrt_wait *w,
                             const survey *s, mrt_error *e) {
  if (s->lost < 0) return MRT_OK;
  const mrt_peer *p = &m->hub->peers[m->members[s->lost]];
  if (!s->closed && p->why[0])
    return mrt_hub_fail(m->hub, e, "%s is cut off: %s; %s",
                        mrt_messages_who(m, s->lost).s, p->why,
                        at_what(m, w).s);
  return mrt_hub_fail(m->hub, e,
                      s->closed ? "%s has ended or closed its communicator; %s"
                                : "%s is gone; %s",
                      mrt_messages_who(m, s->lost).s, at_what(m, w).s);
}

static mrt_status check_interrupt(mrt_messages *m, const mrt_wait *w,
                                  mrt_error *e) {
  mrt_error other;
  if (!mrt_is_interrupted(&m->comm)) return MRT_OK;
  mrt_hub_fail(m->hub, &other, "%s was interrupted in %s",
               mrt_messages_who(m, m->comm.rank).s, at_what(m, w).s);
  return mrt_fail(e, MRT_EINTERRUPT, "interrupted");
}

/* Seconds after which a rank that waits says again for whom. */
static double often(const mrt_messages *m) {
  return m->comm.timeout < 2 ? m->comm.timeout / 8 : 0.25;
}

/* Who holds up `rank`; as this rank waits for all of them, when it is reached
 * nobody alone is to blame. */
static int culprit(const mrt_messages *m, const mrt_wait *w, int rank) {
  double fresh = 3 * often(m) + 0.05; /* a stopped rank says nothing */
  int r = rank;
  for (int i = 0; i < m->comm.size && r != m->comm.rank; i++) {
    const mrt_peer *p = &m->hub->peers[m->members[r]];
    if (w->last > p->waits_at + fresh) return r;
    r = rank_of(m, p->waits);
    if (r < 0) return rank;
  }
  return rank;
}

static mrt_status check_deadline(mrt_messages *m, const mrt_wait *w, int rank,
                                 mrt_error *e) {
  if (w->waited < m->comm.timeout) return MRT_OK;
  int by = culprit(m, w, rank);
  const char *what = w->requests ? "did not finish" : "did not come to";
  if (by == rank)
    return mrt_hub_fail(m->hub, e, "%s %s %s within %g s",
                        mrt_messages_who(m, rank).s, what, at_what(m, w).s,
                        m->comm.timeout);
  return mrt_hub_fail(m->hub, e, "%s holds up %s, which %s %s within %g s",
                      mrt_messages_who(m, by).s, mrt_messages_who(m, rank).s,
                      what, at_what(m, w).s, m->comm.timeout);
}

/* Time in which this process was stopped itself is not held against others. */
static void count_time(mrt_wait *w) {
  const double stopped = 0.1;
  double now = mrt_clock(), passed = w->last ? now - w->last : 0;
  w->waited += passed < stopped ? passed : stopped;
  if (!w->told) w->told = now;
  w->last = now;
}

static void tell_waits(mrt_messages *m, mrt_wait *w, int rank) {
  mrt_note note = { .kind = MRT_NOTE_WAITS, .asked.peer = m->members[rank] };
  if (w->last < w->told + often(m)) return;
  w->told = w->last;
  mrt_hub_say(m->hub, &note);
}

mrt_status mrt_messages_wait(mrt_messages *m, mrt_wait *w, mrt_error *e) {
  mrt_hub *hub = m->hub;
  for (;;) {
    mrt_hub_hear(hub);
    /* who fails after all had come fails in the next call */
    bool over = hub->failed && w->requests;
    survey s = over ? (survey){ 0 } : look(m, w);
    if (s.first < 0) return MRT_OK;
    if (hub->failed) return mrt_fail(e, MRT_ERANK, "%s", hub->message);
    MRT_TRY(check_lost(m, w, &s, e));
    if (w->check) MRT_TRY(w->check(m, w, e));
    if (w->turns++ == 0) continue;
    MRT_TRY(check_interrupt(m, w, e));
    count_time(w);
    tell_waits(m, w, s.first);
    MRT_TRY(check_deadline(m, w, s.first, e));
    hub->engine->rest(hub->engine, w->turns);
  }
}

/* ---- numbers ------------------------------------------------------------- */

static int is_pending(mrt_messages *m, mrt_wait *w, int i, bool *broken) {
  mrt_request *r = &w->requests[i];
  mrt_engine *engine = m->hub->engine;
  int done = r->done ? 1 : engine->test(engine, r);
  if (done > 0) return -1;
  *broken = done < 0;
  if (done < 0 && engine->why[0]) {
    mrt_peer *p = &m->hub->peers[r->peer];
    p->gone = true;
    memcpy(p->why, engine->why, sizeof p->why);
  }
  return rank_of(m, r->peer);
}

mrt_status mrt_messages_finish(mrt_messages *m, const mrt_collective *c,
                               mrt_request *requests, int count, mrt_error *e) {
  mrt_wait w = {
    .c = c, .missing = is_pending, .requests = requests, .count = count
  };
  return mrt_messages_wait(m, &w, e);
}

void mrt_messages_start(mrt_messages *m, mrt_request *request, int rank,
                        bool gives, void *data, size_t nbytes) {
  *request = (mrt_request){ .peer = m->members[rank],
                            .lane = MRT_LANE_NUMBERS,
                            .gives = gives,
                            .done = nbytes == 0,
                            .data = data,
                            .nbytes = nbytes };
  if (gives) m->comm.sent += nbytes;
  if (nbytes) m->hub->engine->start(m->hub->engine, request);
}

static int has_no_room(mrt_messages *m, mrt_wait *w, int i, bool *broken) {
  mrt_peer *p = &m->hub->peers[m->members[w->peer]];
  (void)i, (void)broken;
  go_on(m->hub, p);
  return has_room(p, 1) ? -1 : w->peer;
}

mrt_status mrt_messages_tell(mrt_messages *m, int rank, const mrt_note *note,
                             const mrt_collective *c, mrt_error *e) {
  mrt_wait w = { .c = c, .missing = has_no_room, .count = 1, .peer = rank };
  MRT_TRY(mrt_messages_wait(m, &w, e));
  push(m->hub, m->members[rank], note);
  return MRT_OK;
}
